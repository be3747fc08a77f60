"""Where float meets integer: the operators of the VPU."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from ptqlab.arith.rounding import dequantize as dequantize_codes
from ptqlab.arith.rounding import quantize as quantize_values
from ptqlab.ops.emit import FLOAT, Emitter
from ptqlab.ops.integer.spec import INT, IntegerOp, output_dtype


def quantize(attrs: Mapping[str, Any], x: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """NaN becomes the code of 0 [our definition]: no code stands for it, and every engine must give the same."""
    codes = quantize_values(x, scale, attrs["y_zero_point"], attrs["low"], attrs["high"])
    return np.where(np.isnan(codes), np.float32(attrs["y_zero_point"]), codes).astype(output_dtype(attrs))


def emit_round_half_away(e: Emitter, value: ir.Value) -> ir.Value:
    """sign(v) * floor(|v| + 0.5) in float32, as `arith.rounding` defines it."""
    whole = e.op("Floor", e.op("Add", e.op("Abs", value), e.const(np.float32(0.5))))
    return e.op("Mul", e.op("Sign", value), whole)


def _emit_quantize(e: Emitter) -> ir.Value:
    ratio = e.op("Div", e.input("x"), e.input("scale"))
    zero_point = e.integer("y_zero_point", FLOAT)
    codes = emit_round_half_away(e, e.op("Add", ratio, zero_point))
    codes = e.op("Where", e.op("IsNaN", codes), zero_point, codes)
    return e.store(e.op("Clip", codes, e.integer("low", FLOAT), e.integer("high", FLOAT)))


def dequantize(attrs: Mapping[str, Any], x: np.ndarray, scale: np.ndarray) -> np.ndarray:
    return dequantize_codes(x, scale, attrs["x_zero_point"])


def _emit_dequantize(e: Emitter) -> ir.Value:
    # codes minus zero point is exact in float32 for 8 and 16 bits; an int32 accumulator has zero point 0
    centred = e.op("Sub", e.cast(e.codes("x"), FLOAT), e.integer("x_zero_point", FLOAT))
    return e.op("Mul", centred, e.input("scale"))


BOUNDARY_OPS = (
    IntegerOp("Quantize", ("x", "scale"), {"y_zero_point": INT, "low": INT, "high": INT, "to": INT}, quantize,
              _emit_quantize, "y = clamp(round_half_away(x / scale + y_zp)), float32; NaN gives y_zp"),
    IntegerOp("Dequantize", ("x", "scale"), {"x_zero_point": INT}, dequantize, _emit_dequantize,
              "y = (x - x_zp) * scale, float32"),
)
