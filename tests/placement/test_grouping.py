"""Which nodes one BPU operator computes together."""

from __future__ import annotations

import numpy as np
import pytest
from core_models import EDGES, FOUR, f32, net, weights
from models import init, node, random
from small import planned

from ptqlab.placement import Ask, Asks
from ptqlab.stages.plan import Group


def groups(
    nodes: list, outputs: list[str], inits: list | None = None, inputs: dict | None = None, asks: Asks | None = None
) -> dict[str, Group]:
    """Groups of a model; a convolution `end` behind the first output keeps it from being a tail."""
    last = [node("Conv", [outputs[0], "end"], "end_of_net", "end")]
    made, _ = net(
        [*nodes, *last], ["end_of_net", *outputs[1:]], [*(inits or weights(**FOUR)), *weights(end=(2, 4, 1, 1))], inputs
    )
    _, plan = planned(made, asks=asks)
    return dict(plan.groups)


CONV = node("Conv", ["x", "w"], "c", "conv")


def test_a_relu_joins_its_convolution() -> None:
    """Bounds are those of the Relu, the output is the Relu's tensor."""
    found = groups([CONV, node("Relu", ["c"], "r", "relu")], ["r"])
    assert found["conv"] == Group("conv", ("conv", "relu"), "r", low=0.0, high=float("inf"))


def test_a_relu6_joins_and_a_second_clip_does_not() -> None:
    """Conv and Clip(0, 6) are one operator; what comes behind a clamp is another."""
    nodes = [CONV, node("Clip", ["c", "lo", "hi"], "a", "relu6"), node("Clip", ["a", "one", "hi"], "b", "second")]
    found = groups(nodes, ["b"], [*weights(**FOUR), init("lo", f32(0)), init("hi", f32(6)), init("one", f32(1))])
    assert (found["conv"].members, found["conv"].low, found["conv"].high) == (("conv", "relu6"), 0.0, 6.0)
    assert found["second"].members == ("second",)


def test_residual_add_and_relu_join_the_later_convolution() -> None:
    """Of two convolutions that are added the later one takes the Add: the other's result exists already."""
    found = groups(
        [
            CONV,
            node("Conv", ["x", "w"], "d", "conv2"),
            node("Add", ["c", "d"], "a", "add"),
            node("Relu", ["a"], "r", "relu"),
        ],
        ["r"],
    )
    assert found["conv2"].members == ("conv2", "add", "relu") and found["conv2"].residual == ("add", 0)
    assert found["conv"].members == ("conv",)


def test_the_order_of_the_operands_does_not_matter() -> None:
    """The residual operand is found on either side of the Add."""
    found = groups([CONV, node("Conv", ["x", "w"], "d", "conv2"), node("Add", ["d", "c"], "a", "add")], ["a"])
    assert found["conv2"].residual == ("add", 1)


def test_a_tensor_added_to_itself_is_no_residual() -> None:
    """Add(c, c) reads the accumulator twice, which no operator does."""
    found = groups([CONV, node("Add", ["c", "c"], "a", "add")], ["a"])
    assert found["conv"].members == ("conv",) and found["add"].members == ("add",)


def test_a_residual_that_broadcasts_stays_an_add() -> None:
    """The other operand must have the output's shape."""
    inputs = {"x": random(1, 3, 8, 8), "z": random(1, 4, 1, 1)}
    found = groups([CONV, node("Add", ["c", "z"], "a", "add")], ["a"], inputs=inputs)
    assert found["conv"].members == ("conv",)


def test_an_output_of_the_model_is_stored_and_ends_the_group() -> None:
    """Nothing joins a convolution whose own result is an output."""
    found = groups([CONV, node("Relu", ["c"], "r", "relu")], ["r", "c"])
    assert found["conv"].members == ("conv",) and found["relu"].members == ("relu",)


