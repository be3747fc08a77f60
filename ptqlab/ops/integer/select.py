"""Choosing between two operands: the larger, the smaller, or by a condition. Each is brought to the output scale."""
from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from ptqlab.arith.requantize import clamp, rescale
from ptqlab.ops.emit import DOUBLE, Emitter
from ptqlab.ops.integer.scaling import OUTPUT_ATTRIBUTES, emit_rounded
from ptqlab.ops.integer.spec import INT, IntegerOp, output_dtype

Choice = Callable[..., np.ndarray]


def _scaled(codes: np.ndarray, zero_point: int, multiplier: np.ndarray, shift: np.ndarray) -> np.ndarray:
    return rescale(codes.astype(np.int64) - zero_point, multiplier, shift)


def _finish(attrs: Mapping[str, Any], chosen: np.ndarray) -> np.ndarray:
    return clamp(attrs["y_zero_point"] + chosen, attrs["low"], attrs["high"], output_dtype(attrs))


def _extreme(choose: Choice) -> Callable[..., np.ndarray]:
    def reference(attrs: Mapping[str, Any], a: np.ndarray, b: np.ndarray, a_multiplier: np.ndarray,
                  a_shift: np.ndarray, b_multiplier: np.ndarray, b_shift: np.ndarray) -> np.ndarray:
        # rounding keeps order: the larger of two rounded numbers is the larger number, rounded
        return _finish(attrs, choose(_scaled(a, attrs["a_zero_point"], a_multiplier, a_shift),
                                     _scaled(b, attrs["b_zero_point"], b_multiplier, b_shift)))

    return reference


def where(attrs: Mapping[str, Any], condition: np.ndarray, a: np.ndarray, b: np.ndarray, a_multiplier: np.ndarray,
          a_shift: np.ndarray, b_multiplier: np.ndarray, b_shift: np.ndarray) -> np.ndarray:
    return _finish(attrs, np.where(condition, _scaled(a, attrs["a_zero_point"], a_multiplier, a_shift),
                                   _scaled(b, attrs["b_zero_point"], b_multiplier, b_shift)))


def _emit_scaled(e: Emitter, name: str) -> ir.Value:
    centred = e.op("Sub", e.codes(name, DOUBLE), e.integer(f"{name}_zero_point", DOUBLE))
    return emit_rounded(e, e.op("Mul", centred, e.ratio(f"{name}_multiplier", f"{name}_shift")))


def _emit_finish(e: Emitter, chosen: ir.Value) -> ir.Value:
    return e.saturate(e.op("Add", chosen, e.integer("y_zero_point", DOUBLE)))


def _emit_choice(op: str) -> Callable[[Emitter], ir.Value]:
    def emit(e: Emitter) -> ir.Value:
        first = (e.input("condition"),) if op == "Where" else ()
        return _emit_finish(e, e.op(op, *first, _emit_scaled(e, "a"), _emit_scaled(e, "b")))

    return emit


OPERANDS = ("a", "b", "a_multiplier", "a_shift", "b_multiplier", "b_shift")
ATTRIBUTES = {"a_zero_point": INT, "b_zero_point": INT} | OUTPUT_ATTRIBUTES

SELECT_OPS = (
    IntegerOp("Max", OPERANDS, ATTRIBUTES, _extreme(np.maximum), _emit_choice("Max"),
              "y = clamp(y_zp + max(rescale(a - a_zp, ma, sa), rescale(b - b_zp, mb, sb)))"),
    IntegerOp("Min", OPERANDS, ATTRIBUTES, _extreme(np.minimum), _emit_choice("Min"),
              "y = clamp(y_zp + min(rescale(a - a_zp, ma, sa), rescale(b - b_zp, mb, sb)))"),
    IntegerOp("Where", ("condition", *OPERANDS), ATTRIBUTES, where, _emit_choice("Where"),
              "y = clamp(y_zp + (condition ? rescale(a - a_zp, ma, sa) : rescale(b - b_zp, mb, sb)))"),
)
