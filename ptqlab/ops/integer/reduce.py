"""Largest and smallest code along axes, and where it stands; cumulative sums. Sums over axes are in pool.py."""
from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from ptqlab.ops.emit import DOUBLE, FLOAT, INT32, INT64, Emitter, Reference
from ptqlab.ops.integer.scaling import OUTPUT_ATTRIBUTES, emit_requantize, requantize
from ptqlab.ops.integer.spec import INT, IntegerOp, output_dtype

Extreme = Callable[..., np.ndarray]


def _extreme(choose: Extreme) -> Callable[..., np.ndarray]:
    def reference(attrs: Mapping[str, Any], x: np.ndarray, axes: np.ndarray, multiplier: np.ndarray,
                  shift: np.ndarray) -> np.ndarray:
        chosen = choose(x.astype(np.int64), axis=tuple(int(a) for a in axes), keepdims=bool(attrs["keepdims"]))
        return requantize(attrs, chosen - attrs["x_zero_point"], multiplier, shift)

    return reference


def _emit_extreme(op: str) -> Callable[[Emitter], ir.Value]:
    def emit(e: Emitter) -> ir.Value:
        chosen = e.op(op, e.codes("x"), e.input("axes"), keepdims=e.attr("keepdims"))
        return emit_requantize(e, e.op("Sub", e.cast(chosen, DOUBLE), e.integer("x_zero_point", DOUBLE)))

    return emit


def _index(choose: Extreme) -> Callable[..., np.ndarray]:
    def reference(attrs: Mapping[str, Any], x: np.ndarray) -> np.ndarray:
        axis = attrs["axis"]
        if attrs["last"]:
            index = x.shape[axis] - 1 - choose(np.flip(x, axis), axis=axis, keepdims=True)
        else:
            index = choose(x, axis=axis, keepdims=True)
        index = index if attrs["keepdims"] else np.squeeze(index, axis)
        return index.astype(output_dtype(attrs))

    return reference


def _emit_index(op: str) -> Callable[[Emitter], ir.Value]:
    def emit(e: Emitter) -> ir.Value:
        last = e.attr("last")
        last = Reference("last") if isinstance(last, Reference) else int(last)
        index = e.op(op, e.codes("x"), axis=e.attr("axis"), keepdims=e.attr("keepdims"), select_last_index=last)
        if e.fast:
            return e.cast(index, INT32 if e.attributes["to"] == int(INT32) else FLOAT)
        return e.cast(index, Reference("to"))

    return emit


def cumulative(attrs: Mapping[str, Any], x: np.ndarray, multiplier: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """reverse: from the end; exclusive: without the element itself."""
    axis = attrs["axis"]
    centred = x.astype(np.int64) - attrs["x_zero_point"]
    centred = np.flip(centred, axis) if attrs["reverse"] else centred
    total = np.cumsum(centred, axis) - (centred if attrs["exclusive"] else 0)
    return requantize(attrs, np.flip(total, axis) if attrs["reverse"] else total, multiplier, shift)


def _emit_cumulative(e: Emitter) -> ir.Value:
    centred = e.op("Sub", e.codes("x", DOUBLE), e.integer("x_zero_point", DOUBLE))
    total = e.op("CumSum", centred, e.integer("axis", INT64), exclusive=e.attr("exclusive"), reverse=e.attr("reverse"))
    return emit_requantize(e, total)


REDUCED = ("x", "axes", "multiplier", "shift")
REDUCE = {"x_zero_point": INT, "keepdims": INT} | OUTPUT_ATTRIBUTES
CUMULATIVE = {"x_zero_point": INT, "axis": INT, "exclusive": INT, "reverse": INT} | OUTPUT_ATTRIBUTES
INDEX = {"axis": INT, "keepdims": INT, "last": INT, "to": INT}

REDUCE_OPS = (
    *(IntegerOp(name, REDUCED, REDUCE, _extreme(choose), _emit_extreme(name),
                f"y = clamp(y_zp + rescale({word} over axes of (x - x_zp), m, s))")
      for name, choose, word in (("ReduceMax", np.max, "max"), ("ReduceMin", np.min, "min"))),
    *(IntegerOp(name, ("x",), INDEX, _index(choose), _emit_index(name),
                f"y = index of the {word} code along the axis; of equal ones the first, or the last one")
      for name, choose, word in (("ArgMax", np.argmax, "largest"), ("ArgMin", np.argmin, "smallest"))),
    IntegerOp("CumSum", ("x", "multiplier", "shift"), CUMULATIVE, cumulative, _emit_cumulative,
              "y[i] = clamp(y_zp + rescale(sum of (x[j] - x_zp) over j <= i along the axis, m, s)); reverse: j >= i; "
              "exclusive: without i"),
)
