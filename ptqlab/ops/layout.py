"""Movers of data: they keep codes as they are and inherit the threshold of their input."""
from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx_ir as ir

from ptqlab.ops.node import attribute, constant, input_value, shape
from ptqlab.ops.rules import constant_shape_operand, float_features, not_empty
from ptqlab.ops.spec import Engine, Lowering, OpSpec, Role
from ptqlab.platforms import Platform


def known_pad_mode(node: ir.Node, platform: Platform) -> str | None:
    """Pad knows the modes constant, reflect, edge and wrap; the last three cannot cut."""
    mode = attribute(node, "mode", "constant")
    pads = constant(input_value(node, 1))
    if mode not in ("constant", "reflect", "edge", "wrap"):
        return f"mode {mode}"
    return "negative pads" if mode == "wrap" and pads is not None and (pads < 0).any() else None


def no_pad_axes(node: ir.Node, platform: Platform) -> str | None:
    """The pads must cover all axes; the optimizer spells an axes input out."""
    return None if input_value(node, 3) is None else "an axes input"


def lower_move(ctx: Lowering, node: ir.Node) -> None:
    """The node itself, on integers; its shape operands, constant by rule, stay as they are or stay left out."""
    operands = [ctx.constant(node, index) for index in range(1, len(node.inputs))]
    ctx.move(node, [ctx.read(node, 0).value, *operands])


def lower_split(ctx: Lowering, node: ir.Node) -> None:
    """One Slice for each part (documented: Split becomes Slice)."""
    x = ctx.read(node, 0).value
    axis = attribute(node, "axis", 0) % len(shape(node.inputs[0]))
    start = 0
    for index, part in enumerate(node.outputs):
        end = start + shape(part)[axis]
        bounds: list[ir.Value | np.ndarray | None] = [np.array([v], np.int64) for v in (start, end, axis)]
        ctx.move(node, [x, *bounds], index, "Slice", {})
        start = end


def lower_blocks(ctx: Lowering, node: ir.Node) -> None:
    """DepthToSpace and SpaceToDepth."""
    x = ctx.read(node, 0)
    attributes = {"blocksize": attribute(node, "blocksize"), "to": int(ir.DataType.from_numpy(x.encoding.qtype.numpy))}
    if node.op_type == "DepthToSpace":
        attributes["mode"] = attribute(node, "mode", "DCR")
    ctx.write(node, node.op_type, {"x": x.value}, attributes)


def lower_concat(ctx: Lowering, node: ir.Node) -> None:
    """Every operand arrives at the common scale: read that way, or rescaled on entry."""
    ctx.move(node, [ctx.read(node, index).value for index in range(len(node.inputs))])


def lower_pad(ctx: Lowering, node: ir.Node) -> None:
    x, value = ctx.read(node, 0), constant(input_value(node, 2))
    pads = ctx.constant(node, 1)
    assert pads is not None, "pads are constant by rule"
    attributes = {
        "mode": attribute(node, "mode", "constant"),
        "value": x.encoding.code(0.0 if value is None else float(value.reshape(()))),
        "to": int(ir.DataType.from_numpy(x.encoding.qtype.numpy)),
    }
    ctx.write(node, "Pad", {"x": x.value, "pads": pads.astype(np.int64)}, attributes)


def _mover(op_type: str, note: str = "") -> OpSpec:
    return OpSpec(
        op_type,
        Role.PASSIVE,
        Engine.TRANS,
        features=(0,),
        rules=(float_features, constant_shape_operand, not_empty),
        lower=lower_move,
        source="documented",
        note=note,
    )


SPECS = (
    *(_mover(name) for name in ("Reshape", "Flatten", "Transpose", "Squeeze", "Unsqueeze", "Slice", "Identity",
                                "Expand", "Tile")),
    replace(_mover("Split", "one Slice for each part"), lower=lower_split),
    *(replace(_mover(name), lower=lower_blocks) for name in ("DepthToSpace", "SpaceToDepth")),
    OpSpec("Concat", Role.PASSIVE, Engine.TRANS, rules=(float_features, not_empty), lower=lower_concat,
           source="documented", note="its operands share one threshold (log: a cluster around Concat shares one)"),
    OpSpec("Pad", Role.PASSIVE, Engine.TRANS, features=(0,),
           rules=(float_features, constant_shape_operand, known_pad_mode, no_pad_axes, not_empty), lower=lower_pad,
           source="documented", note="zero padding before a convolution is folded into its pads"),
)
