"""Head, tail and middle: which nodes run on the BPU, and the sentence that says why."""

from __future__ import annotations

import pytest
from core_models import EDGES, FOUR, net, weights
from models import init, ints, node, random
from small import planned

from ptqlab.arith.formats import QType
from ptqlab.placement import Ask, Asks
from ptqlab.stages.plan import NodePlan, Plan


def head_and_tail() -> object:
    """Reshape and Transpose at the head, Conv and Relu, then Conv, Relu, Reshape and Concat at the tail."""
    nodes = [
        node("Reshape", ["x", "s1"], "x4", "rs_h"),
        node("Transpose", ["x4"], "xt", "tr_h", perm=[0, 3, 1, 2]),
        node("Conv", ["xt", "w"], "c1", "conv_h"),
        node("Relu", ["c1"], "r1", "relu_h"),
        node("Conv", ["r1", "w3"], "c2", "conv_t"),
        node("Relu", ["c2"], "r2", "relu_t"),
        node("Reshape", ["r2", "s2"], "f", "rs_t"),
        node("Concat", ["f", "f"], "y", "cat_t", axis=1),
    ]
    inits = [*weights(**FOUR), ints("s1", 1, 8, 8, 3), ints("s2", 1, 128)]
    return net(nodes, ["y"], inits, {"x": random(1, 192)})[0]


def on_bpu(plan: Plan) -> set[str]:
    return {n.name for n in plan.nodes.values() if n.on_bpu}


def rules(plan: Plan) -> dict[str, str]:
    return {n.name: n.rule for n in plan.nodes.values()}


@pytest.mark.parametrize(("march", "word"), [("nash-e", "int32"), ("nash-p", "float32")])
def test_the_last_convolution_is_a_tail_and_what_follows_runs_on_the_cpu(march: str, word: str) -> None:
    """Passive head, tail and everything behind it are on the CPU, each with its own rule and reason."""
    _, plan = planned(head_and_tail(), march)
    assert on_bpu(plan) == {"conv_h", "relu_h", "conv_t"}
    assert rules(plan) == {
        "rs_h": "passive-head",
        "tr_h": "passive-head",
        "conv_h": "default",
        "relu_h": "default",
        "conv_t": "default",
        "relu_t": "after-tail",
        "rs_t": "passive-tail",
        "cat_t": "passive-tail",
    }
    tail = plan.nodes["conv_t"]
    assert tail.tail and not plan.nodes["conv_h"].tail
    assert tail.reason.endswith(f"Last operator with weights: its output is {word} at high precision.")
    assert plan.nodes["relu_t"].reason == (
        f"CPU: it follows conv_t, the last operator with weights, which puts out {word} at high precision. "
        "Name it in quant_config, or set model_output_type to int8 or int16, to keep it on the BPU at lower precision."
    )
    assert plan.groups["conv_t"].members == ("conv_t",), "a tail computes nothing but itself"


@pytest.mark.parametrize("level", ["node", "op", "subgraph"])
def test_naming_the_relu_behind_the_tail_moves_it_to_the_bpu(level: str) -> None:
    """A request about the node or its kind makes it an anchor: the convolution in front is no tail then."""
    _, plan = planned(head_and_tail(), asks=Asks({"relu_t": Ask("int16", level=level)}))
    assert on_bpu(plan) == {"conv_h", "relu_h", "conv_t", "relu_t"}
    assert not plan.nodes["conv_t"].tail
    assert plan.groups["conv_t"].members == ("conv_t", "relu_t")
    assert plan.tensors["r2"].stored is QType.INT16
    assert plan.nodes["relu_t"].rule == f"asked-{level}"


@pytest.mark.parametrize("ask", [Ask("int16", level="node"), Ask("int8", on="BPU", level="node")])
def test_naming_a_passive_node_at_the_tail_has_no_effect(ask: Ask) -> None:
    """cat_t has no threshold of its own: it stays on the CPU, and the plan is the same as without the request."""
    _, plan = planned(head_and_tail(), asks=Asks({"cat_t": ask}))
    _, without = planned(head_and_tail())
    assert plan.nodes["cat_t"].rule == "passive-tail" and not plan.nodes["cat_t"].on_bpu
    assert on_bpu(plan) == on_bpu(without) and plan.tensors == without.tensors


def test_a_request_for_the_whole_model_names_no_node() -> None:
    """all_node_type int16 widens what is on the BPU and moves nothing there."""
    graph, _ = planned(head_and_tail())
    _, plan = planned(head_and_tail(), asks=Asks({str(n.name): Ask("int16", level="model") for n in graph.nodes}))
    assert on_bpu(plan) == {"conv_h", "relu_h", "conv_t"}
    assert {t.stored for t in plan.tensors.values()} == {QType.INT16}


def test_run_on_bpu_without_a_type_is_a_request_too() -> None:
    """Asks that only name the device keep a vector operator behind the tail on the BPU."""
    _, plan = planned(head_and_tail(), asks=Asks({"relu_t": Ask(on="BPU")}))
    assert plan.nodes["relu_t"].on_bpu and not plan.nodes["conv_t"].tail


