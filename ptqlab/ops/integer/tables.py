"""Functions of one operand: table look-ups of the VAE, and what needs no table (two slopes, whole numbers)."""
from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from ptqlab.arith.tables import ENTRIES, HALF, interpolate
from ptqlab.ops.emit import DOUBLE, FLOAT, INT32, INT64, Emitter
from ptqlab.ops.integer.scaling import OUTPUT_ATTRIBUTES, emit_requantize, requantize
from ptqlab.ops.integer.spec import INT, IntegerOp, output_dtype


def emit_look_up(e: Emitter, table: ir.Value, codes: ir.Value, first: int = 0) -> ir.Value:
    """table[codes - first] for float whole numbers `codes` of any shape and a table of one axis.

    GatherElements on one axis: onnxruntime's Gather copies element by element and takes ten times as long.
    """
    index = e.cast(e.op("Sub", codes, e.const(np.float32(first))) if first else codes, INT32)
    flat = e.op("Reshape", index, e.const(np.array([-1], np.int64)))
    return e.op("Reshape", e.op("GatherElements", table, flat, axis=0), e.op("Shape", index))


def table8(attrs: Mapping[str, Any], x: np.ndarray, table: np.ndarray) -> np.ndarray:
    """y = table[x + 128], table [256] of the output's type."""
    return table[x.astype(np.int64) + 128].astype(output_dtype(attrs))


def _emit_table8(e: Emitter) -> ir.Value:
    return e.store(emit_look_up(e, e.codes("table"), e.codes("x"), -128))


def table16(attrs: Mapping[str, Any], x: np.ndarray, ranges: np.ndarray, table: np.ndarray) -> np.ndarray:
    """Piecewise linear look-up as `arith.tables` defines it; ranges [N+2, 4], table [N, 64], both int16."""
    return interpolate(x, ranges, table, attrs["guard"]).astype(output_dtype(attrs))


def _emit_table16(e: Emitter) -> ir.Value:
    ranges, table = e.known("ranges"), e.known("table")
    if ranges is not None and table is not None:
        codes = np.arange(-HALF, HALF)
        every = e.const(interpolate(codes, ranges, table, e.attributes["guard"]).astype(np.float32))
    else:
        every = _tabulate(e)
    return e.store(emit_look_up(e, every, e.codes("x"), -HALF))


def _tabulate(e: Emitter) -> ir.Value:
    """The output of each of the 65536 codes, float32: cheaper than to search the segment of every element."""
    ranges, table = e.cast(e.input("ranges"), INT64), e.cast(e.input("table"), INT64)
    rows = e.op("Slice", ranges, *(e.const(np.array([v], np.int64)) for v in (1, -1, 0)))
    first, spacing = (e.op("Gather", rows, e.const(np.int64(column)), axis=1) for column in (0, 2))
    closing = e.op("Slice", ranges, *(e.const(np.array(v, np.int64)) for v in ([-1, 3], [2**31, 4], [0, 1])))
    minus_one = e.const(np.array([-1], np.int64))
    flat = e.op("Concat", e.op("Reshape", table, minus_one), e.op("Reshape", closing, minus_one), axis=0)
    bounds = (e.const(np.int64(v)) for v in (-HALF, HALF, 1))
    codes = e.op("Range", *bounds)
    # segments start at multiples of 64 codes: it is enough to search 1024 starts
    coarse = e.op("Slice", codes, *(e.const(np.array([v], np.int64)) for v in (0, 2**31, 0, ENTRIES)))
    begun = e.op("GreaterOrEqual", e.op("Unsqueeze", coarse, e.const(np.array([1], np.int64))), first)
    count = e.op("ReduceSum", e.cast(begun, INT64), e.const(np.array([1], np.int64)), keepdims=0)
    block = e.op("Div", e.op("Add", codes, e.const(np.int64(HALF))), e.const(np.int64(ENTRIES)))
    segment = e.op("Gather", e.op("Sub", count, e.const(np.int64(1))), block)
    k = e.op("Gather", spacing, segment)
    step = e.cast(e.op("Pow", e.const(np.float64(2)), e.cast(k, DOUBLE)), INT64)
    offset = e.op("Sub", codes, e.op("Gather", first, segment))
    j = e.op("Div", offset, step)
    inside = e.op("Sub", offset, e.op("Mul", j, step))
    entry = e.op("Add", e.op("Mul", segment, e.const(np.int64(ENTRIES))), j)
    left = e.op("Gather", flat, entry)
    right = e.op("Gather", flat, e.op("Add", entry, e.const(np.int64(1))))
    total = e.op("Add", e.op("Mul", left, step), e.op("Mul", e.op("Sub", right, left), inside))
    unit = e.op("Mul", e.cast(step, DOUBLE), e.op("Pow", e.const(np.float64(2)), e.integer("guard", DOUBLE)))
    # floor(v / 2^s + 1/2) is v itself for s = 0
    rounded = e.op("Floor", e.op("Add", e.op("Div", e.cast(total, DOUBLE), unit), e.const(np.float64(0.5))))
    return e.cast(rounded, FLOAT)


