"""Exact integer dot products: the accumulators of convolution and matrix multiplication.

The reference holds int64. The model-local functions, which know no weights, multiply bytes: ConvInteger /
MatMulInteger on uint8 x uint8 with int32 sums, exact on every processor (uint8 x int8 is not: without VNNI
instructions its pair sums saturate at 16 bits). int16 features are split in two bytes, x + 32768 = 256 hi + lo, and
the two products joined in float64; int16 weights are split the same way, which makes four. The fast path knows the
weights and multiplies in float where that is exact (see exact.py), by bytes where it is not.

A sum of int16 x int16 is below 2^46 (at most LONGEST_SUM products). It is brought back to the 32 bits of the
accumulator by DROPPED bits, rounded, before the bias is added: acc = bias + ((sum + 2^7) >> 8) (our definition; one
unit is then less than a hundredth of an output step wherever the output uses its range).
"""
from __future__ import annotations

import numpy as np
import onnx_ir as ir

from ptqlab.ops.emit import DOUBLE, FLOAT, INT32, UINT8, Emitter, FastEmitter
from ptqlab.ops.integer.exact import BYTE, Accumulator, Kernel, exact_accumulator

DROPPED = 8
# of int16 x int16: 2^14 * 2^15 * 2^16 = 2^45, so that 2^37 and the bias stay below the 2^38 that `rescale` is exact for
LONGEST_SUM = 1 << 14


def drop_bits(a_bits: int, b_bits: int) -> int:
    """Bits that a sum of products of two operands loses before it is an accumulator."""
    return DROPPED if a_bits + b_bits == 32 else 0


def with_bias(products: np.ndarray, x: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """acc = bias + sum, or bias + ((sum + 2^7) >> 8) where features and weights are int16; int64."""
    bits = drop_bits(8 * x.dtype.itemsize, 8 * weight.dtype.itemsize)
    return ((products + ((1 << bits) >> 1)) >> bits) + bias.astype(np.int64)


def accumulate(e: Emitter, kernel: Kernel, bits: tuple[int, int]) -> Accumulator | ir.Value:
    """Accumulator of features (input "x") and weights (input "weight") of 8 or 16 `bits`, bias included."""
    if isinstance(e, FastEmitter):
        found = exact_accumulator(e, kernel, bits, drop_bits(*bits))
        if found is not None:
            return found
    products = {(8, 8): _bytes8, (16, 8): _bytes16, (16, 16): _bytes_dual}[bits](e, kernel)
    return e.op("Add", e.cast(products, DOUBLE), e.cast(e.input("bias"), DOUBLE))


def _bytes8(e: Emitter, kernel: Kernel) -> ir.Value:
    x = e.cast(e.op("Add", e.codes("x"), e.const(np.float32(128))), UINT8)
    zero = e.cast(e.op("Add", e.integer("x_zero_point", INT32), e.const(np.int32(128))), UINT8)
    return kernel.integer_product(e, x, _weight_bytes(e), zero, e.const(np.uint8(128)))


def _bytes16(e: Emitter, kernel: Kernel) -> ir.Value:
    w, middle = _weight_bytes(e), e.const(np.uint8(128))
    high, low = (
        kernel.integer_product(e, e.cast(part, UINT8), w, e.cast(zero, UINT8), middle)
        for part, zero in _feature_bytes(e)
    )
    return _joined(e, high, low)


def _bytes_dual(e: Emitter, kernel: Kernel) -> ir.Value:
    x = [(e.cast(part, UINT8), e.cast(zero, UINT8)) for part, zero in _feature_bytes(e)]
    high, low = (
        _joined(e, *(kernel.integer_product(e, part, w, zero, w_zero) for part, zero in x))
        for w, w_zero in _weight_pair(e)
    )
    total = e.op("Mul", _joined(e, high, low), e.const(np.float64(2.0**-DROPPED)))
    return e.op("Floor", e.op("Add", total, e.const(np.float64(0.5))))


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


def _weight_bytes(e: Emitter) -> ir.Value:
    weight = e.known("weight")
    if weight is not None:
        return e.const((weight.astype(np.int16) + 128).astype(np.uint8))
    return e.cast(e.op("Add", e.cast(e.input("weight"), INT32), e.const(np.int32(128))), UINT8)
