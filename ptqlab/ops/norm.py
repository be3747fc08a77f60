"""Normalizations: LayerNormalization, InstanceNormalization, LpNormalization.

GroupNormalization arrives as InstanceNormalization over groups: the optimizer writes it so.
"""
from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from ptqlab.arith.requantize import GUARD_BITS
from ptqlab.arith.rounding import round_half_away
from ptqlab.ops.conv import output_attributes, scaled_by
from ptqlab.ops.integer.norm import LARGEST_COUNT, LARGEST_EPSILON, UNIT_BITS, Z_BITS
from ptqlab.ops.node import attribute, constant, input_value, shape
from ptqlab.ops.rules import float_features, not_empty, single_output
from ptqlab.ops.spec import Engine, Lowering, OpSpec, Role
from ptqlab.platforms import Platform


def constant_affine(node: ir.Node, platform: Platform) -> str | None:
    """Scale and bias of a normalization must be constant."""
    for index in (1, 2):
        value = input_value(node, index)
        if value is not None and constant(value) is None:
            return f"input {index} ({value.name}) is computed"
    return None


def moderate_count(node: ir.Node, platform: Platform) -> str | None:
    """At most 65,535 elements are normalized together."""
    count = count_of(node)
    return None if count <= LARGEST_COUNT else f"{count} elements"


def order_one_or_two(node: ir.Node, platform: Platform) -> str | None:
    """LpNormalization has order 1 or 2."""
    order = attribute(node, "p", 2)
    return None if order in (1, 2) else f"order {order}"


def _axis(node: ir.Node) -> int:
    return int(attribute(node, "axis", -1)) % len(shape(node.inputs[0]))


def count_of(node: ir.Node) -> int:
    """How many elements are normalized together; but for LpNormalization they lie side by side in memory."""
    sizes = shape(node.inputs[0])
    if node.op_type == "LayerNormalization":
        return math.prod(sizes[_axis(node):])
    return math.prod(sizes[2:]) if node.op_type == "InstanceNormalization" else sizes[_axis(node)]


def affine(node: ir.Node) -> tuple[np.ndarray, np.ndarray]:
    """(gamma, beta), float64, in a shape that broadcasts against x."""
    gamma, beta = (constant(input_value(node, index)) for index in (1, 2))
    assert gamma is not None, "the scale is constant by rule"
    scale, bias = gamma.astype(np.float64), np.zeros(1) if beta is None else beta.astype(np.float64)
    if node.op_type == "LayerNormalization":
        return scale, bias
    column = (-1,) + (1,) * (len(shape(node.inputs[0])) - 2)
    return scale.reshape(column), bias.reshape(column)


def lower_normalize(ctx: Lowering, node: ir.Node) -> None:
    x, out = ctx.read(node, 0), ctx.output(node)
    assert out is not None, "only TAE operators leave at high precision"
    (gamma, beta), count, step = affine(node), count_of(node), float(out.scale)
    epsilon = attribute(node, "epsilon", 1e-5) * (count / float(x.encoding.scale)) ** 2
    offset = np.clip(round_half_away(beta / step * (1 << GUARD_BITS)), -(2**31), 2**31 - 1)
    inputs: dict[str, ir.Value | np.ndarray] = {
        "x": x.value, **scaled_by("", gamma * 2.0**-Z_BITS / step), "offset": offset.astype(np.int32),
    }
    attributes = {"count": count, "epsilon": min(round(epsilon), LARGEST_EPSILON)}
    ctx.write(node, "Normalize", inputs, attributes | output_attributes(ctx, node, out))


def lower_lp(ctx: Lowering, node: ir.Node) -> None:
    x, out = ctx.read(node, 0), ctx.output(node)
    assert out is not None, "only TAE operators leave at high precision"
    inputs: dict[str, ir.Value | np.ndarray] = {
        "x": x.value, "axes": np.asarray([_axis(node)], np.int64),
        **scaled_by("", np.asarray(2.0**-UNIT_BITS / float(out.scale))),
    }
    attributes = {"x_zero_point": x.encoding.zero_point} | output_attributes(ctx, node, out)
    ctx.write(node, "UnitSum" if attribute(node, "p", 2) == 1 else "UnitLength", inputs, attributes)


def _norm(op_type: str, source: str, note: str) -> OpSpec:
    return OpSpec(op_type, Role.ACTIVE, Engine.VAE, features=(0,),
                  rules=(float_features, constant_affine, moderate_count, single_output, not_empty),
                  lower=lower_normalize, source=source, note=note)


EXACT = "mean and variance in exact integers, 1 / sqrt from a table, scale and bias per element"
SPECS = (
    _norm("LayerNormalization", "documented", EXACT),
    _norm("InstanceNormalization", "our definition", f"{EXACT}; the vendor splits it into elementary operators"),
    OpSpec("LpNormalization", Role.ACTIVE, Engine.VAE, features=(0,),
           rules=(float_features, order_one_or_two, moderate_count, not_empty), lower=lower_lp,
           note="a row of zeros stays zero"),
)