def two_slopes(attrs: Mapping[str, Any], x: np.ndarray, multiplier: np.ndarray, shift: np.ndarray,
               negative_multiplier: np.ndarray, negative_shift: np.ndarray) -> np.ndarray:
    """y = clamp(y_zp + rescale(d, m, s)) where d = x - x_zp >= 0, with the negative multiplier and shift elsewhere."""
    d = x.astype(np.int64) - attrs["x_zero_point"]
    m = np.where(d < 0, negative_multiplier.astype(np.int64), multiplier.astype(np.int64))
    s = np.where(d < 0, negative_shift.astype(np.int64), shift.astype(np.int64))
    return requantize(attrs, d, m, s)


def _emit_two_slopes(e: Emitter) -> ir.Value:
    d = e.op("Sub", e.codes("x", DOUBLE), e.integer("x_zero_point", DOUBLE))
    below = e.op("Less", d, e.const(np.float64(0)))
    ratio = e.op("Where", below, e.ratio("negative_multiplier", "negative_shift"), e.ratio("multiplier", "shift"))
    return emit_requantize(e, d, ratio)


def _whole(rounded: Callable[[np.ndarray], np.ndarray]) -> Callable[..., np.ndarray]:
    def reference(attrs: Mapping[str, Any], x: np.ndarray, step: np.ndarray, multiplier: np.ndarray,
                  shift: np.ndarray) -> np.ndarray:
        # what the code stands for, as Dequantize defines it: the exact product of 127 and 4 / 127 lies just below 4
        real = (x.astype(np.int64) - attrs["x_zero_point"]).astype(np.float32) * step
        return requantize(attrs, rounded(real).astype(np.int64), multiplier, shift)

    return reference


def _emit_whole(op: str) -> Callable[[Emitter], ir.Value]:
    def emit(e: Emitter) -> ir.Value:
        d = e.op("Sub", e.codes("x"), e.integer("x_zero_point", FLOAT))
        return emit_requantize(e, e.op(op, e.op("Mul", d, e.input("step"))))

    return emit


ONE = {"x_zero_point": INT} | OUTPUT_ATTRIBUTES
SCALED = ("x", "multiplier", "shift")

TABLE_OPS = (
    IntegerOp("Int8Table", ("x", "table"), {"to": INT}, table8, _emit_table8, "y = table[x + 128]"),
    IntegerOp("Int16Table", ("x", "ranges", "table"), {"guard": INT, "to": INT}, table16, _emit_table16,
              "segment of x by `ranges` (first code, entries 2^k apart); j = (x - first) >> k, f = the rest; "
              "y = ((t[j] << k) + (t[j+1] - t[j]) * f + 2^(k+g-1)) >> (k + g)"),
    IntegerOp("TwoSlopes", (*SCALED, "negative_multiplier", "negative_shift"), ONE, two_slopes, _emit_two_slopes,
              "y = clamp(y_zp + rescale(x - x_zp, m, s)), with an m and s of their own below zero; Abs is m and -m"),
    *(
        IntegerOp(name, ("x", "step", "multiplier", "shift"), ONE, _whole(rounded), _emit_whole(name),
                  f"y = clamp(y_zp + rescale({name.lower()}((x - x_zp) * step), m, s)); step = scale of x, in float32")
        for name, rounded in (("Floor", np.floor), ("Ceil", np.ceil), ("Round", np.rint))
    ),
)
