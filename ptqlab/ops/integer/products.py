"""Matrix multiplication of two operands that are both tensors of codes: the MatMuls of attention.

    acc[.., m, n] = sum over k of (a[.., m, k] - a_zp) * (b[.., k, n] - b_zp)        leading axes broadcast

int16 x int16 is brought back to the 32 bits of the accumulator by 8 bits, rounded: acc' = (acc + 2^7) >> 8 (our
definition; one unit is then less than a hundredth of an output step wherever the output uses its range).
How standard operators give the same integers:
  int8 x int8   float32 while length * max|a - a_zp| * max|b - b_zp| < 2^24, else MatMulInteger on bytes;
  the others    float64, whose 53 bits hold every partial sum (length <= 2^14, operands of at most 17 bits).
"""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from ptqlab.ops.emit import DOUBLE, FLOAT, INT32, UINT8, Emitter, FastEmitter
from ptqlab.ops.integer.accumulate import drop_bits
from ptqlab.ops.integer.conv import emit_residual
from ptqlab.ops.integer.exact import EXACT_FLOAT32
from ptqlab.ops.integer.scaling import (
    OUTPUT_ATTRIBUTES,
    emit_requantize,
    emit_saturate32,
    requantize,
    requantize_sum,
    saturate32,
)
from ptqlab.ops.integer.spec import INT, IntegerOp

ATTRIBUTES = {"a_zero_point": INT, "b_zero_point": INT, "length": INT}


def accumulate(attrs: Mapping[str, Any], a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """acc (int16 x int16: acc'), int64; shapes and broadcasting as in numpy.matmul."""
    acc = np.matmul(a.astype(np.int64) - attrs["a_zero_point"], b.astype(np.int64) - attrs["b_zero_point"])
    bits = drop_bits(8 * a.dtype.itemsize, 8 * b.dtype.itemsize)
    return (acc + ((1 << bits) >> 1)) >> bits


def product(attrs: Mapping[str, Any], a: np.ndarray, b: np.ndarray, multiplier: np.ndarray,
            shift: np.ndarray) -> np.ndarray:
    return requantize(attrs, accumulate(attrs, a, b), multiplier, shift)


def product_add(attrs: Mapping[str, Any], a: np.ndarray, b: np.ndarray, multiplier: np.ndarray, shift: np.ndarray,
                residual: np.ndarray, residual_multiplier: np.ndarray, residual_shift: np.ndarray) -> np.ndarray:
    other = residual.astype(np.int64) - attrs["residual_zero_point"]
    return requantize_sum(attrs, (accumulate(attrs, a, b), multiplier, shift),
                          (other, residual_multiplier, residual_shift))


def product_tail(attrs: Mapping[str, Any], a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return saturate32(accumulate(attrs, a, b))


def _centred(e: Emitter, name: str, to: ir.DataType) -> ir.Value:
    if e.fast and not e.attributes[f"{name}_zero_point"]:
        return e.codes(name, to)
    return e.op("Sub", e.codes(name, to), e.integer(f"{name}_zero_point", to))


def _bytes(e: Emitter, name: str) -> tuple[ir.Value, ir.Value]:
    """int8 codes and their zero point, moved up by 128."""
    zero = e.op("Add", e.integer(f"{name}_zero_point", INT32), e.const(np.int32(128)))
    return e.cast(e.op("Add", e.codes(name), e.const(np.float32(128))), UINT8), e.cast(zero, UINT8)


def _accumulate8(e: Emitter) -> ir.Value:
    if isinstance(e, FastEmitter):
        largest = [max(map(abs, e.span(name, e.attributes[f"{name}_zero_point"]))) for name in ("a", "b")]
        if e.attributes["length"] * largest[0] * largest[1] < EXACT_FLOAT32:
            return e.op("MatMul", _centred(e, "a", FLOAT), _centred(e, "b", FLOAT))
    (a, a_zero), (b, b_zero) = _bytes(e, "a"), _bytes(e, "b")
    return e.op("MatMulInteger", a, b, a_zero, b_zero)


def _accumulate64(e: Emitter, bits: int) -> ir.Value:
    acc = e.op("MatMul", _centred(e, "a", DOUBLE), _centred(e, "b", DOUBLE))
    if not bits:
        return acc
    scaled = e.op("Mul", acc, e.const(np.float64(2.0**-bits)))
    return e.op("Floor", e.op("Add", scaled, e.const(np.float64(0.5))))


SCALED = ("a", "b", "multiplier", "shift")
RESIDUAL = (*SCALED, "residual", "residual_multiplier", "residual_shift")


def _variants(a_bits: int, b_bits: int) -> tuple[IntegerOp, ...]:
    bits = drop_bits(a_bits, b_bits)
    prefix = f"Int{a_bits}Int{b_bits}MatMul"
    equation = "acc = sum over k of (a[..,k] - a_zp) * (b[k,..] - b_zp);  "
    if bits:
        equation += f"acc = (acc + 2^{bits - 1}) >> {bits};  "

    def acc(e: Emitter) -> ir.Value:
        return _accumulate8(e) if a_bits == b_bits == 8 else _accumulate64(e, bits)

    return (
        IntegerOp(prefix, SCALED, ATTRIBUTES | OUTPUT_ATTRIBUTES, product, lambda e: emit_requantize(e, acc(e)),
                  equation + "y = clamp(y_zp + rescale(acc, m, s))"),
        IntegerOp(f"{prefix}Add", RESIDUAL, ATTRIBUTES | OUTPUT_ATTRIBUTES | {"residual_zero_point": INT}, product_add,
                  lambda e: emit_residual(e, acc(e)),
                  equation + "y = clamp(y_zp + ((rescale(acc, m, s-G) + rescale(r - r_zp, mr, sr-G) + 2^(G-1)) >> G))"),
        IntegerOp(f"{prefix}Tail", SCALED[:2], ATTRIBUTES, product_tail, lambda e: emit_saturate32(e, acc(e)),
                  equation + "y = clamp(acc, -2^31, 2^31 - 1)"),
    )


PRODUCT_OPS = tuple(op for a in (8, 16) for b in (8, 16) for op in _variants(a, b))
