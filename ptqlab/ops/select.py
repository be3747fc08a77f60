"""Where, Max and Min of two operands, and the triangles of a matrix."""
from __future__ import annotations

import numpy as np
import onnx_ir as ir

from ptqlab.arith.rounding import quantize
from ptqlab.ops.conv import output_attributes, scaled_by
from ptqlab.ops.elementwise import one_computed_operand_at_least
from ptqlab.ops.masks import tell_mask
from ptqlab.ops.node import attribute, constant, shape
from ptqlab.ops.rules import constant_shape_operand, float_features, not_empty
from ptqlab.ops.spec import Encoding, Engine, Lowering, OpSpec, Role
from ptqlab.platforms import Platform


def two_operands(node: ir.Node, platform: Platform) -> str | None:
    """Max and Min have two operands; the optimizer makes a chain of those that have more."""
    return None if len(node.inputs) == 2 else f"{len(node.inputs)} operands"


def float_branches(node: ir.Node, platform: Platform) -> str | None:
    """The branches of Where must be float32 on the BPU; the condition is bool and stays as it is."""
    for value in (*node.inputs[1:], *node.outputs):
        if value is not None and value.dtype != ir.DataType.FLOAT:
            return f"{value.name} is {value.dtype.name.lower() if value.dtype else 'untyped'}"
    return None


def one_computed_branch(node: ir.Node, platform: Platform) -> str | None:
    """At least one branch must be computed."""
    return "both branches are constant" if all(constant(v) is not None for v in node.inputs[1:]) else None


def _choose(ctx: Lowering, node: ir.Node, first: int, inputs: dict[str, ir.Value | np.ndarray]) -> None:
    """Both operands at the output scale; a constant one is held in codes of the output itself."""
    out = ctx.output(node)
    assert out is not None, "only TAE operators leave at high precision"
    attributes: dict[str, object] = {}
    for name, index in (("a", first), ("b", first + 1)):
        array = ctx.constant(node, index)
        if array is not None:
            codes, ratio, zero_point = _codes(array, out), 1.0, out.zero_point
            inputs[name] = codes
            tell_mask(ctx, node, array, out)
        else:
            operand = ctx.read(node, index)
            inputs[name], zero_point = operand.value, operand.encoding.zero_point
            ratio = float(operand.encoding.scale) / float(out.scale)
        attributes[f"{name}_zero_point"] = zero_point
        inputs |= scaled_by(f"{name}_", np.asarray(ratio))
    ctx.write(node, node.op_type, inputs, attributes | output_attributes(ctx, node, out))


def _codes(array: np.ndarray, out: Encoding) -> np.ndarray:
    # held inside of what the codes reach, which saturation gives anyway: -3.4e38 over a small scale leaves float32
    reach = [(code - out.zero_point) * float(out.scale) for code in (out.low, out.high)]
    codes = quantize(np.clip(array, reach[0], reach[1]), out.scale, out.zero_point, out.low, out.high)
    return np.asarray(codes, out.qtype.numpy)


def lower_where(ctx: Lowering, node: ir.Node) -> None:
    condition = ctx.constant(node, 0)
    _choose(ctx, node, 1, {"condition": ctx.plain(node, 0) if condition is None else condition})


def lower_extreme(ctx: Lowering, node: ir.Node) -> None:
    _choose(ctx, node, 0, {})


def lower_triangle(ctx: Lowering, node: ir.Node) -> None:
    """A Where whose condition is the triangle, and 0 elsewhere."""
    out, x = ctx.output(node), ctx.read(node, 0)
    assert out is not None, "only TAE operators leave at high precision"
    k = ctx.constant(node, 1)
    ones = np.ones(shape(node.inputs[0])[-2:], bool)
    triangle = (np.triu if attribute(node, "upper", 1) else np.tril)(ones, 0 if k is None else int(k.reshape(())))
    inputs: dict[str, ir.Value | np.ndarray] = {"condition": triangle, "a": x.value, "b": _codes(np.zeros(1), out)}
    inputs |= scaled_by("a_", np.asarray(float(x.encoding.scale) / float(out.scale))) | scaled_by("b_", np.asarray(1.0))
    attributes = {"a_zero_point": x.encoding.zero_point, "b_zero_point": out.zero_point}
    ctx.write(node, "Where", inputs, attributes | output_attributes(ctx, node, out))


EXTREME = (float_features, two_operands, one_computed_operand_at_least, not_empty)
SPECS = (
    OpSpec("Where", Role.ACTIVE, Engine.VAE, features=(1, 2), rules=(float_branches, one_computed_branch, not_empty),
           lower=lower_where, note="by a constant or computed condition; a mask of -Inf is held at the lowest code"),
    *(OpSpec(name, Role.ACTIVE, Engine.VAE, rules=EXTREME, lower=lower_extreme,
             note="of two operands; more become a chain") for name in ("Max", "Min")),
    OpSpec("Trilu", Role.ACTIVE, Engine.VAE, features=(0,), rules=(float_features, constant_shape_operand, not_empty),
           lower=lower_triangle, note="a Where by the triangle"),
)
