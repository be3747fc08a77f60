"""Integer matrix multiplication: by hand, against slow loops, and the same bits in every form."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small import INT8, INT16, LIMITS, MANY, clamped, codes, every_form, output, rescaled

from ptqlab.arith.requantize import GUARD_BITS, fixed_point

PREFIX = {INT8: "Int8", INT16: "Int16"}
TYPES = st.sampled_from([INT8, INT16])
# rank 1 to 4 in front of K
FRONTS = st.sampled_from([(), (1,), (3,), (2, 3), (2, 1, 2)])


def zero_points(to: int) -> st.SearchStrategy[int]:
    return st.sampled_from([0, 0, -3, *LIMITS[to]])


def rows(x: np.ndarray, weight: np.ndarray, bias: np.ndarray, zero: int) -> list[list[int]]:
    """Accumulators, one list of N per row of x, in Python's integers."""
    return [
        [
            int(bias[n]) + sum((int(v) - zero) * int(w) for v, w in zip(row, weight[:, n], strict=True))
            for n in range(weight.shape[1])
        ]
        for row in x.reshape(-1, x.shape[-1])
    ]


def test_a_product_by_hand() -> None:
    """[1, 2] @ [[3, -1], [4, 5]] + [0, -1] = [11, 8]; halved, half up: [6, 4]."""
    x, w = np.array([[1, 2]], np.int8), np.array([[3, -1], [4, 5]], np.int8)
    m, s = fixed_point(np.array([0.5, 0.5]))
    constants = {"weight": w, "bias": np.array([0, -1], np.int32), "multiplier": m, "shift": s}
    assert every_form("Int8MatMul", {"x": x}, constants, {"x_zero_point": 0} | output()).tolist() == [[6, 4]]
    tail = {k: constants[k] for k in ("weight", "bias")}
    assert every_form("Int8MatMulTail", {"x": x}, tail, {"x_zero_point": 0}).tolist() == [[11, 8]]


def test_a_residual_is_added_before_the_only_rounding() -> None:
    """acc/2 + r/4 = 1/2 + 3/4 = 1.25 -> 1."""
    m, s = fixed_point(np.array([0.5]))
    rm, rs = fixed_point(np.asarray(0.25))
    constants = {
        "weight": np.array([[1]], np.int8),
        "bias": np.zeros(1, np.int32),
        "multiplier": m,
        "shift": s,
        "residual_multiplier": rm,
        "residual_shift": rs,
    }
    got = every_form(
        "Int8MatMulAdd",
        {"x": np.array([[1]], np.int8), "residual": np.array([[3]], np.int8)},
        constants,
        {"x_zero_point": 0, "residual_zero_point": 0} | output(),
    )
    assert got.tolist() == [[1]]


@MANY
@given(FRONTS, st.integers(1, 6), st.integers(1, 4), TYPES, TYPES, st.data(), st.integers(0, 999))
def test_matmul_equals_the_loop(
    front: tuple[int, ...], k: int, n: int, source: int, to: int, data: st.DataObject, seed: int
) -> None:
    """Features of rank 1 to 4, a ratio per channel, any zero points: every form equals Python's integers."""
    rng = np.random.default_rng(seed)
    x, weight = codes(rng, source, (*front, k)), codes(rng, INT8, (k, n))
    bias = rng.integers(-(2**20), 2**20, n).astype(np.int32)
    m, s = fixed_point(2.0 ** rng.uniform(-24, -6, n))
    attributes = {"x_zero_point": data.draw(zero_points(source))} | output(to, data.draw(zero_points(to)))
    constants = {"weight": weight, "bias": bias, "multiplier": m, "shift": s}
    got = every_form(f"{PREFIX[source]}MatMul", {"x": x}, constants, attributes)
    assert got.reshape(-1, n).tolist() == [
        [clamped(rescaled(acc, int(m[i]), int(s[i])), attributes) for i, acc in enumerate(row)]
        for row in rows(x, weight, bias, attributes["x_zero_point"])
    ]


