"""Compute what depends on constants only, with onnxruntime itself, in one run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import onnx_ir as ir

from ptqlab.graph.execution import run_constants


def evaluate(nodes: Sequence[ir.Node], wanted: Sequence[ir.Value], opset: int) -> list[np.ndarray]:
    """Arrays of `wanted`, computed by `nodes` (in topological order) from constant tensors.

    PtqError when onnxruntime cannot run a node.
    """
    made = {o for node in nodes for o in node.outputs}
    feeds = {str(v.name): _constant(v) for node in nodes for v in node.inputs if v is not None and v not in made}
    return run_constants([ir.to_proto(n) for n in nodes], [str(v.name) for v in wanted], feeds, opset)


def _constant(value: ir.Value) -> np.ndarray:
    assert value.const_value is not None, f"{value.name!r} is no constant"
    return value.const_value.numpy()


def frontier(nodes: Iterable[ir.Node]) -> list[ir.Value]:
    """Outputs of `nodes` that something else needs: another node or the model's interface."""
    inside = set(nodes)
    return [
        o
        for node in nodes
        for o in node.outputs
        if o.name and (o.is_graph_output() or any(use.node not in inside for use in o.uses()))
    ]
