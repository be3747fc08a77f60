"""Rates of the engines per march: fitted ones for nash-e and nash-m, scaled by documented ratios for the others.

All fitted numbers stand in `parameters.json`, written by `python -m benchmarks.fit_perf`.
"""
from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import cache
from importlib import resources

from ptqlab.platforms import Platform, platform

BASE_MARCH, FAST_MARCH = "nash-e", "nash-m"
# Ratios to nash-e: TOPS of one core, and DDR bandwidth (documented for nash-p, a guess for nash-b and nash-h).
DDR_RATIO = {
    "nash-b": (0.5, "guess"),
    "nash-h": (204.8 / 76.8, "guess: as nash-p"),
    "nash-p": (204.8 / 76.8, "documented"),
}
# The second and every further core adds this much of the first one's speed (guess).
CORE_GAIN = 0.8


@dataclass(frozen=True)
class Parameters:
    """Rates of one march, one core.

    spatial, pointwise, depthwise, matmul   padded TMAC/s of the TAE for kernels above 1x1, 1x1 and Gemm, depthwise
                                            convolutions, MatMul of two activations
    streaming        how much slower the first two are on weights that are streamed (0: not at all)
    table, plain     us for a million bytes through look-up tables / one plain vector pass
    command          us for every operator of the BPU
    ddr              GB/s that weights, inputs and results see
    runtime          us from submitting a task to its end that are not the BPU's
    runtime_per_mb   more of them per MB of float32 results
    older_runtime    the same for boards of the older runtime, whatever the results
    gap, gap_per_mb  us between two tasks of one thread
    """

    spatial: float
    pointwise: float
    depthwise: float
    matmul: float
    streaming: float
    table: float
    plain: float
    command: float
    ddr: float
    runtime: float
    runtime_per_mb: float
    older_runtime: float
    gap: float
    gap_per_mb: float

    def scaled(self, compute: float, ddr: float, runtime: float) -> Parameters:
        """The parameters of a platform that computes, moves data and answers so many times as fast."""
        faster = {name: getattr(self, name) * compute for name in ("spatial", "pointwise", "depthwise", "matmul")}
        shorter = {name: getattr(self, name) / compute for name in ("table", "plain", "command")}
        host = {name: getattr(self, name) * runtime for name in ("runtime", "runtime_per_mb", "older_runtime")}
        return replace(self, **faster, **shorter, **host, ddr=self.ddr * ddr)

    def to_dict(self) -> dict[str, float]:
        return asdict(self)


@dataclass(frozen=True)
class Basis:
    """What figures of a march rest on: sentences for reports, and whether published board rows back them."""

    sentences: tuple[str, ...]
    backed_by_board: bool


@cache
def data() -> Mapping[str, object]:
    """The fitted data file."""
    text = resources.files("ptqlab.perf").joinpath("parameters.json").read_text(encoding="utf-8")
    loaded: Mapping[str, object] = json.loads(text)
    return loaded


@cache
def parameters(march: str) -> Parameters:
    """Rates of a march. Raises PtqError for an unknown one."""
    target = platform(march)
    base, ratios = _base()
    if target.family == BASE_MARCH:
        return base
    if target.family == FAST_MARCH:
        return base.scaled(ratios["compute"], ratios["ddr"], ratios["runtime"])
    return base.scaled(core_ratio(target), DDR_RATIO[target.family][0], ratios["runtime"])


def core_ratio(target: Platform) -> float:
    """Documented int8 TOPS of one core against nash-e."""
    return target.tops / target.cores / platform(BASE_MARCH).tops


def _base() -> tuple[Parameters, Mapping[str, float]]:
    loaded = data()
    values, ratios = loaded[BASE_MARCH], loaded[f"{FAST_MARCH} to {BASE_MARCH}"]
    assert isinstance(values, dict) and isinstance(ratios, dict)
    return Parameters(**{f.name: float(values[f.name]) for f in fields(Parameters)}), ratios
