"""`ptqlab.tune`: mixed precision until the target, each step with its cost in latency.

int8 as configured; then calibration choices (asymmetric ranges, bias correction); then the tensors that hurt most to
int16, one after the other, by what they gain per latency they add. What does not help is taken back.
"""
from __future__ import annotations

import copy
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ptqlab import config as configuration
from ptqlab import perf
from ptqlab.artifacts.files import atomic_write
from ptqlab.artifacts.tables import printable
from ptqlab.config import Config, QuantConfig
from ptqlab.config.quant_writing import fewest_rules
from ptqlab.debug.greedy import Raise, noise_of_slots, raises
from ptqlab.debug.network import Network
from ptqlab.debug.source import folder_of
from ptqlab.errors import Interrupted, Problem, PtqError, raise_if
from ptqlab.events import Watch
from ptqlab.pipeline.workbench import Candidate, Workbench
from ptqlab.quantize.recipe import slot_readers
from ptqlab.report.page import Page
from ptqlab.result.api import watched
from ptqlab.result.shown import Shown

if TYPE_CHECKING:
    import pandas as pd

    from ptqlab.result.compiled import CompileResult
    from ptqlab.result.progress import Progress

METRICS = ("cosine-similarity", "sqnr")
RANKING_SAMPLES = 8
# of single steps; behind them several tensors are raised at a time
SINGLE_STEPS = 10
WORSE_DB = 0.05
CORRECTION = {"bias_correction": {"num_sample": 16, "metric": "cosine-similarity"}}


@dataclass(frozen=True)
class Step:
    """One quant_config that was tried: figures of its worst output over the scoring samples, latency, what was done.

    int16  tensors held in int16 beyond those of the first step;  kept: later steps build on it
    """

    number: int
    what: str
    cosine: float
    sqnr: float
    latency_us: float
    int16: int
    kept: bool
    quant_config: Mapping[str, Any] = field(repr=False)


class TuneResult(Shown):
    """What tuning found: `.steps` all that was tried, `.best`, `.quant_config` to take, `.frame`, `.pareto`."""

    def __init__(self, steps: list[Step], best: Step, target: float, metric: str, config: Config, folder: Path | None,
                 simulated: tuple[float, float] | None, stopped: bool) -> None:
        self.steps, self.best, self.target, self.metric = steps, best, target, metric
        self.config, self.folder, self.simulated, self.stopped = config, folder, simulated, stopped
        self.quant_config: dict[str, Any] = dict(best.quant_config)

    @property
    def reached(self) -> bool:
        """Whether the best step meets the target."""
        return _figure(self.best, self.metric) >= self.target

    @property
    def frame(self) -> pd.DataFrame:
        """One row per step: Step, What, Cosine, SQNR (dB), Latency (us), int16 Tensors, Kept, Pareto."""
        import pandas as pd

        front = {s.number for s in self.pareto}
        return pd.DataFrame([
            {"Step": s.number, "What": s.what, "Cosine": s.cosine, "SQNR": s.sqnr, "Latency (us)": s.latency_us,
             "int16 Tensors": s.int16, "Kept": s.kept, "Pareto": s.number in front} for s in self.steps
        ])

    @property
    def pareto(self) -> list[Step]:
        """Steps that no other step beats in both SQNR and latency, the fastest first."""
        front: list[Step] = []
        for step in sorted(self.steps, key=lambda s: (s.latency_us, -_known(s.sqnr))):
            if not front or _known(step.sqnr) > _known(front[-1].sqnr):
                front.append(step)
        return front

    def compile(self, **keywords: Any) -> CompileResult:
        """Compile with what was found; keywords as in `ptqlab.compile`."""
        from ptqlab.result.api import compile

        settings = self.config.to_dict()
        data = self.config.calibration.data
        return compile(settings, **{"calibration_data": data, "quant_config": self.quant_config, **keywords})

    def page(self) -> Page:
        done = "reached" if self.reached else "stopped before" if self.stopped else "not reached"
        page = Page(f"tune: target {self.metric} {self.target:g} {done}")
        page.line(f"best: step {self.best.number}, cosine {self.best.cosine:.6f}, {self.best.sqnr:.2f} dB, "
                  f"{self.best.latency_us:.1f} us, {self.best.int16} tensors more in int16")
        if self.simulated is not None:
            page.line(f"integer model of the best step: cosine {self.simulated[0]:.6f}, {self.simulated[1]:.2f} dB")
        page.heading("Steps")
        page.table(COLUMNS, self.rows(), COLUMNS[2:])
        if self.folder is not None:
            page.line(f"written: {self.folder}/quant_config.json, final_quant_config.json, tuning_report.md")
        return page

    def rows(self) -> list[tuple[str, ...]]:
        """The steps as cells of `COLUMNS`."""
        return [(str(s.number), s.what, f"{s.cosine:.6f}", f"{s.sqnr:.2f}", f"{s.latency_us:.1f}", str(s.int16),
                 "yes" if s.kept else "no") for s in self.steps]

    def __repr__(self) -> str:
        return f"TuneResult({self.metric} {_figure(self.best, self.metric):.6g}, {len(self.steps)} steps)"


