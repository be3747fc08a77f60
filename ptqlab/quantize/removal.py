"""Removing nodes at the head and tail of a quantized model, so that the host does their work in its own pre- and
post-processing (documented): only nodes that touch an input or output of the graph, one path, in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import onnx_ir as ir

from ptqlab.quantize.rewrite import Rewriter
from ptqlab.stages.quantized import QuantizedModel

REMOVABLE_TYPES = ("Quantize", "Transpose", "Dequantize", "Cast", "Reshape", "Softmax")


@dataclass(frozen=True)
class Removed:
    """A node that was removed: where it stood ("input" or "output"), the interface tensor before and after."""

    name: str
    op_type: str
    side: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.op_type} {self.name} at the {self.side}: {self.before} -> {self.after}"


def removable_nodes(model: ir.Model) -> list[tuple[ir.Node, str]]:
    """Nodes that could be removed now, with the side they stand on, in graph order."""
    return [
        (node, side) for node in model.graph if node.op_type in REMOVABLE_TYPES and (side := _side(node)) is not None
    ]


def _side(node: ir.Node) -> str | None:
    """ "output", "input" or None for a node that touches neither alone."""
    if len([o for o in node.outputs if o.name]) != 1 or any(
        v is not None and v.const_value is None for v in node.inputs[1:]
    ):
        return None
    first, out = node.inputs[0], node.outputs[0]
    if first is None or first.const_value is not None:
        return None
    if out.is_graph_output():
        # the tensor before it becomes the output: it must be computed, and no output already
        lonely = not out.uses() and not first.is_graph_output() and first.producer() is not None
        return "output" if lonely else None
    if first.is_graph_input():
        return "input" if len(first.uses()) == 1 and not first.is_graph_output() else None
    return None


def remove_nodes(
    quantized: QuantizedModel,
    types: Sequence[str] = (),
    names: Sequence[str] = (),
) -> tuple[QuantizedModel, list[Removed], list[str]]:
    """(model, what was removed, wishes that came to nothing with the reason).

    Names win over types where both are given (documented). Each wish is carried out on what the one before left.
    """
    work = Rewriter(quantized)
    removed: list[Removed] = []
    missed: list[str] = []
    for wish in names or types:
        hits = _matches(work, wish, by_name=bool(names))
        if not hits:
            missed.append(_why_not(work, wish, by_name=bool(names)))
        while hits:
            removed.append(_take_out(work, *hits[0]))
            hits = [] if names else _matches(work, wish, by_name=False)
    return (work.done() if removed else quantized), removed, missed


def _matches(work: Rewriter, wish: str, by_name: bool) -> list[tuple[ir.Node, str]]:
    if by_name:
        return [(n, side) for n in work.graph if n.name == wish and (side := _side(n)) is not None]
    return [(n, side) for n, side in removable_nodes(work.model) if n.op_type == wish]


def _why_not(work: Rewriter, wish: str, by_name: bool) -> str:
    there = [n for n in work.graph if (n.name if by_name else n.op_type) == wish]
    if not there:
        return f"{wish}: no such {'node' if by_name else 'operator'} in the quantized model"
    return (
        f"{wish}: it does not stand alone at an input or output of the graph "
        "(other nodes must go first, or share its tensor)"
    )


def _take_out(work: Rewriter, node: ir.Node, side: str) -> Removed:
    first, out = node.inputs[0], node.outputs[0]
    assert first is not None
    told = Removed(
        str(node.name),
        node.op_type,
        side,
        str(out.name if side == "output" else first.name),
        str(first.name if side == "output" else out.name),
    )
    if side == "output":
        for index, value in enumerate(work.graph.outputs):
            if value is out:
                work.graph.outputs[index] = first
        work.graph.remove(node, safe=True)
        return told
    made = ir.Value(name=out.name, shape=out.shape, type=out.type)
    out.name = None
    work.replace_uses(out, made)
    for index, value in enumerate(work.graph.inputs):
        if value is first:
            work.graph.inputs[index] = made
    work.graph.remove(node, safe=True)
    return told
