"""int32 tensors of the model itself: the BPU computes them as they are (documented), nothing is quantized."""
from __future__ import annotations

import onnx_ir as ir

from ptqlab.ops.compare import lower_int32_comparison
from ptqlab.ops.integer.compare import COMPARISONS
from ptqlab.ops.rules import constant_shape_operand
from ptqlab.ops.spec import Engine, Lowering, OpSpec, Role

ARITHMETIC = ("Add", "Sub", "Mul", "Neg", "Abs", "Max", "Min")
MOVED = ("Reshape", "Flatten", "Transpose", "Squeeze", "Unsqueeze", "Slice", "Identity", "Expand", "Tile", "Gather",
         "GatherElements", "GatherND")
NOTE = "on int32 tensors of the model: computed as they are, never quantized, no type can be asked for"


def is_native(node: ir.Node) -> bool:
    """Whether a node computes on int32 alone; shapes and indices may be of any type, and comparisons give bool."""
    data = node.inputs[:1] if node.op_type in MOVED else node.inputs
    tensors = [*data, *(() if node.op_type in COMPARISONS else node.outputs)]
    return node.op_type in NATIVE and all(v is not None and v.dtype == ir.DataType.INT32 for v in tensors)


def lower_native(ctx: Lowering, node: ir.Node) -> None:
    ctx.keep(node)


NATIVE: dict[str, OpSpec] = {
    **{op: OpSpec(op, Role.ACTIVE, Engine.VAE, features=(), lower=lower_native, plain_output=True, native=True,
                  source="documented", note=NOTE) for op in ARITHMETIC},
    **{op: OpSpec(op, Role.ACTIVE, Engine.VAE, features=(), lower=lower_int32_comparison, plain_output=True,
                  native=True, source="documented", note=NOTE) for op in COMPARISONS},
    **{op: OpSpec(op, Role.ACTIVE, Engine.TRANS, features=(), rules=(constant_shape_operand,), lower=lower_native,
                  plain_output=True, native=True, source="documented", note=NOTE) for op in MOVED},
}
