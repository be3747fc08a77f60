"""CompileResult: the record of a compile run and the folder of its artifacts, with methods that show them."""
from __future__ import annotations

import math
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from ptqlab.artifacts.files import FIXED, Workspace, artifact_name
from ptqlab.artifacts.tables import number
from ptqlab.errors import Finding, Problem, PtqError, shorten
from ptqlab.report import choose, explain, text
from ptqlab.result.views import Views
from ptqlab.stages.record import NodeRow, OutputRow, Record

if TYPE_CHECKING:
    import pandas as pd


class CompileResult(Views):
    """What a compile run made and found. A notebook shows it as tables; `print()` gives the same as text."""

    def __init__(self, record: Record, directory: str | Path) -> None:
        """`directory` holds the artifacts that `record` names. Raises PtqError for names that leave it."""
        self.record, self.directory = record, Path(directory)
        self._known = {}
        bad = [Problem("PTQ606", f"artifacts[{shorten(key)}]", repr(shorten(name)),
                       "a file inside the folder of the run")
               for key, name in record.artifacts.items() if not _inside(name)]
        if not _inside(record.model) or "/" in record.model:
            bad.append(Problem("PTQ606", "model", repr(shorten(record.model)), "a file name prefix without a folder"))
        if bad:
            raise PtqError(bad, "record")

    @cached_property
    def nodes(self) -> pd.DataFrame:
        """One row per node in graph order: Node, NodeType, ON, Subgraph, Threshold, Calibrated Cosine, Quantized
        Cosine, Output Data Type, Asked, Granted, Reason. Cosines are NaN where nothing was compared."""
        from ptqlab.report.frames import nodes_frame

        return nodes_frame(self.record)

    @cached_property
    def outputs(self) -> pd.DataFrame:
        """One row per model output: TensorName, Calibrated Cosine, Quantized Cosine, SQNR (dB), L1, L2, Chebyshev."""
        from ptqlab.report.frames import outputs_frame

        return outputs_frame(self.record)

    @property
    def perf(self) -> Mapping[str, Any]:
        """The performance estimate; empty when the run made none."""
        return self.record.perf

    @property
    def warnings(self) -> list[Finding]:
        """What the run noticed, warnings and notes, each with a code and the names of the nodes concerned."""
        return list(self.record.findings)

    @property
    def artifacts(self) -> dict[str, Path]:
        """key -> path of every file the run left, such as "quantized" or "node_info"."""
        files = {key: self.directory / name for key, name in self.record.artifacts.items()}
        log = self.directory / FIXED["log"]
        if log.is_file():
            files.setdefault("log", log)
        return files

    @property
    def quant_config(self) -> dict[str, Any]:
        """The quant_config in force, in the vendor's JSON structure."""
        return dict(self.record.quant_config)

    @property
    def complete(self) -> bool:
        """False when the run was stopped, or ended early as `skip` asked."""
        return self.record.complete

    def explain(self, node: str) -> explain.Explanation:
        """What was asked of `node`, what it was granted and why. Raises PtqError with the nearest names."""
        return explain.explain(self.record, node)

    def save(self, directory: str | Path) -> Path:
        """Copy the artifacts and the record into `directory`; all of them or nothing. `ptqlab.load` reads it.

        Raises PtqError when an artifact is gone from its folder.
        """
        target = Path(directory)
        gone = [Problem("PTQ607", f"artifacts[{key}]", f"{path} is missing", "the file the run left there",
                        "compile again") for key, path in self.artifacts.items() if not path.is_file()]
        if gone:
            raise PtqError(gone, "save")
        with Workspace(target, self.record.model) as work:
            for path in self.artifacts.values():
                copy = work.staging / path.relative_to(self.directory)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, copy)
            work.path("record").write_text(self.record.to_json(), encoding="utf-8")
            work.publish()
        return target

    def __repr__(self) -> str:
        cosines = [o.quantized_cosine for o in self.record.outputs if o.quantized_cosine is not None]
        lowest = min(cosines, key=lambda c: -math.inf if math.isnan(c) else c, default=None)
        worst = "not compared" if lowest is None else number(lowest)
        warnings = sum(f.severity == "warning" for f in self.record.findings)
        part = "" if self.complete else ", partial"
        return (f"CompileResult({shorten(self.record.model)!r} on {self.record.march}, {len(self.record.nodes)} nodes, "
                f"lowest output cosine {worst}, {warnings} warnings{part})")

    def __str__(self) -> str:
        return text.summary(self.record, self.directory)

    def _repr_mimebundle_(self, include: Sequence[str] | None = None,
                          exclude: Sequence[str] | None = None) -> dict[str, str]:
        from ptqlab.report.html import summary_html

        return {"text/plain": str(self), "text/html": summary_html(self.record, self.directory)}

    @property
    def partial_reason(self) -> str:
        """Why the result is partial; "" for a complete one."""
        return choose.partial(self.record)


def load_result(place: str | Path) -> CompileResult:
    """The result saved in a folder, or of one record file. Raises PtqError when there is none, or several."""
    place = Path(place)
    if place.is_file():
        return CompileResult(_read(place), place.parent)
    if not place.is_dir():
        raise PtqError(Problem("PTQ608", str(place), "no such folder", "the folder of a compile run",
                               "run.save(folder) makes one; a compile run leaves one in its working_dir"))
    pattern = artifact_name("record", "*")
    found = sorted(place.glob(pattern))
    if not found:
        raise PtqError(Problem("PTQ608", str(place), f"no file {pattern}", "the folder of a compile run",
                               "run.save(folder) makes one; a compile run leaves one in its working_dir"))
    if len(found) > 1:
        names = ", ".join(file.name for file in found)
        raise PtqError(Problem("PTQ608", str(place), f"records of {len(found)} models: {names}", "one of them",
                               f"load the file, such as {found[0]}"))
    return CompileResult(_read(found[0]), place)


def _read(path: Path) -> Record:
    """The record in a file, every value of the kind it is shown as."""
    try:
        record = Record.load(path)
    except (OSError, UnicodeDecodeError, RecursionError) as error:
        raise PtqError(Problem("PTQ601", str(path), f"cannot be read: {type(error).__name__}",
                               "a record written by ptqlab")) from None
    tables: dict[str, Sequence[NodeRow | OutputRow]] = {"nodes": record.nodes, "outputs": record.outputs}
    wrong = [Problem("PTQ601", f"{path}: {where}[{index}].{name}", repr(shorten(value)), kind)
             for where, rows in tables.items()
             for index, row in enumerate(rows) for name, value, kind in _misfits(row)]
    if wrong:
        raise PtqError(wrong, "record")
    return record


def _misfits(row: NodeRow | OutputRow) -> list[tuple[str, object, str]]:
    """(field, value, what it should be) of every value that is not of its declared type."""
    kinds: dict[str, tuple[Any, str]] = {"str": (str, "text"), "float | None": (int | float | None, "a number or null"),
                                         "tuple[str, ...]": (tuple, "a list of texts")}
    out = []
    for field in fields(row):
        kind, words = kinds[str(field.type)]
        value = getattr(row, field.name)
        if not isinstance(value, kind) or isinstance(value, bool) or (
                isinstance(value, tuple) and not all(isinstance(v, str) for v in value)):
            out.append((field.name, value, words))
    return out


def _inside(name: object) -> bool:
    """Whether a name from a record stays in its folder."""
    if not isinstance(name, str) or not name or "\\" in name or "\0" in name:
        return False
    path = PurePosixPath(name)
    return not path.is_absolute() and ".." not in path.parts
