"""Statistics of activations, taken while samples stream by; memory does not grow with their number."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass
class Observer:
    """Smallest and largest finite value of one tensor over all samples, and how many values were not finite."""

    low: float = float("inf")
    high: float = float("-inf")
    not_finite: int = 0
    count: int = 0

    def add(self, values: np.ndarray) -> None:
        self.count += values.size
        if not values.size:
            return
        low, high = float(values.min()), float(values.max())
        if not (np.isfinite(low) and np.isfinite(high)):
            finite = values[np.isfinite(values)]
            self.not_finite += values.size - finite.size
            if not finite.size:
                return
            low, high = float(finite.min()), float(finite.max())
        self.low, self.high = min(self.low, low), max(self.high, high)

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
