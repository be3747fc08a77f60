"""`ptqlab.tune`: mixed precision until the target, each step with its cost in latency.

int8 as configured; then calibration choices (asymmetric ranges, bias correction); then what hurts most gets a wider
type, one after the other, by what it gains per latency it adds: tensors int16, weights dual-int16, nodes float16 where
the platform has it. What does not help is taken back, and once the target is met, what is not needed for it.
"""
from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ptqlab import config as configuration
from ptqlab.config import Config
from ptqlab.config.quant_writing import fewest_rules
from ptqlab.debug.measured import Judge
from ptqlab.debug.source import folder_of
from ptqlab.errors import Problem, raise_if, shorten
from ptqlab.events import Watch
from ptqlab.report.page import Page
from ptqlab.result.api import watched
from ptqlab.result.shown import Shown
from ptqlab.result.tuner import METRICS, Goal, Step, Tuner, known, parsed
from ptqlab.result.tuning_report import write
from ptqlab.workers import opened

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

    from ptqlab.result.compiled import CompileResult
    from ptqlab.result.progress import Progress


class TuneResult(Shown):
    """What tuning found: `.steps` all that was tried, `.best`, `.quant_config` to take, `.frame`, `.pareto`."""

    def __init__(self, steps: list[Step], best: Step, goal: Goal, config: Config,
                 simulated: tuple[float, float] | None, stopped: bool) -> None:
        self.steps, self.best, self.goal, self.config = steps, best, goal, config
        self.target, self.metric = goal.target, goal.metric
        self.simulated, self.stopped = simulated, stopped
        self.folder: Path | None = None
        self.quant_config: dict[str, Any] = dict(best.quant_config)

    @property
    def reached(self) -> bool:
        """Whether the best step meets the target; False without one."""
        return self.goal.met(self.best)

    @property
    def frame(self) -> pd.DataFrame:
        """One row per step: Step, What, Cosine, SQNR (dB), Latency (us), int16 Tensors, Kept, Pareto, Gain (dB),
        Added (us), Dual Weights, float16 Nodes, and the user's measure by its name."""
        import pandas as pd

        front = {s.number for s in self.pareto}
        judged = [{self.metric: s.judged} if self.goal.judge is not None else {} for s in self.steps]
        return pd.DataFrame([
            {"Step": s.number, "What": s.what, "Cosine": s.cosine, "SQNR": s.sqnr, "Latency (us)": s.latency_us,
             "int16 Tensors": s.int16, "Kept": s.kept, "Pareto": s.number in front, "Gain (dB)": s.gain,
             "Added (us)": s.added_us, "Dual Weights": s.dual, "float16 Nodes": s.float16, **mine}
            for s, mine in zip(self.steps, judged, strict=True)
        ])

    @property
    def pareto(self) -> list[Step]:
        """Steps that no other step beats in both SQNR and latency, the fastest first."""
        front: list[Step] = []
        for step in sorted(self.steps, key=lambda s: (s.latency_us, -known(s.sqnr))):
            if not front or known(step.sqnr) > known(front[-1].sqnr):
                front.append(step)
        return front

    def plot(self) -> go.Figure:
        """SQNR over estimated latency of all steps, with the Pareto front."""
        from ptqlab.report.pareto import pareto_figure

        return pareto_figure(self.frame)

    def compile(self, **keywords: Any) -> CompileResult:
        """Compile with what was found; keywords as in `ptqlab.compile`."""
        from ptqlab.result.api import compile

        settings = self.config.to_dict()
        data = self.config.calibration.data
        return compile(settings, **{"calibration_data": data, "quant_config": self.quant_config, **keywords})

    def page(self) -> Page:
        done = "reached" if self.reached else "stopped before" if self.stopped else "not reached"
        page = Page("tune: no target, the best within the limits" if self.target is None else
                    f"tune: target {self.metric} {self.target:g} {done}")
        page.line(f"best: step {self.best.number}, cosine {self.best.cosine:.6f}, {self.best.sqnr:.2f} dB, "
                  f"{self.best.latency_us:.1f} us, {self.best.int16} tensors more in int16")
        if self.best.dual or self.best.float16:
            page.line(f"{self.best.dual} operators more with weights in int16, {self.best.float16} nodes more in "
                      "float16")
        if self.best.judged is not None:
            page.line(f"{self.metric}: {self.best.judged:.4f}")
        if self.simulated is not None:
            page.line(f"integer model of the best step: cosine {self.simulated[0]:.6f}, {self.simulated[1]:.2f} dB")
        page.heading("Steps")
        page.table(self.columns, self.rows(), self.columns[2:])
        if self.folder is not None:
            page.line(f"written: {self.folder}/quant_config.json, final_quant_config.json, tuning_report.md")
        return page

    @property
    def columns(self) -> tuple[str, ...]:
        judged = (self.metric,) if self.goal.judge is not None else ()
        return ("step", "what", *judged, *COLUMNS)

    def rows(self) -> list[tuple[str, ...]]:
        """The steps as cells of `columns`."""
        return [(str(s.number), s.what, *(() if s.judged is None else (f"{s.judged:.4f}",)), f"{s.cosine:.6f}",
                 f"{s.sqnr:.2f}", f"{s.gain:+.2f}", f"{s.latency_us:.1f}", f"{s.added_us:+.1f}", str(s.int16),
                 "yes" if s.kept else "no") for s in self.steps]

    def __repr__(self) -> str:
        return f"TuneResult({self.metric} {self.goal.figure(self.best):.6g}, {len(self.steps)} steps)"


