"""What calibration noticed of data and thresholds, in plain words: one finding per kind, the worst tensor first."""
from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from ptqlab.errors import Finding
from ptqlab.graph import FloatGraph
from ptqlab.quantize.observe import Observer, merged
from ptqlab.quantize.recipe import Recipe
from ptqlab.quantize.statistics import Statistics
from ptqlab.quantize.thresholds import percentile
from ptqlab.stages.calibration import Threshold
from ptqlab.stages.plan import Plan

NAMED = 5
# halves of the samples whose ranges differ by more than this call for more samples
UNSTEADY = 0.3
SMALLEST_HALF = 4
# a search below this overfits: choices among near ties follow the noise of the samples (measured)
FEW_FOR_SEARCH = 16
# more than this outside of the range is no trimming of outliers any more
MUCH_CLIPPED = 0.01
# all but one value in a thousand within this many codes of zero: the tensor is nearly switched off
FEW_CODES = 8
# one channel this many times larger than the middle one takes the codes from all others
OUTLIER = 16.0


@dataclass(frozen=True)
class _Slot:
    """What is known of one slot."""

    name: str
    nodes: tuple[str, ...]
    threshold: Threshold
    codes: int
    halves: tuple[Observer, Observer]
    channels: np.ndarray | None

    @property
    def whole(self) -> Observer:
        return merged(self.halves)


# A check gives the size of the trouble and it in words, None where there is none.
Check = Callable[[_Slot], tuple[float, str] | None]


def diagnose(
    graph: FloatGraph, plan: Plan, recipe: Recipe, statistics: Statistics, thresholds: Mapping[str, Threshold],
) -> list[Finding]:
    """Findings about thresholds: unsteady, clipping, few codes, outlier channels, one-sided; and about searches."""
    slots = [_slot(graph, plan, name, t, statistics) for name, t in thresholds.items() if "all-zero" not in t.tags]
    findings = [f for make in CHECKS if (f := make(slots)) is not None]
    if recipe.search and statistics.samples < FEW_FOR_SEARCH:
        findings.append(Finding(
            "PTQ526",
            f"{recipe.search} search on {statistics.samples} samples: below {FEW_FOR_SEARCH} near ties are decided by "
            "the noise of the samples",
            (), "use more samples, or name the method"))
    return findings


def _slot(graph: FloatGraph, plan: Plan, name: str, threshold: Threshold, statistics: Statistics) -> _Slot:
    seen = [statistics.seen[t] for t in plan.sources[name]]
    halves = merged(s.even for s in seen), merged(s.odd for s in seen)
    nodes = tuple(str(p.name) for t in plan.sources[name] if (p := graph.producer(t)) is not None)
    largest = [statistics.channels[t] for t in plan.sources[name] if t in statistics.channels]
    channels = largest[0].max(axis=0) if len(largest) == 1 else None
    return _Slot(name, nodes, threshold, plan.tensors[name].stored.qmax, halves, channels)


def _finding(
    code: str, slots: list[_Slot], check: Check, words: str, hint: str, severity: str = "warning"
) -> Finding | None:
    """One finding of a kind for all tensors that have it; `words` holds {count} and {named}."""
    found = [(slot, result) for slot in slots if (result := check(slot)) is not None]
    if not found:
        return None
    found.sort(key=lambda item: -item[1][0])
    named = ", ".join(slot.name + (f" ({text})" if text else "") for slot, (_, text) in found[:NAMED])
    named += f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
    nodes = tuple(dict.fromkeys(n for slot, _ in found for n in slot.nodes))
    tensors = "1 tensor" if len(found) == 1 else f"{len(found)} tensors"
    return Finding(code, words.format(count=tensors, named=named), nodes, hint, severity)


def _unsteady(slot: _Slot) -> tuple[float, str] | None:
    even, odd = slot.halves
    if not (even.seen and odd.seen):
        return None
    share = 1.0 if even.histogram is None else 0.9999
    a, b = percentile(even, share), percentile(odd, share)
    spread = abs(a - b) / max(a, b) if max(a, b) > 0 else 0.0
    return (spread, f"{a:.4g} and {b:.4g}") if spread > UNSTEADY else None


def _clipped(slot: _Slot) -> tuple[float, str] | None:
    share = slot.threshold.clipped
    return (share, f"{share:.1%}") if share > MUCH_CLIPPED else None


def _few_codes(slot: _Slot) -> tuple[float, str] | None:
    whole = slot.whole
    if whole.histogram is None:
        return None
    low, high = slot.threshold.bounds or (-slot.threshold.value, slot.threshold.value)
    step = (high - low) / (2 * slot.codes + 1)
    used = percentile(whole, 0.999) / step
    return (FEW_CODES / max(used, 1e-9), f"{used:.1f} codes") if used < FEW_CODES else None


def _outlier_channel(slot: _Slot) -> tuple[float, str] | None:
    if slot.channels is None or slot.channels.size < 4:
        return None
    middle = float(np.median(slot.channels.astype(np.float64)))
    worst = int(np.argmax(slot.channels))
    ratio = float(slot.channels[worst]) / middle if middle > 0 else 0.0
    return (ratio, f"channel {worst} reaches {ratio:.0f} times as far as the middle one") if ratio > OUTLIER else None


def _one_sided(slot: _Slot) -> tuple[float, str] | None:
    whole = slot.whole
    one_sided = slot.threshold.bounds is None and (whole.low >= 0.0 or whole.high <= 0.0)
    return (1.0, "") if one_sided else None


def _unsteady_finding(slots: list[_Slot]) -> Finding | None:
    return _finding(
        "PTQ521", slots, _unsteady,
        "{count} reach differently far in the two halves of the samples: {named}",
        "use more and more varied samples; a method that ignores outliers (max_percentile, mse, kl) is steadier")


def _clipped_finding(slots: list[_Slot]) -> Finding | None:
    return _finding(
        "PTQ522", slots, _clipped, "more than a percent of the values lie outside of the range of {count}: {named}",
        "a larger max_percentile, or mse, cuts less")


def _few_codes_finding(slots: list[_Slot]) -> Finding | None:
    return _finding(
        "PTQ523", slots, _few_codes,
        f"all but a thousandth of the values of {{count}} lie within {FEW_CODES} codes of zero: {{named}}",
        "int16 for the readers, or a method that cuts the few large values (max_percentile, kl)")


def _outlier_finding(slots: list[_Slot]) -> Finding | None:
    return _finding(
        "PTQ524", slots, _outlier_channel, "one channel takes the codes from the others in {count}: {named}",
        "int16 for the readers of the tensor")


def _one_sided_finding(slots: list[_Slot]) -> Finding | None:
    return _finding(
        "PTQ525", slots, _one_sided,
        "{count} never change sign, so a symmetric threshold leaves half of their codes unused: {named}",
        "where accuracy is too low, asymmetric: true is the first thing to try", "note")


CHECKS = (_unsteady_finding, _clipped_finding, _few_codes_finding, _outlier_finding, _one_sided_finding)
