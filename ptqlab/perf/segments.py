"""Where time is given away: islands on the CPU, head and tail, channels that are no multiple of what the TAE wants."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from ptqlab.ops.spec import Role
from ptqlab.ops.table import spec_of
from ptqlab.perf.cost import times
from ptqlab.perf.estimate import rates_of
from ptqlab.perf.host import CpuCost, cpu_costs, switch_us
from ptqlab.perf.layer import Layer, elements
from ptqlab.perf.parameters import Parameters
from ptqlab.perf.work import Work, mac_kind, padded_macs, row

# What fast-perf takes away at head and tail (documented).
REMOVABLE = ("Quantize", "Transpose", "Dequantize", "Cast", "Reshape", "Softmax")
# Inner size of MatMul of two activations that is preferred (documented); no board row tells what another one costs.
HEAD_SIZE = 64


@dataclass(frozen=True)
class Island:
    """Neighbours on the CPU.

    place     "head", "middle" or "tail";  own_us, convert_us  their work, Quantize and Dequantize around them
    switch_us the segment that they add;  saved_us  what running them on the BPU would save
    """

    place: str
    layers: tuple[str, ...]
    ops: tuple[str, ...]
    own_us: float
    convert_us: float
    switch_us: float
    saved_us: float


@dataclass(frozen=True)
class Gain:
    """One change and what it saves in us."""

    layer: str
    saved_us: float


@dataclass(frozen=True)
class Waste:
    """A layer whose channels are padded: of the MACs done, `share` are padding; `lost_us` of its time."""

    layer: str
    channels: tuple[int, int]
    share: float
    lost_us: float


@dataclass(frozen=True)
class SegmentReport:
    """Segments and what could be had.

    segments      BPU segments;  islands  on the CPU, in order
    removal_us    saved by taking removable operators away at head and tail (guess: times on the CPU)
    unit_convs    saved by a unit conv that brings a mover at head or tail onto the BPU
    padding       layers that waste MACs, worst first;  padded_share  of all MACs
    short_heads   MatMul layers of two activations whose inner size is below 64
    """

    segments: int
    islands: tuple[Island, ...]
    removal_us: float
    unit_convs: tuple[Gain, ...]
    padding: tuple[Waste, ...]
    padded_share: float
    short_heads: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)


def segment_report(layers: Sequence[Layer], march: str, core_num: int = 1) -> SegmentReport:
    """The report for layers in order of execution. Raises PtqError for an unknown march or too many cores."""
    rates = rates_of(march, core_num)
    costs = {c.name: c for c in cpu_costs(layers)}
    removable = sum(c.total_us for c in costs.values() if (c.head or c.tail) and c.op in REMOVABLE)
    padding = [w for layer in layers if layer.on_bpu and (w := _waste(layer, rates))]
    done = sum(padded_macs(layer) for layer in layers if layer.on_bpu)
    real = sum(layer.macs for layer in layers if layer.on_bpu)
    return SegmentReport(
        segments=len({layer.segment for layer in layers if layer.on_bpu}),
        islands=tuple(_island(layers, members, costs, rates) for members in _groups(layers)),
        removal_us=removable,
        unit_convs=tuple(g for layer in layers if (g := _unit_conv(layer, costs, rates))),
        padding=tuple(sorted(padding, key=lambda w: -w.lost_us)),
        padded_share=1 - real / done if done else 0.0,
        short_heads=tuple(layer.name for layer in layers if layer.on_bpu and layer.op == "MatMul"
                          and not layer.weights and layer.inputs[0][-1] < HEAD_SIZE),
    )


def _groups(layers: Sequence[Layer]) -> list[list[int]]:
    """Connected layers on the CPU, as lists of indices."""
    group: dict[int, list[int]] = {}
    for index, layer in enumerate(layers):
        if layer.on_bpu:
            continue
        joined = [index]
        for members in {id(m): m for s in layer.sources if s >= 0 and (m := group.get(s)) is not None}.values():
            joined = members + joined
        for member in joined:
            group[member] = joined
    return sorted({id(m): sorted(m) for m in group.values()}.values())


def _island(layers: Sequence[Layer], members: list[int], costs: dict[str, CpuCost], rates: Parameters) -> Island:
    parts = [costs[layers[i].name] for i in members]
    place = "head" if all(p.head for p in parts) else "tail" if all(p.tail for p in parts) else "middle"
    switch = switch_us(rates) if place == "middle" else 0.0
    own, convert = sum(p.own_us for p in parts), sum(p.convert_us for p in parts)
    on_bpu = sum(bpu_us(layers[i], rates) for i in members)
    return Island(place, tuple(layers[i].name for i in members), tuple(layers[i].op for i in members), own, convert,
                  switch, max(0.0, own + convert + switch - on_bpu))


def bpu_us(layer: Layer, rates: Parameters) -> float:
    """us that a layer would take on the BPU."""
    work = Work(np.array([row(replace(layer, device="BPU", tail=False), False)]))
    return float(times(work, rates).whole[0])


def _unit_conv(layer: Layer, costs: dict[str, CpuCost], rates: Parameters) -> Gain | None:
    """What a unit conv beside a mover at head or tail saves: its cost on the CPU, less both on the BPU."""
    cost = costs.get(layer.name)
    if cost is None or not (cost.head or cost.tail) or spec_of(layer.op).role is not Role.PASSIVE:
        return None
    shape = layer.output if len(layer.output) == 4 else (1, layer.output[-1], elements(layer.output[:-1]), 1)
    channels = shape[1]
    conv = Layer(f"{layer.name}_unit", "Conv", (shape,), (shape,), (-1,), kernel=(1, 1), stride=(1, 1),
                 macs=elements(shape) * channels, weights=channels * channels, reads=elements(shape),
                 writes=elements(shape))
    saved = cost.total_us - bpu_us(layer, rates) - bpu_us(conv, rates)
    return Gain(layer.name, saved) if saved > 0 else None


def _waste(layer: Layer, rates: Parameters) -> Waste | None:
    done = padded_macs(layer)
    if not layer.macs or done <= layer.macs:
        return None
    share = 1 - layer.macs / done
    lost = share * done / getattr(rates, mac_kind(layer)) / 1e6
    channels = (layer.inputs[0][1] // layer.group, layer.output[1] // layer.group)
    return Waste(layer.name, channels, share, lost)
