"""Rounding and the quantize / dequantize pair: ties, saturation, float32 as written."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptqlab.arith.rounding import dequantize, fake_quantize, quantize, round_half_away

QUICK = settings(derandomize=True, max_examples=60, deadline=None, database=None)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_ties_go_away_from_zero_and_the_dtype_stays(dtype: type) -> None:
    """Every tie moves away from zero, on both sides of it, in float32 and in float64."""
    values = np.array([0.5, -0.5, 1.5, -1.5, 2.5, -2.5, 0.0, 0.4, -0.6], dtype)
    rounded = round_half_away(values)
    assert rounded.tolist() == [1, -1, 2, -2, 3, -3, 0, 0, -1]
    assert rounded.dtype == dtype


def test_twelve_ties_between_int8_steps_give_the_documented_codes() -> None:
    """x = (k + 0.5) / 16 at step 1/16 gives the half-away codes, and not those of half-to-even."""
    x = (np.arange(-6, 6) + 0.5).astype(np.float32) / 16
    codes = quantize(x, np.float32(1 / 16), 0, -128, 127)
    assert codes.tolist() == [-6, -5, -4, -3, -2, -1, 1, 2, 3, 4, 5, 6]


def test_the_zero_point_is_added_before_rounding() -> None:
    """-0.5 steps with zero point 1 is the tie 0.5, which goes to 1; added after rounding it would be 0."""
    assert quantize(np.array([-0.5], np.float32), np.float32(1), 1, -128, 127).tolist() == [1]


def test_codes_saturate_at_both_ends_of_the_full_range() -> None:
    """Values beyond the range become -128 and 127, infinities too."""
    x = np.array([-1e30, -128.49, 127.49, 1e30, np.inf, -np.inf], np.float32)
    assert quantize(x, np.float32(1), 0, -128, 127).tolist() == [-128, -128, 127, 127, 127, -128]


def test_scales_per_channel_broadcast() -> None:
    """A scale of shape [C, 1] serves every channel with its own step."""
    x = np.array([[1.0, 2.0], [1.0, 2.0]], np.float32)
    assert quantize(x, np.array([[1.0], [0.5]], np.float32), 0, -128, 127).tolist() == [[1, 2], [2, 4]]


def test_dequantize_subtracts_the_zero_point_exactly() -> None:
    """(q - zp) * scale: with zp = -5, code -128 stands for -123 steps of a half."""
    codes = np.array([-128, -5, 127], np.int8)
    back = dequantize(codes, np.float32(0.5), -5)
    assert back.tolist() == [-61.5, 0.0, 66.0]
    assert back.dtype == np.float32


def test_an_accumulator_beyond_24_bits_is_rounded_to_the_nearest_float32() -> None:
    """2^24 + 1 has no float32 and goes to the even neighbour, 2^24 + 3 to 2^24 + 4."""
    accumulator = np.array([2**24 + 1, 2**24 + 3], np.int32)
    assert dequantize(accumulator, np.float32(1), 0).tolist() == [2**24, 2**24 + 4]


@QUICK
@given(
    st.lists(st.floats(-300, 300, width=32), min_size=1, max_size=20),
    st.floats(2**-6, 8, width=32),
    st.integers(-20, 20),
)
def test_fake_quantize_is_quantize_then_dequantize(values: list[float], scale: float, zero_point: int) -> None:
    """fake_quantize gives the very bits that storing the code and reading it back gives."""
    x, step = np.array(values, np.float32), np.float32(scale)
    codes = quantize(x, step, zero_point, -128, 127).astype(np.int8)
    assert fake_quantize(x, step, zero_point, -128, 127).tobytes() == dequantize(codes, step, zero_point).tobytes()


@QUICK
@given(st.lists(st.floats(-100, 100, width=32), min_size=1, max_size=20))
def test_in_range_the_error_is_at_most_half_a_step(values: list[float]) -> None:
    """Inside the range a value moves by no more than half a step (and one float32 rounding)."""
    x, step = np.array(values, np.float32), np.float32(100 / 127)
    error = np.abs(fake_quantize(x, step, 0, -128, 127).astype(np.float64) - x)
    assert np.all(error <= step * 0.5 * (1 + 1e-5))
