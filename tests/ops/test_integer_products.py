"""MatMul of two tensors of codes: by hand, against slow loops, the same bits in every form around float32's bound."""
from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small import INT8, INT16, MANY, clamped, codes, every_form, output, rescaled

from ptqlab.arith.requantize import GUARD_BITS, fixed_point

TYPES = st.sampled_from([INT8, INT16])
BITS = {INT8: 8, INT16: 16}
SHAPES = [
    ((2, 3), (3, 4)), ((3,), (3, 2)), ((2, 3), (3,)), ((3,), (3,)), ((2, 1, 2, 3), (2, 3, 2)), ((1, 3), (2, 3, 1)),
]


def scaled(name: str, ratio: object) -> dict[str, np.ndarray]:
    multiplier, shift = fixed_point(np.asarray(ratio, np.float64))
    return {f"{name}multiplier": multiplier, f"{name}shift": shift}


def zeros(a: int = 0, b: int = 0, length: int = 2) -> dict[str, int]:
    return {"a_zero_point": a, "b_zero_point": b, "length": length}


def slow(a: np.ndarray, b: np.ndarray, a_zero: int, b_zero: int) -> np.ndarray:
    """The accumulator in Python's integers, with the 8 bits that int16 x int16 drops."""
    acc = np.matmul(a.astype(object) - a_zero, b.astype(object) - b_zero)
    if a.dtype == b.dtype == np.int16:
        acc = (acc + 128) // 256
    return np.asarray(acc, object)


def test_a_product_by_hand() -> None:
    """[1 2; 3 4] times [5; -6] is [-7; -9]; at ratio 1/2 that is -3.5 -> -3 and -4.5 -> -4 (half up)."""
    a, b = np.array([[1, 2], [3, 4]], np.int8), np.array([[5], [-6]], np.int8)
    assert every_form("Int8Int8MatMulTail", {"a": a, "b": b}, {}, zeros()).tolist() == [[-7], [-9]]
    got = every_form("Int8Int8MatMul", {"a": a, "b": b}, scaled("", 0.5), zeros() | output())
    assert got.tolist() == [[-3], [-4]]


def test_zero_points_of_both_operands() -> None:
    """(1 - 3)(5 + 1) + (2 - 3)(-6 + 1) = -12 + 5 = -7."""
    a, b = np.array([[1, 2]], np.int8), np.array([[5], [-6]], np.int8)
    assert every_form("Int8Int8MatMulTail", {"a": a, "b": b}, {}, zeros(3, -1)).tolist() == [[-7]]


def test_a_residual_joins_before_rounding() -> None:
    """7 / 4 + 3 / 4 = 2.5 -> 3; rounding both first would give 2 + 1 = 3, and 5/4 + 1/4 = 1.5 -> 2 instead of 1 + 0."""
    a, b = np.array([[7], [5]], np.int8), np.array([[1]], np.int8)
    constants = scaled("", 0.25) | scaled("residual_", 0.25)
    got = every_form("Int8Int8MatMulAdd", {"a": a, "b": b, "residual": np.array([[3], [1]], np.int8)}, constants,
                     zeros(length=1) | {"residual_zero_point": 0} | output())
    assert got.tolist() == [[3], [2]]


def test_int16_by_int16_drops_eight_bits_rounded() -> None:
    """300 * 300 = 90000 is 351.56 times 256 -> 352; the largest sums stay exact, far beyond 32 bits."""
    a = np.array([[300]], np.int16)
    assert every_form("Int16Int16MatMulTail", {"a": a, "b": a}, {}, zeros(length=1)).tolist() == [[352]]
    wide = np.full((1, 700), -32768, np.int16)
    got = every_form("Int16Int16MatMulTail", {"a": wide, "b": wide.T}, {}, zeros(length=700))
    assert got.tolist() == [[2**31 - 1]]  # 700 * 2^22 saturates 32 bits
    got = every_form("Int16Int16MatMulTail", {"a": wide[:, :500], "b": wide.T[:500]}, {}, zeros(length=500))
    assert got.tolist() == [[500 * 2**22]]


@pytest.mark.parametrize("length", [1023, 1024, 1025, 5000])
@pytest.mark.parametrize("zero", [0, -128])
def test_long_sums_are_exact_on_both_sides_of_the_bound(length: int, zero: int) -> None:
    """1024 * 128 * 128 = 2^24 is where float32 ends; odd sums beyond it need the byte path."""
    a, b = np.full((2, length), -128, np.int8), np.full((length, 1), 127, np.int8)
    a[1] = codes(np.random.default_rng(1), INT8, (length,))
    got = every_form("Int8Int8MatMulTail", {"a": a, "b": b}, {}, zeros(-zero - 1 if zero else 0, zero, length))
    assert got.tolist() == slow(a, b, -zero - 1 if zero else 0, zero).tolist()


@MANY
@given(st.data(), TYPES, TYPES, TYPES, st.sampled_from(["", "Add", "Tail"]), st.sampled_from(SHAPES),
       st.floats(2.0**-34, 2.0**-3), st.integers(0, 999))
def test_products_equal_the_loop(data: st.DataObject, left: int, right: int, to: int, form: str,
                                 shapes: tuple[tuple[int, ...], tuple[int, ...]], ratio: float, seed: int) -> None:
    """Any types, ranks that broadcast, zero points and ratios: every form equals Python's integers."""
    rng = np.random.default_rng(seed)
    a, b = codes(rng, left, shapes[0]), codes(rng, right, shapes[1])
    attributes = zeros(data.draw(st.sampled_from([0, 0, 5, -128])), data.draw(st.sampled_from([0, 0, -7, 127])), 3)
    acc = slow(a, b, attributes["a_zero_point"], attributes["b_zero_point"])
    op = f"Int{BITS[left]}Int{BITS[right]}MatMul{form}"
    if form == "Tail":
        got = every_form(op, {"a": a, "b": b}, {}, attributes)
        assert got.ravel().tolist() == [max(-(2**31), min(2**31 - 1, int(v))) for v in acc.ravel()]
        return
    constants, feeds = scaled("", ratio), {"a": a, "b": b}
    attributes |= output(to, data.draw(st.sampled_from([0, 3])))
    m, s = int(constants["multiplier"]), int(constants["shift"])
    if not form:
        got = every_form(op, feeds, constants, attributes)
        assert got.ravel().tolist() == [clamped(rescaled(v, m, s), attributes) for v in acc.ravel()]
        return
    residual = codes(rng, to, acc.shape)
    constants |= scaled("residual_", 0.37)
    got = every_form(op, feeds | {"residual": residual}, constants, attributes | {"residual_zero_point": 2})
    rm, rs = int(constants["residual_multiplier"]), int(constants["residual_shift"])
    for v, r, y in zip(acc.ravel(), residual.ravel(), got.ravel(), strict=True):
        total = rescaled(v, m, s - GUARD_BITS) + rescaled(int(r) - 2, rm, rs - GUARD_BITS)
        assert y == clamped((total + (1 << (GUARD_BITS - 1))) >> GUARD_BITS, attributes)


def test_a_constant_operand_has_scales_of_its_own_rows() -> None:
    """A multiplier per row of the left operand broadcasts against the output [.., M, N]."""
    a, b = np.array([[1, 1], [2, 2]], np.int8), np.array([[3, 5], [1, 1]], np.int8)
    got = every_form("Int8Int8MatMul", {"b": b}, {"a": a} | scaled("", [[1.0], [0.5]]), zeros() | output())
    assert got.tolist() == [[4, 6], [4, 6]]
