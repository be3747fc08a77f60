"""Resizing of the AAE along the last two axes: nearest is a choice of codes, the rest are sums with fixed weights."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from ptqlab.ops.emit import DOUBLE, Emitter
from ptqlab.ops.integer.scaling import OUTPUT_ATTRIBUTES, emit_requantize, requantize
from ptqlab.ops.integer.spec import INT, IntegerOp

# weights have 14 fractional bits, the sum along the first axis keeps 6 of its own:
# 16 bits + 6 + 14 and at most 2 bits for the overshoot of cubic weights stay below the 38 that `rescale` is exact for
WEIGHT_BITS, KEPT_BITS = 14, 6
DROPPED = WEIGHT_BITS - KEPT_BITS
SUM_BITS = WEIGHT_BITS + KEPT_BITS
# as many taps are gathered one by one on the fast path; more are a matrix product
FEW_TAPS = 8


def nearest(attrs: Mapping[str, Any], x: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """y[.., p, q] = x[.., rows[p], columns[q]]"""
    return x[..., rows, :][..., columns]


def _emit_nearest(e: Emitter) -> ir.Value:
    chosen = e.op("Gather", e.codes("x"), e.input("rows"), axis=-2)
    return e.store(e.op("Gather", chosen, e.input("columns"), axis=-1))


def resize(attrs: Mapping[str, Any], x: np.ndarray, rows: np.ndarray, columns: np.ndarray, multiplier: np.ndarray,
           shift: np.ndarray) -> np.ndarray:
    """rows [H', H] and columns [W', W]: weights with WEIGHT_BITS fractional bits, int16."""
    centred = x.astype(np.int64) - attrs["x_zero_point"]
    along = np.matmul(centred, columns.astype(np.int64).T)
    kept = (along + (1 << (DROPPED - 1))) >> DROPPED
    return requantize(attrs, np.matmul(rows.astype(np.int64), kept), multiplier, shift)


def _emit_resize(e: Emitter) -> ir.Value:
    x = e.op("Sub", e.codes("x", DOUBLE), e.integer("x_zero_point", DOUBLE))
    along = _emit_sum(e, x, "columns", -1)
    scaled = e.op("Mul", along, e.const(np.float64(2.0**-DROPPED)))
    kept = e.op("Floor", e.op("Add", scaled, e.const(np.float64(0.5))))
    return emit_requantize(e, _emit_sum(e, kept, "rows", -2))


def _emit_sum(e: Emitter, x: ir.Value, weights: str, axis: int) -> ir.Value:
    """Weighted sums along an axis, float64: every partial sum is a whole number below 2^53, in any order."""
    known = e.known(weights)
    if known is not None and (known != 0).sum(axis=1).max() <= FEW_TAPS:
        return _emit_taps(e, x, known, axis)
    matrix = e.cast(e.input(weights), DOUBLE)
    if axis == -2:
        return e.op("MatMul", matrix, x)
    return e.op("MatMul", x, e.op("Transpose", matrix, perm=[1, 0]))


def _emit_taps(e: Emitter, x: ir.Value, weights: np.ndarray, axis: int) -> ir.Value:
    count = int((weights != 0).sum(axis=1).max())
    order = np.argsort(weights == 0, axis=1, kind="stable")[:, :count]
    total = None
    for k in range(count):
        taps = np.take_along_axis(weights, order[:, k : k + 1], axis=1).astype(np.float64)
        part = e.op("Gather", x, e.const(order[:, k].astype(np.int64)), axis=axis)
        part = e.op("Mul", part, e.const(taps if axis == -2 else taps[:, 0]))
        total = part if total is None else e.op("Add", total, part)
    assert total is not None, "every output has a weight"
    return total


RESIZE_OPS = (
    IntegerOp("ResizeNearest", ("x", "rows", "columns"), {"to": INT}, nearest, _emit_nearest,
              "y[p, q] = x[rows[p], columns[q]]"),
    IntegerOp("Resize", ("x", "rows", "columns", "multiplier", "shift"), {"x_zero_point": INT} | OUTPUT_ATTRIBUTES,
              resize, _emit_resize,
              f"t = (sum_j (x[i, j] - x_zp) * columns[q, j] + 2^{DROPPED - 1}) >> {DROPPED};  "
              "y = clamp(y_zp + rescale(sum_i rows[p, i] * t[i, q], m, s))"),
)
