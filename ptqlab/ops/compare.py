"""Comparisons of quantized tensors, logic on what they give, and the Cast of a bool to numbers."""
from __future__ import annotations

import numpy as np
import onnx_ir as ir

from ptqlab.arith.rounding import round_half_away
from ptqlab.ops.conv import output_attributes, scaled_by
from ptqlab.ops.elementwise import one_computed_operand_at_least
from ptqlab.ops.integer.compare import COMPARISONS
from ptqlab.ops.rules import not_empty
from ptqlab.ops.spec import Engine, Lowering, OpSpec, Role
from ptqlab.platforms import Platform

BOOL = ir.DataType.BOOL
# the common scale of two operands has this many bits below the coarser one's step
FINER_BITS = 8
LARGEST_CONSTANT = 2**31 - 1
LOGIC = ("And", "Or", "Not", "Xor")


def float_operands(node: ir.Node, platform: Platform) -> str | None:
    """The BPU compares float32 tensors that are quantized, and int32; others are compared on the CPU, exactly."""
    for value in node.inputs:
        if value is not None and value.dtype != ir.DataType.FLOAT:
            return f"input {value.name} is {value.dtype.name.lower() if value.dtype else 'untyped'}"
    return None


def lower_comparison(ctx: Lowering, node: ir.Node) -> None:
    """Constants are held in whole numbers of the common step; equal codes at equal scales stay equal."""
    operands = [ctx.read(node, i) if ctx.constant(node, i) is None else None for i in (0, 1)]
    step = max(float(o.encoding.scale) for o in operands if o is not None) * 2.0**-FINER_BITS
    inputs: dict[str, ir.Value | np.ndarray] = {}
    attributes: dict[str, object] = {"to": int(BOOL)}
    for index, (name, operand) in enumerate(zip("ab", operands, strict=True)):
        if operand is None:
            array = ctx.constant(node, index)
            assert array is not None, "an operand is computed or constant"
            whole = round_half_away(array.astype(np.float64) / step)
            inputs[name] = np.asarray(np.clip(whole, -LARGEST_CONSTANT, LARGEST_CONSTANT), np.int32)
            ratio, zero_point = 1.0, 0
        else:
            inputs[name], zero_point = operand.value, operand.encoding.zero_point
            ratio = float(operand.encoding.scale) / step
        attributes[f"{name}_zero_point"] = zero_point
        inputs |= scaled_by(f"{name}_", np.asarray(ratio))
    ctx.write_plain(node, node.op_type, inputs, attributes)


def lower_int32_comparison(ctx: Lowering, node: ir.Node) -> None:
    """Tensors of int32 are compared as they are."""
    inputs: dict[str, ir.Value | np.ndarray] = {}
    attributes: dict[str, object] = {"to": int(BOOL), "a_zero_point": 0, "b_zero_point": 0}
    for index, name in enumerate("ab"):
        constant = ctx.constant(node, index)
        inputs[name] = ctx.plain(node, index) if constant is None else constant
        inputs |= scaled_by(f"{name}_", np.asarray(1.0))
    ctx.write_plain(node, node.op_type, inputs, attributes)


def lower_logic(ctx: Lowering, node: ir.Node) -> None:
    ctx.keep(node)


def lower_bool_cast(ctx: Lowering, node: ir.Node) -> None:
    """The code of 1 where it holds, the code of 0 elsewhere."""
    out = ctx.output(node)
    assert out is not None, "only TAE operators leave at high precision"
    condition = ctx.constant(node, 0)
    inputs: dict[str, ir.Value | np.ndarray] = {"condition": ctx.plain(node, 0) if condition is None else condition}
    attributes: dict[str, object] = {}
    for name, real in (("a", 1.0), ("b", 0.0)):
        inputs[name] = np.asarray(out.code(real), out.qtype.numpy)
        attributes[f"{name}_zero_point"] = out.zero_point
        inputs |= scaled_by(f"{name}_", np.asarray(1.0))
    ctx.write(node, "Where", inputs, attributes | output_attributes(ctx, node, out))


def is_bool_cast(node: ir.Node) -> bool:
    source = node.inputs[0]
    return source is not None and source.dtype == BOOL and node.outputs[0].dtype == ir.DataType.FLOAT


BOOL_CAST = OpSpec("Cast", Role.ACTIVE, Engine.VAE, features=(), rules=(not_empty,), lower=lower_bool_cast,
                   note="of a bool to float32: the codes of 0 and 1")
SPECS = (
    *(OpSpec(op, Role.ACTIVE, Engine.VAE, rules=(float_operands, one_computed_operand_at_least, not_empty),
             lower=lower_comparison, plain_output=True,
             note=f"of float32 tensors, at a scale {1 << FINER_BITS} times finer than the coarser operand's")
      for op in COMPARISONS),
    *(OpSpec(op, Role.PASSIVE, Engine.VAE, features=(), lower=lower_logic, plain_output=True,
             note="on bool tensors between operators of the BPU") for op in LOGIC),
)
