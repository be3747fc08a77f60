"""GridSample of the AAE: every output is a weighted sum of up to four elements of its channel, rounded once.

With a constant grid, elements and weights are worked out beforehand. With a computed one they follow from its int16
codes in fixed-point arithmetic [our definition]: a coordinate has POSITION_BITS fractional bits,

    p = rescale(grid - grid_zp, m, s) + (size - 1) * 2^(POSITION_BITS-1)

whether corners are aligned or not (m * 2^-s is half the size, or half of it less one, times the grid's step), and the
weights of its two neighbours along an axis are 2^POSITION_BITS less the distance.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from ptqlab.arith.requantize import rescale
from ptqlab.ops.emit import DOUBLE, INT64, Emitter
from ptqlab.ops.integer.scaling import OUTPUT_ATTRIBUTES, emit_requantize, requantize
from ptqlab.ops.integer.spec import INT, IntegerOp

# 9 bits of int8 less its zero point, two weights of 8: sums below 2^25, far from the 2^38 that `rescale` is exact for
POSITION_BITS = 8
ONE = 1 << POSITION_BITS
# weights of a constant grid; those of one output add up to 2^TAP_BITS at most
TAP_BITS = 14
AXES = (("columns", 0, "width"), ("rows", 1, "height"))

Fold = Callable[[Mapping[str, Any], np.ndarray, int], np.ndarray]


def _weighted(attrs: Mapping[str, Any], x: np.ndarray, index: np.ndarray, weight: np.ndarray, multiplier: np.ndarray,
              shift: np.ndarray) -> np.ndarray:
    """x [N, C, H, W]; index (h * W + w) and weight [N, H', W', K]: K elements of one image for each output."""
    pixels = x.astype(np.int64).reshape(*x.shape[:2], -1) - attrs["x_zero_point"]
    chosen = np.stack([image[:, taps] for image, taps in zip(pixels, index, strict=True)])
    return requantize(attrs, (chosen * weight[:, None].astype(np.int64)).sum(axis=-1), multiplier, shift)


def _emit_weighted(e: Emitter, index: ir.Value, weight: ir.Value) -> ir.Value:
    """`index` int64 and `weight` float64, [N, H', W', K]."""
    x = e.op("Sub", e.codes("x", DOUBLE), e.integer("x_zero_point", DOUBLE))
    pixels = e.op("Transpose", e.op("Reshape", x, e.const(np.array([0, 0, -1], np.int64))), perm=[0, 2, 1])
    last = e.const(np.array([-1], np.int64))
    chosen = e.op("GatherND", pixels, e.op("Unsqueeze", index, last), batch_dims=1)
    products = e.op("Mul", chosen, e.op("Unsqueeze", weight, last))
    total = e.op("ReduceSum", products, e.const(np.array([3], np.int64)), keepdims=0)
    return emit_requantize(e, e.op("Transpose", total, perm=[0, 3, 1, 2]))


def constant_grid(attrs: Mapping[str, Any], x: np.ndarray, index: np.ndarray, weight: np.ndarray,
                  multiplier: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """index int64, weight int16 with TAP_BITS fractional bits; outside of the image an element has weight 0."""
    return _weighted(attrs, x, index, weight, multiplier, shift)


def _emit_constant(e: Emitter) -> ir.Value:
    return _emit_weighted(e, e.input("index"), e.cast(e.input("weight"), DOUBLE))


def _held(attrs: Mapping[str, Any], position: np.ndarray, size: int) -> np.ndarray:
    """No further out than `margin`: 0 for the border, one pixel for zeros, where both neighbours are outside."""
    return np.clip(position, -attrs["margin"], (size - 1) * ONE + attrs["margin"])


def _emit_held(e: Emitter, position: ir.Value, last: ir.Value) -> ir.Value:
    margin = e.integer("margin", DOUBLE)
    return e.op("Max", e.op("Min", position, e.op("Add", last, margin)), e.op("Neg", margin))


def _mirrored(attrs: Mapping[str, Any], position: np.ndarray, size: int) -> np.ndarray:
    """Mirrored at `edge` outside of the first and last pixel until it is inside, then held to the pixels."""
    period = max(2 * ((size - 1) * ONE + 2 * attrs["edge"]), 1)
    there = (position + attrs["edge"]) % period
    return np.clip(np.minimum(there, period - there) - attrs["edge"], 0, (size - 1) * ONE)


def _emit_mirrored(e: Emitter, position: ir.Value, last: ir.Value) -> ir.Value:
    edge = e.integer("edge", DOUBLE)
    twice = e.op("Mul", e.op("Add", last, e.op("Add", edge, edge)), e.const(np.float64(2)))
    period = e.op("Max", twice, e.const(np.float64(1)))
    # whole numbers below 2^39: their quotient is never rounded up to a whole one
    there = e.op("Add", position, edge)
    there = e.op("Sub", there, e.op("Mul", e.op("Floor", e.op("Div", there, period)), period))
    inside = e.op("Sub", e.op("Min", there, e.op("Sub", period, there)), edge)
    return e.op("Max", e.op("Min", inside, last), e.const(np.float64(0)))


def _computed_grid(fold: Fold) -> Callable[..., np.ndarray]:
    def reference(attrs: Mapping[str, Any], x: np.ndarray, grid: np.ndarray, columns_multiplier: np.ndarray,
                  columns_shift: np.ndarray, rows_multiplier: np.ndarray, rows_shift: np.ndarray,
                  multiplier: np.ndarray, shift: np.ndarray) -> np.ndarray:
        """grid int16 [N, H', W', 2]: column and row. In nearest mode `step` is a whole pixel."""
        scales = {"columns": (columns_multiplier, columns_shift), "rows": (rows_multiplier, rows_shift)}
        taps: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        for axis, part, size_name in AXES:
            size, step = attrs[size_name], attrs["step"]
            position = rescale(grid[..., part].astype(np.int64) - attrs["grid_zero_point"], *scales[axis])
            position = position + (size - 1) * (ONE // 2)
            position = fold(attrs, (position + step // 2) // step * step, size)
            first = position >> POSITION_BITS
            near = np.stack([first, first + 1], axis=-1)
            weight = ONE - np.abs(position[..., None] - near * ONE)
            taps[axis] = np.clip(near, 0, size - 1), np.where((near >= 0) & (near < size), weight, 0)
        (columns, beside), (rows, above) = taps["columns"], taps["rows"]
        index = rows[..., :, None] * attrs["width"] + columns[..., None, :]
        weight = above[..., :, None] * beside[..., None, :]
        flat = (*grid.shape[:3], 4)
        return _weighted(attrs, x, index.reshape(flat), weight.reshape(flat), multiplier, shift)

    return reference


def _emit_computed(fold: Callable[[Emitter, ir.Value, ir.Value], ir.Value]) -> Callable[[Emitter], ir.Value]:
    def emit(e: Emitter) -> ir.Value:
        grid = e.op("Sub", e.codes("grid", DOUBLE), e.integer("grid_zero_point", DOUBLE))
        one, half, step = e.const(np.float64(ONE)), e.const(np.float64(0.5)), e.integer("step", DOUBLE)
        taps: dict[str, list[tuple[ir.Value, ir.Value]]] = {}
        for axis, part, size in AXES:
            last = e.op("Sub", e.integer(size, DOUBLE), e.const(np.float64(1)))
            code = e.op("Gather", grid, e.const(np.array([part], np.int64)), axis=-1)
            moved = e.op("Mul", code, e.ratio(f"{axis}_multiplier", f"{axis}_shift"))
            moved = e.op("Floor", e.op("Add", moved, half))
            moved = e.op("Add", moved, e.op("Mul", last, e.const(np.float64(ONE // 2))))
            # step is a power of two, and (p + step // 2) // step is floor(p / step + 0.5) for whole p
            steps = e.op("Floor", e.op("Add", e.op("Div", moved, step), half))
            position = fold(e, e.op("Mul", steps, step), e.op("Mul", last, one))
            first = e.op("Floor", e.op("Div", position, one))
            taps[axis] = [_emit_tap(e, position, near, last) for near in (first, e.op("Add", first, _double(e, 1)))]
        index, weight = [], []
        for row, above in taps["rows"]:
            for column, beside in taps["columns"]:
                index.append(e.op("Add", e.op("Mul", row, e.integer("width", DOUBLE)), column))
                weight.append(e.op("Mul", above, beside))
        return _emit_weighted(e, e.cast(e.op("Concat", *index, axis=-1), INT64), e.op("Concat", *weight, axis=-1))

    return emit


def _double(e: Emitter, value: int) -> ir.Value:
    return e.const(np.float64(value))


def _emit_tap(e: Emitter, position: ir.Value, near: ir.Value, last: ir.Value) -> tuple[ir.Value, ir.Value]:
    """A neighbour along one axis, held to the image, and its weight: 0 outside."""
    held = e.op("Max", e.op("Min", near, last), _double(e, 0))
    inside = e.cast(e.op("Equal", held, near), DOUBLE)
    distance = e.op("Abs", e.op("Sub", position, e.op("Mul", near, _double(e, ONE))))
    return held, e.op("Mul", e.op("Sub", _double(e, ONE), distance), inside)


SCALED = ("columns_multiplier", "columns_shift", "rows_multiplier", "rows_shift", "multiplier", "shift")
COMPUTED = {"x_zero_point": INT, "grid_zero_point": INT, "height": INT, "width": INT, "step": INT}
SUM = "y = clamp(y_zp + rescale(sum_k weight[k] * (x[index[k]] - x_zp), m, s))"
FOUR = (f"p = rescale(grid - grid_zp, m_axis, s_axis) + (size - 1) * {ONE // 2}, to the nearest multiple of step, "
        "{fold};  " f"weight of neighbour n: {ONE} - |p - {ONE} n| along each axis, 0 outside;  ") + SUM

GRID_SAMPLE_OPS = (
    IntegerOp("GridSampleConstant", ("x", "index", "weight", "multiplier", "shift"),
              {"x_zero_point": INT} | OUTPUT_ATTRIBUTES, constant_grid, _emit_constant, SUM),
    IntegerOp("GridSample", ("x", "grid", *SCALED), COMPUTED | {"margin": INT} | OUTPUT_ATTRIBUTES,
              _computed_grid(_held), _emit_computed(_emit_held),
              FOUR.format(fold="held at most margin outside of the pixels")),
    IntegerOp("GridSampleMirrored", ("x", "grid", *SCALED), COMPUTED | {"edge": INT} | OUTPUT_ATTRIBUTES,
              _computed_grid(_mirrored), _emit_computed(_emit_mirrored),
              FOUR.format(fold="mirrored at edge outside of the pixels and held to them")),
)
