"""Remove what computes nothing; outputs of the model keep their names."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from ptqlab.graph.model import read_values
from ptqlab.passes.base import Work, get_ints, shape_of


class RemoveDeadNodes:
    """Given nodes and constants that nothing needs; result a graph without them."""

    def __call__(self, work: Work) -> int:
        changes = 0
        for node in reversed(list(work.graph)):
            if not any(o.uses() or o.is_graph_output() for o in node.outputs):
                work.merge(node, None)
                changes += 1
        used = {v for node in work.graph for v in read_values(node)} | set(work.graph.outputs)
        for name, value in list(work.graph.initializers.items()):
            if value not in used:
                work.graph.initializers.pop(name)
        return changes


class RemoveNoOps:
    """Given nodes that give back what they read: Identity, Dropout in inference, Cast to the same type, Reshape and
    the like to the same shape, Transpose of no axis, Pad by zero, Slice of everything, Concat, Sum, Min, Max of one.
    Arithmetic with a neutral constant (Add of 0) stays: it is a place where a user can ask for a precision.
    Result: they are gone; one that must name an output of the model stays as an Identity."""

    def __call__(self, work: Work) -> int:
        changes = 0
        for node in list(work.graph):
            source = _unchanged(work, node)
            if source is None:
                continue
            if len(node.outputs) > 1:
                if any(o.uses() or o.is_graph_output() for o in node.outputs[1:]):
                    work.refuse(node, "its second output is used")
                    continue
                node.resize_outputs(1)
            if work.bypass(node, source):
                changes += 1
            elif node.op_type != "Identity":
                work.retype(node, "Identity", [source])
                changes += 1
        return changes


def _unchanged(work: Work, node: ir.Node) -> ir.Value | None:
    """The input a node gives back bit for bit, else None."""
    inputs = [v for v in node.inputs if v is not None]
    if not inputs or not node.outputs[0].name:
        return None
    source, output = inputs[0], node.outputs[0]
    same = source.dtype == output.dtype and shape_of(source) == shape_of(output)
    if not same:
        return None
    match node.op_type:
        case "Identity" | "Dropout" | "Cast" | "CastLike" | "Reshape" | "Flatten" | "Squeeze" | "Unsqueeze" | "Expand":
            return source
        case "Transpose":
            perm = get_ints(node, "perm", range(len(shape_of(source)))[::-1])
            return source if _keeps_order(perm, shape_of(source)) else None
        case "Pad":
            pads = work.constant(node.inputs[1])
            return source if pads is not None and not pads.any() else None
        case "Slice":
            steps = work.constant(node.inputs[4]) if len(node.inputs) > 4 and node.inputs[4] is not None else np.ones(1)
            return source if steps is not None and (steps == 1).all() else None
        case "Tile":
            return source
        case "Concat" | "Sum" | "Min" | "Max" | "Mean":
            return source if len(inputs) == 1 else None
    return None


def _keeps_order(perm: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """Whether a transposition leaves the elements where they are (it may move axes of size 1)."""
    long = [a for a in perm if shape[a] != 1]
    return long == sorted(long)


class MergeTransposes:
    """Given a Transpose that is the only reader of another, or reads a shared one; result one Transpose with both
    permutations, which RemoveNoOps takes away when they cancel."""

    def __call__(self, work: Work) -> int:
        changes = 0
        for node in list(work.graph):
            first = node.inputs[0].producer() if node.op_type == "Transpose" and node.inputs[0] is not None else None
            if first is None or first.op_type != "Transpose" or first.graph is not node.graph:
                continue
            rank = len(shape_of(node.inputs[0]))
            inner = get_ints(first, "perm", tuple(reversed(range(rank))))
            outer = get_ints(node, "perm", tuple(reversed(range(rank))))
            node.attributes["perm"] = ir.AttrInt64s("perm", [inner[a] for a in outer])
            node.replace_input_with(0, first.inputs[0])
            if not first.outputs[0].uses() and not first.outputs[0].is_graph_output():
                work.merge(first, node)
            changes += 1
        return changes


class MergeReshapes:
    """Given a Reshape, Flatten, Squeeze or Unsqueeze that reads another of them; result one Reshape from the first
    input to the last shape."""

    KINDS = frozenset({"Reshape", "Flatten", "Squeeze", "Unsqueeze"})

    def __call__(self, work: Work) -> int:
        changes = 0
        for node in list(work.graph):
            first = node.inputs[0].producer() if node.op_type in self.KINDS and node.inputs[0] is not None else None
            if first is None or first.op_type not in self.KINDS or work.sole_reader(first.outputs[0]) is not node:
                continue
            shape = work.add_constant(f"{node.name}_shape", np.array(shape_of(node.outputs[0]), np.int64))
            work.retype(node, "Reshape", [first.inputs[0], shape])
            work.merge(first, node)
            changes += 1
        return changes
