"""From a histogram to a range: the methods of activation calibration.

    max         T = max |x|                                                              (documented)
    percentile  T = the smallest value that a share p of all |x| does not exceed          (documented; the place inside
                a bin is interpolated: our definition, the vendor's is not published)
    kl          T with the smallest Kullback-Leibler divergence, see `quantize.kl`        (documented in part)
    mse         T (or the two ends of the range) with the smallest sum of (x - x')^2      (ours)

kl is guarded: the first bin is left out (the zeros of ReLU would drown everything else) and T never falls below
percentile 0.999; without these two it ruins real networks (measured: cosine 0.50 instead of 0.98 on MobileNetV2).
"""
from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ptqlab.arith.formats import QType
from ptqlab.ops.spec import Encoding
from ptqlab.quantize.histogram import Histogram
from ptqlab.quantize.kl import best_bin
from ptqlab.quantize.observe import Observer

KL_FLOOR = 0.999
SMALLEST_KL_COUNT = 100_000
# thresholds tried by mse: coarse, then finer around the best one; down to largest / 2^COARSE_OCTAVES
COARSE_OCTAVES, COARSE_PER_OCTAVE = 5, 8
REFINEMENTS = 2
# The best int8 threshold of an exponential tail is 9.7 times its scale; the largest of so many values is as large.
FEW = 1 << 14
# how far the next value may lie beyond the largest one is told by this many of the largest, where there are ten times
# as many; beyond eight times their mean excess nothing is expected, nor beyond twice the range
TAIL, TAIL_SHARE, TAIL_REACH = 64, 10, 8.0
# with steps narrower than two bins the histogram cannot tell where inside a step a value lies
UNIFORM_BELOW = 2.0