COLUMNS = ("cosine", "SQNR (dB)", "gain (dB)", "latency (us)", "added (us)", "int16 tensors", "kept")


def tune(config: str | Path | Mapping[str, Any] | None = None, /, *, target: float | None = 0.99,
         metric: str | Judge = "cosine-similarity", max_tensors: int | None = None, max_latency_us: float | None = None,
         data_num: int = 16, scoring_data: Any = None, calibration: bool = True, save_dir: str | Path | None = None,
         executor: Any = 1, progress: bool | Progress | None = None, watch: Watch | None = None,
         **keywords: Any) -> TuneResult:
    """Mixed precision until the worst output of the calibrated model meets the target, at the least latency.

    config, keywords  as in `ptqlab.compile`; calibration data are needed. Its node_config entries stay as they are
    target, metric    "cosine-similarity", "sqnr" in dB, or a function (outputs by name, number of the scoring sample)
                      -> number, more is better, whose mean counts, such as accuracy on labelled data.
                      target None: as accurate as the limits allow
    max_tensors       most tensors, weights and nodes to get a wider type;  max_latency_us: most estimated latency
    data_num          samples that steps are scored on: the first of `scoring_data`, else of the calibration data
    calibration       also try asymmetric ranges and bias correction
    save_dir          folder for quant_config.json, final_quant_config.json, tuning_report.md and tuning_report.html
                      (default: working_dir)
    executor          who computes the ranking, as in `ptqlab.sensitivity`; default: here and now

    Stopping keeps the best step so far. Raises PtqError with every problem, Interrupted when nothing was tried yet.
    """
    settings = configuration.load(config, **keywords)
    raise_if(_problems(settings, metric, target, data_num), "tune")
    watch = watch or Watch()
    judge = metric if callable(metric) else None
    name = str(getattr(metric, "__name__", "measure")) if callable(metric) else metric
    goal = Goal(target, name, judge, max_tensors, max_latency_us)

    def work() -> Tuner:
        with opened(executor) as pool:
            tuner = Tuner(settings, goal, data_num, scoring_data, calibration, pool, watch)
            tuner.run()
        return tuner

    tuner = watched(work, watch, progress)
    result = TuneResult(tuner.steps, tuner.best, goal, settings, tuner.simulated, tuner.stopped)
    result.folder = folder_of(save_dir if save_dir is not None else settings.model.working_dir)
    graph, final = tuner.bench.graph, parsed(result.quant_config)
    result.quant_config = fewest_rules(final, {str(n.name): n.op_type for n in graph.nodes}, graph.aliases)
    write(result, final.to_dict(), result.folder)
    return result


def _problems(settings: Config, metric: object, target: object, data_num: object) -> list[Problem]:
    found = []
    if not callable(metric) and metric not in METRICS:
        found.append(Problem("PTQ554", "metric", repr(shorten(metric)), f"{', '.join(METRICS)} or a function"))
    if target is not None and (not isinstance(target, int | float) or not math.isfinite(target)):
        found.append(Problem("PTQ554", "target", repr(target), "a finite number, or None for the best"))
    if not isinstance(data_num, int) or data_num < 1:
        found.append(Problem("PTQ554", "data_num", repr(data_num), "a whole number from 1"))
    if settings.calibration.data is None:
        found.append(Problem("PTQ553", "calibration data", "none", "samples to calibrate with",
                             "give cal_data_dir, or calibration_data"))
    return found
