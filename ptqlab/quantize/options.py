"""The thresholds that the candidates of a slot lead to, and what is noticed on the way."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ptqlab.errors import Finding
from ptqlab.graph import FloatGraph
from ptqlab.quantize import methods
from ptqlab.quantize.channels import equalized, factors
from ptqlab.quantize.methods import Method
from ptqlab.quantize.observe import Observer, Seen, merged
from ptqlab.quantize.recipe import SlotAsk
from ptqlab.quantize.thresholds import SMALLEST_KL_COUNT
from ptqlab.stages.calibration import Threshold

SAFE_THRESHOLD = 1.0
# Smaller values count as zeros: with 2^16 steps below them, float32 loses the bits of a scale, or all of it.
SMALLEST_THRESHOLD = 1e-30
LARGE_THRESHOLD = 8000.0


@dataclass(frozen=True)
class Reach:
    """What is known of a slot's channels.

    largest   max |x| of each channel;  half  the same from the samples of even number alone
    trailing  axes behind the channels
    limit     bound of a fused Clip, beyond which one clamp would not do for all channels
    why_not   why the slot keeps one step, "" where it need not
    weights   largest weight of the readers for each channel, which equalization asks for
    """

    largest: np.ndarray = field(default_factory=lambda: np.zeros(0, np.float32))
    half: np.ndarray = field(default_factory=lambda: np.zeros(0, np.float32))
    trailing: int = 0
    limit: float = float("inf")
    why_not: str = ""
    weights: np.ndarray = field(default_factory=lambda: np.ones(1))


@dataclass(frozen=True)
class SlotOptions:
    """Thresholds of a slot by candidate, in the order of `asked`; equal ones stand there as often as they came out.

    seen   what was seen of the slot
    trial  the thresholds with steps per channel from the samples of even number alone, for a trial on the others
    """

    asked: tuple[Method, ...]
    thresholds: tuple[Threshold, ...]
    seen: Observer = field(default_factory=Observer, compare=False, repr=False)
    trial: tuple[Threshold, ...] = ()

    @property
    def count(self) -> int:
        """Values seen, 0 where they were all zero."""
        return self.seen.count

    def clipped(self, low: float, high: float) -> float:
        """Share of the values outside of a range."""
        return clipped_share(self.seen, low, high)

    @property
    def distinct(self) -> tuple[int, ...]:
        """Numbers of the candidates, each threshold that makes a difference once."""
        kept: dict[tuple[float, tuple[float, float] | None, tuple[float, ...]], int] = {}
        for index, threshold in enumerate(self.thresholds):
            kept.setdefault((threshold.value, threshold.bounds, threshold.channels), index)
        return tuple(kept.values())

    @property
    def per_channel(self) -> bool:
        """Whether a candidate has steps per channel, which samples that did not set them have to confirm."""
        return any(t.channels for t in self.thresholds)

    def tried(self, index: int) -> Threshold:
        """The threshold of a candidate as a trial takes it."""
        return self.trial[index] if self.trial else self.thresholds[index]


def slot_options(
    graph: FloatGraph, slot: str, sources: Sequence[str], seen: Mapping[str, Seen], ask: SlotAsk,
    findings: list[Finding], reach: Reach | None = None,
) -> SlotOptions:
    """Thresholds of one slot from what was seen of its sources; `reach`: of its channels, where they are wanted."""
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
    found = tuple(_threshold(base, m, whole, ask, reach) for m in ask.methods)
    trial = tuple(_for_trial(t, m, reach) for t, m in zip(found, ask.methods, strict=True))
    return SlotOptions(ask.methods, found, whole, trial)


def place(graph: FloatGraph, slot: str, sources: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """A slot in words, and the nodes that write it."""
    nodes = tuple(str(p.name) for t in sources if (p := graph.producer(t)) is not None)
    return f"tensor {slot}" + (f" (node {nodes[0]})" if nodes else ""), nodes


def _threshold(base: Threshold, method: Method, whole: Observer, ask: SlotAsk, reach: Reach | None) -> Threshold:
    found = methods.apply(method, whole, ask.qtype)
    low, high = found.bounds or (-found.value, found.value)
    plain = replace(method, per_channel=False, equalization=False).word
    made = replace(base, value=found.value, bounds=found.bounds, method=plain,
                   note=found.note, clipped=clipped_share(whole, low, high))
    return by_channel(made, method, reach) if method.by_channel and reach is not None else made


def _for_trial(threshold: Threshold, method: Method, reach: Reach | None) -> Threshold:
    if not threshold.channels or reach is None:
        return threshold
    return replace(threshold, channels=_steps(method, reach, reach.half, threshold.value))


def _steps(method: Method, reach: Reach, largest: np.ndarray, threshold: float) -> tuple[float, ...]:
    """Factors of the channels' steps."""
    steps = equalized(largest, threshold, reach.weights) if method.equalization else factors(largest, threshold)
    return tuple(float(f) for f in steps)


def by_channel(threshold: Threshold, method: Method, reach: Reach) -> Threshold:
    """The threshold with a step per channel where the slot can have that, and with the reason where it cannot."""
    why = reach.why_not
    if not why and threshold.value > reach.limit:
        why = f"the threshold lies beyond the bound {reach.limit:g} of the Clip computed inside"
    if why:
        notes = "; ".join(n for n in (threshold.note, f"one step for all channels: {why}") if n)
        return replace(threshold, note=notes)
    steps = _steps(method, reach, reach.largest, threshold.value)
    return replace(threshold, method=method.word, channels=steps, trailing=reach.trailing)


def clipped_share(seen: Observer, low: float, high: float) -> float:
    """Share of the values outside of [low, high]; whole bins of the histogram, 0.0 without one.

    Outside means by more than half a step of int8: a nearer value is rounded to the code at the end and loses no more
    than any other, such as values at a minimum that the zero point moved by a part of a step.
    """
    half = (high - low) / 510
    low, high = low - half, high + half
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
