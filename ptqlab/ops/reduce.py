"""Reductions: sums, largest and smallest element, index of the largest or smallest one; cumulative sums."""
from __future__ import annotations

import numpy as np
import onnx_ir as ir

from ptqlab.ops.compare import BOOL_CAST, is_bool_cast
from ptqlab.ops.conv import output_attributes, scaled_by
from ptqlab.ops.node import attribute, constant, input_value, shape
from ptqlab.ops.pool import averages_something, mean_fits
from ptqlab.ops.rules import constant_shape_operand, float_features, float_tensors, not_empty
from ptqlab.ops.spec import Engine, Lowering, OpSpec, Role
from ptqlab.platforms import Platform

INDEX_TYPES = (ir.DataType.INT8, ir.DataType.INT16, ir.DataType.INT32)
LONGEST_AXIS = 32767
LONGEST_SUM = 1 << 16


def reduced_axes(node: ir.Node) -> list[int]:
    """Axes counted from the front; all of them where none are given."""
    rank = len(shape(node.inputs[0]))
    axes = constant(input_value(node, 1))
    return sorted(range(rank) if axes is None or not axes.size else {int(a) % rank for a in axes.ravel()})


def lower_reduction(ctx: Lowering, node: ir.Node) -> None:
    x, out = ctx.read(node, 0), ctx.output(node)
    assert out is not None, "only TAE operators leave at high precision"
    inputs: dict[str, ir.Value | np.ndarray] = {
        "x": x.value, "axes": np.asarray(reduced_axes(node), np.int64),
        **scaled_by("", np.asarray(float(x.encoding.scale) / float(out.scale))),
    }
    attributes = {"x_zero_point": x.encoding.zero_point, "keepdims": int(attribute(node, "keepdims", 1))}
    ctx.write(node, node.op_type, inputs, attributes | output_attributes(ctx, node, out))


def short_sums(node: ir.Node, platform: Platform) -> str | None:
    """A cumulative sum adds up at most 65,536 elements, so that no data can overflow it."""
    # 2^16 * 2^17 (int16 less a zero point) stays below 2^38, what `rescale` is exact for
    count = shape(node.inputs[0])[_cumulative_axis(node)]
    return None if count <= LONGEST_SUM else f"{count} elements"


def _cumulative_axis(node: ir.Node) -> int:
    axis = constant(input_value(node, 1))
    assert axis is not None, "constant by rule"
    return int(axis.reshape(())) % len(shape(node.inputs[0]))


def lower_cumulative(ctx: Lowering, node: ir.Node) -> None:
    x, out = ctx.read(node, 0), ctx.output(node)
    assert out is not None, "only TAE operators leave at high precision"
    attributes = {"x_zero_point": x.encoding.zero_point, "axis": _cumulative_axis(node),
                  "exclusive": int(attribute(node, "exclusive", 0)), "reverse": int(attribute(node, "reverse", 0))}
    ratio = np.asarray(float(x.encoding.scale) / float(out.scale))
    inputs: dict[str, ir.Value | np.ndarray] = {"x": x.value, **scaled_by("", ratio)}
    ctx.write(node, "CumSum", inputs, attributes | output_attributes(ctx, node, out))


def index_cast(node: ir.Node) -> ir.Node | None:
    """The Cast to int8, int16 or int32 that alone reads an ArgMax or ArgMin; None where there is none."""
    out = node.outputs[0]
    readers = [user for user, _ in out.uses()]
    if out.is_graph_output() or len(readers) != 1 or readers[0].op_type != "Cast":
        return None
    return readers[0] if attribute(readers[0], "to") in [int(t) for t in INDEX_TYPES] else None


def cast_behind(node: ir.Node, platform: Platform) -> str | None:
    """Indices are int64, which the BPU does not have: one Cast to int8, int16 or int32 must be their only reader."""
    return None if index_cast(node) is not None else "no such Cast"


def short_index_axis(node: ir.Node, platform: Platform) -> str | None:
    """The axis has at most 32,767 elements, and the type of the index holds them."""
    count = shape(node.inputs[0])[attribute(node, "axis", 0)]
    cast = index_cast(node)
    most = 128 if cast is not None and attribute(cast, "to") == int(ir.DataType.INT8) else LONGEST_AXIS
    return None if count <= most else f"{count} elements"


def lower_index(ctx: Lowering, node: ir.Node) -> None:
    """The Cast behind it is computed inside: the index is written in its type at once."""
    cast = index_cast(node)
    assert cast is not None, "a Cast follows by rule"
    attributes = {
        "axis": int(attribute(node, "axis", 0)) % len(shape(node.inputs[0])),
        "keepdims": int(attribute(node, "keepdims", 1)),
        "last": int(attribute(node, "select_last_index", 0)),
        "to": int(attribute(cast, "to")),
    }
    ctx.write_plain(node, node.op_type, {"x": ctx.read(node, 0).value}, attributes)


def is_index_cast(node: ir.Node) -> bool:
    maker = node.inputs[0].producer() if node.inputs and node.inputs[0] is not None else None
    return maker is not None and maker.op_type in ("ArgMax", "ArgMin") and index_cast(maker) is node


def cast_of(node: ir.Node) -> OpSpec:
    if is_bool_cast(node):
        return BOOL_CAST
    return INDEX_CAST if is_index_cast(node) else CAST


def _reduction(op_type: str) -> OpSpec:
    return OpSpec(op_type, Role.ACTIVE, Engine.VAE, features=(0,),
                  rules=(float_features, constant_shape_operand, not_empty, averages_something, mean_fits),
                  lower=lower_reduction, source="documented")


def _index(op_type: str) -> OpSpec:
    return OpSpec(op_type, Role.ACTIVE, Engine.VAE, features=(0,),
                  rules=(float_tensors, cast_behind, short_index_axis, not_empty), lower=lower_index, plain_output=True,
                  source="documented", note="on the BPU with a Cast to int8, int16 or int32 behind it, else on the CPU")


CUMULATIVE = OpSpec(
    "CumSum", Role.ACTIVE, Engine.VAE, features=(0,),
    rules=(float_features, constant_shape_operand, short_sums, not_empty), lower=lower_cumulative,
    note="along a constant axis; the older BPU runs it on the CPU (documented for X5)",
)
INDEX_CAST = OpSpec("Cast", Role.ACTIVE, Engine.VAE, features=(), fusable=True, plain_output=True, source="documented",
                    note="of an index: computed inside the ArgMax or ArgMin before it")
CAST = OpSpec("Cast", Role.FLOAT, Engine.CPU, source="our definition",
              note="Cast runs on the CPU: it changes between float and types that are never quantized; from "
                   "bool to float32, and to int8, int16 or int32 behind an ArgMax or ArgMin, it runs on the BPU")
SPECS = (*(_reduction(name) for name in ("ReduceSum", "ReduceMax", "ReduceMin")),
         *(_index(name) for name in ("ArgMax", "ArgMin")), CUMULATIVE, CAST)
