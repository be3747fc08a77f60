"""Rounding and the quantize / dequantize pair, in float32 exactly as written.

One definition, used by the calibrated graph (as ONNX operators, see `quantize.calibrated`), by the simulator
and by the weights. The vendor's manual says only "round"; an older one names C++ `std::round`. Our
definition: ties go away from zero, computed as sign(v) * floor(|v| + 0.5).
"""
from __future__ import annotations

import numpy as np


def round_half_away(values: np.ndarray) -> np.ndarray:
    """Nearest whole number, ties away from zero; dtype (float32 or float64) is kept.

    0.5 -> 1, -0.5 -> -1, 1.5 -> 2, -2.5 -> -3.
    """
    half = values.dtype.type(0.5)
    return np.sign(values) * np.floor(np.abs(values) + half)


def quantize(values: np.ndarray, scale: np.ndarray | np.float32, zero_point: int, low: int, high: int) -> np.ndarray:
    """q = clamp(round_half_away(x / scale + zero_point), low, high); float32 whole numbers.

    Computed in float32 as written. `scale` is a scalar or broadcastable to `values` (per channel). The zero
    point is added before rounding (documented).
    """
    codes = round_half_away(values.astype(np.float32) / np.asarray(scale, np.float32) + np.float32(zero_point))
    return np.clip(codes, np.float32(low), np.float32(high))


def fake_quantize(
    values: np.ndarray, scale: np.ndarray | np.float32, zero_point: int, low: int, high: int
) -> np.ndarray:
    """What a value becomes by quantize and dequantize, float32: (q - zero_point) * scale."""
    codes = quantize(values, scale, zero_point, low, high)
    return (codes - np.float32(zero_point)) * np.asarray(scale, np.float32)


def dequantize(codes: np.ndarray, scale: np.ndarray, zero_point: int) -> np.ndarray:
    """x = (q - zero_point) * scale, float32. `codes` may be int8, int16 or an int32 accumulator.

    An accumulator beyond 2^24 is rounded to the nearest float32 (ties to even) by the conversion.
    """
    centred = codes.astype(np.int64) - zero_point
    return centred.astype(np.float32) * scale.astype(np.float32)
