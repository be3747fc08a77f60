"""Integer convolutions of the TAE, any rank and group: plain, with a residual operand, and high-precision tail."""
from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from ptqlab.ops.emit import DOUBLE, Emitter
from ptqlab.ops.integer.accumulate import accumulate8, accumulate16, accumulate_dual, with_bias
from ptqlab.ops.integer.scaling import (
    OUTPUT_ATTRIBUTES,
    emit_requantize,
    emit_requantize_sum,
    emit_saturate32,
    requantize,
    requantize_sum,
    saturate32,
)
from ptqlab.ops.integer.spec import INT, INTS, IntegerOp

GEOMETRY = {"strides": INTS, "pads": INTS, "dilations": INTS, "group": INT, "x_zero_point": INT}


def accumulate(attrs: Mapping[str, Any], x: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """acc[n,o,p] = bias[o] + sum over c,k of (x[n,c,p*stride+k*dilation-pad] - x_zp) * w[o,c,k], int64.

    x [N,C,spatial...] integers, weight [O,C/group,kernel...], bias [O,1,...]; outside of x the term is zero.
    Of int16 features and weights the sum is (sum + 2^7) >> 8.
    """
    rank, group = x.ndim - 2, attrs["group"]
    strides, dilations, pads = attrs["strides"], attrs["dilations"], attrs["pads"]
    kernel = weight.shape[2:]
    centred = x.astype(np.int64) - attrs["x_zero_point"]
    padded = np.pad(centred, [(0, 0), (0, 0)] + [(pads[i], pads[rank + i]) for i in range(rank)])
    out = [
        (padded.shape[2 + i] - dilations[i] * (kernel[i] - 1) - 1) // strides[i] + 1
        for i in range(rank)
    ]
    n, positions = x.shape[0], int(np.prod(out))
    w = weight.astype(np.int64).reshape(group, weight.shape[0] // group, weight.shape[1], -1)
    acc = np.zeros((n, group, w.shape[1], positions), np.int64)
    for tap, offset in enumerate(itertools.product(*(range(k) for k in kernel))):
        window = tuple(
            slice(offset[i] * dilations[i], offset[i] * dilations[i] + (out[i] - 1) * strides[i] + 1, strides[i])
            for i in range(rank)
        )
        patch = padded[(slice(None), slice(None), *window)].reshape(n, group, weight.shape[1], positions)
        acc += np.matmul(w[:, :, :, tap], patch)
    return with_bias(acc.reshape(n, weight.shape[0], *out), x, weight, bias)


def _geometry(e: Emitter) -> dict[str, Any]:
    return {name: e.attr(name) for name in ("strides", "pads", "dilations", "group")}


def _product(e: Emitter, features: list[ir.Value], weight: np.ndarray) -> list[ir.Value]:
    w = e.const(weight.astype(np.float32))
    return [e.op("Conv", x, w, **_geometry(e)) for x in features]


def _integer_product(e: Emitter, x: ir.Value, w: ir.Value, x_zero: ir.Value, w_zero: ir.Value) -> ir.Value:
    return e.op("ConvInteger", x, w, x_zero, w_zero, **_geometry(e))


def _acc8(e: Emitter) -> ir.Value:
    return accumulate8(e, _product, _integer_product, 0)


def _acc16(e: Emitter) -> ir.Value:
    return accumulate16(e, _product, _integer_product, 0)


def _acc_dual(e: Emitter) -> ir.Value:
    return accumulate_dual(e, _product, _integer_product, 0)


def conv(attrs: Mapping[str, Any], x: np.ndarray, weight: np.ndarray, bias: np.ndarray, multiplier: np.ndarray,
         shift: np.ndarray) -> np.ndarray:
    return requantize(attrs, accumulate(attrs, x, weight, bias), multiplier, shift)


def conv_add(attrs: Mapping[str, Any], x: np.ndarray, weight: np.ndarray, bias: np.ndarray, multiplier: np.ndarray,
             shift: np.ndarray, residual: np.ndarray, residual_multiplier: np.ndarray,
             residual_shift: np.ndarray) -> np.ndarray:
    other = residual.astype(np.int64) - attrs["residual_zero_point"]
    return requantize_sum(attrs, (accumulate(attrs, x, weight, bias), multiplier, shift),
                          (other, residual_multiplier, residual_shift))


def conv_tail(attrs: Mapping[str, Any], x: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    return saturate32(accumulate(attrs, x, weight, bias))


def emit_residual(e: Emitter, acc: ir.Value) -> ir.Value:
    other = e.op("Sub", e.cast(e.codes("residual"), DOUBLE), e.integer("residual_zero_point", DOUBLE))
    return emit_requantize_sum(e, (acc, "multiplier", "shift"), (other, "residual_multiplier", "residual_shift"))


WEIGHTS = ("x", "weight", "bias")
SCALED = (*WEIGHTS, "multiplier", "shift")
RESIDUAL = (*SCALED, "residual", "residual_multiplier", "residual_shift")
EQUATION = "acc = bias + sum (x - x_zp) * w;  "
DUAL_EQUATION = "acc = bias + ((sum (x - x_zp) * w + 2^7) >> 8);  "


def _variants(prefix: str, acc: Any, equation: str = EQUATION) -> tuple[IntegerOp, ...]:
    return (
        IntegerOp(f"{prefix}Conv", SCALED, GEOMETRY | OUTPUT_ATTRIBUTES, conv, lambda e: emit_requantize(e, acc(e)),
                  equation + "y = clamp(y_zp + rescale(acc, m, s))"),
        IntegerOp(f"{prefix}ConvAdd", RESIDUAL, GEOMETRY | OUTPUT_ATTRIBUTES | {"residual_zero_point": INT}, conv_add,
                  lambda e: emit_residual(e, acc(e)),
                  equation + "y = clamp(y_zp + ((rescale(acc, m, s-G) + rescale(r - r_zp, mr, sr-G) + 2^(G-1)) >> G))"),
        IntegerOp(f"{prefix}ConvTail", WEIGHTS, GEOMETRY, conv_tail,
                  lambda e: emit_saturate32(e, acc(e)),
                  equation + "y = clamp(acc, -2^31, 2^31 - 1)"),
    )


CONV_OPS = (
    *_variants("Int8", _acc8), *_variants("Int16", _acc16), *_variants("DualInt16", _acc_dual, DUAL_EQUATION),
)
