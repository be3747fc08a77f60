"""Look-up tables: by hand, against Python's integers, and never worse than either way of cutting them."""
from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from ptqlab.arith.tables import ENTRIES, HALF, SEGMENTS, CurveTable, curve_table, exact_table, interpolate

ALL = np.arange(-HALF, HALF)


def slow(x: int, table: CurveTable) -> int:
    """One look-up from the definition, in Python's integers."""
    rows = table.ranges[1:-1].tolist()
    index = max(i for i, row in enumerate(rows) if row[0] <= x)
    first, _, k, _ = rows[index]
    entries = [*table.entries.ravel().tolist(), int(table.ranges[-1, 3])]
    j, f = divmod(x - first, 1 << k)
    left, right = entries[index * ENTRIES + j], entries[index * ENTRIES + j + 1]
    exact = Fraction(left * (1 << k) + (right - left) * f, 1 << (k + table.guard))
    return math.floor(exact + Fraction(1, 2)) if k + table.guard else int(exact)


def check(table: CurveTable, target: object, low: int, high: int) -> np.ndarray:
    """Shape and cover of the ranges, the error as stated; returns the outputs of all codes."""
    n = len(table.entries)
    assert 1 <= n <= SEGMENTS and table.entries.shape == (n, ENTRIES) and table.ranges.shape == (n + 2, 4)
    assert table.ranges.dtype == table.entries.dtype == np.int16
    first, last, k = (table.ranges[1:-1, c].astype(int) for c in range(3))
    assert first[0] == -HALF and last[-1] == HALF - 1 and (first[1:] == last[:-1] + 1).all()
    assert (last - first + 1 == ENTRIES << k).all()
    got = interpolate(ALL, table.ranges, table.entries, table.guard)
    wished = np.clip(target(ALL.astype(np.float64)), low, high)  # type: ignore[operator]
    assert np.abs(got - wished).max() == table.error
    assert got.min() >= low and got.max() <= high
    sample = [*range(-HALF, -HALF + 70), *range(-70, 70), *range(HALF - 70, HALF), *range(-HALF, HALF, 997)]
    assert [slow(x, table) for x in sample] == [int(got[x + HALF]) for x in sample]
    return got


def test_the_exact_table_holds_every_code() -> None:
    """Half of each code, rounded half away from zero: -128 -> -64, -3 -> -1.5 -> -2, 3 -> 2, 127 -> 63.5 -> 64."""
    table = exact_table(lambda c: c / 2, -128, 127)
    assert [int(table[c + 128]) for c in (-128, -3, -1, 0, 1, 3, 127)] == [-64, -2, -1, 0, 1, 2, 64]


def test_the_exact_table_clamps_what_is_out_of_range_or_infinite() -> None:
    """1000 and +Inf become the highest code, -Inf the lowest."""
    table = exact_table(lambda c: np.where(c < 0, -np.inf, np.where(c == 0, 1000.0, np.inf)), -128, 100)
    assert set(table[:128].tolist()) == {-128} and set(table[128:].tolist()) == {100}


def test_interpolation_by_hand() -> None:
    """Entries 0, 10, -5, 16 codes apart: a quarter of the way up is 2.5 -> 3 (half up), halfway down 2.5 -> 3."""
    ranges = np.zeros((SEGMENTS + 2, 4), np.int16)
    ranges[1:-1, 0] = np.arange(-HALF, HALF, 1024)
    ranges[1:-1, 2] = 4
    entries = np.zeros((SEGMENTS, ENTRIES), np.int16)
    entries[32, :3] = 0, 10, -5  # segment 32 begins at code 0
    x = np.array([0, 4, 16, 24, 32, 40])
    assert interpolate(x, ranges, entries, 0).tolist() == [0, 3, 10, 3, -5, -2]  # 10 - 7.5 = 2.5; -5 + 2.5 = -2.5
    assert interpolate(x, ranges, entries, 1).tolist() == [0, 1, 5, 1, -2, -1]  # 1.25, 5, 1.25, -2.5, -1.25


CURVES = {
    "straight line": lambda c: c * 0.75 + 3,
    "sigmoid": lambda c: 32767 / (1 + np.exp(-c / 4096)),
    "reciprocal": lambda c: np.divide(40000.0, c, out=np.full_like(c, np.inf), where=c != 0),
    "sign": np.sign,
    "stairs": lambda c: np.floor(c / 10000) * 9000,
    "parabola": lambda c: c * c / 32767,
}


@pytest.mark.parametrize("name", CURVES)
@pytest.mark.parametrize(("low", "high", "guard"), [(-32768, 32767, 0), (-128, 127, 8)])
def test_a_table_follows_its_curve_within_the_error_it_states(name: str, low: int, high: int, guard: int) -> None:
    """Smooth curves, a pole, jumps and stairs: one step at most for int16, little more than half a step for int8."""
    def target(codes: np.ndarray) -> np.ndarray:
        return CURVES[name](codes) * (high / 32767)

    table = curve_table(target, low, high, guard)
    check(table, target, low, high)
    assert table.error <= (1.0 if guard == 0 else 0.51)


def test_the_better_of_two_layouts_is_taken() -> None:
    """Equal arcs want even segments; a pole wants the entries where it is steep: one code apart there."""
    even = curve_table(lambda c: 1.25e-5 * (c % 1024 - 512) ** 2 * 100, -32768, 32767, 0)
    assert set(even.ranges[1:-1, 2].tolist()) == {4}
    led = curve_table(CURVES["reciprocal"], -32768, 32767, 0)
    spacing = {int(row[0]): int(row[2]) for row in led.ranges[1:-1]}
    assert spacing[0] == 0 and spacing[-64] == 0 and spacing[-HALF] > 4


def test_a_curve_beyond_64_segments_says_how_far_off_it_is() -> None:
    """300 periods of a sine cannot be followed by 4096 straight lines: the stated error is large, and true."""
    def target(codes: np.ndarray) -> np.ndarray:
        return 32767 * np.sin(codes * (300 * 2 * np.pi / 65536))

    table = curve_table(target, -32768, 32767, 0)
    check(table, target, -32768, 32767)
    assert 300 < table.error < 1500