@dataclass(frozen=True)
class Table:
    """A histogram ready for questions: centres of its bins in ascending order and prefix sums of x^0, x^1, x^2.

    Counts are those of the values seen and, on a side where these are few, of one more that was not (`_with_unseen`);
    `beyond` tells how far below the smallest and above the largest value that reaches.
    """

    width: float
    centres: np.ndarray
    counts: np.ndarray
    beyond: tuple[float, float] = (0.0, 0.0)

    @classmethod
    def of(cls, histogram: Histogram) -> Table:
        positive, negative = histogram.positive, histogram.negative
        counts, above = _with_unseen(positive)
        under, beneath = _with_unseen(negative) if negative is not None else (counts[:1], 0)
        used, below = counts.size, under.size
        counts = np.concatenate([under[:0:-1], counts])
        half = np.sign(np.arange(1 - below, used)) * 0.5
        centres = (np.arange(1 - below, used) + half) * histogram.width
        return cls(histogram.width, centres, counts, (beneath * histogram.width, above * histogram.width))

    @cached_property
    def sums(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        powers = (self.counts, self.counts * self.centres, self.counts * self.centres**2)
        a, b, c = (np.concatenate([[0.0], np.cumsum(p)]) for p in powers)
        return a, b, c

    def errors(self, steps: np.ndarray, lowest: np.ndarray, highest: np.ndarray) -> np.ndarray:
        """Sum of (x - x')^2 for each candidate: codes k = lowest .. highest stand for the values k * step.

        steps float64 [C]; lowest and highest int64 [C] with lowest <= 0 <= highest and one difference for all.
        Steps of two bins and more: every bin counts as its centre, exact over prefix sums. Narrower steps: values
        inside of the range spread evenly over a step (step^2 / 12 each), zeros excepted.
        """
        s0, s1, s2 = self.sums
        fine = steps < UNIFORM_BELOW * self.width
        errors = np.empty(steps.size)
        if fine.any():
            errors[fine] = self._uniform(steps[fine], lowest[fine], highest[fine])
        if not fine.all():
            steps, lowest, highest = steps[~fine], lowest[~fine], highest[~fine]
            levels = lowest[:, None] + np.arange(int(highest[0] - lowest[0]) + 1)
            edges = np.searchsorted(self.centres, (levels[:, 1:] - 0.5) * steps[:, None])
            zero, one = (np.diff(s[edges], axis=1, prepend=0.0, append=s[-1]) for s in (s0, s1))
            errors[~fine] = s2[-1] - 2 * steps * (levels * one).sum(1) + steps**2 * (levels**2 * zero).sum(1)
        return errors

    def _uniform(self, steps: np.ndarray, lowest: np.ndarray, highest: np.ndarray) -> np.ndarray:
        s0, s1, s2 = self.sums
        low, high = lowest * steps, highest * steps
        first, last = np.searchsorted(self.centres, low), np.searchsorted(self.centres, high, side="right")
        under = s2[first] - 2 * low * s1[first] + low**2 * s0[first]
        over = (s2[-1] - s2[last]) - 2 * high * (s1[-1] - s1[last]) + high**2 * (s0[-1] - s0[last])
        zeros = self.counts[np.searchsorted(self.centres, 0.0)]
        return under + over + np.maximum(s0[last] - s0[first] - zeros, 0.0) * steps**2 / 12


def _with_unseen(counts: np.ndarray) -> tuple[np.ndarray, int]:
    """Counts of one sign up to the last used bin and, in some bins beyond it, one value that the samples did not hold;
    also the number of these bins.

    Of as many values again about one lies beyond the largest. Few values (behind a pooling, in a small network)
    therefore tell too small a range: what is cut off of the next sample weighs more than a step that is a little wider.
    From FEW values on the best threshold lies inside of what was seen, and nothing is added. The tail beyond is taken
    as exponential, of the mean excess of the largest values. Such a tail hardly ever puts two values into its last bin;
    where there are two or more, they are held there (by a Clip, a Sigmoid, grey levels), and nothing lies beyond.
    """
    used = _used(counts)
    seen = counts[:used].astype(np.float64)
    above = np.cumsum(seen[::-1])[::-1]
    if seen[-1] != 1 or above[0] >= FEW:
        return seen, 0
    wanted = min(TAIL, above[0] / TAIL_SHARE)
    first = int(np.searchsorted(-above, -wanted, side="right")) - 1  # the last bin with that many from it on
    excess = float((seen[first:] * np.arange(used - first)).sum() / max(above[first], 1.0))
    more = min(int(np.ceil(TAIL_REACH * excess)), used)
    if not more:
        return seen, 0
    beyond = np.exp(-np.arange(more + 1) / excess)
    beyond[-1] = 0.0
    return np.concatenate([seen, -np.diff(beyond)]), more


def _used(counts: np.ndarray) -> int:
    """Number of bins up to the last one that is not empty; at least 1."""
    filled = np.nonzero(counts)[0]
    return int(filled[-1]) + 1 if filled.size else 1


def percentile(seen: Observer, share: float) -> float:
    """T that a `share` of all finite |x| does not exceed; max |x| for share 1.0. Needs a histogram below 1.0."""
    if share >= 1.0 or seen.largest == 0.0:
        return seen.largest
    histogram = _histogram(seen)
    counts = histogram.magnitudes()
    below = np.cumsum(counts)
    wanted = share * float(below[-1])
    index = int(np.searchsorted(below, wanted))
    inside = (wanted - float(below[index] - counts[index])) / max(float(counts[index]), 1.0)
    # a tensor of many zeros can have its percentile in the first bin: that is no range to work with
    return min(seen.largest, max((index + inside) * histogram.width, histogram.width))


def kl(seen: Observer, qtype: QType, bins: int, most: int) -> tuple[float, str]:
    """(T, what held it back or "") from a histogram of `bins` to 2 * `bins` bins over [0, max |x|], at most `most`.

    Types with more codes than the histogram has bins are never clipped: T = max |x|.
    """
    histogram, levels = _histogram(seen), qtype.qmax + 1
    counts = histogram.magnitudes()
    used = _used(counts)
    fold = max(1, used // bins, -(-used // most))
    counts = np.add.reduceat(counts[:used], np.arange(0, used, fold))
    if counts.size <= levels:
        return seen.largest, f"{qtype.value} has more codes than the histogram has bins: nothing is cut off"
    counts[0] = 0
    width = fold * histogram.width
    floor = max(levels, int(np.ceil(percentile(seen, KL_FLOOR) / width)))
    best = best_bin(counts, levels, floor)
    note = f"held at percentile {KL_FLOOR}" if best == floor > levels else ""
    return min(seen.largest, best * width), note


def mse_threshold(seen: Observer, qtype: QType) -> float:
    """Symmetric T of the smallest squared error; of equal ones the largest. Where few values were seen it may lie
    beyond them."""
    table = Table.of(_histogram(seen))
    limit = max(table.beyond[0] - min(seen.low, 0.0), table.beyond[1] + seen.high)

    def errors(thresholds: np.ndarray) -> np.ndarray:
        ones = np.ones(thresholds.size, np.int64)
        return table.errors(thresholds / qtype.qmax, qtype.qmin * ones, qtype.qmax * ones)

    best, tried = limit, _octaves(COARSE_OCTAVES, COARSE_PER_OCTAVE)
    for _ in range(1 + REFINEMENTS):
        best = _least(errors, np.minimum(best * tried, limit))
        tried = _around(tried)
    return best


def mse_range(seen: Observer, qtype: QType) -> tuple[float, float]:
    """(low, high) of the smallest squared error with a zero point; the range holds 0.

    First both ends shrink together, then each by itself in turn, always with the zero point rounded as it will be.
    """
    table = Table.of(_histogram(seen))
    span = qtype.qmax - qtype.qmin
    full = (min(seen.low, 0.0) - table.beyond[0], max(seen.high, 0.0) + table.beyond[1])

    def errors(lows: np.ndarray, highs: np.ndarray) -> np.ndarray:
        steps = (highs - lows) / span
        lowest = np.clip(-np.floor(-lows / steps + 0.5).astype(np.int64), -span, 0)
        return table.errors(steps, lowest, lowest + span)

    tried = _octaves(COARSE_OCTAVES, COARSE_PER_OCTAVE)
    share = _least(lambda t: errors(t * full[0], t * full[1]), tried)
    low, high = share * full[0], share * full[1]
    for _ in range(1 + REFINEMENTS):
        if full[1] > 0:
            high = _least(lambda t: errors(np.full(t.size, low), t), np.minimum(high * tried, full[1]))  # noqa: B023
        if full[0] < 0:
            low = -_least(lambda t: errors(-t, np.full(t.size, high)), np.minimum(-low * tried, -full[0]))  # noqa: B023
        tried = _around(tried)
    return low, high


def squared_error(seen: Observer, e: Encoding) -> float:
    """Sum of (x - x')^2 over what was seen, by its histogram; 0.0 without one."""
    if seen.histogram is None or seen.largest == 0.0:
        return 0.0
    low, high = (np.array([int(code) - int(e.zero_point)], np.int64) for code in (e.low, e.high))
    return float(Table.of(seen.histogram).errors(np.array([float(e.scale)]), low, high)[0])


def _octaves(octaves: int, steps: int) -> np.ndarray:
    """Factors from 2^octaves down to 2^-octaves, `steps` per octave (those above the largest value are cut there)."""
    return 2.0 ** (np.arange(octaves * steps, -octaves * steps - 1, -1) / steps)


def _around(factors: np.ndarray) -> np.ndarray:
    """Finer factors from one step above to one step below 1."""
    step = float(np.log2(factors[0] / factors[1]))
    return 2.0 ** (np.linspace(step, -step, 9))


def _least(errors, values: np.ndarray) -> float:  # type: ignore[no-untyped-def]
    values = np.unique(values)[::-1]
    return float(values[int(np.argmin(errors(values)))])


def _histogram(seen: Observer) -> Histogram:
    assert seen.histogram is not None, "this method needs a histogram of the tensor"
    return seen.histogram
