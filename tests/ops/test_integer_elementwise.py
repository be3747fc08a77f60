"""Rescale, RescaleAdd, Add and Mul: by hand, against slow loops, and the same bits in every form."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from small import INT8, INT16, LIMITS, QUICK, clamped, codes, each, every_form, output, rescaled

from ptqlab.arith.requantize import GUARD_BITS, fixed_point

TYPES = st.sampled_from([INT8, INT16])
RATIOS = st.floats(2.0**-20, 300.0)
SIGNS = st.sampled_from([1, -1])


def scaled(name: str, ratio: object) -> dict[str, np.ndarray]:
    multiplier, shift = fixed_point(np.asarray(ratio, np.float64))
    return {f"{name}multiplier": multiplier, f"{name}shift": shift}


def zero_point(data: st.DataObject, to: int) -> int:
    low, high = LIMITS[to]
    return data.draw(st.sampled_from([0, 0, low, high, 3, -7]))


def bounds(data: st.DataObject, to: int, zero: int) -> dict[str, int]:
    """A clamp: the whole range, a Relu, or a narrow one."""
    low, high = LIMITS[to]
    return output(to, zero, *data.draw(st.sampled_from([(low, high), (max(low, zero), high), (-5, 9)])))


def test_rescale_halves_and_rounds_ties_up() -> None:
    """Ratio 1/2 of -3, -1, 1, 3, 127 is -1.5, -0.5, 0.5, 1.5, 63.5: half up gives -1, 0, 1, 2, 64."""
    x = np.array([-3, -1, 1, 3, 127], np.int8)
    got = every_form("Rescale", {"x": x}, scaled("", 0.5), {"x_zero_point": 0} | output())
    assert got.tolist() == [-1, 0, 1, 2, 64]


def test_rescale_saturates_at_both_ends_and_takes_zero_points() -> None:
    """y = clamp(10 + 4 * (x - 5)): 5 -> 10, 34 -> 126, 35 -> 130 -> 127, -30 -> -130 -> -128."""
    x = np.array([5, 34, 35, -30], np.int8)
    got = every_form("Rescale", {"x": x}, scaled("", 4.0), {"x_zero_point": 5} | output(zero_point=10))
    assert got.tolist() == [10, 126, 127, -128]


def test_a_negative_factor_turns_the_sign() -> None:
    """A constant factor of -2 is a negative multiplier; -64 * -2 = 128 saturates to 127."""
    x = np.array([-64, -1, 0, 50], np.int8)
    got = every_form("Rescale", {"x": x}, scaled("", -2.0), {"x_zero_point": 0} | output())
    assert got.tolist() == [127, 2, 0, -100]


def test_a_factor_per_channel_broadcasts_and_may_enlarge_the_tensor() -> None:
    """x [1, 2] times a column of factors [3, 1] is [3, 2]."""
    got = every_form(
        "Rescale",
        {"x": np.array([[10, -20]], np.int8)},
        scaled("", [[1.0], [0.5], [-1.0]]),
        {"x_zero_point": 0} | output(),
    )
    assert got.tolist() == [[10, -20], [5, -10], [-10, 20]]


def test_rescale_add_rounds_once() -> None:
    """x/2 + 0.75 for x = 1 is 1.25 -> 1, for x = 3 is 2.25 -> 2; rounding the terms first would give 2 and 3."""
    offset = np.asarray(round(0.75 * (1 << GUARD_BITS)), np.int32)
    got = every_form(
        "RescaleAdd",
        {"x": np.array([1, 3, -128], np.int8)},
        scaled("", 0.5) | {"offset": offset},
        {"x_zero_point": 0} | output(),
    )
    assert got.tolist() == [1, 2, -63]  # -64 + 0.75 = -63.25


def test_add_brings_two_scales_together_and_rounds_once() -> None:
    """a/2 + b/4: 1/2 + 3/4 = 1.25 -> 1, where rounding each operand first would give 1 + 1 = 2."""
    a, b = np.array([1, 127, -128], np.int8), np.array([3, 127, -128], np.int8)
    got = every_form(
        "Add",
        {"a": a, "b": b},
        scaled("a_", 0.5) | scaled("b_", 0.25),
        {"a_zero_point": 0, "b_zero_point": 0} | output(),
    )
    assert got.tolist() == [1, 95, -96]  # 63.5 + 31.75 = 95.25


def test_add_saturates() -> None:
    """127 + 127 and -128 - 128 at ratio 1 stay at the ends of int8 [documented: integer overflow saturates]."""
    a = np.array([127, -128, 100], np.int8)
    got = every_form(
        "Add",
        {"a": a, "b": a},
        scaled("a_", 1.0) | scaled("b_", 1.0),
        {"a_zero_point": 0, "b_zero_point": 0} | output(),
    )
    assert got.tolist() == [127, -128, 127]


def test_mul_multiplies_what_the_codes_stand_for() -> None:
    """(a - 1) * (b + 2) / 8 with zero points 1 and -2: (9-1)*(2+2)/8 = 4, (1-1)*.. = 0, (5-1)*(1+2)/8 = 1.5 -> 2."""
    a, b = np.array([9, 1, 5], np.int8), np.array([2, 77, 1], np.int8)
    got = every_form("Mul", {"a": a, "b": b}, scaled("", 1 / 8), {"a_zero_point": 1, "b_zero_point": -2} | output())
    assert got.tolist() == [4, 0, 2]


def test_mul_of_int16_extremes_is_exact() -> None:
    """(-32768)^2 = 2^30 times 2^-15 is 2^15, one beyond int16: saturates; -32768 * 32767 / 2^15 = -32767."""
    a, b = np.array([-32768, -32768], np.int16), np.array([-32768, 32767], np.int16)
    got = every_form(
        "Mul", {"a": a, "b": b}, scaled("", 2.0**-15), {"a_zero_point": 0, "b_zero_point": 0} | output(INT16)
    )
    assert got.tolist() == [32767, -32767]


@QUICK
@given(st.data(), TYPES, TYPES, RATIOS, SIGNS, st.integers(0, 999))
def test_rescale_equals_the_loop(data: st.DataObject, source: int, to: int, ratio: float, sign: int, seed: int) -> None:
    """Any types, zero points, clamps and ratios: every form equals Python's integers."""
    x = codes(np.random.default_rng(seed), source, (2, 9))
    attributes = {"x_zero_point": zero_point(data, source)} | bounds(data, to, zero_point(data, to))
    constants = scaled("", sign * ratio)
    got = every_form("Rescale", {"x": x}, constants, attributes)
    m, s = int(constants["multiplier"]), int(constants["shift"])
    assert got.ravel().tolist() == [
        clamped(rescaled(int(v) - attributes["x_zero_point"], m, s), attributes) for v in x.ravel()
    ]


