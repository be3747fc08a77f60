"""Softmax and LogSoftmax along any axis."""
from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from ptqlab.arith.formats import QType
from ptqlab.ops.conv import output_attributes, scaled_by
from ptqlab.ops.integer.softmax import (
    LARGEST_AXIS,
    LOG_BITS,
    PROBABILITY_BITS,
    exp_table,
    exp_tables,
    fraction_bits,
)
from ptqlab.ops.node import attribute, shape
from ptqlab.ops.rules import float_features, not_empty
from ptqlab.ops.spec import Engine, Lowering, OpSpec, Role
from ptqlab.platforms import Platform


def axis_of(node: ir.Node) -> int:
    """The axis, counted from the front (opset 13: -1 where absent)."""
    return int(attribute(node, "axis", -1)) % len(shape(node.inputs[0]))


def short_axis(node: ir.Node, platform: Platform) -> str | None:
    """An axis that is summed over has at most 65,535 elements."""
    count = shape(node.inputs[0])[axis_of(node)]
    return None if count <= LARGEST_AXIS else f"{count} elements along axis {axis_of(node)}"


def _lower(ctx: Lowering, node: ir.Node, ratios: Callable[[float, float], dict[str, float]]) -> None:
    """`ratios`: prefix -> real ratio of a multiplier, from the scales of input and output."""
    x, out = ctx.read(node, 0), ctx.output(node)
    assert out is not None, "only TAE operators leave at high precision"
    axis, scale = axis_of(node), float(x.encoding.scale)
    fraction = fraction_bits(shape(node.inputs[0])[axis])
    inputs: dict[str, ir.Value | np.ndarray] = {"x": x.value, "axes": np.asarray([axis], np.int64)}
    if x.encoding.qtype is QType.INT8:
        inputs["table"] = exp_table(scale, fraction)
    else:
        inputs["coarse"], inputs["fine"] = exp_tables(scale, fraction)
    for prefix, ratio in ratios(scale, float(out.scale)).items():
        inputs |= scaled_by(prefix, np.asarray(ratio))
    name = f"Int{x.encoding.qtype.bits}{node.op_type}"
    ctx.write(node, name, inputs, {"one": 1 << fraction} | output_attributes(ctx, node, out))


def lower_softmax(ctx: Lowering, node: ir.Node) -> None:
    _lower(ctx, node, lambda x, y: {"": 2.0**-PROBABILITY_BITS / y})


def lower_log_softmax(ctx: Lowering, node: ir.Node) -> None:
    _lower(ctx, node, lambda x, y: {"": x / y, "log_": 2.0**-LOG_BITS / y})


RULES = (float_features, short_axis, not_empty)
SOFTMAX = OpSpec(
    "Softmax", Role.ACTIVE, Engine.VAE, features=(0,), rules=RULES, lower=lower_softmax, source="documented",
    note="max, subtract, exp table, sum, reciprocal, multiply in integers; int16 is worth its price in attention",
)
LOG_SOFTMAX = OpSpec(
    "LogSoftmax", Role.ACTIVE, Engine.VAE, features=(0,), rules=RULES, lower=lower_log_softmax,
    note="as Softmax, with a logarithm in place of the reciprocal",
)
SPECS = (SOFTMAX, LOG_SOFTMAX)
