"""Quantize and Dequantize: by hand, and the same bits in every form."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small import INT8, INT16, LIMITS, MANY, codes, every_form, output


def test_quantize_by_hand() -> None:
    """0.26 / 0.5 = 0.52 -> 1; ties +-0.25 / 0.5 = +-0.5 -> +-1; 1000 saturates."""
    x = np.array([0.26, 0.25, -0.25, 1000, -1000], np.float32)
    got = every_form("Quantize", {"x": x}, {"scale": np.asarray(np.float32(0.5))}, output())
    assert got.tolist() == [1, 1, -1, 127, -128]


def test_dequantize_by_hand() -> None:
    """(q + 5) / 2 for zero point -5 and scale 1/2."""
    got = every_form(
        "Dequantize",
        {"x": np.array([-5, 127, -128], np.int8)},
        {"scale": np.asarray(np.float32(0.5))},
        {"x_zero_point": -5},
    )
    assert got.tolist() == [0.0, 66.0, -61.5]


@pytest.mark.parametrize("zero", [0, 5])
def test_not_a_number_becomes_the_code_of_zero(zero: int) -> None:
    """No code stands for NaN; every engine gives the one of 0, so that they agree on broken data too."""
    x = np.array([np.nan, 1.0], np.float32)
    got = every_form("Quantize", {"x": x}, {"scale": np.asarray(np.float32(1))}, output(zero_point=zero))
    assert got.tolist() == [zero, zero + 1]


def test_infinities_saturate_and_zero_keeps_no_sign_in_codes() -> None:
    """Inf goes to the ends; -0.0 is code 0."""
    x = np.array([np.inf, -np.inf, -0.0], np.float32)
    got = every_form("Quantize", {"x": x}, {"scale": np.asarray(np.float32(3))}, output(INT16))
    assert got.tolist() == [32767, -32768, 0]


@MANY
@given(
    st.lists(st.floats(-1e6, 1e6, width=32), min_size=4, max_size=12),
    st.floats(2.0**-30, 2.0**10, width=32),
    st.sampled_from([INT8, INT16]),
    st.data(),
)
def test_quantize_is_the_same_in_every_form(values: list[float], scale: float, to: int, data: st.DataObject) -> None:
    """Any values, ties among them: every form gives the codes of the formula in float32."""
    step = np.float32(scale)
    ties = (np.arange(-4, 4) + np.float32(0.5)) * step
    x = np.concatenate([np.array(values, np.float32), ties.astype(np.float32)])
    zero = data.draw(st.sampled_from([0, 3, *LIMITS[to]]))
    got = every_form("Quantize", {"x": x}, {"scale": np.asarray(step)}, output(to, zero))
    shifted = x / step + np.float32(zero)
    nearest = np.where(shifted < 0, -np.floor(-shifted + np.float32(0.5)), np.floor(shifted + np.float32(0.5)))
    assert got.tolist() == np.clip(nearest, *LIMITS[to]).astype(int).tolist()


@MANY
@given(st.sampled_from([INT8, INT16]), st.floats(2.0**-30, 2.0**10, width=32), st.data(), st.integers(0, 999))
def test_dequantize_is_the_same_in_every_form(source: int, scale: float, data: st.DataObject, seed: int) -> None:
    """Centred codes times the scale, one float32 rounding."""
    x, step = codes(np.random.default_rng(seed), source, (3, 4)), np.float32(scale)
    zero = data.draw(st.sampled_from([0, 3, *LIMITS[source]]))
    got = every_form("Dequantize", {"x": x}, {"scale": np.asarray(step)}, {"x_zero_point": zero})
    assert got.tolist() == [[float(np.float32(int(v) - zero) * step) for v in row] for row in x]


@pytest.mark.parametrize("values", [[2**24 + 1, 2**24 + 3, -(2**24) - 1, 2**31 - 1, -(2**31)]])
def test_an_accumulator_beyond_24_bits_is_rounded_the_same_way_everywhere(values: list[int]) -> None:
    """int32 to float32 goes to the nearest, ties to even, in every form."""
    from small import one_operator

    from ptqlab.graph import session
    from ptqlab.ops.integer import INTEGER_OPS

    x, scale = np.array(values, np.int32), np.asarray(np.float32(1))
    wanted = INTEGER_OPS["Dequantize"].reference({"x_zero_point": 0}, x, scale)
    assert wanted.tolist() == [2.0**24, 2.0**24 + 4, -(2.0**24), 2.0**31, -(2.0**31)]
    made = one_operator("Dequantize", {"x": x}, {"scale": scale}, {"x_zero_point": 0}, wanted)
    for optimise in (False, True):
        assert session(made.model, optimise=optimise).run(None, {"x": x})[0].tobytes() == wanted.tobytes()
