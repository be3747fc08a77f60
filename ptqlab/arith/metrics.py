"""How near two tensors are, summed up over samples without keeping them.

cosine(a, b): both all zero -> 1.0, exactly one all zero -> 0.0 (our definition). Elements whose reference is
not finite (the -Inf of a mask) are left out and counted; a result that is NaN or Inf where the reference is
finite makes every figure NaN: a broken tensor never looks like a good one.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

CHUNK = 1 << 14
# sums of squares below this have lost bits, or everything, in float32
UNDERFLOW = 1e-30


@dataclass
class Agreement:
    """Running comparison of a reference tensor `a` with `b`, sample after sample.

    Sums are float64; dot products are made in float32 over chunks of 16 K elements (error about 1e-7
    relative) and added up in float64.

    not_finite  elements left out because the reference is NaN or Inf there
    """

    aa: float = 0.0
    bb: float = 0.0
    ab: float = 0.0
    dd: float = 0.0
    abs_diff: float = 0.0
    max_diff: float = 0.0
    count: int = 0
    samples: int = 0
    not_finite: int = 0
    _exact: bool = False

    def add(self, a: np.ndarray, b: np.ndarray, distances: bool = False) -> None:
        """Take one more sample into account; `distances` also sums L1 and the largest difference."""
        x = np.ascontiguousarray(a, dtype=np.float32).ravel()
        y = np.ascontiguousarray(b, dtype=np.float32).ravel()
        with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is seen in the sums
            for start in range(0, x.size, CHUNK):
                p, q = x[start : start + CHUNK], y[start : start + CHUNK]
                sums = float(np.dot(p, p)), float(np.dot(q, q)), float(np.dot(p, q))
                if not math.isfinite(sum(sums)) or _underflowed(p, sums[0]) or _underflowed(q, sums[1]):
                    sums = self._careful(p, q)
                self.aa += sums[0]
                self.bb += sums[1]
                self.ab += sums[2]
        if distances:
            with np.errstate(invalid="ignore"):
                diff = x.astype(np.float64) - y.astype(np.float64)
            diff = np.abs(np.where(np.isfinite(x), diff, 0.0))
            self.dd += float(np.dot(diff, diff))
            self.abs_diff += float(diff.sum())
            self._exact = True
            self.max_diff = float(np.maximum(self.max_diff, diff.max(initial=0.0)))
        self.count += x.size
        self.samples += 1

    def _careful(self, p: np.ndarray, q: np.ndarray) -> tuple[float, float, float]:
        """The sums of a chunk that float32 cannot hold (overflow, underflow, not finite), without what is left out."""
        kept = np.isfinite(p)
        self.not_finite += p.size - int(kept.sum())
        a, b = p[kept].astype(np.float64), q[kept].astype(np.float64)
        if not np.isfinite(b).all():
            return float(np.dot(a, a)), float("nan"), float("nan")
        return float(np.dot(a, a)), float(np.dot(b, b)), float(np.dot(a, b))

    def merge(self, other: Agreement) -> None:
        """Take in what another comparison of the same two tensors has summed up, over other samples."""
        for name in ("aa", "bb", "ab", "dd", "abs_diff", "count", "samples", "not_finite"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.max_diff = float(np.maximum(self.max_diff, other.max_diff))
        self._exact = self._exact or other._exact

    @property
    def all_zero(self) -> bool:
        return self.aa == 0.0 and self.bb == 0.0

    @property
    def cosine(self) -> float:
        if self.all_zero:
            return 1.0
        if np.isnan(self.ab):
            return float("nan")
        if self.aa == 0.0 or self.bb == 0.0:
            return 0.0
        # sqrt of each factor, not of the product: the product overflows for large activations
        return max(-1.0, min(1.0, self.ab / np.sqrt(self.aa) / np.sqrt(self.bb)))

    @property
    def squared_error(self) -> float:
        """Sum of (a-b)^2; without `distances` from the dot products, good to about 60 dB of SQNR."""
        if self._exact:
            return self.dd
        return float(np.maximum(0.0, self.aa - 2.0 * self.ab + self.bb))

    @property
    def mse(self) -> float:
        return self.squared_error / max(self.count, 1)

    @property
    def sqnr(self) -> float:
        """Signal to quantization noise, 10 log10(sum a^2 / sum (a-b)^2) in dB; inf when equal."""
        if self.squared_error == 0.0 or np.isnan(self.squared_error):
            return float("nan") if np.isnan(self.squared_error) else float("inf")
        return float(10.0 * (np.log10(self.aa) - np.log10(self.squared_error))) if self.aa else float("-inf")

    @property
    def l1(self) -> float:
        """Mean of |a - b| (the vendor's L1 distance, inferred from published logs)."""
        return self.abs_diff / max(self.count, 1)

    @property
    def l2(self) -> float:
        """sqrt(sum (a-b)^2) / N (the vendor's L2 distance, inferred from published logs)."""
        return float(np.sqrt(self.squared_error)) / max(self.count, 1)

    @property
    def chebyshev(self) -> float:
        """Largest |a - b|."""
        return self.max_diff

    @property
    def mre(self) -> float:
        """Mean of |a - b| divided by the root mean square of `a` [our definition of "mean relative error"].

        A mean of |a - b| / |a| over the elements would be ruled by the values next to zero.
        """
        size = float(np.sqrt(self.aa / self.count)) if self.count else 0.0
        return self.l1 / size if size else (0.0 if self.l1 == 0.0 else float("inf"))


def _underflowed(values: np.ndarray, squares: float) -> bool:
    """Whether a sum of squares this small has lost something: nothing where all values are zero, as many chunks are."""
    return squares < UNDERFLOW and bool(values.any())


@dataclass(frozen=True)
class Metric:
    """One way to turn a comparison into a number; `higher` tells which end is the good one."""

    name: str
    of: Callable[[Agreement], float]
    higher: bool

    def score(self, agreements: Sequence[Agreement]) -> float:
        """Mean over the outputs of a model."""
        return float(np.mean([self.of(a) for a in agreements]))

    def better(self, a: float, b: float) -> bool:
        """Whether score `a` beats score `b`; NaN loses against everything."""
        if np.isnan(a) or np.isnan(b):
            return bool(np.isnan(b) and not np.isnan(a))
        return a > b if self.higher else a < b


METRICS = {
    m.name: m
    for m in (
        Metric("cosine-similarity", lambda a: a.cosine, True),
        Metric("mse", lambda a: a.mse, False),
        Metric("mae", lambda a: a.l1, False),
        Metric("mre", lambda a: a.mre, False),
        Metric("sqnr", lambda a: a.sqnr, True),
        Metric("chebyshev", lambda a: a.chebyshev, False),
    )
}