@MANY
@given(FRONTS, st.integers(1, 6), st.integers(1, 4), TYPES, TYPES, TYPES, st.data(), st.integers(0, 999))
def test_matmul_add_equals_the_loop(
    front: tuple[int, ...], k: int, n: int, source: int, other: int, to: int, data: st.DataObject, seed: int
) -> None:
    """With a residual operand of any type: one rounding of the sum."""
    rng = np.random.default_rng(seed)
    x, weight, residual = codes(rng, source, (*front, k)), codes(rng, INT8, (k, n)), codes(rng, other, (*front, n))
    bias = rng.integers(-(2**20), 2**20, n).astype(np.int32)
    m, s = fixed_point(2.0 ** rng.uniform(-24, -6, n))
    rm, rs = fixed_point(np.asarray(2.0 ** rng.uniform(-9, 3)))
    attributes = {"x_zero_point": data.draw(zero_points(source)), "residual_zero_point": data.draw(zero_points(other))}
    attributes |= output(to, data.draw(zero_points(to)), -9, 100)
    constants = {
        "weight": weight,
        "bias": bias,
        "multiplier": m,
        "shift": s,
        "residual_multiplier": rm,
        "residual_shift": rs,
    }
    got = every_form(f"{PREFIX[source]}MatMulAdd", {"x": x, "residual": residual}, constants, attributes).reshape(-1, n)
    for r, row in enumerate(rows(x, weight, bias, attributes["x_zero_point"])):
        for i, acc in enumerate(row):
            total = rescaled(acc, int(m[i]), int(s[i]) - GUARD_BITS)
            total += rescaled(
                int(residual.reshape(-1, n)[r, i]) - attributes["residual_zero_point"], int(rm), int(rs) - GUARD_BITS
            )
            assert got[r, i] == clamped((total + (1 << (GUARD_BITS - 1))) >> GUARD_BITS, attributes)


@pytest.mark.parametrize("source", [INT8, INT16])
@pytest.mark.parametrize("k", [500, 1100])
def test_both_products_are_exact_on_either_side_of_the_bound(source: int, k: int) -> None:
    """500 large weights stay below 2^24 per output in float32, 1100 do not and go through MatMulInteger: both exact."""
    rng = np.random.default_rng(k)
    weight = rng.choice([-127, 127, 125], (k, 3)).astype(np.int8)
    # every product has the same sign in column 0, so that the sum comes near its bound
    x = codes(rng, source, (2, k))
    low, high = LIMITS[source]
    x[0] = np.where(weight[:, 0] > 0, high, low)
    weight[::7, 1] = 1
    attributes = {"x_zero_point": 0}
    bias = np.array([1, -1, 0], np.int32)
    got = every_form(f"{PREFIX[source]}MatMulTail", {"x": x}, {"weight": weight, "bias": bias}, attributes)
    wanted = [[max(-(2**31), min(2**31 - 1, acc)) for acc in row] for row in rows(x, weight, bias, 0)]
    assert got.tolist() == wanted


@pytest.mark.parametrize(("code", "end"), [(32767, 2**31 - 1), (-32768, -(2**31))])
def test_an_int16_tail_beyond_32_bits_saturates_in_every_form(code: int, end: int) -> None:
    """600 products of an extreme int16 code with 127 leave 32 bits: the tail holds the end of int32."""
    x, weight = np.full((1, 600), code, np.int16), np.full((600, 1), 127, np.int8)
    got = every_form(
        "Int16MatMulTail", {"x": x}, {"weight": weight, "bias": np.zeros(1, np.int32)}, {"x_zero_point": 0}
    )
    assert got.tolist() == [[end]]


def test_a_zero_point_far_out_costs_no_bit_of_a_tiny_ratio() -> None:
    """An accumulator one part in 2^38 below a tie stays below it, though the zero point lies 2^15 away.

    v = 274609487871 times m = 2^14 + 1 is 2^38 - 1 modulo 2^39; v is split into products of 127 and 32767 and a bias.
    """
    total, m, s = 274_609_487_871, (1 << 14) + 1, 39
    assert total * m % (1 << s) == (1 << (s - 1)) - 1
    count, bias = divmod(total, 127 * 32767)
    constants = {
        "weight": np.full((count, 1), 127, np.int8),
        "bias": np.array([bias], np.int32),
        "multiplier": np.array([m], np.int32),
        "shift": np.array([s], np.int32),
    }
    attributes = {"x_zero_point": 0} | output(INT16, -32768)
    got = every_form("Int16MatMul", {"x": np.full((1, count), 32767, np.int16)}, constants, attributes)
    assert got.item() == rescaled(total, m, s) - 32768
