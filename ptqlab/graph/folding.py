"""Compute what depends on constants only, with onnxruntime itself, in one run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import onnx
import onnx_ir as ir

from ptqlab.graph.session import raw_session, runtime_error


def evaluate(nodes: Sequence[ir.Node], wanted: Sequence[ir.Value], opset: int) -> list[np.ndarray]:
    """Arrays of `wanted`, computed by `nodes` (in topological order) from constant tensors.

    The constants enter as inputs, so nothing large is copied. PtqError when onnxruntime cannot run a node.
    """
    made = {o for node in nodes for o in node.outputs}
    feeds = {str(v.name): _constant(v) for node in nodes for v in node.inputs if v is not None and v not in made}
    proto = onnx.ModelProto(ir_version=9)
    proto.opset_import.add(domain="", version=opset)
    proto.graph.name = "constants"
    for name, array in feeds.items():
        proto.graph.input.append(
            onnx.helper.make_tensor_value_info(name, int(ir.DataType.from_numpy(array.dtype)), list(array.shape))
        )
    for node in nodes:
        ir.serde.serialize_node_into(proto.graph.node.add(), node)
    for value in wanted:
        proto.graph.output.add(name=str(value.name))
    session = raw_session(proto.SerializeToString(), {}, optimise=False, threads=1, where="constant folding")
    try:
        results = session.run([str(v.name) for v in wanted], feeds)
    except Exception as error:
        raise runtime_error(error, "constant folding") from None
    return [np.asarray(r) for r in results]


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
