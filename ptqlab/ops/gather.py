"""Gathering and scattering by constant indices: codes change their place and nothing else; and embeddings, rows of a
constant table by computed indices."""
from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx_ir as ir

from ptqlab.arith.rounding import quantize
from ptqlab.errors import Finding
from ptqlab.ops.layout import lower_move
from ptqlab.ops.node import attribute, constant, input_value, shape
from ptqlab.ops.rules import float_tensors, not_empty
from ptqlab.ops.spec import Engine, Lowering, OpSpec, Role
from ptqlab.platforms import Platform


def constant_indices(node: ir.Node, platform: Platform) -> str | None:
    """Indices must be constant: computed ones are read on the CPU."""
    indices = input_value(node, 1)
    assert indices is not None, "ONNX wants indices"
    return None if constant(indices) is not None else f"indices {indices.name} are computed"


def computed_data(node: ir.Node, platform: Platform) -> str | None:
    """What is gathered from must be computed; a constant table stays with the CPU, which reads it exactly."""
    return None if constant(node.inputs[0]) is None else f"{node.inputs[0].name} is constant"  # type: ignore[union-attr]


def finite_table(node: ir.Node, platform: Platform) -> str | None:
    """A constant table that is gathered from holds finite numbers."""
    table = constant(node.inputs[0])
    if table is None:
        return None
    with np.errstate(invalid="ignore"):
        total = table.sum(dtype=np.float64)  # of finite float32 numbers it cannot leave float64
    return None if np.isfinite(total) else "NaN or Inf"


def no_reduction(node: ir.Node, platform: Platform) -> str | None:
    """Scattering replaces elements; with a reduction it would be arithmetic."""
    reduction = attribute(node, "reduction", "none")
    return None if reduction == "none" else f"reduction {reduction}"


def distinct_targets(node: ir.Node, platform: Platform) -> str | None:
    """No element may be written twice: which of two updates stays is not defined."""
    indices, sizes = constant(input_value(node, 1)), shape(node.inputs[0])
    if indices is None or not indices.size:
        return None
    targets: list[np.ndarray]
    if node.op_type == "ScatterND":
        targets = [indices[..., i] % sizes[i] for i in range(indices.shape[-1])]
    else:
        axis = attribute(node, "axis", 0) % len(sizes)
        targets = [*np.indices(indices.shape)]
        targets[axis] = indices % sizes[axis]
    flat = np.ravel_multi_index(tuple(targets), sizes[: len(targets)]).ravel()
    again = flat.size - np.unique(flat).size
    return f"{again} of {flat.size} are written again" if again else None


def lower_scatter(ctx: Lowering, node: ir.Node) -> None:
    """Data and updates arrive at one common scale, as the operands of Concat do."""
    ctx.move(node, [ctx.read(node, 0).value, ctx.constant(node, 1), ctx.read(node, 2).value])


def lower_embedding(ctx: Lowering, node: ir.Node) -> None:
    """The table in codes of the output; what the calibration data never chose may lie beyond them, and is told."""
    table, out = ctx.constant(node, 0), ctx.output(node)
    assert table is not None and out is not None, "a constant table, and only TAE operators leave at high precision"
    step = float(out.scale)
    low, high = ((code - out.zero_point) * step for code in (out.low, out.high))
    beyond = int(np.count_nonzero((table < low - step / 2) | (table > high + step / 2)))
    if beyond:
        ctx.report(Finding(
            "PTQ515",
            f"{node.op_type} {node.name}: {beyond} of {table.size} entries of its table lie outside of "
            f"{low:.4g} .. {high:.4g}, what its threshold holds, and are held at the end of it",
            (str(node.name),), "calibration data with more of the indices shows the threshold more of the table",
            "note",
        ))
    # held inside of the range, which saturation gives anyway: 3.4e38 over a small scale leaves float32
    codes = quantize(np.clip(table, low, high), out.scale, out.zero_point, out.low, out.high)
    ctx.move(node, [np.asarray(codes, out.qtype.numpy), ctx.plain(node, 1)])


def is_embedding(node: ir.Node) -> bool:
    """Whether a node takes rows of a constant float32 table by computed indices."""
    data, indices = node.inputs[0], input_value(node, 1)
    table = constant(data) is not None and data is not None and data.dtype == ir.DataType.FLOAT
    return table and indices is not None and constant(indices) is None


def gather_of(node: ir.Node) -> OpSpec:
    return EMBEDDING if is_embedding(node) else GATHER


def _gather(op_type: str) -> OpSpec:
    return OpSpec(op_type, Role.PASSIVE, Engine.TRANS, features=(0,),
                  rules=(float_tensors, constant_indices, computed_data, not_empty), lower=lower_move,
                  source="documented", note="by constant indices; they are never quantized")


def _scatter(op_type: str) -> OpSpec:
    return OpSpec(op_type, Role.PASSIVE, Engine.TRANS, features=(0, 2),
                  rules=(float_tensors, constant_indices, no_reduction, distinct_targets, not_empty),
                  lower=lower_scatter,
                  note="by constant indices; data and updates share one threshold")


GATHER = replace(_gather("Gather"), note="by constant indices; they are never quantized. Of a constant table by "
                 "computed indices: active, the table held in codes of the output, in the type its readers ask for")
EMBEDDING = OpSpec("Gather", Role.ACTIVE, Engine.TRANS, features=(), rules=(finite_table, not_empty),
                   lower=lower_embedding, note=GATHER.note)
SPECS = (
    GATHER,
    *(_gather(name) for name in ("GatherElements", "GatherND")),
    *(_scatter(name) for name in ("ScatterND", "ScatterElements")),
)
