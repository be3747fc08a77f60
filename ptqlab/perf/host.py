"""What the host CPU adds: the runtime around a task, operators on the CPU, and the way between CPU and BPU.

The runtime is fitted to board rows. Everything else here is a guess: nobody published times of single CPU operators.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ptqlab.perf.layer import FREE_OPS, TAE_OPS, Layer
from ptqlab.perf.parameters import Parameters
from ptqlab.perf.work import passes_of

# One core of the host, float32 (guess).
CPU_GMACS = 8.0
CPU_US_PER_MILLION = 500.0  # one pass over a million elements, read and written
CPU_US_PER_OP = 5.0
# Quantize and Dequantize on the CPU go over the data, so their time follows the size (documented); the rate is a guess.
CONVERT_US_PER_MILLION = 400.0
# Operators that only move data and stand behind the tail: published latencies include them, so they cost nothing more.
MOVERS = (*FREE_OPS, "Transpose", "Concat", "Slice", "Split", "Dequantize", "Quantize")


@dataclass(frozen=True)
class CpuCost:
    """One layer on the CPU: us of its own, us to convert what it gets from and gives to the BPU, why it is free."""

    name: str
    op: str
    own_us: float
    convert_us: float
    head: bool
    tail: bool

    @property
    def total_us(self) -> float:
        return self.own_us + self.convert_us


def cpu_costs(layers: Sequence[Layer]) -> tuple[CpuCost, ...]:
    """Cost of every layer on the CPU, in order."""
    before, behind = _bpu_before(layers), _bpu_behind(layers)
    return tuple(
        _cost(layers, index, head=not before[index], tail=not behind[index])
        for index, layer in enumerate(layers) if not layer.on_bpu
    )


def _cost(layers: Sequence[Layer], index: int, head: bool, tail: bool) -> CpuCost:
    layer = layers[index]
    if tail and layer.op in MOVERS:
        return CpuCost(layer.name, layer.op, 0.0, 0.0, head, tail)
    own = CPU_US_PER_OP
    if layer.op in TAE_OPS:
        own += layer.macs / CPU_GMACS / 1e3
    elif layer.op not in FREE_OPS:
        passes = passes_of(layer.op)
        own += max(layer.reads, layer.writes) * max(1.0, passes.table * 4 + passes.plain) * CPU_US_PER_MILLION / 1e6
    # results behind the tail are converted by the runtime, whose fitted cost has them already
    back = [] if tail else [s for s in dict.fromkeys(layer.sources) if s >= 0 and layers[s].on_bpu]
    forth = layer.writes if any(layers[c].on_bpu for c in layer.consumers) else 0
    elements = sum(layers[s].writes for s in back) + forth
    return CpuCost(layer.name, layer.op, own, elements * CONVERT_US_PER_MILLION / 1e6, head, tail)


def _bpu_before(layers: Sequence[Layer]) -> list[bool]:
    found: list[bool] = []
    for layer in layers:
        found.append(any(s >= 0 and (layers[s].on_bpu or found[s]) for s in layer.sources))
    return found


def _bpu_behind(layers: Sequence[Layer]) -> list[bool]:
    found = [False] * len(layers)
    for index in range(len(layers) - 1, -1, -1):
        found[index] = any(layers[c].on_bpu or found[c] for c in layers[index].consumers)
    return found


def runtime_us(rates: Parameters, result_mb: float, older: bool = False) -> float:
    """us between submitting a task and its end that the BPU does not work."""
    return rates.older_runtime if older else rates.runtime + rates.runtime_per_mb * result_mb


def switch_us(rates: Parameters) -> float:
    """us for every BPU segment after the first: a task of its own (guess: as the older runtime's whole part)."""
    return rates.older_runtime
