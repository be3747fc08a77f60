"""Elementwise operators of the vector unit: Add, Sub, Mul, Relu, Clip."""
from __future__ import annotations

import numpy as np
import onnx_ir as ir

from ptqlab.arith.requantize import GUARD_BITS
from ptqlab.arith.rounding import round_half_away
from ptqlab.ops.conv import output_attributes, scaled_by
from ptqlab.ops.masks import tell_mask
from ptqlab.ops.node import constant, input_value, shape
from ptqlab.ops.rules import float_features, not_empty
from ptqlab.ops.spec import Encoding, Engine, Lowering, Operand, OpSpec, Role
from ptqlab.platforms import Platform


def constant_bounds(node: ir.Node, platform: Platform) -> str | None:
    """The bounds of Clip must be constant."""
    for index in (1, 2):
        value = input_value(node, index)
        if value is not None and constant(value) is None:
            return f"bound {value.name} is computed"
    return None


def one_computed_operand_at_least(node: ir.Node, platform: Platform) -> str | None:
    """At least one operand must be computed."""
    return None if any(constant(v) is None for v in node.inputs) else "both operands are constant"


def clip_bounds(node: ir.Node) -> tuple[float, float]:
    """Real bounds of a Relu or Clip node, infinite where there is none."""
    if node.op_type == "Relu":
        return 0.0, float("inf")
    bounds = [constant(input_value(node, i)) for i in (1, 2)]
    low = float(bounds[0].reshape(())) if bounds[0] is not None else float("-inf")
    high = float(bounds[1].reshape(())) if bounds[1] is not None else float("inf")
    return low, high


def _out(ctx: Lowering, node: ir.Node) -> Encoding:
    out = ctx.output(node)
    assert out is not None, "only TAE operators leave at high precision"
    return out


def _one_operand(ctx: Lowering, node: ir.Node, x: Operand, ratio: np.ndarray, offset: np.ndarray | None = None) -> None:
    """y = clamp(x * ratio + offset): `ratio` in output steps per input step, `offset` in output steps."""
    inputs: dict[str, ir.Value | np.ndarray] = {"x": x.value, **scaled_by("", ratio)}
    attributes = {"x_zero_point": x.encoding.zero_point} | output_attributes(ctx, node, _out(ctx, node))
    if offset is None:
        ctx.write(node, "Rescale", inputs, attributes)
        return
    guarded = round_half_away(np.asarray(offset, np.float64) * (1 << GUARD_BITS))
    # an offset beyond 2^23 output steps saturates the output whatever x is, so the 32 bits lose nothing
    inputs["offset"] = np.asarray(np.clip(guarded, -(2**31), 2**31 - 1), np.int32)
    ctx.write(node, "RescaleAdd", inputs, attributes)


def lower_clip(ctx: Lowering, node: ir.Node) -> None:
    """Relu and Clip alone: the clamp of a rescale (`Lowering.bounds` knows the bounds)."""
    x = ctx.read(node, 0)
    _one_operand(ctx, node, x, np.asarray(float(x.encoding.scale) / float(_out(ctx, node).scale)))


def lower_add(ctx: Lowering, node: ir.Node) -> None:
    """Add and Sub: the second operand of Sub has a negative ratio."""
    out = _out(ctx, node)
    signs = (1.0, -1.0 if node.op_type == "Sub" else 1.0)
    for index, other in ((0, 1), (1, 0)):
        addend = ctx.constant(node, other)
        if addend is not None:
            x = ctx.read(node, index)
            tell_mask(ctx, node, signs[other] * addend, out)
            ratio = np.asarray(signs[index] * float(x.encoding.scale) / float(out.scale))
            _one_operand(ctx, node, x, ratio, signs[other] * addend.astype(np.float64) / float(out.scale))
            return
    operands = {"a": ctx.read(node, 0), "b": ctx.read(node, 1)}
    inputs: dict[str, ir.Value | np.ndarray] = {}
    attributes: dict[str, object] = {}
    for sign, (name, operand) in zip(signs, operands.items(), strict=True):
        inputs[name] = operand.value
        attributes[f"{name}_zero_point"] = operand.encoding.zero_point
        inputs |= scaled_by(f"{name}_", np.asarray(sign * float(operand.encoding.scale) / float(out.scale)))
    ctx.write(node, "Add", inputs, attributes | output_attributes(ctx, node, out))


def lower_mul(ctx: Lowering, node: ir.Node) -> None:
    out = _out(ctx, node)
    for index, other in ((0, 1), (1, 0)):
        factor = ctx.constant(node, other)
        if factor is not None:
            x = ctx.read(node, index)
            _one_operand(ctx, node, x, factor.astype(np.float64) * float(x.encoding.scale) / float(out.scale))
            return
    a, b = ctx.read(node, 0), ctx.read(node, 1)
    ratio = float(a.encoding.scale) * float(b.encoding.scale) / float(out.scale)
    inputs: dict[str, ir.Value | np.ndarray] = {"a": a.value, "b": b.value, **scaled_by("", np.asarray(ratio))}
    zero_points = {"a_zero_point": a.encoding.zero_point, "b_zero_point": b.encoding.zero_point}
    ctx.write(node, "Mul", inputs, zero_points | output_attributes(ctx, node, out))


def same_shape_as_output(node: ir.Node) -> bool:
    """Whether no operand of a two-operand node is broadcast."""
    return all(shape(v) == shape(node.outputs[0]) for v in node.inputs if v is not None)


RELU = OpSpec(
    "Relu", Role.ACTIVE, Engine.VAE, features=(0,), rules=(float_features, not_empty), lower=lower_clip, fusable=True,
    source="documented", note="computed inside the TAE operator before it where that has no other reader",
)
CLIP = OpSpec(
    "Clip",
    Role.ACTIVE,
    Engine.VAE,
    features=(0,),
    rules=(float_features, constant_bounds, not_empty),
    lower=lower_clip,
    fusable=True,
    source="documented",
    note="Relu6 is Clip(0, 6); as Relu",
)
ADD = OpSpec(
    "Add",
    Role.ACTIVE,
    Engine.VAE,
    rules=(float_features, one_computed_operand_at_least, not_empty),
    lower=lower_add,
    fusable=True,
    source="documented",
    note="a residual Add behind a convolution is added to its accumulator; "
         "a constant operand is held at the output scale",
)
SUB = OpSpec(
    "Sub", Role.ACTIVE, Engine.VAE, rules=(float_features, one_computed_operand_at_least, not_empty), lower=lower_add,
    source="documented", note="an Add whose second factor is negative",
)
MUL = OpSpec(
    "Mul", Role.ACTIVE, Engine.VAE, rules=(float_features, one_computed_operand_at_least, not_empty), lower=lower_mul,
    source="documented", note="a constant factor becomes the multiplier of a rescale",
)
SPECS = (RELU, CLIP, ADD, SUB, MUL)
