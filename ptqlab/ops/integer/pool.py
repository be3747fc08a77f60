"""Pooling of the AAE and sums of the VAE, on integers."""
from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from ptqlab.ops.emit import DOUBLE, FLOAT, Emitter
from ptqlab.ops.integer import conv
from ptqlab.ops.integer.scaling import OUTPUT_ATTRIBUTES, emit_requantize, requantize
from ptqlab.ops.integer.spec import INT, INTS, IntegerOp


def average_pool(attrs: Mapping[str, Any], x: np.ndarray, window: np.ndarray, multiplier: np.ndarray,
                 shift: np.ndarray) -> np.ndarray:
    """Sum over the window of (x - x_zp), then requantize with x_scale / (count * y_scale).

    `window` holds ones, [C, 1, kernel...]; multiplier and shift may vary by position, where the count does.
    """
    bias = np.zeros((window.shape[0],) + (1,) * (x.ndim - 2), np.int64)
    return requantize(attrs, conv.accumulate(attrs, x, window, bias), multiplier, shift)


def _emit_average_pool(e: Emitter) -> ir.Value:
    # a window of k elements of 16 bits stays below 2^24 for k < 256; larger windows are lowered as sums
    x = e.op("Sub", e.codes("x"), e.integer("x_zero_point", FLOAT))
    total = e.op("Conv", x, e.codes("window"), strides=e.attr("strides"), pads=e.attr("pads"),
                 dilations=e.attr("dilations"), group=e.attr("group"))
    return emit_requantize(e, total)


LARGEST_WINDOW = 255


def reduce_sum(attrs: Mapping[str, Any], x: np.ndarray, axes: np.ndarray, multiplier: np.ndarray,
               shift: np.ndarray) -> np.ndarray:
    """Sum over `axes` of (x - x_zp), requantized with x_scale / (count * y_scale): the mean.

    The summed axes stay with length 1 where keepdims is 1."""
    centred = x.astype(np.int64) - attrs["x_zero_point"]
    total = centred.sum(axis=tuple(int(a) for a in axes), keepdims=bool(attrs["keepdims"]))
    return requantize(attrs, total, multiplier, shift)


def _emit_reduce_sum(e: Emitter) -> ir.Value:
    x = e.cast(e.op("Sub", e.codes("x"), e.integer("x_zero_point", FLOAT)), DOUBLE)
    return emit_requantize(e, e.op("ReduceSum", x, e.input("axes"), keepdims=e.attr("keepdims")))


