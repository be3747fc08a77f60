"""Histograms that grow by powers of two: one pass over the samples serves every calibration method.

The bins cover |x| in [0, 2^exponent), each sign by itself. When a value exceeds the range, neighbouring bins are
added up in pairs and the range doubles. Scaling by a power of two and truncation are exact, so that the counts do
not depend on the order of the samples, on the chunks they came in, or on the process that counted them.
"""
from __future__ import annotations

import math

import numpy as np

BINS = 4096
# np.bincount makes an array of all bins for each chunk; 64 K values per chunk keep everything in the cache
CHUNK = 1 << 16
# below 2^-110 the factor bins / 2^exponent would leave float32
LOWEST_EXPONENT = -100


class Histogram:
    """Counts of finite float32 values.

    exponent  the bins cover |x| < 2^exponent; None before the first value
    positive  int64 [bins]; positive[0] counts |x| < width whatever the sign, zeros included
    negative  int64 [bins]; negative[i] counts -(i+1) * width < x <= -i * width for i >= 1; None while nothing was < 0
    """

    def __init__(self, bins: int = BINS) -> None:
        assert bins >= 2 and bins & (bins - 1) == 0, "the number of bins is a power of two"
        self.bins = bins
        self.exponent: int | None = None
        self.positive = np.zeros(bins, np.int64)
        self.negative: np.ndarray | None = None

    @property
    def width(self) -> float:
        """Width of a bin; 0.0 before the first value."""
        return 0.0 if self.exponent is None else math.ldexp(1.0, self.exponent) / self.bins

    @property
    def count(self) -> int:
        return int(self.positive.sum()) + (0 if self.negative is None else int(self.negative.sum()))

    def add(self, values: np.ndarray, low: float, high: float) -> None:
        """Count finite values, of which `low` is the smallest and `high` the largest."""
        flat = np.ascontiguousarray(values, np.float32).reshape(-1)
        if not flat.size:
            return
        self._cover(max(abs(low), abs(high)))
        scale = np.float32(1.0 / self.width)
        scaled, codes = np.empty(min(CHUNK, flat.size), np.float32), np.empty(min(CHUNK, flat.size), np.int32)
        offset = self.bins - 1 if low < 0 else 0
        for start in range(0, flat.size, CHUNK):
            chunk = flat[start : start + CHUNK]
            s, c = scaled[: chunk.size], codes[: chunk.size]
            np.multiply(chunk, scale, out=s)
            np.copyto(c, s, casting="unsafe")  # towards zero: folding bins then equals counting at the wider range
            if offset:
                c += offset
            self._count(np.bincount(c, minlength=self.bins + offset), offset)

    def _count(self, counts: np.ndarray, offset: int) -> None:
        self.positive += counts[offset:]
        if offset:
            if self.negative is None:
                self.negative = np.zeros(self.bins, np.int64)
            self.negative[1:] += counts[offset - 1 :: -1]

    def _cover(self, largest: float) -> None:
        """Make the range hold `largest`: fold the bins in pairs as often as needed."""
        needed = max(LOWEST_EXPONENT, math.frexp(largest)[1]) if largest else LOWEST_EXPONENT
        if self.exponent is None:
            self.exponent = needed
        while self.exponent < needed:
            self.positive = _folded(self.positive)
            self.negative = None if self.negative is None else _folded(self.negative)
            self.exponent += 1
            if not self.positive[1:].any() and self.negative is None:
                self.exponent = needed  # everything is in bin 0 and stays there
        if self.negative is not None and self.negative[0]:
            # what was folded down to |x| < width has no sign any more
            self.positive[0] += self.negative[0]
            self.negative[0] = 0

    def merge(self, other: Histogram) -> None:
        """Take in the counts of another histogram of as many bins; exact, in any order."""
        assert self.bins == other.bins, f"histograms of {self.bins} and {other.bins} bins"
        if other.exponent is None:
            return
        mine = other.copy()
        if self.exponent is not None:
            reach = max(self.exponent, other.exponent)
            self._cover(math.ldexp(0.5, reach))
            mine._cover(math.ldexp(0.5, reach))
        self.exponent = mine.exponent
        self.positive = self.positive + mine.positive
        if mine.negative is not None:
            self.negative = mine.negative if self.negative is None else self.negative + mine.negative

    def copy(self) -> Histogram:
        made = Histogram(self.bins)
        made.exponent, made.positive = self.exponent, self.positive.copy()
        made.negative = None if self.negative is None else self.negative.copy()
        return made

    def magnitudes(self) -> np.ndarray:
        """Counts of |x| by bin, int64 [bins]."""
        return self.positive if self.negative is None else self.positive + self.negative


def _folded(counts: np.ndarray) -> np.ndarray:
    folded = np.zeros_like(counts)
    folded[: counts.size // 2] = counts.reshape(-1, 2).sum(axis=1)
    return folded
