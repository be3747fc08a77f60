"""Scaling of integers by a real ratio with integer arithmetic: the one primitive behind every BPU operator.

    rescale(v, m, s)  =  (v * m + 2^(s-1)) >> s          "round half up" on an arithmetic shift [our definition]
    requantize        =  clamp(zero_point + rescale(v, m, s))

`m` is a signed integer with |m| in [2^14, 2^15) and m * 2^-s is the ratio nearest to the real one; its
relative error is at most 2^-15. For s <= 0 the value is shifted left by -s and nothing is rounded.

Operators that add two scaled operands bring each to the output scale with GUARD_BITS extra fractional bits,
add, and round once:  clamp(zp + ((rescale(a, ma, sa - G) + rescale(b, mb, sb - G) + 2^(G-1)) >> G)).
Rounding every operand to whole output steps first would cost up to one more step per operand.

Where a chip does otherwise, this is the place: ROUND is what is added before the floor, in units of the last place
(above 0, 1/2 rounds half up), MULTIPLIER_BITS is the width of m (up to 15: with it the float64 forms are exact for
accumulators of 38 bits). Reference kernels, fast path and the functions in a `.bc` follow both.
"""
from __future__ import annotations

import numpy as np

MULTIPLIER_BITS = 15
ROUND = 0.5
GUARD_BITS = 8
# Below 2^-39 no accumulator of 38 bits reaches half an output step: the ratio is zero for every value it can meet.
SMALLEST_RATIO = 2.0**-39
LARGEST_RATIO = 2.0**20


def fixed_point(ratio: np.ndarray | float) -> tuple[np.ndarray, np.ndarray]:
    """Multiplier (int32) and shift (int32) of each real ratio (float64, any sign).

    Raises ValueError for a ratio that is not finite or is 2^20 or more in magnitude.
    """
    ratios = np.asarray(ratio, dtype=np.float64)
    if not np.all(np.isfinite(ratios)) or np.any(np.abs(ratios) >= LARGEST_RATIO):
        raise ValueError(f"ratio outside of (-2^20, 2^20): {ratios.min()} .. {ratios.max()}")
    fraction, exponent = np.frexp(ratios)
    scaled = fraction * (1 << MULTIPLIER_BITS)
    multiplier = (np.sign(scaled) * np.floor(np.abs(scaled) + 0.5)).astype(np.int64)
    carry = np.abs(multiplier) == 1 << MULTIPLIER_BITS
    multiplier = np.where(carry, multiplier >> 1, multiplier)
    shift = MULTIPLIER_BITS - exponent.astype(np.int64) - carry
    vanishing = np.abs(ratios) < SMALLEST_RATIO
    return (
        np.where(vanishing, 0, multiplier).astype(np.int32),
        np.where(vanishing, 1, shift).astype(np.int32),
    )


def half(bits: int) -> int:
    """What is added before a shift to the right by `bits` >= 0."""
    return int(ROUND * (1 << bits))


def rescale(values: np.ndarray, multiplier: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """(v * m + 2^(s-1)) >> s for s >= 1, (v * m) << -s otherwise; int64 in and out.

    The caller bounds |v| < 2^38 - that holds for every accumulator a network can make - so nothing overflows.
    """
    product = values.astype(np.int64) * multiplier.astype(np.int64)
    s = shift.astype(np.int64)
    right = np.maximum(s, 0)
    rounding = np.ldexp(np.float64(ROUND), right).astype(np.int64)  # right = 0: cut off to 0
    return ((product + rounding) >> right) << np.maximum(-s, 0)


def clamp(values: np.ndarray, low: int, high: int, dtype: np.dtype) -> np.ndarray:
    """Saturate to [low, high] and convert."""
    return np.clip(values, low, high).astype(dtype)