def max_pool(attrs: Mapping[str, Any], x: np.ndarray) -> np.ndarray:
    """Largest code of each window; outside of x stands the type's smallest code.

    The window grid covers what `pads` say; ceil_mode was turned into end pads when the operator was lowered.
    """
    rank = x.ndim - 2
    kernel, strides, pads, dilations = (attrs[k] for k in ("kernel_shape", "strides", "pads", "dilations"))
    padded = np.pad(x, [(0, 0), (0, 0)] + [(pads[i], pads[rank + i]) for i in range(rank)],
                    constant_values=np.iinfo(x.dtype).min)
    out = [(padded.shape[2 + i] - dilations[i] * (kernel[i] - 1) - 1) // strides[i] + 1 for i in range(rank)]
    result = np.full((*x.shape[:2], *out), np.iinfo(x.dtype).min, x.dtype)
    for offset in itertools.product(*(range(k) for k in kernel)):
        window = tuple(
            slice(offset[i] * dilations[i], offset[i] * dilations[i] + (out[i] - 1) * strides[i] + 1, strides[i])
            for i in range(rank)
        )
        result = np.maximum(result, padded[(slice(None), slice(None), *window)])
    return result


def _emit_max_pool(e: Emitter) -> ir.Value:
    pooled = e.op("MaxPool", e.codes("x"), kernel_shape=e.attr("kernel_shape"), strides=e.attr("strides"),
                  pads=e.attr("pads"), dilations=e.attr("dilations"))
    # a window that lies in the padding alone holds -inf in float and the smallest code here
    return e.store(e.op("Max", pooled, e.integer("lowest", FLOAT)))


def pad(attrs: Mapping[str, Any], x: np.ndarray, pads: np.ndarray) -> np.ndarray:
    """Grow (or, negative, cut) each axis; `value` is the code put there in mode "constant"."""
    rank = x.ndim
    ends = [(int(pads[i]), int(pads[rank + i])) for i in range(rank)]
    cut = tuple(slice(max(-b, 0), x.shape[i] - max(-e, 0)) for i, (b, e) in enumerate(ends))
    grow = [(max(b, 0), max(e, 0)) for b, e in ends]
    mode = attrs["mode"]
    if mode == "constant":
        return np.pad(x[cut], grow, constant_values=attrs["value"])
    return np.pad(x[cut], grow, mode=mode)


def _emit_pad(e: Emitter) -> ir.Value:
    value = e.integer("value", FLOAT)
    return e.store(e.op("Pad", e.codes("x"), e.input("pads"), value, mode=e.attr("mode")))


def depth_to_space(attrs: Mapping[str, Any], x: np.ndarray) -> np.ndarray:
    """Blocks of channels become blocks of space: DCR has the block at the slow end of the channels, CRD at the fast."""
    n, c, h, w = x.shape
    b = attrs["blocksize"]
    if attrs["mode"] == "DCR":
        moved = x.reshape(n, b, b, c // (b * b), h, w).transpose(0, 3, 4, 1, 5, 2)
    else:
        moved = x.reshape(n, c // (b * b), b, b, h, w).transpose(0, 1, 4, 2, 5, 3)
    return moved.reshape(n, c // (b * b), h * b, w * b)


def space_to_depth(attrs: Mapping[str, Any], x: np.ndarray) -> np.ndarray:
    n, c, h, w = x.shape
    b = attrs["blocksize"]
    moved = x.reshape(n, c, h // b, b, w // b, b).transpose(0, 3, 5, 1, 2, 4)
    return moved.reshape(n, c * b * b, h // b, w // b)


def _emit_depth_to_space(e: Emitter) -> ir.Value:
    return e.store(e.op("DepthToSpace", e.codes("x"), blocksize=e.attr("blocksize"), mode=e.attr("mode")))


def _emit_space_to_depth(e: Emitter) -> ir.Value:
    return e.store(e.op("SpaceToDepth", e.codes("x"), blocksize=e.attr("blocksize")))


POOL_GEOMETRY = {"strides": INTS, "pads": INTS, "dilations": INTS}

POOL_OPS = (
    IntegerOp("AveragePool", ("x", "window", "multiplier", "shift"), conv.GEOMETRY | OUTPUT_ATTRIBUTES, average_pool,
              _emit_average_pool, "y = clamp(y_zp + rescale(sum over the window of (x - x_zp), m, s))"),
    IntegerOp("ReduceMean", ("x", "axes", "multiplier", "shift"),
              {"x_zero_point": INT, "keepdims": INT} | OUTPUT_ATTRIBUTES,
              reduce_sum, _emit_reduce_sum,
              "y = clamp(y_zp + rescale(sum over axes of (x - x_zp), m, s)); m holds 1 / count"),
    IntegerOp("ReduceSum", ("x", "axes", "multiplier", "shift"),
              {"x_zero_point": INT, "keepdims": INT} | OUTPUT_ATTRIBUTES,
              reduce_sum, _emit_reduce_sum, "y = clamp(y_zp + rescale(sum over axes of (x - x_zp), m, s))"),
    IntegerOp("MaxPool", ("x",), POOL_GEOMETRY | {"kernel_shape": INTS, "lowest": INT, "to": INT}, max_pool,
              _emit_max_pool, "y = max of the codes in the window"),
    IntegerOp("Pad", ("x", "pads"), {"mode": ir.AttributeType.STRING, "value": INT, "to": INT}, pad, _emit_pad,
              "y = x with borders of the code `value`"),
    IntegerOp("DepthToSpace", ("x",), {"blocksize": INT, "mode": ir.AttributeType.STRING, "to": INT}, depth_to_space,
              _emit_depth_to_space, "y = x with channels moved into space (DCR or CRD)"),
    IntegerOp("SpaceToDepth", ("x",), {"blocksize": INT, "to": INT}, space_to_depth, _emit_space_to_depth,
              "y = x with space moved into channels"),
)
__all__ = ["LARGEST_WINDOW", "POOL_OPS"]
