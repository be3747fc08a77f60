"""Exact integer dot products: the accumulators of convolution and matrix multiplication.

The reference holds int64. Standard ONNX operators give the same integers in one of two ways:
  float32    every partial sum stays a whole number below 2^24, the last one float32 holds exactly. That is so
             when, for each output channel, L1(weights) * max|x - zero_point| + |bias| < 2^24.
  uint8      ConvInteger / MatMulInteger on uint8 x uint8 with int32 sums, exact on every processor
             (uint8 x int8 is not: without VNNI instructions its pair sums saturate at 16 bits).
int16 features are split in two bytes, x + 32768 = 256 hi + lo, and the two products joined in float64; int16
weights are split the same way, which makes four. Their sum is below 2^46 (at most LONGEST_SUM products), so exact
there. It is brought back to the 32 bits of the accumulator by DROPPED bits, rounded, before the bias is added:
acc = bias + ((sum + 2^7) >> 8) (our definition; one unit is then less than a hundredth of an output step wherever
the output uses its range).
"""
from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from ptqlab.ops.emit import DOUBLE, FLOAT, INT32, UINT8, Emitter

EXACT_FLOAT32 = 1 << 24
BYTE = 256
DROPPED = 8
# of int16 x int16: 2^14 * 2^15 * 2^16 = 2^45, so that 2^37 and the bias stay below the 2^38 that `rescale` is exact for
LONGEST_SUM = 1 << 14

# product of each of these features with weights as an array, all exact in float32
Product = Callable[[Emitter, list[ir.Value], np.ndarray], list[ir.Value]]
IntegerProduct = Callable[[Emitter, ir.Value, ir.Value, ir.Value, ir.Value], ir.Value]


def drop_bits(a_bits: int, b_bits: int) -> int:
    """Bits that a sum of products of two operands loses before it is an accumulator."""
    return DROPPED if a_bits + b_bits == 32 else 0


def with_bias(products: np.ndarray, x: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """acc = bias + sum, or bias + ((sum + 2^7) >> 8) where features and weights are int16; int64."""
    bits = drop_bits(8 * x.dtype.itemsize, 8 * weight.dtype.itemsize)
    return ((products + ((1 << bits) >> 1)) >> bits) + bias.astype(np.int64)


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
            [acc] = product(e, [_centred(e)], weight)
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
    weight, parts = e.known("weight"), _feature_bytes(e)
    if e.fast and weight is not None and _sums_fit(weight, channel_axis):
        high, low = product(e, [e.op("Sub", part, zero) for part, zero in parts], weight)
    else:
        w, middle = _weight_bytes(e), e.const(np.uint8(128))
        high, low = (integer_product(e, e.cast(part, UINT8), w, e.cast(zero, UINT8), middle) for part, zero in parts)
    return e.op("Add", _joined(e, high, low), e.cast(e.input("bias"), DOUBLE))


def accumulate_dual(e: Emitter, product: Product, integer_product: IntegerProduct, channel_axis: int) -> ir.Value:
    """Accumulator of int16 features and int16 weights, bias included, as float64 whole numbers."""
    parts, halves = _feature_bytes(e), _exact_halves(e, channel_axis)
    if halves:
        centred = [e.op("Sub", part, zero) for part, zero in parts]
        high, low = (_joined(e, *product(e, centred, half)) for half in halves)
    else:
        x = [(e.cast(part, UINT8), e.cast(zero, UINT8)) for part, zero in parts]
        high, low = (
            _joined(e, *(integer_product(e, part, w, zero, w_zero) for part, zero in x))
            for w, w_zero in _weight_pair(e)
        )
    total = e.op("Mul", _joined(e, high, low), e.const(np.float64(2.0**-DROPPED)))
    return e.op("Add", e.op("Floor", e.op("Add", total, e.const(np.float64(0.5)))), e.cast(e.input("bias"), DOUBLE))


def _joined(e: Emitter, high: ir.Value, low: ir.Value) -> ir.Value:
    """256 high + low, float64."""
    return e.op("Add", e.op("Mul", e.cast(high, DOUBLE), e.const(np.float64(BYTE))), e.cast(low, DOUBLE))


def _bytes_of(e: Emitter, shifted: ir.Value) -> tuple[ir.Value, ir.Value]:
    """High and low byte of float32 whole numbers from 0 to 65535."""
    high = e.op("Floor", e.op("Mul", shifted, e.const(np.float32(1 / BYTE))))
    return high, e.op("Sub", shifted, e.op("Mul", high, e.const(np.float32(BYTE))))


def _feature_bytes(e: Emitter) -> list[tuple[ir.Value, ir.Value]]:
    """(byte, zero point of that byte) of int16 features, high and low, as float32 from 0 to 255."""
    half = e.const(np.float32(32768))
    x = _bytes_of(e, e.op("Add", e.codes("x"), half))
    zero = _bytes_of(e, e.op("Add", e.integer("x_zero_point", FLOAT), half))
    return list(zip(x, zero, strict=True))


def _exact_halves(e: Emitter, channel_axis: int) -> tuple[np.ndarray, np.ndarray] | None:
    """int16 weights as w = 256 high + low, both in [-128, 128], where float32 sums with them are exact."""
    weight = e.known("weight")
    if not e.fast or weight is None:
        return None
    high = (weight.astype(np.int32) + 128) >> 8
    low = weight - high * BYTE
    return (high, low) if _sums_fit(high, channel_axis) and _sums_fit(low, channel_axis) else None


def _weight_pair(e: Emitter) -> list[tuple[ir.Value, ir.Value]]:
    """High and low byte of int16 weights + 32768 as uint8, each with its zero point."""
    weight, zeros = e.known("weight"), (e.const(np.uint8(128)), e.const(np.uint8(0)))
    if weight is not None:
        shifted = weight.astype(np.int32) + 32768
        parts = [e.const((shifted >> 8).astype(np.uint8)), e.const((shifted & 255).astype(np.uint8))]
    else:
        split = _bytes_of(e, e.op("Add", e.codes("weight"), e.const(np.float32(32768))))
        parts = [e.cast(part, UINT8) for part in split]
    return list(zip(parts, zeros, strict=True))


def _sums_fit(weight: np.ndarray, channel_axis: int) -> bool:
    """Whether every sum of products with a byte is below 2^24."""
    return bool(np.all(weight_l1(weight, channel_axis) * (BYTE - 1) < EXACT_FLOAT32))


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