COLUMNS = ("step", "what", "cosine", "SQNR (dB)", "latency (us)", "int16 tensors", "kept")


def tune(config: str | Path | Mapping[str, Any] | None = None, /, *, target: float = 0.99,
         metric: str = "cosine-similarity", max_tensors: int | None = None, max_latency_us: float | None = None,
         data_num: int = 16, calibration: bool = True, save_dir: str | Path | None = None,
         progress: bool | Progress | None = None, watch: Watch | None = None, **keywords: Any) -> TuneResult:
    """Mixed precision until the worst output of the calibrated model meets the target.

    config, keywords  as in `ptqlab.compile`; calibration data are needed. Its node_config entries stay as they are
    target, metric    "cosine-similarity", or "sqnr" in dB
    max_tensors       most tensors to raise to int16;  max_latency_us: most estimated latency
    data_num          calibration samples that steps are scored on
    calibration       also try asymmetric ranges and bias correction
    save_dir          folder for quant_config.json, final_quant_config.json and tuning_report.md (default: working_dir)

    Stopping keeps the best step so far. Raises PtqError with every problem, Interrupted when nothing was tried yet.
    """
    settings = configuration.load(config, **keywords)
    problems = _problems(settings, metric, target, data_num)
    raise_if(problems, "tune")
    watch = watch or Watch()
    tuner = _Tuner(settings, target, metric, max_tensors, max_latency_us, data_num, calibration, watch)
    result = watched(tuner.run, watch, progress)
    folder = folder_of(save_dir if save_dir is not None else settings.model.working_dir)
    result.folder = folder
    _write(result, tuner, folder)
    return result


def _problems(settings: Config, metric: str, target: float, data_num: int) -> list[Problem]:
    found = []
    if metric not in METRICS:
        found.append(Problem("PTQ554", "metric", repr(metric), ", ".join(METRICS)))
    if not isinstance(target, int | float) or not math.isfinite(target):
        found.append(Problem("PTQ554", "target", repr(target), "a finite number"))
    if not isinstance(data_num, int) or data_num < 1:
        found.append(Problem("PTQ554", "data_num", repr(data_num), "a whole number from 1"))
    if settings.calibration.data is None:
        found.append(Problem("PTQ553", "calibration data", "none", "samples to calibrate with",
                             "give cal_data_dir, or calibration_data"))
    return found


