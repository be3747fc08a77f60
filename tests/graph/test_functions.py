"""Model-local functions written out."""

from __future__ import annotations

import onnx
import pytest
from models import IMAGE, MODELS, model, node, value
from onnx import helper

from ptqlab.errors import PtqError
from ptqlab.graph import load, session


def test_inner_names_show_the_caller() -> None:
    """Nodes and tensors of a call carry its name, nested calls both; the caller is an alias of its result."""
    graph = load(MODELS["local_functions"]()[0])
    assert [n.name for n in graph.nodes] == [
        "blk_a/inner_conv",
        "blk_a/inner_act",
        "blk_b/first/inner_conv",
        "blk_b/first/inner_act",
        "blk_b/second/inner_conv",
        "blk_b/second/inner_act",
    ]
    assert graph.aliases["blk_a"] == "blk_a/inner_act"
    assert graph.aliases["blk_b"] == "blk_b/second/inner_act"
    alphas = [
        graph.node(f"{b}/inner_act").attributes["alpha"].as_float() for b in ("blk_a", "blk_b/first", "blk_b/second")
    ]
    assert alphas == pytest.approx([0.1, 0.5, 0.25])


def function(
    name: str, nodes: list[onnx.NodeProto], inputs: list[str], outputs: list[str], opset: int = 17
) -> onnx.FunctionProto:
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("local", 1)]
    return helper.make_function("local", name, inputs, outputs, nodes, opsets)


def call(name: str, inputs: list[str], outputs: list[str], node_name: str = "call") -> onnx.NodeProto:
    return helper.make_node(name, inputs, outputs, name=node_name, domain="local")


def local(nodes: list[onnx.NodeProto], functions: list[onnx.FunctionProto]) -> onnx.ModelProto:
    return model(nodes, [value("x", IMAGE)], [value("y", None)], functions=functions, domains=["local"])


def refusal(proto: onnx.ModelProto) -> str:
    with pytest.raises(PtqError) as caught:
        load(proto)
    return str(caught.value)


def test_missing_optional_inputs_and_passed_through_inputs() -> None:
    """An input the caller leaves out is left out inside; an output that is an input becomes an Identity."""
    clip = function("Bounded", [node("Clip", ["a", "lo", "hi"], "b", "clip")], ["a", "lo", "hi"], ["b", "a"])
    graph = load(local([call("Bounded", ["x"], ["m", "same"]), node("Add", ["m", "same"], "y", "add")], [clip]))
    assert [(n.name, n.op_type) for n in graph.nodes] == [
        ("call/clip", "Clip"),
        ("call/same", "Identity"),
        ("add", "Add"),
    ]
    _, feeds = MODELS["conv_bn_relu"]()
    assert (session(graph.model).run(None, feeds)[0] == 2 * feeds["x"]).all()


def test_a_body_inside_a_function_reads_the_callers_tensors() -> None:
    """Names inside branches are rewritten, too; two calls do not collide."""
    branches = [
        helper.make_graph([node("Mul", ["a", "a"], f"{n}o", f"{n}mul")], n, [], [value(f"{n}o", IMAGE)]) for n in "te"
    ]
    inside = [
        node("ReduceSum", ["a"], "total", "total", keepdims=0),
        node("Cast", ["total"], "cond", "cond", to=onnx.TensorProto.BOOL),
        node("If", ["cond"], "b", "if", then_branch=branches[0], else_branch=branches[1]),
    ]
    square = function("Square", inside, ["a"], ["b"])
    graph = load(local([call("Square", ["x"], ["m"], "one"), call("Square", ["m"], ["y"], "two")], [square]))
    assert {"one/if", "two/if"} <= {n.name for n in graph.nodes}
    _, feeds = MODELS["conv_bn_relu"]()
    assert session(graph.model).run(None, feeds)[0] == pytest.approx(feeds["x"] ** 4, rel=1e-5)


def test_a_function_that_calls_itself_is_refused() -> None:
    """Directly or through another."""
    one = function("One", [call("Two", ["a"], ["b"], "inner")], ["a"], ["b"])
    two = function("Two", [call("One", ["a"], ["b"], "inner")], ["a"], ["b"])
    assert "functions nested more than 50 deep" in refusal(local([call("One", ["x"], ["y"])], [one, two]))


def test_functions_that_stand_for_an_endless_model_are_refused() -> None:
    """Ten calls of ten calls of ..., a few hundred bytes."""
    functions = [function("F0", [node("Relu", ["a"], "b", "r")], ["a"], ["b"])]
    for level in range(1, 12):
        inner = [
            call(f"F{level - 1}", ["a" if i == 0 else f"t{i}"], ["b" if i == 9 else f"t{i + 1}"], f"c{i}")
            for i in range(10)
        ]
        functions.append(function(f"F{level}", inner, ["a"], ["b"]))
    assert "more than 200000 nodes" in refusal(local([call("F11", ["x"], ["y"])], functions))


def test_another_opset_inside_is_refused() -> None:
    """The function says 13, the model 17."""
    old = function("Old", [node("Relu", ["a"], "b", "r")], ["a"], ["b"], opset=13)
    assert refusal(local([call("Old", ["x"], ["y"])], [old])) == (
        "Loading the model: 1 problem\n"
        "PTQ119  function 'Old'\n"
        "    found     opset 13 in a model of opset 17\n"
        "    expected  the same opset inside and outside"
    )


def test_too_many_inputs_are_refused() -> None:
    """The call is named."""
    one = function("One", [node("Relu", ["a"], "b", "r")], ["a"], ["b"])
    assert "PTQ119  node 'call'\n    found     2 inputs and 1 outputs" in refusal(
        local([call("One", ["x", "x"], ["y"])], [one])
    )
