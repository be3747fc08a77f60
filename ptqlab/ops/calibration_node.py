"""HzCalibration: the quantize-dequantize node of calibrated models, as a model-local function.

    y = (clamp(round_half_away(x / scale + zero_point), low, high) - zero_point) * scale        in float32

The node's name and its place on every quantized edge are the vendor's (documented); its attributes are ours.
"""
from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from ptqlab.ops.emit import FLOAT, Emitter, Reference, function_body
from ptqlab.ops.integer.boundary import emit_round_half_away
from ptqlab.ops.integer.spec import OPSET

DOMAIN = "ptqlab.calibration"
NAME = "HzCalibration"
INT, INTS, FLOATS = ir.AttributeType.INT, ir.AttributeType.INTS, ir.AttributeType.FLOATS
# thresholds, bits and kind ("activation" or "weight") are there to be read; the computation uses the others
COMPUTED = {"scales": FLOATS, "shape": INTS, "zero_point": INT, "low": INT, "high": INT}
TOLD = {"thresholds": FLOATS, "bits": INT, "axis": INT, "kind": ir.AttributeType.STRING}


def _emit(e: Emitter) -> ir.Value:
    scales = e.op("Constant", value_floats=Reference("scales"))
    scale = e.op("Reshape", scales, e.op("Constant", value_ints=Reference("shape")))
    zero_point = e.integer("zero_point", FLOAT)
    codes = emit_round_half_away(e, e.op("Add", e.op("Div", e.input("x"), scale), zero_point))
    codes = e.op("Clip", codes, e.integer("low", FLOAT), e.integer("high", FLOAT))
    return e.op("Mul", e.op("Sub", codes, zero_point), scale)


def calibration_function() -> ir.Function:
    return function_body(DOMAIN, NAME, _emit, ("x",), COMPUTED | TOLD, OPSET)


def calibration_node(
    x: ir.Value, name: str, output: str, *, scales: np.ndarray, thresholds: np.ndarray, zero_point: int, low: int,
    high: int, bits: int, kind: str, axis: int = -1, shape: Sequence[int] | None = None,
) -> ir.Node:
    """A HzCalibration node on tensor `x`; `axis` is that of per-channel scales, -1 for one scale.

    shape  how the scales broadcast against x, where it does not follow from the axis (groups of a ConvTranspose)
    """
    assert x.shape is not None
    given = [1] if axis < 0 else [-1 if a == axis else 1 for a in range(len(x.shape))]
    attributes = [
        ir.AttrFloat32s("scales", [float(s) for s in scales.ravel()]),
        ir.AttrInt64s("shape", given if shape is None else list(shape)),
        ir.AttrInt64("zero_point", zero_point),
        ir.AttrInt64("low", low),
        ir.AttrInt64("high", high),
        ir.AttrFloat32s("thresholds", [float(t) for t in thresholds.ravel()]),
        ir.AttrInt64("bits", bits),
        ir.AttrInt64("axis", axis),
        ir.AttrString("kind", kind),
    ]
    node = ir.Node(DOMAIN, NAME, [x], attributes=attributes, num_outputs=1, name=name)
    out = node.outputs[0]
    out.name, out.shape, out.dtype = output, x.shape, FLOAT
    return node
