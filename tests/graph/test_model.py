"""The float graph: what it answers, and what its verifier catches."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from models import MODELS

from ptqlab.graph import FloatGraph, load, verify


def graph(name: str = "mobile_block") -> FloatGraph:
    return load(MODELS[name]()[0])


def test_questions_about_nodes_and_tensors() -> None:
    """Nodes, producers, consumers, constants, shapes and types by name."""
    g = graph()
    assert g.opset == 17
    assert [n.name for n in g.nodes][:3] == ["conv0", "bn0", "relu6_0"]
    assert g.node("conv1").op_type == "Conv"
    assert "conv1" in g
    assert "nothing" not in g
    assert [v.name for v in g.inputs] == ["x"]
    assert g.producer("x") is None
    assert g.producer("six") is None
    assert g.producer("c0") is g.node("conv0")
    assert [n.name for n in g.consumers("x")] == ["conv0", "add"]
    assert [n.name for n in g.consumers("six")] == ["relu6_0", "relu6_1"]
    assert g.consumers("y") == ()
    assert g.shape("mean") == (1, 8)
    assert g.dtype("mean") == np.float32
    assert g.constant(g.node("conv0").inputs[1]) is not None
    assert g.constant(g.node("conv0").inputs[0]) is None
    assert g.constant(None) is None
    assert g.array("six") == 6
    with pytest.raises(KeyError):
        g.node("nothing")


def broken(change: str) -> FloatGraph:
    """A graph with one rule broken."""
    g = graph()
    model = g.model.clone()
    nodes = {str(n.name): n for n in model.graph}
    aliases = dict(g.aliases)
    match change:
        case "node name":
            nodes["bn0"].name = "conv0"
        case "no node name":
            nodes["bn0"].name = ""
        case "tensor name":
            nodes["bn0"].outputs[0].name = "c0"
        case "shape":
            nodes["bn0"].outputs[0].shape = ir.Shape(["N", 16, 6, 6])
        case "type":
            nodes["bn0"].outputs[0].type = None
        case "order":
            moved = nodes["conv0"]
            model.graph.remove(moved)
            model.graph.append(moved)
        case "constant":
            model.graph.initializers["six"].shape = ir.Shape([3])
        case "alias":
            aliases["old"] = "gone"
        case "no alias":
            del aliases["bn0"]
        case "opset":
            model.graph.opset_imports[""] = 9
        case "domain":
            model.graph.opset_imports["other"] = 1
        case "ir_version":
            model.ir_version = 10
        case "listed":
            model.graph.inputs.append(model.graph.initializers["six"])
    return FloatGraph(model, aliases)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("node name", "two nodes are named 'conv0'"),
        ("no node name", "BatchNormalization node without a name"),
        ("tensor name", "two tensors are named 'c0'"),
        ("shape", "tensor 'b0' has no static shape"),
        ("type", "tensor 'b0' has no type"),
        ("order", "node 'bn0' reads 'c0' before it exists"),
        ("constant", r"constant 'six' is \(\), noted as \(3,\)"),
        ("alias", "alias 'old' points at 'gone', which is no node"),
        ("no alias", "nodes without an alias entry: .'bn0'."),
        ("opset", "opset 9"),
        ("domain", "foreign domains"),
        ("ir_version", "ir_version 10"),
        ("listed", "an initializer is listed as input"),
    ],
)
def test_the_verifier_names_what_is_wrong(change: str, reason: str) -> None:
    """One broken rule at a time."""
    with pytest.raises(AssertionError, match=reason):
        verify(broken(change))


def test_a_sound_graph_passes() -> None:
    """The graphs above differ from this one by one change each."""
    verify(graph())
