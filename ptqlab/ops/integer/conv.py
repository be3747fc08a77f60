"""Integer convolutions of the TAE, any rank and group: plain, with a residual operand, and high-precision tail."""
from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from ptqlab.ops.emit import DOUBLE, Emitter, FastEmitter
from ptqlab.ops.integer.accumulate import accumulate as accumulator
from ptqlab.ops.integer.accumulate import with_bias
from ptqlab.ops.integer.exact import Accumulator, Kernel, MatrixProduct, plus
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


def _product(e: Emitter, x: ir.Value, weight: np.ndarray, channels: np.ndarray | None) -> ir.Value:
    geometry = _geometry(e)
    if channels is not None:
        weight = weight[channels]
        if geometry["group"] != 1:
            geometry["group"] = len(channels)
            x = e.op("Gather", x, e.const(channels), axis=1)
    return e.op("Conv", x, e.const(weight.astype(np.float32)), **geometry)


def _divisible(e: FastEmitter) -> bool:
    group = e.attributes["group"]
    return group == 1 or group == e.arrays["weight"].shape[0] == e.operands["x"].shape[1]


def _integer_product(e: Emitter, x: ir.Value, w: ir.Value, x_zero: ir.Value, w_zero: ir.Value) -> ir.Value:
    return e.op("ConvInteger", x, w, x_zero, w_zero, **_geometry(e))


def _matrix(e: FastEmitter) -> MatrixProduct | None:
    """A convolution with a kernel of one element is weight [O, C] @ x [N, C, positions]."""
    a, shape = e.attributes, e.operands["x"].shape
    outputs, inputs, *kernel = e.arrays["weight"].shape
    if a["group"] != 1 or set(kernel) != {1} or any(a["pads"]) or set(a["strides"]) != {1}:
        return None

    def product(weights: np.ndarray, offset: np.ndarray) -> ir.Value:
        matrix = weights.reshape(outputs, inputs)
        rows = e.op("Reshape", e.codes("x", DOUBLE), e.const(np.array([shape[0], inputs, -1], np.int64)))
        widens = inputs < outputs and bool(offset.any())
        if widens:
            # a row of ones below the few channels that come in costs less than an addition to the many that go out
            ones = np.ones((shape[0], 1, math.prod(shape[2:])))
            rows = e.op("Concat", rows, e.const(ones), axis=1)
            matrix = np.concatenate([matrix, np.broadcast_to(offset.reshape(-1, 1), (outputs, 1))], axis=1)
        made = e.op("MatMul", e.const(matrix), rows)
        made = e.op("Reshape", made, e.const(np.array([shape[0], outputs, *shape[2:]], np.int64)))
        return made if widens else plus(e, made, offset)

    return product


KERNEL = Kernel(0, _product, _integer_product, _matrix, _divisible)


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


def emit_residual(e: Emitter, acc: Accumulator | ir.Value) -> ir.Value:
    other = e.op("Sub", e.codes("residual", DOUBLE), e.integer("residual_zero_point", DOUBLE))
    return emit_requantize_sum(e, (acc, "multiplier", "shift"), (other, "residual_multiplier", "residual_shift"))


WEIGHTS = ("x", "weight", "bias")
SCALED = (*WEIGHTS, "multiplier", "shift")
RESIDUAL = (*SCALED, "residual", "residual_multiplier", "residual_shift")
EQUATION = "acc = bias + sum (x - x_zp) * w;  "
DUAL_EQUATION = "acc = bias + ((sum (x - x_zp) * w + 2^7) >> 8);  "


def _variants(prefix: str, bits: tuple[int, int], equation: str = EQUATION) -> tuple[IntegerOp, ...]:
    def acc(e: Emitter) -> Accumulator | ir.Value:
        return accumulator(e, KERNEL, bits)

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
    *_variants("Int8", (8, 8)), *_variants("Int16", (16, 8)), *_variants("DualInt16", (16, 16), DUAL_EQUATION),
)
