"""Exact integer dot products: the accumulators of convolution and matrix multiplication.

The reference holds int64. Standard ONNX operators give the same integers in one of two ways:
  float32    every partial sum stays a whole number below 2^24, the last one float32 holds exactly. That is so
             when, for each output channel, L1(weights) * max|x - zero_point| + |bias| < 2^24.
  uint8      ConvInteger / MatMulInteger on uint8 x uint8 with int32 sums, exact on every processor
             (uint8 x int8 is not: without VNNI instructions its pair sums saturate at 16 bits).
int16 features are split in two bytes, x + 32768 = 256 hi + lo, and the two products joined in float64.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from ptqlab.ops.emit import DOUBLE, FLOAT, INT32, UINT8, Emitter

EXACT_FLOAT32 = 1 << 24
BYTE = 256

Product = Callable[[Emitter, ir.Value, ir.Value], ir.Value]
IntegerProduct = Callable[[Emitter, ir.Value, ir.Value, ir.Value, ir.Value], ir.Value]


def code_span(bits: int, zero_point: int) -> int:
    """Largest |x - zero_point| over all codes x of a signed type."""
    half = 1 << (bits - 1)
    return max(half - 1 - zero_point, half + zero_point)


def weight_l1(weight: np.ndarray, channel_axis: int) -> np.ndarray:
    """Sum of |w| per output channel, int64."""
    axes = tuple(a for a in range(weight.ndim) if a != channel_axis % weight.ndim)
    return np.abs(weight.astype(np.int64)).sum(axis=axes)


def accumulate8(e: Emitter, product: Product, integer_product: IntegerProduct, channel_axis: int) -> ir.Value:
    """Accumulator of int8 features (input "x") and int8 weights (input "weight"), bias included."""
    weight = e.known("weight")
    bound = None
    if e.fast and weight is not None:
        bias = _bias_array(e)
        bound = accumulator_bound(weight, bias, channel_axis, e.attributes, 8)
        if bound < EXACT_FLOAT32:
            acc = product(e, _centred(e), e.const(weight.astype(np.float32)))
            return acc if not bias.any() else e.op("Add", acc, e.const(bias.astype(np.float32)))
    x = e.cast(e.op("Add", e.codes("x"), e.const(np.float32(128))), UINT8)
    zero = e.cast(e.op("Add", e.integer("x_zero_point", INT32), e.const(np.int32(128))), UINT8)
    acc = integer_product(e, x, _weight_bytes(e), zero, e.const(np.uint8(128)))
    # the products alone fit 32 bits by rule (ops.rules.few_products); with the bias they may not
    if bound is not None and bound < 1 << 31:
        return e.op("Add", acc, e.cast(e.input("bias"), INT32))
    return e.op("Add", e.cast(acc, DOUBLE), e.cast(e.input("bias"), DOUBLE))


def accumulate16(e: Emitter, product: Product, integer_product: IntegerProduct, channel_axis: int) -> ir.Value:
    """Accumulator of int16 features and int8 weights, bias included, as float64 whole numbers."""
    weight = e.known("weight")
    shifted = e.op("Add", e.codes("x"), e.const(np.float32(32768)))
    high = e.op("Floor", e.op("Mul", shifted, e.const(np.float32(1 / BYTE))))
    low = e.op("Sub", shifted, e.op("Mul", high, e.const(np.float32(BYTE))))
    zero = e.op("Add", e.integer("x_zero_point", FLOAT), e.const(np.float32(32768)))
    zero_high = e.op("Floor", e.op("Mul", zero, e.const(np.float32(1 / BYTE))))
    zero_low = e.op("Sub", zero, e.op("Mul", zero_high, e.const(np.float32(BYTE))))
    if e.fast and weight is not None and np.all(weight_l1(weight, channel_axis) * (BYTE - 1) < EXACT_FLOAT32):
        w = e.const(weight.astype(np.float32))
        parts = [product(e, e.op("Sub", part, z), w) for part, z in ((high, zero_high), (low, zero_low))]
    else:
        w, middle = _weight_bytes(e), e.const(np.uint8(128))
        parts = [
            integer_product(e, e.cast(part, UINT8), w, e.cast(z, UINT8), middle)
            for part, z in ((high, zero_high), (low, zero_low))
        ]
    wide = e.op("Mul", e.cast(parts[0], DOUBLE), e.const(np.float64(BYTE)))
    return e.op("Add", e.op("Add", wide, e.cast(parts[1], DOUBLE)), e.cast(e.input("bias"), DOUBLE))


def _centred(e: Emitter) -> ir.Value:
    if not e.attributes["x_zero_point"]:
        return e.codes("x")
    return e.op("Sub", e.codes("x"), e.integer("x_zero_point", FLOAT))


def _bias_array(e: Emitter) -> np.ndarray:
    bias = e.known("bias")
    assert bias is not None, "the bias of an integer operator is constant"
    return bias


def _weight_bytes(e: Emitter) -> ir.Value:
    weight = e.known("weight")
    if weight is not None:
        return e.const((weight.astype(np.int16) + 128).astype(np.uint8))
    return e.cast(e.op("Add", e.cast(e.input("weight"), INT32), e.const(np.int32(128))), UINT8)


def accumulator_bound(weight: np.ndarray, bias: np.ndarray, channel_axis: int, attributes: Mapping[str, Any],
                      bits: int) -> int:
    """Largest |accumulator| that any input can give."""
    span = code_span(bits, attributes["x_zero_point"])
    return int((weight_l1(weight, channel_axis) * span + np.abs(bias.astype(np.int64)).ravel()).max(initial=0))
