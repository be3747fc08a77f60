"""Integer matrix multiplication with a constant right operand (MatMul and Gemm): the TAE's other shape."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from ptqlab.ops.emit import Emitter
from ptqlab.ops.integer.accumulate import accumulate8, accumulate16, accumulate_dual, with_bias
from ptqlab.ops.integer.conv import RESIDUAL, SCALED, WEIGHTS, emit_residual
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


def _product(e: Emitter, features: list[ir.Value], weight: np.ndarray) -> list[ir.Value]:
    w = e.const(weight.astype(np.float32))
    return [e.op("MatMul", x, w) for x in features]


def _integer_product(e: Emitter, x: ir.Value, w: ir.Value, x_zero: ir.Value, w_zero: ir.Value) -> ir.Value:
    return e.op("MatMulInteger", x, w, x_zero, w_zero)


def _acc8(e: Emitter) -> ir.Value:
    return accumulate8(e, _product, _integer_product, -1)


def _acc16(e: Emitter) -> ir.Value:
    return accumulate16(e, _product, _integer_product, -1)


def _acc_dual(e: Emitter) -> ir.Value:
    return accumulate_dual(e, _product, _integer_product, -1)


def _variants(prefix: str, acc: Any, equation: str = EQUATION) -> tuple[IntegerOp, ...]:
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
    *_variants("Int8", _acc8), *_variants("Int16", _acc16), *_variants("DualInt16", _acc_dual, DUAL_EQUATION),
)
