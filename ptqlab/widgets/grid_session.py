"""An editing session: the quant_config of a run, what its changes do, and the runs made of it. Knows no page."""
from __future__ import annotations

import contextvars
import copy
import json
import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from ptqlab import config as configuration
from ptqlab.config import Config, QuantConfig
from ptqlab.config.quant_writing import fewest_rules
from ptqlab.errors import Problem, PtqError
from ptqlab.events import Watch
from ptqlab.pipeline.whatif import Outcome, Placed, WhatIf
from ptqlab.stages.record import Record
from ptqlab.widgets.grid_edits import Change, History, changes, entry_names, parsed, with_setting, wrong_request
from ptqlab.widgets.grid_rows import Facts, facts
from ptqlab.widgets.grid_rules import refusals
from ptqlab.widgets.latest import Latest


class Run(Protocol):
    """What a session knows of a compile run."""

    @property
    def record(self) -> Record: ...
    @property
    def directory(self) -> Path: ...


Compile = Callable[..., Run]


@dataclass(frozen=True)
class Listener:
    """Who is told of a session, from any thread.

    opened    the model is open, or a new run has taken the place of the old one: everything is another
    moved     the quant_config is another
    measured  what the changes do is known, or is unknown again
    failed    something beside went wrong
    """

    opened: Callable[[], None]
    moved: Callable[[], None]
    measured: Callable[[], None]
    failed: Callable[[BaseException], None]


@dataclass(frozen=True)
class Effect:
    """What the changes do, against the run: output cosine of the integer model (of the worst output; None: not
    measured) over `samples` samples, estimated latency of the BPU part in us."""

    changes: int
    samples: int
    cosine_before: float | None
    cosine: float | None
    latency_us_before: float
    latency_us: float


