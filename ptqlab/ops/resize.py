"""Resize: a mover in nearest mode, weighted sums in the others.

What each output takes of each input is read off the float operator itself: resizing the rows of an identity matrix
gives the weights along one axis, in every coordinate mode ONNX has.
"""
from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx_ir as ir

from ptqlab.graph import session
from ptqlab.ops.conv import output_attributes, scaled_by
from ptqlab.ops.integer.resize import SUM_BITS, WEIGHT_BITS
from ptqlab.ops.node import attribute, constant, input_value, shape
from ptqlab.ops.rules import constant_shape_operand, float_features, not_empty
from ptqlab.ops.spec import Engine, Lowering, OpSpec, Role
from ptqlab.platforms import Platform

FLOAT = ir.DataType.FLOAT


def last_two_axes(node: ir.Node, platform: Platform) -> str | None:
    """Only the last two axes may change size, and the tensor must have at least two."""
    before, after = shape(node.inputs[0]), shape(node.outputs[0])
    kept = len(before) >= 2 and before[:-2] == after[:-2] and (len(before) > 3 or before[:-1] == after[:-1])
    return None if kept else f"{list(before)} becomes {list(after)}"


def plain_coordinates(node: ir.Node, platform: Platform) -> str | None:
    """Coordinates must follow from the sizes alone: no crop, no kept aspect ratio, no antialias filter."""
    mode = attribute(node, "coordinate_transformation_mode", "half_pixel")
    policy = attribute(node, "keep_aspect_ratio_policy", "stretch")
    if mode == "tf_crop_and_resize" or policy != "stretch" or attribute(node, "antialias", 0):
        return f"coordinate_transformation_mode {mode}, keep_aspect_ratio_policy {policy}, antialias " \
               f"{attribute(node, 'antialias', 0)}"
    return None


def axis_weights(node: ir.Node, axis: int) -> np.ndarray:
    """[out, in] float64: what each output along `axis` takes of each input."""
    rank = len(shape(node.inputs[0]))
    size, out = shape(node.inputs[0])[axis], shape(node.outputs[0])[axis]
    if size == out and _scale(node, axis % rank) in (None, 1.0):
        return np.eye(size)
    x = ir.Value(name="x", shape=ir.Shape([1, 1, size, size]), type=ir.TensorType(FLOAT))
    scale = _scale(node, axis % rank)
    given = np.array([1, 1, size, out], np.int64) if scale is None else np.array([1, 1, 1, scale], np.float32)
    tensor = ir.tensor(given, name="given")
    target = ir.Value(name="given", shape=ir.Shape([4]), type=ir.TensorType(tensor.dtype), const_value=tensor)
    kept = [a for name, a in node.attributes.items() if name not in ("axes", "keep_aspect_ratio_policy")]
    operands = [x, None, target] if scale is not None else [x, None, None, target]
    one = ir.Node("", "Resize", operands, attributes=kept, num_outputs=1, name="axis")
    y = one.outputs[0]
    y.name, y.dtype = "y", FLOAT
    graph = ir.Graph([x], [y], nodes=[one], initializers=[target], opset_imports={"": 19}, name="axis")
    identity = np.eye(size, dtype=np.float32)[None, None]
    result = session(ir.Model(graph, ir_version=8), optimise=False).run(None, {"x": identity})[0]
    return np.asarray(result[0, 0].T, np.float64)


def _scale(node: ir.Node, axis: int) -> float | None:
    """The scale given for an axis, 1.0 for one that is not named, None where sizes are given instead."""
    scales = constant(input_value(node, 2))
    if scales is None or not scales.size:
        return None
    rank = len(shape(node.inputs[0]))
    axes = [int(a) % rank for a in attribute(node, "axes", list(range(rank)))]
    return float(scales[axes.index(axis)]) if axis in axes else 1.0


def fixed_weights(weights: np.ndarray) -> np.ndarray:
    """Weights in steps of 2^-WEIGHT_BITS, int16; each row keeps its sum, the largest weight taking up what is left."""
    fixed = np.rint(weights * (1 << WEIGHT_BITS)).astype(np.int64)
    left = np.rint(weights.sum(axis=1) * (1 << WEIGHT_BITS)).astype(np.int64) - fixed.sum(axis=1)
    fixed[np.arange(len(fixed)), np.abs(fixed).argmax(axis=1)] += left
    return fixed.astype(np.int16)


def lower_nearest(ctx: Lowering, node: ir.Node) -> None:
    x = ctx.read(node, 0)
    rows, columns = (axis_weights(node, axis).argmax(axis=1).astype(np.int64) for axis in (-2, -1))
    ctx.write(node, "ResizeNearest", {"x": x.value, "rows": rows, "columns": columns},
              {"to": int(ir.DataType.from_numpy(x.encoding.qtype.numpy))})


def lower_resize(ctx: Lowering, node: ir.Node) -> None:
    x, out = ctx.read(node, 0), ctx.output(node)
    assert out is not None, "only TAE operators leave at high precision"
    ratio = float(x.encoding.scale) / float(out.scale) * 2.0**-SUM_BITS
    inputs: dict[str, ir.Value | np.ndarray] = {
        "x": x.value, "rows": fixed_weights(axis_weights(node, -2)), "columns": fixed_weights(axis_weights(node, -1)),
        **scaled_by("", np.asarray(ratio)),
    }
    ctx.write(node, "Resize", inputs, {"x_zero_point": x.encoding.zero_point} | output_attributes(ctx, node, out))


RESIZE = OpSpec(
    "Resize", Role.ACTIVE, Engine.AAE, features=(0,),
    rules=(float_features, constant_shape_operand, plain_coordinates, last_two_axes, not_empty), lower=lower_resize,
    int16_families=("nash-b",), source="documented",
    note="nearest moves data and keeps its input's step in any type; linear and cubic are sums with weights of "
         f"{WEIGHT_BITS} bits: int8, and int16 on nash-b",
)
NEAREST = replace(RESIZE, role=Role.PASSIVE, lower=lower_nearest, int16_families=None)
SPECS = (RESIZE,)


def resize_of(node: ir.Node) -> OpSpec:
    return NEAREST if attribute(node, "mode", "nearest") == "nearest" else RESIZE