@QUICK
@given(st.data(), TYPES, TYPES, st.lists(RATIOS, min_size=3, max_size=3), st.integers(0, 999))
def test_rescale_add_equals_the_loop(data: st.DataObject, source: int, to: int, ratios: list[float], seed: int) -> None:
    """A factor and an offset per channel, the offset up to the ends of its 32 bits."""
    rng = np.random.default_rng(seed)
    x = codes(rng, source, (1, 3, 4))
    attributes = {"x_zero_point": zero_point(data, source)} | bounds(data, to, zero_point(data, to))
    offset = rng.choice([0, 1, -1, 127, 128, -128, 5000, -(2**31), 2**31 - 1], (3, 1)).astype(np.int32)
    constants = scaled("", np.array(ratios).reshape(3, 1)) | {"offset": offset}
    got = every_form("RescaleAdd", {"x": x}, constants, attributes)
    for index in np.ndindex(x.shape):
        channel = index[1]
        m, s = int(constants["multiplier"][channel, 0]), int(constants["shift"][channel, 0])
        total = rescaled(int(x[index]) - attributes["x_zero_point"], m, s - GUARD_BITS) + int(offset[channel, 0])
        assert got[index] == clamped((total + (1 << (GUARD_BITS - 1))) >> GUARD_BITS, attributes)


@QUICK
@given(st.data(), TYPES, TYPES, TYPES, RATIOS, RATIOS, st.integers(0, 999))
def test_add_equals_the_loop(
    data: st.DataObject, left: int, right: int, to: int, ratio_a: float, ratio_b: float, seed: int
) -> None:
    """Two operands of any types and scales, one of them broadcast."""
    rng = np.random.default_rng(seed)
    a, b = codes(rng, left, (2, 3, 4)), codes(rng, right, data.draw(st.sampled_from([(2, 3, 4), (3, 1), (4,), ()])))
    attributes = {"a_zero_point": zero_point(data, left), "b_zero_point": zero_point(data, right)} | bounds(
        data, to, zero_point(data, to)
    )
    constants = scaled("a_", ratio_a) | scaled("b_", -ratio_b)
    got = every_form("Add", {"a": a, "b": b}, constants, attributes)
    ma, sa, mb, sb = (int(constants[k]) for k in ("a_multiplier", "a_shift", "b_multiplier", "b_shift"))
    for v, w, y in zip(a.ravel(), each(b, a.shape).ravel(), got.ravel(), strict=True):
        total = rescaled(int(v) - attributes["a_zero_point"], ma, sa - GUARD_BITS)
        total += rescaled(int(w) - attributes["b_zero_point"], mb, sb - GUARD_BITS)
        assert y == clamped((total + (1 << (GUARD_BITS - 1))) >> GUARD_BITS, attributes)


@QUICK
@given(st.data(), TYPES, TYPES, TYPES, st.floats(2.0**-38, 4.0), st.integers(0, 999))
def test_mul_equals_the_loop(data: st.DataObject, left: int, right: int, to: int, ratio: float, seed: int) -> None:
    """Products of up to 2^32 scaled by any ratio, down to those that nearly vanish."""
    rng = np.random.default_rng(seed)
    a, b = codes(rng, left, (3, 5)), codes(rng, right, data.draw(st.sampled_from([(3, 5), (5,), (3, 1)])))
    attributes = {"a_zero_point": zero_point(data, left), "b_zero_point": zero_point(data, right)} | bounds(
        data, to, zero_point(data, to)
    )
    constants = scaled("", ratio)
    got = every_form("Mul", {"a": a, "b": b}, constants, attributes)
    m, s = int(constants["multiplier"]), int(constants["shift"])
    for v, w, y in zip(a.ravel(), each(b, a.shape).ravel(), got.ravel(), strict=True):
        product = (int(v) - attributes["a_zero_point"]) * (int(w) - attributes["b_zero_point"])
        assert y == clamped(rescaled(product, m, s), attributes)