def test_two_readers_end_the_group() -> None:
    """A result that two operators read is stored."""
    found = groups([CONV, node("Relu", ["c"], "r", "relu"), node("Add", ["r", "c"], "a", "add")], ["a"])
    assert found["conv"].members == ("conv",) and found["relu"].members == ("relu",)


@pytest.mark.parametrize("shape", [(6,), (1,), (), (1, 1, 6)])
def test_a_constant_add_behind_a_matmul_of_rank_3_joins_the_bias(shape: tuple[int, ...]) -> None:
    """One value per output channel, or one for all, of any rank."""
    nodes = [
        node("MatMul", ["x", "w"], "m", "mm"),
        node("Add", ["m", "b"], "a", "bias"),
        node("Relu", ["a"], "r", "relu"),
        node("MatMul", ["r", "w2"], "y", "end"),
    ]
    inits = [*weights(w=(5, 6), w2=(6, 2)), init("b", np.asarray(random(*shape)))]
    _, plan = planned(net(nodes, ["y"], inits, {"x": random(2, 4, 5)})[0])
    assert plan.groups["mm"] == Group("mm", ("mm", "bias", "relu"), "r", bias_add="bias", low=0.0, high=float("inf"))


@pytest.mark.parametrize("shape", [(4, 1), (2, 4, 6), (2, 1, 1)])
def test_a_constant_per_position_is_no_bias(shape: tuple[int, ...]) -> None:
    """What varies along another axis than the channels stays an Add."""
    nodes = [
        node("MatMul", ["x", "w"], "m", "mm"),
        node("Add", ["m", "b"], "a", "bias"),
        node("MatMul", ["a", "w2"], "y", "end"),
    ]
    inits = [*weights(w=(5, 6), w2=(6, 2)), init("b", random(*shape))]
    _, plan = planned(net(nodes, ["y"], inits, {"x": random(2, 4, 5)})[0])
    assert plan.groups["mm"].members == ("mm",) and plan.groups["bias"].members == ("bias",)


def test_bias_then_residual_then_relu_are_one_operator() -> None:
    """MatMul, constant Add, residual Add and Relu in a row."""
    nodes = [
        node("MatMul", ["x", "w"], "m", "mm"),
        node("Add", ["b", "m"], "a", "bias"),
        node("Add", ["a", "x"], "s", "res"),
        node("Relu", ["s"], "r", "relu"),
        node("MatMul", ["r", "w"], "y", "end"),
    ]
    _, plan = planned(net(nodes, ["y"], weights(w=(6, 6), b=(6,)), {"x": random(2, 4, 6)})[0])
    assert plan.groups["mm"].members == ("mm", "bias", "res", "relu")
    assert (plan.groups["mm"].bias_add, plan.groups["mm"].residual) == ("bias", ("res", 1))


def test_a_member_asked_onto_the_cpu_does_not_join() -> None:
    """The Relu on the CPU ends the convolution's group."""
    found = groups([CONV, node("Relu", ["c"], "r", "relu")], ["r"], asks=Asks({"relu": Ask(on="CPU")}))
    assert found["conv"].members == ("conv",) and "relu" not in found


def test_every_group_comes_after_what_it_reads() -> None:
    """Groups are in an order in which each reads only tensors that inputs, the CPU or earlier groups give."""
    for name in ("two_inputs", "diamonds", "residual_from_cpu", "concats"):
        graph, plan = planned(EDGES[name]()[0])
        written: set[str] = {str(v.name) for v in graph.inputs} | set(graph.initializers)
        written |= {str(o.name) for n in plan.nodes.values() if not n.on_bpu for o in graph.node(n.name).outputs}
        for group in plan.groups.values():
            inside = {str(o.name) for m in group.members for o in graph.node(m).outputs}
            reads = {str(v.name) for m in group.members for v in graph.node(m).inputs if v is not None} - inside
            assert reads <= written, f"{name}: {group.main} reads {reads - written} too early"
            written.add(group.output)