class Session:
    """The truth of a grid. The model opens in a thread; what needs it waits."""

    def __init__(self, run: Run, compile: Compile, data: Any, samples: int, sensitivity: Mapping[str, float],
                 listener: Listener) -> None:
        """As `QuantGrid`. PtqError for a run whose configuration cannot be read any more."""
        self.run, self.compile, self.sensitivity, self.listener = run, compile, sensitivity, listener
        self.facts: Facts = facts(run.record, sensitivity)
        self.history = History(parsed(run.record.quant_config).to_dict())
        self.placed: Placed | None = None
        self.lock = threading.RLock()
        self._config = _configured(run, data)
        self._samples = samples
        self._opened: Future[WhatIf] = Future()
        self._model: WhatIf | None = None
        self._base: Placed | None = None
        self._outcomes: tuple[Outcome, Outcome] | None = None
        self._live = Latest(listener.failed)

    def open(self) -> None:
        """Open the model, in a thread."""
        beside(self._open)

    def _open(self) -> None:
        try:
            model = WhatIf(self._config, Watch(), self._samples)
            placed = model.placed(parsed(self.history.now))
            if placed.plan.nodes.keys() != self.facts.rows.keys():
                raise PtqError(Problem("PTQ674", str(self._config.model.onnx_model), "other nodes than the run has",
                                       "the model that the run was made of", "compile again"), "grid")
            with self.lock:
                self._model, self._base, self.placed = model, placed, placed
            self.listener.opened()
            self._measure()
        except BaseException as error:
            self._opened.set_exception(error)
            self.listener.failed(error)
        else:
            self._opened.set_result(model)  # last: who waits for it may wait for the effect next

    @property
    def model(self) -> WhatIf:
        """The open model. Waits for it; raises what opening it raised."""
        return self._model or self._opened.result()

    @property
    def now(self) -> Placed:
        """What is in force, placed. Waits for the model."""
        assert self.model and self.placed is not None, "an opened model is placed"
        return self.placed

    @property
    def changes(self) -> list[Change]:
        """Settings that differ from the run."""
        return changes(self.history.base, self.history.now)

    def known(self) -> dict[str, Iterable[str]]:
        """level -> names of entries that can be edited."""
        return {"node": self.facts.rows, "op": {row.node_type for row in self.facts.rows.values()},
                "subgraph": self.history.now.get("subgraph_config", {})}

    def try_edit(self, names: Sequence[str], key: str, value: Any, level: str) -> dict[str, str]:
        """Make an edit if it has an effect at every name; else nothing, and name -> why it has none."""
        wrong_request(level, names, key, self.known())
        model, made = self.model, self.history.now
        for name in names if level != "model" else [""]:
            made = with_setting(made, level, entry_names(made, level, name, model.graph.aliases), key, value)
        placed = model.placed(parsed(made))
        refused = refusals(names, key, value, placed, model.graph) if level == "node" else {}
        if not refused:
            self.commit(placed)
        return refused

    def commit(self, placed: Placed) -> None:
        """Make a quant_config the truth, as one change."""
        with self.lock:
            self.history.do(placed.quant.to_dict())
            self._move(placed)

    def load(self, source: Mapping[str, Any] | str | Path) -> None:
        """Take a quant_config from a mapping, a file or JSON text. PtqError with every problem."""
        quant = QuantConfig.parse(copy.deepcopy(dict(source)) if isinstance(source, Mapping) else source)
        self.commit(self.model.placed(quant))

    def step(self, by: int) -> bool:
        """Undo (-1) or redo (1); False where there is nothing."""
        model = self.model
        with self.lock:
            if not self.history.step(by):
                return False
            self._move(model.placed(parsed(self.history.now)))
        return True

    def _move(self, placed: Placed) -> None:
        self.placed, self._outcomes = placed, None
        self.listener.moved()
        self._measure()

    def _measure(self) -> None:
        """Find out what the changes do, beside."""
        placed, base, model = self.placed, self._base, self.model
        assert placed is not None and base is not None
        self.listener.measured()
        if not model.measured:
            return

        def measure(watch: Watch) -> None:
            before = model.outcome(base, watch)
            found = model.outcome(placed, watch)
            with self.lock:
                if placed is self.placed and base is self._base:
                    self._outcomes = before, found
                    self.listener.measured()

        self._live.ask(measure)

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until the model is open and the effect is known; False when that took longer than `seconds`."""
        self._opened.result(seconds)
        return self._live.wait(seconds)

    def effect(self) -> Effect:
        """What is known now of what the changes do; the model must be open."""
        assert self.placed is not None and self._base is not None
        before, after = self._outcomes or (None, None)
        return Effect(
            len(self.changes), after.samples if after else 0, before.cosine if before else None,
            after.cosine if after else None, self._base.estimate.latency_us, self.placed.estimate.latency_us)

    def exported(self) -> str:
        """JSON with the fewest rules that ask the same of every node."""
        graph = self.model.graph
        types = {str(n.name): n.op_type for n in graph.nodes}
        return json.dumps(fewest_rules(parsed(self.history.now), types, graph.aliases), indent=2) + "\n"

    def apply(self, working_dir: str | Path | None, progress: Any, watch: Watch | None) -> Run:
        """The run that compiling makes; it takes the place of the run before."""
        placed = self.now
        folder = Path(working_dir) if working_dir is not None else free_folder(self.run.directory)
        config = replace(placed.config, model=replace(placed.config.model, working_dir=folder.absolute()))
        made = self.compile(config, progress=progress, watch=watch)
        with self.lock:
            self.run, self._base = made, placed
            self.facts = facts(made.record, self.sensitivity)
            self.history.rebase(placed.quant.to_dict())
            self._outcomes = None
        self.listener.opened()
        self._measure()
        return made


def beside(work: Callable[..., None], *given: Any) -> None:
    """Do some work in a thread, in the language chosen here."""
    run = contextvars.copy_context().run
    threading.Thread(target=run, args=(work, *given), name="ptqlab-grid", daemon=True).start()


def free_folder(folder: Path) -> Path:
    """The first of `<folder>_edit1`, `<folder>_edit2`, ... that does not exist."""
    stem = re.sub(r"_edit\d+$", "", folder.name) or "run"
    count = 1
    while (found := folder.absolute().with_name(f"{stem}_edit{count}")).exists():
        count += 1
    return found


def _configured(run: Run, data: Any) -> Config:
    """The configuration of a run, with its samples: those given, those it was given, or those of its folders."""
    held = getattr(run, "data", None) if data is None else data
    if held is None:
        return configuration.load(run.record.settings)
    config = configuration.load(run.record.settings, calibration_data=held)
    if config.calibration.calibration_type == "skip":  # the run had no samples; here are some
        config = replace(config, calibration=replace(config.calibration, calibration_type=""))
    return config
