"""Integer matrix multiplication with a constant right operand (MatMul and Gemm): the TAE's other shape."""
from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from ptqlab.ops.emit import DOUBLE, Emitter, FastEmitter
from ptqlab.ops.integer.accumulate import accumulate as accumulator
from ptqlab.ops.integer.accumulate import with_bias
from ptqlab.ops.integer.conv import RESIDUAL, SCALED, WEIGHTS, emit_residual
from ptqlab.ops.integer.exact import Accumulator, Kernel, MatrixProduct, plus
from ptqlab.ops.integer.scaling import (
    OUTPUT_ATTRIBUTES,
    emit_requantize,
    emit_saturate32,
    requantize,
    requantize_sum,
    saturate32,
)
from ptqlab.ops.integer.spec import INT, IntegerOp

ATTRIBUTES = {"x_zero_point": INT}
# weights of so many elements leave the cache between two uses, and so few rows use each of them too seldom to matter
FEW_ROWS, LARGE = 4, 1 << 17
EQUATION = "acc[..,n] = bias[n] + sum over k of (x[..,k] - x_zp) * w[k,n];  "
DUAL_EQUATION = "acc[..,n] = bias[n] + ((sum over k of (x[..,k] - x_zp) * w[k,n] + 2^7) >> 8);  "


def accumulate(attrs: Mapping[str, Any], x: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """acc[..., n] = bias[n] + sum over k of (x[..., k] - x_zp) * w[k, n], int64. x [..., K], weight [K, N].

    Of int16 features and weights the sum is (sum + 2^7) >> 8.
    """
    centred = x.astype(np.int64) - attrs["x_zero_point"]
    return with_bias(np.matmul(centred, weight.astype(np.int64)), x, weight, bias)


def matmul(attrs: Mapping[str, Any], x: np.ndarray, weight: np.ndarray, bias: np.ndarray, multiplier: np.ndarray,
           shift: np.ndarray) -> np.ndarray:
    return requantize(attrs, accumulate(attrs, x, weight, bias), multiplier, shift)


def matmul_add(attrs: Mapping[str, Any], x: np.ndarray, weight: np.ndarray, bias: np.ndarray, multiplier: np.ndarray,
               shift: np.ndarray, residual: np.ndarray, residual_multiplier: np.ndarray,
               residual_shift: np.ndarray) -> np.ndarray:
    other = residual.astype(np.int64) - attrs["residual_zero_point"]
    return requantize_sum(attrs, (accumulate(attrs, x, weight, bias), multiplier, shift),
                          (other, residual_multiplier, residual_shift))


def matmul_tail(attrs: Mapping[str, Any], x: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    return saturate32(accumulate(attrs, x, weight, bias))


def _product(e: Emitter, x: ir.Value, weight: np.ndarray, channels: np.ndarray | None) -> ir.Value:
    return e.op("MatMul", x, e.const(weight.astype(np.float32)))


def _integer_product(e: Emitter, x: ir.Value, w: ir.Value, x_zero: ir.Value, w_zero: ir.Value) -> ir.Value:
    return e.op("MatMulInteger", x, w, x_zero, w_zero)


def _matrix(e: FastEmitter) -> MatrixProduct:
    return lambda weights, offset: plus(e, e.op("MatMul", e.codes("x", DOUBLE), e.const(weights)), offset)


def _few_rows(e: FastEmitter) -> bool:
    return math.prod(e.operands["x"].shape[:-1]) <= FEW_ROWS and e.arrays["weight"].size >= LARGE


KERNEL = Kernel(-1, _product, _integer_product, _matrix, few_rows=_few_rows)


def _variants(prefix: str, bits: tuple[int, int], equation: str = EQUATION) -> tuple[IntegerOp, ...]:
    def acc(e: Emitter) -> Accumulator | ir.Value:
        return accumulator(e, KERNEL, bits)

    return (
        IntegerOp(f"{prefix}MatMul", SCALED, ATTRIBUTES | OUTPUT_ATTRIBUTES, matmul,
                  lambda e: emit_requantize(e, acc(e)), equation + "y = clamp(y_zp + rescale(acc, m, s))"),
        IntegerOp(f"{prefix}MatMulAdd", RESIDUAL, ATTRIBUTES | OUTPUT_ATTRIBUTES | {"residual_zero_point": INT},
                  matmul_add, lambda e: emit_residual(e, acc(e)),
                  equation + "y = clamp(y_zp + ((rescale(acc, m, s-G) + rescale(r - r_zp, mr, sr-G) + 2^(G-1)) >> G))"),
        IntegerOp(f"{prefix}MatMulTail", WEIGHTS, ATTRIBUTES, matmul_tail,
                  lambda e: emit_saturate32(e, acc(e)), equation + "y = clamp(acc, -2^31, 2^31 - 1)"),
    )


MATMUL_OPS = (
    *_variants("Int8", (8, 8)), *_variants("Int16", (16, 8)), *_variants("DualInt16", (16, 16), DUAL_EQUATION),
)
