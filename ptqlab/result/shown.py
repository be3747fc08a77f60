"""What the verbs that look at things give back: values with a page that a terminal and a notebook show."""
from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ptqlab.artifacts.files import FIXED
from ptqlab.artifacts.tables import printable
from ptqlab.errors import Finding
from ptqlab.report import explain
from ptqlab.report.page import Page
from ptqlab.result.compiled import CompileResult
from ptqlab.stages.record import Record

if TYPE_CHECKING:
    import pandas as pd

    from ptqlab.pipeline.info import ModelInfo
    from ptqlab.pipeline.verify import Verification
    from ptqlab.report.operators import Operator


class Shown:
    """Something with a page: `print()` gives it as text, a notebook shows it as html."""

    def page(self) -> Page:
        raise NotImplementedError

    def __str__(self) -> str:
        return self.page().text()

    def _repr_mimebundle_(self, include: Sequence[str] | None = None,
                          exclude: Sequence[str] | None = None) -> dict[str, str]:
        page = self.page()
        return {"text/plain": page.text(), "text/html": page.html()}


class CheckResult(Shown):
    """What a platform makes of a model, before any data: placement, segments, advice.

    record  as that of a compile run, without cosines;  config  the configuration written to go on with
    """

    def __init__(self, record: Record, config: Path) -> None:
        self.record, self.config = record, config

    @cached_property
    def nodes(self) -> pd.DataFrame:
        """One row per node in graph order, with the columns of `CompileResult.nodes`; cosines are NaN."""
        from ptqlab.report.frames import nodes_frame

        return nodes_frame(self.record)

    @property
    def warnings(self) -> list[Finding]:
        """What was noticed, and advice: each with a code and the names of the nodes concerned."""
        return list(self.record.findings)

    @property
    def segments(self) -> int:
        """Number of BPU segments."""
        return self.record.segments

    def explain(self, node: str) -> explain.Explanation:
        """Where `node` runs, in which type, and why. Raises PtqError with the nearest names."""
        return explain.explain(self.record, node)

    def page(self) -> Page:
        from ptqlab.report.placement import check_page

        return check_page(self.record, self.config)

    def __repr__(self) -> str:
        from ptqlab.report.placement import check_headline

        return f"CheckResult({printable(check_headline(self.record))})"


class FastPerfResult(CompileResult):
    """The speed ceiling of a model: as a compile run, without accuracy. `config` is the configuration written."""

    def __init__(self, record: Record, directory: str | Path, config: Path) -> None:
        super().__init__(record, directory)
        self.config = config

    @property
    def removed(self) -> list[str]:
        """What was removed at inputs and outputs, one line per node."""
        listed = self.directory / FIXED["deleted_nodes"]
        known = "deleted_nodes" in self.record.artifacts and listed.is_file()
        return listed.read_text(encoding="utf-8").splitlines() if known else []

    def page(self) -> Page:
        from ptqlab.report.speed import fast_perf_page

        return fast_perf_page(self.record, self.removed, self.config, self.directory)

    def __str__(self) -> str:
        return self.page().text()

    def _repr_mimebundle_(self, include: Sequence[str] | None = None,
                          exclude: Sequence[str] | None = None) -> dict[str, str]:
        page = self.page()
        return {"text/plain": page.text(), "text/html": page.html()}


class InfoResult(Shown):
    """Facts of a model file; `.model` holds them, `.to_dict()` gives them as plain data."""

    def __init__(self, model: ModelInfo, *, encodings: bool = False) -> None:
        self.model, self._encodings = model, encodings

    def to_dict(self) -> dict[str, Any]:
        from ptqlab.report.model_file import info_dict

        return info_dict(self.model)

    def page(self) -> Page:
        from ptqlab.report.model_file import info_page

        return info_page(self.model, encodings=self._encodings)

    def __repr__(self) -> str:
        return f"InfoResult({self.model.path.name}: {self.model.kind})"


class InferResult(Shown):
    """Files that `infer` wrote: tensor name -> path."""

    def __init__(self, files: Mapping[str, Path]) -> None:
        self.files = dict(files)

    def page(self) -> Page:
        from ptqlab.report.words import say

        page = Page(say("written"))
        page.table(("Tensor", "File"), [(name, str(path)) for name, path in self.files.items()])
        return page

    def __repr__(self) -> str:
        return f"InferResult({len(self.files)} files)"


class TemplateResult(Shown):
    """A configuration that was written: `.path`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def page(self) -> Page:
        from ptqlab.report.words import say

        return Page(say("next_config", path=self.path))

    def __repr__(self) -> str:
        return f"TemplateResult({self.path})"


class VerifyResult(Shown):
    """How far two artifacts agree; `.passed` is False where a comparison number by number failed."""

    def __init__(self, found: Verification) -> None:
        self.found = found

    @property
    def passed(self) -> bool:
        return self.found.passed

    @cached_property
    def outputs(self) -> pd.DataFrame:
        """One row per output: name, node, cosine, consistent, mismatched, count, max_abs, max_rel."""
        import pandas as pd

        return pd.DataFrame([vars(o) for o in self.found.outputs])

    def page(self) -> Page:
        from ptqlab.report.verification import verify_page

        return verify_page(self.found)

    def __repr__(self) -> str:
        a, b = self.found.models
        return f"VerifyResult({a} vs {b}: {self.found.mode}, {'passed' if self.passed else 'failed'})"


class OperatorsResult(Shown):
    """Rows of the operator table."""

    def __init__(self, rows: tuple[Operator, ...], march: str | None) -> None:
        self.rows, self.march = rows, march

    def to_list(self) -> list[dict[str, Any]]:
        from ptqlab.report.operators import operator_dicts

        return operator_dicts(self.rows)

    def page(self) -> Page:
        from ptqlab.report.operators import operators_page

        return operators_page(self.rows, self.march)

    def __repr__(self) -> str:
        return f"OperatorsResult({len(self.rows)} operators)"


class SpeedResult(Shown):
    """Estimates of layer tables (`rows`: one mapping per table), or of one run."""

    def __init__(self, rows: list[dict[str, Any]], record: Record | None = None) -> None:
        self.rows, self.record = rows, record

    def page(self) -> Page:
        from ptqlab.report.speed import run_speed_page, speeds_page

        if self.record is not None:
            return run_speed_page(self.record)
        return speeds_page(self.rows, str(self.rows[0]["march"]))

    def __repr__(self) -> str:
        models = [self.record.model] if self.record is not None else [str(row["model"]) for row in self.rows]
        return f"SpeedResult({printable(', '.join(models))})"


class Text:
    """Text that is the result itself, such as a schema: printed as it is."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__


def as_json(value: Any) -> Text:
    """A value as indented JSON; numbers that JSON lacks become null."""
    return Text(json.dumps(_strict(value), indent=1, ensure_ascii=False))


def _strict(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(k): _strict(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(v) for v in value]
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return None
    return value if isinstance(value, str | int | float | bool | None) else str(value)
