"""The estimate: layers in, latency and its parts out."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ptqlab.errors import Problem, PtqError
from ptqlab.perf.cost import run, times
from ptqlab.perf.layer import Layer, check, results
from ptqlab.perf.parameters import CORE_GAIN, parameters
from ptqlab.perf.work import input_bytes, work_of
from ptqlab.platforms import platform


@dataclass(frozen=True)
class Estimate:
    """Static estimate of one model on one march; times in us."""

    march: str
    core_num: int
    latency_us: float
    board_latency_us: float
    runtime_us: float
    fps_1_thread: float
    fps_2_threads: float

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def estimate(layers: Sequence[Layer], march: str, *, core_num: int = 1, older_runtime: bool = False) -> Estimate:
    """Latency of a model whose layers are given in order of execution."""
    target = platform(march)
    if not 1 <= core_num <= target.cores:
        raise PtqError(Problem("PTQ402", "core_num", str(core_num), f"1 to {target.cores} on {march}"))
    check(layers)
    rates = parameters(march)
    gain = 1 + CORE_GAIN * (core_num - 1)
    spent = times(work_of(layers), rates.scaled(gain, 1, 1) if core_num > 1 else rates)
    course = run(spent, input_bytes(layers) / rates.ddr / 1e3)
    floats = sum(layers[i].writes for i in results(layers)) * 4 / 1e6
    runtime = rates.older_runtime if older_runtime else rates.runtime + rates.runtime_per_mb * floats
    board = course.total + runtime
    gap = rates.gap + rates.gap_per_mb * floats
    return Estimate(march, core_num, course.total, board, runtime, 1e6 / (board + gap),
                    1e6 / max(course.total, (board + gap) / 2))