class _Tuner:
    """One run of tuning: every step that was tried, and the best."""

    def __init__(self, settings: Config, target: float, metric: str, max_tensors: int | None,
                 max_latency_us: float | None, data_num: int, calibration: bool, watch: Watch) -> None:
        self.settings, self.target, self.metric, self.watch = settings, target, metric, watch
        self.max_tensors, self.max_latency_us, self.calibration = max_tensors, max_latency_us, calibration
        self.data_num = data_num
        self.steps: list[Step] = []
        # of the many candidates only that of the last kept step stays in memory
        self.current: Candidate | None = None
        self.wide_at_first = 0

    def run(self) -> TuneResult:
        self.bench = Workbench(self.settings, self.data_num, self.watch)
        stopped = False
        try:
            self._search()
        except Interrupted:
            if not self.steps:
                raise
            stopped = True
        best = self.best
        simulated = None
        if not stopped:
            last = [s for s in self.steps if s.kept][-1]
            candidate = self.current if best is last else None
            candidate = candidate or self.bench.candidate(_parsed(best.quant_config), self.watch)
            outputs = self.bench.simulated(candidate, self.watch)
            simulated = (min(a.cosine for a in outputs), min(a.sqnr for a in outputs))
        return TuneResult(self.steps, best, self.target, self.metric, self.settings, None, simulated, stopped)

    @property
    def best(self) -> Step:
        """The cheapest kept step that meets the target, else the most accurate one within the latency allowed."""
        kept = [s for s in self.steps if s.kept and self._affordable(s)] or self.steps[:1]
        good = [s for s in kept if _figure(s, self.metric) >= self.target]
        if good:
            return min(good, key=lambda s: (s.latency_us, s.int16))
        return max(kept, key=lambda s: _known(_figure(s, self.metric)))

    def _affordable(self, step: Step) -> bool:
        return self.max_latency_us is None or step.latency_us <= self.max_latency_us

    def _search(self) -> None:
        with self.watch.stage("tune") as stage:
            user = self.bench.config.calibration.quant.to_dict()
            best = self._try(user, "as configured", True)
            stage.step(best.what)
            if self.calibration:
                for what, quant in calibration_choices(user):
                    if _figure(best, self.metric) >= self.target:
                        return
                    tried = self._try(quant, what, None, best)
                    stage.step(what)
                    best = tried if tried.kept else best
            if _figure(best, self.metric) >= self.target:
                return
            order = self._order(best.latency_us)
            raised = 0
            while order and _figure(best, self.metric) < self.target:
                at_a_time = 1 if raised < SINGLE_STEPS else 1 + raised // 4
                left = at_a_time if self.max_tensors is None else min(at_a_time, self.max_tensors - best.int16)
                if left < 1:
                    return
                group, order = order[:left], order[left:]
                tried = self._try(raised_config(best.quant_config, group), _words(group), None, best)
                stage.step(tried.what)
                if tried.kept:
                    best = tried
                    raised += len(group)

    def _try(self, quant: Mapping[str, Any], what: str, kept: bool | None, best: Step | None = None) -> Step:
        """Measure a quant_config; without `kept` it is kept if it is better than `best` and not too slow."""
        candidate = self.bench.candidate(_parsed(quant), self.watch)
        wide = sum(t.stored.bits == 16 for s, t in candidate.plan.tensors.items() if s == t.slot)
        number = len(self.steps)
        if number == 0:
            self.wide_at_first = wide
        step = Step(number, what, candidate.cosine, candidate.sqnr, candidate.latency_us, wide - self.wide_at_first,
                    True, quant)
        if kept is None:
            assert best is not None
            gain = _known(step.sqnr) - _known(best.sqnr)
            tensors = self.max_tensors is None or step.int16 <= self.max_tensors
            better = gain > (0.0 if step.int16 == best.int16 else -WORSE_DB)
            step = replace(step, kept=better and tensors and self._affordable(step))
        if step.kept:
            self.current = candidate
        self.steps.append(step)
        self.watch.log(f"tune {number}: {what}: cosine {step.cosine:.6f}, {step.sqnr:.2f} dB, {step.latency_us:.1f} us"
                       + ("" if step.kept else ", taken back"))
        return step

    def _order(self, latency_us: float) -> list[Raise]:
        """Tensors in int8 of the current candidate, those first that gain most per latency."""
        candidate, graph = self.current, self.bench.graph
        assert candidate is not None, "the first step is kept"
        network = Network(candidate.calibrated.model, graph.model)
        readers = slot_readers(graph, candidate.plan)
        low = [s for s in readers if candidate.plan.tensors[s].stored.bits == 8]
        noise = noise_of_slots(network, low, self.bench.scored.first(RANKING_SAMPLES), self.watch)
        march = self.bench.config.model.march
        what_if = perf.WhatIf(perf.from_plan(graph, candidate.plan), march)
        entries = self.bench.config.calibration.quant.nodes
        fixed = {graph.aliases.get(n, n) for n, e in entries.items() if e.qtype is not None or e.inputs}
        return raises(noise, readers, fixed, lambda change: what_if.effect(change).added_us, latency_us)


