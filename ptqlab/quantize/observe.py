"""Statistics of activations, taken while samples stream by; memory does not grow with their number."""
from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from ptqlab.quantize.histogram import CHUNK, Histogram


def extent(values: np.ndarray) -> tuple[float, float]:
    """(smallest, largest) of an array that is not empty; NaN where one is. In parts that stay in the cache between both
    questions."""
    flat = values.reshape(-1)
    if flat.size <= CHUNK:
        return float(flat.min()), float(flat.max())
    ends = [(c.min(), c.max()) for c in (flat[i : i + CHUNK] for i in range(0, flat.size, CHUNK))]
    lows, highs = np.array(ends).T
    return float(lows.min()), float(highs.max())


@dataclass
class Observer:
    """Smallest and largest finite value of one tensor over all samples, how many values were not finite, and the
    histogram where one is asked for."""

    low: float = float("inf")
    high: float = float("-inf")
    not_finite: int = 0
    count: int = 0
    histogram: Histogram | None = None

    def add(self, values: np.ndarray) -> None:
        self.count += values.size
        if not values.size:
            return
        low, high = extent(values)
        if not (np.isfinite(low) and np.isfinite(high)):
            finite = values[np.isfinite(values)]
            self.not_finite += values.size - finite.size
            if not finite.size:
                return
            values, low, high = finite, float(finite.min()), float(finite.max())
        self.low, self.high = min(self.low, low), max(self.high, high)
        if self.histogram is not None:
            self.histogram.add(values, low, high)

    @property
    def seen(self) -> bool:
        """Whether at least one finite value was seen."""
        return self.low <= self.high

    @property
    def largest(self) -> float:
        """max |x|, 0.0 when nothing was seen."""
        return max(abs(self.low), abs(self.high)) if self.seen else 0.0

    def merge(self, other: Observer) -> None:
        """Take in what another observer saw of the same tensor; exact, in any order."""
        self.low, self.high = min(self.low, other.low), max(self.high, other.high)
        self.not_finite += other.not_finite
        self.count += other.count
        if self.histogram is not None and other.histogram is not None:
            self.histogram.merge(other.histogram)


@dataclass
class Seen:
    """What was seen of one tensor, in two halves: samples of even and of odd number.

    How far the halves differ tells how steady a threshold is.
    """

    even: Observer = field(default_factory=Observer)
    odd: Observer = field(default_factory=Observer)

    @classmethod
    def with_bins(cls, bins: int) -> Seen:
        """`bins` bins in each half's histogram; 0 for none."""
        return cls(*(Observer(histogram=Histogram(bins) if bins else None) for _ in range(2)))

    def add(self, index: int, values: np.ndarray) -> None:
        (self.odd if index % 2 else self.even).add(values)

    def merge(self, other: Seen) -> None:
        self.even.merge(other.even)
        self.odd.merge(other.odd)

    @property
    def whole(self) -> Observer:
        return merged([self.even, self.odd])


def merged(observers: Iterable[Observer]) -> Observer:
    """One observer of all that these have seen."""
    total = Observer()
    for observer in observers:
        if observer.histogram is not None and total.histogram is None:
            total.histogram = Histogram(observer.histogram.bins)
        total.merge(observer)
    return total
