"""Table look-ups, two slopes and whole numbers: by hand, against slow loops, and the same bits in every form."""
from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small import INT8, INT16, QUICK, clamped, codes, each, every_form, output, rescaled

from ptqlab.arith.requantize import fixed_point
from ptqlab.arith.tables import HALF, curve_table

TYPES = st.sampled_from([INT8, INT16])


def scaled(name: str, ratio: object) -> dict[str, np.ndarray]:
    multiplier, shift = fixed_point(np.asarray(ratio, np.float64))
    return {f"{name}multiplier": multiplier, f"{name}shift": shift}


@pytest.mark.parametrize("to", [INT8, INT16])
def test_the_table_of_int8_is_a_look_up(to: int) -> None:
    """Entry c + 128 is the answer for code c, at both ends and around zero."""
    table = codes(np.random.default_rng(1), to, (256,))
    x = np.array([[-128, -1, 0], [1, 127, 5]], np.int8)
    got = every_form("Int8Table", {"x": x}, {"table": table}, {"to": to})
    assert got.tolist() == [[table[0], table[127], table[128]], [table[129], table[255], table[133]]]


@pytest.mark.parametrize(("to", "high", "guard"), [(INT16, 32767, 0), (INT8, 127, 8)])
@pytest.mark.parametrize("curve", ["even", "led"])
def test_the_table_of_int16_gives_the_same_bits_in_every_form(to: int, high: int, guard: int, curve: str) -> None:
    """All 65536 codes through even segments (a parabola) and through halved ones (a pole at zero)."""
    def target(c: np.ndarray) -> np.ndarray:
        if curve == "even":
            return np.sin(c / 100) * high
        return high * np.divide(3.0, c, out=np.full_like(c, np.inf), where=c != 0)

    table = curve_table(target, -high - 1, high, guard)
    assert (set(table.ranges[1:-1, 2].tolist()) == {4}) == (curve == "even")
    x = np.arange(-HALF, HALF).astype(np.int16).reshape(4, 64, 256)
    got = every_form("Int16Table", {"x": x}, {"ranges": table.ranges, "table": table.entries},
                     {"guard": guard, "to": to})
    wished = np.clip(target(np.arange(-HALF, HALF, dtype=float)), -high - 1, high)
    assert np.abs(got.ravel() - wished).max() <= table.error


def test_two_slopes_by_hand() -> None:
    """Slope 1/2 above zero, -1 below it: 3 -> 1.5 -> 2, 0 -> 0, -7 -> 7, -128 -> 128 -> 127; rounding is half up."""
    x = np.array([3, 0, -7, -128, -1], np.int8)
    got = every_form("TwoSlopes", {"x": x}, scaled("", 0.5) | scaled("negative_", -1.0), {"x_zero_point": 0} | output())
    assert got.tolist() == [2, 0, 7, 127, 1]


@QUICK
@given(st.data(), TYPES, TYPES, st.floats(2.0**-12, 4.0), st.integers(0, 999))
def test_two_slopes_equal_the_loop(data: st.DataObject, source: int, to: int, ratio: float, seed: int) -> None:
    """A slope per channel for negative numbers, any zero points and clamps."""
    rng = np.random.default_rng(seed)
    x = codes(rng, source, (2, 3, 5))
    slopes = rng.uniform(-1, 1, (3, 1)) * ratio
    constants = scaled("", ratio) | scaled("negative_", slopes)
    zero = data.draw(st.sampled_from([0, 5, -128]))
    attributes = {"x_zero_point": zero} | output(to, data.draw(st.sampled_from([0, -3])))
    got = every_form("TwoSlopes", {"x": x}, constants, attributes)
    m, s, nm, ns = (each(constants[k], x.shape).ravel() for k in
                    ("multiplier", "shift", "negative_multiplier", "negative_shift"))
    for i, v in enumerate(x.ravel()):
        d = int(v) - attributes["x_zero_point"]
        scaled_value = rescaled(d, nm[i], ns[i]) if d < 0 else rescaled(d, m[i], s[i])
        assert got.ravel()[i] == clamped(scaled_value, attributes)


@pytest.mark.parametrize(("op", "wanted"), [
    ("Floor", [-2, -1, -1, 0, 0, 1, 1]), ("Ceil", [-1, -1, 0, 0, 1, 1, 2]), ("Round", [-2, -1, 0, 0, 0, 1, 2]),
])
def test_whole_numbers_by_hand(op: str, wanted: list[int]) -> None:
    """Steps of 1/2: codes -3..3 stand for -1.5 -1 -0.5 0 0.5 1 1.5; Round takes ties to even."""
    x = np.arange(-3, 4).astype(np.int8)
    got = every_form(op, {"x": x}, {"step": np.asarray(0.5, np.float32), **scaled("", 1.0)},
                     {"x_zero_point": 0} | output())
    assert got.tolist() == wanted


def test_a_code_for_a_whole_number_stays_one() -> None:
    """127 steps of 4/127 stand for 4 in float32 (the exact product lies just below): Floor gives 4, not 3."""
    step = np.asarray(np.float32(4) / np.float32(127))
    assert 127 * Fraction(float(step)) < 4
    got = every_form("Floor", {"x": np.array([127, 126], np.int8)}, {"step": step, **scaled("", 1.0)},
                     {"x_zero_point": 0} | output())
    assert got.tolist() == [4, 3]


@QUICK
@given(st.sampled_from(["Floor", "Ceil", "Round"]), TYPES, TYPES, st.floats(2.0**-70, 2.0**19, width=32),
       st.sampled_from([0, 11]), st.integers(0, 999))
def test_whole_numbers_equal_the_loop(op: str, source: int, to: int, step: float, zero: int, seed: int) -> None:
    """Any step: the whole number is that of the float32 the code stands for."""
    function = {"Floor": math.floor, "Ceil": math.ceil, "Round": round}[op]
    x = codes(np.random.default_rng(seed), source, (23,))
    constants = {"step": np.asarray(step, np.float32), **scaled("", 2.0**-3)}
    attributes = {"x_zero_point": zero} | output(to)
    got = every_form(op, {"x": x}, constants, attributes)
    for v, y in zip(x, got, strict=True):
        real = float(np.float32(int(v) - zero) * np.float32(step))
        m, s = int(constants["multiplier"]), int(constants["shift"])
        assert y == clamped(rescaled(function(real), m, s), attributes)
