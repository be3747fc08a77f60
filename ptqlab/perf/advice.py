"""Layers that take longer than a limit, why, and what to do."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ptqlab.perf.estimate import Estimate, LayerCost
from ptqlab.perf.layer import Layer
from ptqlab.perf.words import say
from ptqlab.perf.work import CHANNELS, FREE_ACTIVATIONS, WEIGHT_BUFFER, padded_macs

# From this share of padding on it is worth a word.
WASTED = 0.15
# Layers that are told of when no limit is given: those that take more than this share of the model.
DEFAULT_SHARE = 0.05


@dataclass(frozen=True)
class Advice:
    """One slow layer: us, share of the BPU latency, why it takes long, what to do."""

    layer: str
    op: str
    us: float
    share: float
    causes: tuple[str, ...]
    remedies: tuple[str, ...]


def advice(layers: Sequence[Layer], found: Estimate, limit_us: float | None = None,
           lang: str = "en") -> tuple[Advice, ...]:
    """Advice for layers slower than `limit_us` (default: 5 % of the model) and for all on the CPU, slowest first.

    `layers` are those that `found` was made of.
    """
    limit = DEFAULT_SHARE * found.latency_us if limit_us is None else limit_us
    by_name = {layer.name: layer for layer in layers}
    on_cpu = {c.name: c.total_us for c in found.cpu}
    told = []
    for cost in found.layers:
        us = on_cpu.get(cost.name, cost.period_us)
        if us > (0 if cost.name in on_cpu else limit):
            causes, remedies = _why(by_name[cost.name], cost, lang)
            part = us / found.latency_us if found.latency_us else 0.0
            told.append(Advice(cost.name, cost.op, us, part, causes, remedies))
    return tuple(sorted(told, key=lambda a: -a.us))


def _why(layer: Layer, cost: LayerCost, lang: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    keys: list[tuple[str, dict[str, object]]] = []
    if cost.bound == "CPU":
        keys.append(("cpu", {}))
    if cost.bound == "DDR":
        keys.append(("stored" if cost.store_us > cost.load_us else "loading", {"kb": layer.weight_bytes // 1000}))
    if cost.bound == "TAE":
        keys.append(("macs", {"gmacs": f"{layer.macs / 1e9:.2f}"}))
        if layer.weight_bytes > WEIGHT_BUFFER:
            keys.append(("streamed", {"kb": layer.weight_bytes // 1000, "limit": WEIGHT_BUFFER // 1000}))
        padding = 1 - layer.macs / padded_macs(layer) if layer.macs else 0.0
        if padding > WASTED:
            keys.append(("padding", {"percent": f"{100 * padding:.0f}", "multiple": CHANNELS}))
        if layer.is_depthwise:
            keys.append(("depthwise", {}))
    if cost.bound == "vector":
        table = layer.act if layer.is_tae else layer.op
        keys.append(("table", {"act": table}) if layer.act not in FREE_ACTIVATIONS else ("vector", {"op": layer.op}))
    if layer.qtype.bits > 8 and layer.on_bpu:
        keys.append(("bits", {"qtype": layer.qtype.value}))
    return (tuple(say(f"why_{key}", lang, **values) for key, values in keys),
            tuple(say(f"do_{key}", lang, **values) for key, values in keys))
