"""The thresholds that the candidates of a slot lead to, and what is noticed on the way."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ptqlab.errors import Finding
from ptqlab.graph import FloatGraph
from ptqlab.quantize import methods
from ptqlab.quantize.methods import Method
from ptqlab.quantize.observe import Observer, Seen, merged
from ptqlab.quantize.recipe import SlotAsk
from ptqlab.quantize.thresholds import SMALLEST_KL_COUNT
from ptqlab.stages.calibration import Threshold

SAFE_THRESHOLD = 1.0
# Smaller values count as zeros: with 2^16 steps below them, float32 loses the bits of a scale, or all of it.
SMALLEST_THRESHOLD = 1e-30
LARGE_THRESHOLD = 8000.0
PER_CHANNEL = "one threshold for the whole tensor: thresholds per channel are not there yet"


@dataclass(frozen=True)
class SlotOptions:
    """Thresholds of a slot by candidate, in the order of `asked`; equal ones stand there as often as they came out.

    seen  what was seen of the slot
    """

    asked: tuple[Method, ...]
    thresholds: tuple[Threshold, ...]
    seen: Observer = field(default_factory=Observer, compare=False, repr=False)

    @property
    def count(self) -> int:
        """Values seen, 0 where they were all zero."""
        return self.seen.count

    def clipped(self, low: float, high: float) -> float:
        """Share of the values outside of a range."""
        return clipped_share(self.seen, low, high)

    @property
    def distinct(self) -> tuple[Threshold, ...]:
        """Each threshold that makes a difference once."""
        kept: dict[tuple[float, tuple[float, float] | None], Threshold] = {}
        for threshold in self.thresholds:
            kept.setdefault((threshold.value, threshold.bounds), threshold)
        return tuple(kept.values())


def slot_options(
    graph: FloatGraph, slot: str, sources: Sequence[str], seen: Mapping[str, Seen], ask: SlotAsk,
    findings: list[Finding],
) -> SlotOptions:
    """Thresholds of one slot from what was seen of its sources."""
    whole = merged(seen[t].whole for t in sources)
    where, nodes = place(graph, slot, sources)
    if whole.not_finite:
        findings.append(_not_finite(where, nodes, whole))
    if whole.largest < SMALLEST_THRESHOLD:
        findings.append(_all_zero(where, nodes))
        safe = Threshold(0.0, 0.0, SAFE_THRESHOLD, "max", ("all-zero",))
        return SlotOptions(ask.methods, (safe,) * len(ask.methods))
    tags = ("constant",) if whole.low == whole.high else ()
    base = Threshold(whole.low, whole.high, whole.largest, "max", tags, asked=_asked(ask))
    return SlotOptions(ask.methods, tuple(_threshold(base, m, whole, ask) for m in ask.methods), whole)


def place(graph: FloatGraph, slot: str, sources: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """A slot in words, and the nodes that write it."""
    nodes = tuple(str(p.name) for t in sources if (p := graph.producer(t)) is not None)
    return f"tensor {slot}" + (f" (node {nodes[0]})" if nodes else ""), nodes


def _threshold(base: Threshold, method: Method, whole: Observer, ask: SlotAsk) -> Threshold:
    found = methods.apply(method, whole, ask.qtype)
    notes = [n for n in (found.note, PER_CHANNEL if method.per_channel else "") if n]
    given = replace(method, per_channel=False)
    low, high = found.bounds or (-found.value, found.value)
    return replace(base, value=found.value, bounds=found.bounds, method=given.word, note="; ".join(notes),
                   clipped=clipped_share(whole, low, high))


def clipped_share(seen: Observer, low: float, high: float) -> float:
    """Share of the values outside of [low, high]; whole bins of the histogram, 0.0 without one."""
    if seen.histogram is None or (seen.low >= low and seen.high <= high):
        return 0.0
    histogram = seen.histogram
    # a bin counts as outside when it lies beyond the limit as a whole
    over = histogram.positive[_bins_within(high, histogram.width) :].sum()
    under = 0 if histogram.negative is None else histogram.negative[_bins_within(-low, histogram.width) :].sum()
    return float(over + under) / max(histogram.count, 1)


def _bins_within(limit: float, width: float) -> int:
    return int(np.ceil(limit / width))


def _asked(ask: SlotAsk) -> str:
    words = ", ".join(m.word for m in ask.methods)
    by = f" by {ask.node}" if ask.node else ""
    return f"{words} ({ask.origin}{by})"


def _not_finite(where: str, nodes: tuple[str, ...], seen: Observer) -> Finding:
    return Finding(
        "PTQ502",
        f"{where}: {seen.not_finite} of {seen.count} values are NaN or Inf in the float model; they do not "
        "count for the threshold",
        nodes,
        "look at the float model with these samples",
    )


def _all_zero(where: str, nodes: tuple[str, ...]) -> Finding:
    return Finding(
        "PTQ501",
        f"{where} is all zero over all samples; a threshold of {SAFE_THRESHOLD} stands in for the 0 that was seen",
        nodes,
        "use samples that reach this part of the model, or see whether it is dead",
    )


def large(where: str, nodes: tuple[str, ...], value: float) -> Finding:
    """A threshold so large that the model itself is in question."""
    return Finding(
        "PTQ503",
        f"{where} has a threshold of {value:g}: int8 steps are {value / 127:g} wide",
        nodes,
        "thresholds this large point at the model (missing normalisation or weight decay); int16 may help",
    )


def few_values(counts: Mapping[str, int]) -> Finding:
    """Slots that kl has too few values of, in one finding; `counts` by slot."""
    named = ", ".join(f"{slot} ({count})" for slot, count in list(counts.items())[:5])
    more = f" and {len(counts) - 5} more" if len(counts) > 5 else ""
    return Finding(
        "PTQ504",
        f"kl is unsteady below {SMALLEST_KL_COUNT} values, and has fewer of {len(counts)} tensors: {named}{more}",
        (),
        "use more samples, or mse or max for these tensors",
    )
