"""Look-up tables of the vector unit: exact for 8-bit inputs, piecewise linear for 16-bit inputs.

    8 bits    y = table[x + 128]                                    256 entries, exact
    16 bits   N <= 64 segments, each 64 entries that lie 2^k codes apart (k is the segment's own):
              j = (x - first) >> k,  f = (x - first) - (j << k)
              y = ((t[j] << k) + (t[j+1] - t[j]) * f + 2^(k+g-1)) >> (k + g)

Documented are the shapes: 256 entries; N + 2 range rows of four int16 beside N rows of 64 int16. What the four
columns mean and that entries lie a power of two apart is our definition. The 65th entry of a segment is the first
of the next one; entries carry g fractional bits, 8 where the output is int8, 0 where it is int16.
"""
from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ptqlab.arith.rounding import round_half_away

SEGMENTS, ENTRIES = 64, 64
HALF = 1 << 15
WIDEST = 10  # one segment of 64 entries that lie 2^10 apart covers all 2^16 codes
EVEN = 4  # 64 segments whose entries lie 2^4 apart do, too
GUARD_INT8 = 8

# Input codes (float64) to the wished-for output codes: real numbers, zero point included, may be infinite.
Target = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class CurveTable:
    """A piecewise linear table.

    ranges   int16 [N+2, 4]: first code, last code, k, value. Row 0 stands before the segments, rows 1..N are the
             segments, row N+1 stands behind them: its value is the entry that closes the last segment
    entries  int16 [N, 64]
    guard    fractional bits of the entries
    error    largest distance to the wished-for code over all 65536 inputs, in output steps (0.5 is mere rounding)
    """

    ranges: np.ndarray
    entries: np.ndarray
    guard: int
    error: float


def exact_table(target: Target, low: int, high: int) -> np.ndarray:
    """Output code of each of the 256 codes -128..127, rounded half away from zero and clamped; int64."""
    wished = np.clip(target(np.arange(-128.0, 128.0)), low, high)
    return np.clip(round_half_away(wished), low, high).astype(np.int64)


def interpolate(x: np.ndarray, ranges: np.ndarray, entries: np.ndarray, guard: int) -> np.ndarray:
    """The definition of the 16-bit look-up, int64. x holds codes -32768..32767."""
    codes = x.astype(np.int64)
    first, spacing = ranges[1:-1, 0].astype(np.int64), ranges[1:-1, 2].astype(np.int64)
    flat = np.append(entries.reshape(-1), ranges[-1, 3]).astype(np.int64)
    segment = np.searchsorted(first, codes, side="right") - 1
    k, offset = spacing[segment], codes - first[segment]
    j = offset >> k
    left, right = flat[segment * ENTRIES + j], flat[segment * ENTRIES + j + 1]
    shift = k + guard
    return ((left << k) + (right - left) * (offset - (j << k)) + ((1 << shift) >> 1)) >> shift


def curve_table(target: Target, low: int, high: int, guard: int) -> CurveTable:
    """The table with the smaller largest error of two: even segments, and segments that are halved where it is worst.

    Even means 64 segments of 1024 codes. The other one starts with a single segment and halves the segment of the
    largest error until there are 64 or that segment is exact; so curves get many entries and straight parts few.
    """
    wished = np.clip(target(np.arange(-HALF, HALF + 1, dtype=np.float64)), low, high)
    entries = round_half_away(wished * (1 << guard)).astype(np.int64)
    errors = [_segment_errors(wished, entries, k, guard) for k in range(WIDEST + 1)]
    layout = [(start, EVEN) for start in range(0, 2 * HALF, ENTRIES << EVEN)]
    error = float(errors[EVEN].max())
    led, led_error = _curvature_led(errors)
    if led_error < error:
        layout, error = led, led_error
    return _assemble(layout, entries, guard, error)


def _segment_errors(wished: np.ndarray, entries: np.ndarray, k: int, guard: int) -> np.ndarray:
    """Largest error of each segment of the grid of spacing 2^k."""
    knots = entries[:: 1 << k]
    left, right = knots[:-1, None], knots[1:, None]
    inside = np.arange(1 << k)
    shift = k + guard
    got = ((left << k) + (right - left) * inside + ((1 << shift) >> 1)) >> shift
    return np.abs(got.reshape(-1) - wished[:-1]).reshape(-1, ENTRIES << k).max(axis=1)


def _curvature_led(errors: list[np.ndarray]) -> tuple[list[tuple[int, int]], float]:
    """Segments (first position, k) in order, and their largest error."""
    heap = [(-float(errors[WIDEST][0]), 0, WIDEST)]
    while len(heap) < SEGMENTS and heap[0][2] > 0:
        _, start, k = heapq.heappop(heap)
        for half in (start, start + (ENTRIES << (k - 1))):
            heapq.heappush(heap, (-float(errors[k - 1][half // (ENTRIES << (k - 1))]), half, k - 1))
    return sorted((start, k) for _, start, k in heap), -heap[0][0]


def _assemble(layout: list[tuple[int, int]], entries: np.ndarray, guard: int, error: float) -> CurveTable:
    closing = int(entries[-1])
    rows = [(-HALF, -HALF, 0, int(entries[0]))]
    rows += [(start - HALF, start - HALF + (ENTRIES << k) - 1, k, 0) for start, k in layout]
    rows.append((HALF - 1, HALF - 1, 0, closing))
    picked = [entries[start : start + (ENTRIES << k) : 1 << k] for start, k in layout]
    return CurveTable(np.array(rows, np.int16), np.array(picked, np.int16), guard, error)