def _parsed(quant: Mapping[str, Any]) -> QuantConfig:
    return QuantConfig.parse(copy.deepcopy(dict(quant)))


def _figure(step: Step, metric: str) -> float:
    return step.cosine if metric == "cosine-similarity" else step.sqnr


def _known(value: float) -> float:
    """NaN as the worst of all."""
    return -math.inf if math.isnan(value) else value


def _words(group: list[Raise]) -> str:
    nodes = [n for r in group for n in r.nodes]
    return f"int16 for {', '.join(nodes[:3])}" + (f" and {len(nodes) - 3} more" if len(nodes) > 3 else "")


def calibration_choices(user: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """The user's quant_config with other calibration settings for the whole model; a method that is named stays."""
    choices = []
    for what, more, corrected in (("bias correction", {}, True), ("asymmetric", {"asymmetric": True}, False),
                                  ("asymmetric, bias correction", {"asymmetric": True}, True)):
        quant = copy.deepcopy(dict(user))
        model = quant.setdefault("model_config", {})
        activation = {"calibration_type": "mse", **model.get("activation", {}), **more}
        if corrected and "weight" in model and not more:
            continue
        model["activation"] = activation
        if corrected:
            model.setdefault("weight", copy.deepcopy(CORRECTION))
        choices.append((what, quant))
    return choices


def raised_config(quant: Mapping[str, Any], group: list[Raise]) -> dict[str, Any]:
    """The quant_config with int16 for the readers of these tensors."""
    out = copy.deepcopy(dict(quant))
    nodes = out.setdefault("node_config", {})
    for node in (n for r in group for n in r.nodes):
        nodes[node] = {**nodes.get(node, {}), "qtype": "int16"}
    return out


def _write(result: TuneResult, tuner: _Tuner, folder: Path) -> None:
    """quant_config.json by the fewest rules, final_quant_config.json node by node, tuning_report.md."""
    graph = tuner.bench.graph
    final = _parsed(result.quant_config)
    op_types = {str(n.name): n.op_type for n in graph.nodes}
    least = fewest_rules(final, op_types, graph.aliases)
    result.quant_config = least
    try:
        atomic_write(folder / "quant_config.json", json.dumps(least, indent=2) + "\n")
        atomic_write(folder / "final_quant_config.json", json.dumps(final.to_dict(), indent=2) + "\n")
        atomic_write(folder / "tuning_report.md", report(result))
    except OSError as error:
        raise PtqError(Problem("PTQ604", str(folder), f"cannot write: {error.strerror or error}",
                               "a place that can be written to", "give another save_dir"), "tune") from None


def report(result: TuneResult) -> str:
    """tuning_report.md."""
    best = result.best
    lines = [
        "# Tuning report", "",
        f"Model `{printable(result.config.model.output_model_file_prefix)}`, march {result.config.model.march}, "
        f"target {result.metric} {result.target:g}: {'reached' if result.reached else 'not reached'}"
        + (" (stopped by the user)." if result.stopped else "."), "",
        f"Best step {best.number}: cosine {best.cosine:.6f}, SQNR {best.sqnr:.2f} dB, estimated latency "
        f"{best.latency_us:.1f} us, {best.int16} tensors more in int16 than as configured. Figures are those of the "
        "worst output of the calibrated model over the scoring samples.", "",
    ]
    if result.simulated is not None:
        lines += [f"Integer model of that step: cosine {result.simulated[0]:.6f}, SQNR {result.simulated[1]:.2f} dB.",
                  ""]
    if "mse" in json.dumps(result.quant_config):
        lines += ["`calibration_type: mse` is ptqlab's own; for the vendor's tool take max or kl in its place.", ""]
    front = {s.number for s in result.pareto}
    lines += ["| " + " | ".join((*COLUMNS, "Pareto")) + " |", "|" + " --- |" * (len(COLUMNS) + 1)]
    for step, row in zip(result.steps, result.rows(), strict=True):
        cells = [*(printable(c).replace("|", "\\|") for c in row), "yes" if step.number in front else ""]
        lines.append("| " + " | ".join(cells) + " |")
    lines += ["", "## quant_config", "", "```json", json.dumps(result.quant_config, indent=2), "```", ""]
    return "\n".join(lines)
