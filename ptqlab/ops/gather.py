"""Gathering and scattering by constant indices: codes change their place and nothing else."""
from __future__ import annotations

import numpy as np
import onnx_ir as ir

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


def _gather(op_type: str) -> OpSpec:
    return OpSpec(op_type, Role.PASSIVE, Engine.TRANS, features=(0,),
                  rules=(float_tensors, constant_indices, computed_data, not_empty), lower=lower_move,
                  source="documented", note="by constant indices; they are never quantized")


def _scatter(op_type: str) -> OpSpec:
    return OpSpec(op_type, Role.PASSIVE, Engine.TRANS, features=(0, 2),
                  rules=(float_tensors, constant_indices, no_reduction, distinct_targets, not_empty),
                  lower=lower_scatter,
                  note="by constant indices; data and updates share one threshold")


SPECS = (
    *(_gather(name) for name in ("Gather", "GatherElements", "GatherND")),
    *(_scatter(name) for name in ("ScatterND", "ScatterElements")),
)