@pytest.mark.parametrize("output", [QType.INT8, QType.INT16])
def test_integer_outputs_leave_no_tail(output: QType) -> None:
    """model_output_type int8 or int16 keeps active operators behind the last convolution on the BPU."""
    _, plan = planned(head_and_tail(), asks=Asks(output=output))
    assert plan.nodes["relu_t"].on_bpu and not any(n.tail for n in plan.nodes.values())
    assert not plan.nodes["cat_t"].on_bpu


@pytest.mark.parametrize("output", [None, QType.FLOAT32, QType.INT32])
def test_other_outputs_leave_the_tail_as_it_is(output: QType | None) -> None:
    """float32 (and nothing asked) is what a tail gives anyway."""
    _, plan = planned(head_and_tail(), asks=Asks(output=output))
    assert plan.nodes["conv_t"].tail and not plan.nodes["relu_t"].on_bpu


def test_passive_operators_between_quantized_ones_run_on_the_bpu() -> None:
    """Transpose and Reshape between a convolution and a matrix product pass the threshold on."""
    _, plan = planned(EDGES["passive_chain"]()[0])
    assert all(n.on_bpu for n in plan.nodes.values())
    passive = [n for n in plan.nodes.values() if n.op_type in ("Transpose", "Reshape")]
    assert passive and all(n.reason.startswith("BPU: moves data") for n in passive)


def test_a_network_without_weights_runs_on_the_bpu() -> None:
    """An Add alone is no tail and stands behind none: it is on the BPU."""
    made, _ = net([node("Add", ["x", "k"], "y", "add")], ["y"], [init("k", random(1, 3, 8, 8))])
    _, plan = planned(made)
    assert plan.nodes["add"].on_bpu and not plan.nodes["add"].tail
    _, plan = planned(EDGES["vector_unit_only"]()[0])
    assert all(n.on_bpu for n in plan.nodes.values())


def test_a_branch_that_no_convolution_feeds_keeps_its_vector_operators() -> None:
    """The Mul beside the convolution is not behind it; the Add that joins both is, and runs on the CPU."""
    nodes = [
        node("Conv", ["x", "w"], "c", "conv"),
        node("Mul", ["z", "z"], "m", "mul"),
        node("Add", ["c", "m"], "y", "add"),
    ]
    made, _ = net(nodes, ["y"], weights(**FOUR), {"x": random(1, 3, 8, 8), "z": random(1, 4, 8, 8)})
    _, plan = planned(made)
    assert on_bpu(plan) == {"conv", "mul"} and rules(plan)["add"] == "after-tail"


def test_two_heads_have_a_tail_each() -> None:
    """Each last convolution of a branch is a tail, and the Concat behind both is on the CPU."""
    nodes = [
        node("Conv", ["x", "w"], "c", "stem"),
        node("Conv", ["c", "w2"], "a", "left"),
        node("Conv", ["c", "w3"], "b", "right"),
        node("Concat", ["a", "b"], "y", "cat", axis=1),
    ]
    _, plan = planned(net(nodes, ["y"], weights(**FOUR))[0])
    assert [n.name for n in plan.nodes.values() if n.tail] == ["left", "right"]
    assert rules(plan)["cat"] == "passive-tail"


def test_run_on_cpu_says_so_and_stops_the_tail_rule_there() -> None:
    """The node is float on the CPU as asked; the convolution before it still has one behind and is no tail."""
    _, plan = planned(EDGES["two_inputs"]()[0], asks=Asks({"add2": Ask(on="CPU")}))
    asked: NodePlan = plan.nodes["add2"]
    assert (asked.on_bpu, asked.granted, asked.rule, asked.reason) == (
        False,
        "float32",
        "asked-cpu",
        "CPU: the configuration asks for it.",
    )
    assert not plan.nodes["conv3"].tail and plan.nodes["conv4"].tail


def test_an_operator_inside_a_branch_makes_its_if_stand_behind_what_it_reads() -> None:
    """The Add behind an If whose branches read the last convolution's output is after the tail."""
    from models import value
    from onnx import TensorProto, helper

    then = helper.make_graph([node("Mul", ["c", "c"], "t", "then")], "then", [], [value("t", None)])
    other = helper.make_graph([node("Neg", ["c"], "e", "else")], "else", [], [value("e", None)])
    nodes = [
        node("Conv", ["x", "w"], "c", "conv"),
        node("If", ["cond"], "o", "branch", then_branch=then, else_branch=other),
        node("Add", ["o", "o"], "y", "add"),
    ]
    made, feeds = net(nodes, ["y"], weights(**FOUR))
    made.graph.input.append(value("cond", [], TensorProto.BOOL))
    _, plan = planned(made)
    assert rules(plan)["add"] == "after-tail" and plan.nodes["conv"].tail
    assert set(feeds) == {"x"}
