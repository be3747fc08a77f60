"""Which tensors share a threshold, and in which type each is stored."""

from __future__ import annotations

from core_models import EDGES, FOUR, net, weights
from models import init, ints, node, random
from small import planned

from ptqlab.arith.formats import QType
from ptqlab.placement import Ask, Asks
from ptqlab.stages.plan import Plan

CONV = node("Conv", ["x", "w"], "c", "conv")


def plan_of(nodes: list, outputs: list[str], inits: list | None = None, asks: Asks | None = None) -> Plan:
    return planned(net(nodes, outputs, inits or weights(**FOUR))[0], asks=asks)[1]


def test_movers_share_the_threshold_of_what_they_move() -> None:
    """Reshape, Transpose and MaxPool add no slot and are no source of one."""
    nodes = [
        CONV,
        node("MaxPool", ["c"], "p", "pool", kernel_shape=[2, 2]),
        node("Transpose", ["p"], "t", "transpose", perm=[0, 1, 3, 2]),
        node("Conv", ["t", "w3"], "y", "end"),
    ]
    plan = plan_of(nodes, ["y"])
    assert {plan.tensors[t].slot for t in ("c", "p", "t")} == {plan.tensors["c"].slot}
    assert plan.sources[plan.tensors["c"].slot] == ("c",)
    assert set(plan.sources) == {"x", plan.tensors["c"].slot}


def test_operands_of_a_concat_share_one_threshold_when_nobody_else_reads_them() -> None:
    """Both convolutions write at the common scale; the slot's values are those of both."""
    nodes = [
        CONV,
        node("Conv", ["x", "w2x"], "d", "conv2"),
        node("Concat", ["c", "d"], "k", "cat", axis=1),
        node("Conv", ["k", "w8"], "y", "end"),
    ]
    plan = plan_of(nodes, ["y"], weights(w=(4, 3, 1, 1), w2x=(4, 3, 1, 1), w8=(2, 8, 1, 1)))
    slot = plan.tensors["k"].slot
    assert {plan.tensors["c"].slot, plan.tensors["d"].slot} == {slot}
    assert set(plan.sources[slot]) == {"c", "d"}


def test_an_operand_with_another_reader_keeps_its_own_threshold() -> None:
    """It is rescaled on entry; the Concat's own output is then a source of the common slot."""
    nodes = [
        CONV,
        node("Conv", ["x", "w2x"], "d", "conv2"),
        node("Concat", ["c", "d"], "k", "cat", axis=1),
        node("Conv", ["k", "w8"], "y", "end"),
        node("Conv", ["c", "w3"], "z", "other"),
    ]
    plan = plan_of(nodes, ["y", "z"], weights(w=(4, 3, 1, 1), w2x=(4, 3, 1, 1), w8=(2, 8, 1, 1), w3=(2, 4, 1, 1)))
    assert plan.tensors["c"].slot == "c" != plan.tensors["k"].slot == plan.tensors["d"].slot
    assert "k" in plan.sources[plan.tensors["k"].slot], "values of c come in through the Concat only"


def test_an_operand_that_is_an_output_or_comes_from_a_mover_keeps_its_own_threshold() -> None:
    """What the model hands out, and what shares a threshold already, is not dragged along."""
    nodes = [
        CONV,
        node("MaxPool", ["c"], "p", "pool", kernel_shape=[1, 1], strides=[1, 1]),
        node("Conv", ["x", "w2x"], "d", "conv2"),
        node("Concat", ["p", "d"], "k", "cat", axis=1),
        node("Conv", ["k", "w8"], "y", "end"),
    ]
    plan = plan_of(nodes, ["y", "d"], weights(w=(4, 3, 1, 1), w2x=(4, 3, 1, 1), w8=(2, 8, 1, 1)))
    slots = {t: plan.tensors[t].slot for t in ("p", "d", "k")}
    assert len(set(slots.values())) == 3, slots


def test_a_constant_operand_counts_for_the_threshold_through_the_concat() -> None:
    """The Concat's output is a source where constants enter."""
    plan = planned(EDGES["constant_beside_large"]()[0])[1]
    slot = plan.tensors["cc"].slot
    assert set(plan.sources[slot]) == {"c", "cc"}


def test_a_pad_with_a_value_counts_for_the_threshold() -> None:
    """A pad value may lie outside of the range of the data; a pad without one adds zeros only."""
    nodes = [
        CONV,
        node("Pad", ["c", "p", "v"], "q", "pad"),
        node("Pad", ["q", "p"], "r", "pad_zero"),
        node("Conv", ["r", "w3"], "y", "end"),
    ]
    plan = plan_of(nodes, ["y"], [*weights(**FOUR), ints("p", 0, 0, 1, 0, 0, 0, 0, 0), init("v", random()[()] + 9)])
    assert plan.sources[plan.tensors["c"].slot] == ("c", "q")


def test_a_tensor_is_stored_in_the_widest_type_that_a_reader_wants() -> None:
    """int8 for one reader, int16 for another: stored as int16; the type of the operator that writes does not count."""
    nodes = [CONV, node("Conv", ["c", "w3"], "y", "narrow"), node("Conv", ["c", "w2"], "z", "wide")]
    plan = plan_of(nodes, ["y", "z"], asks=Asks({"wide": Ask("int16", level="node")}))
    assert plan.tensors["c"].stored is QType.INT16
    assert plan.tensors["x"].stored is QType.INT8
    assert plan.nodes["narrow"].inputs[0] is QType.INT8


def test_what_nobody_reads_is_stored_in_the_type_of_its_operator() -> None:
    """An output of a vector operator has the type asked for it."""
    plan = planned(
        net([node("Add", ["x", "x"], "y", "add")], ["y"], [])[0], asks=Asks({"add": Ask("int16", level="op")})
    )[1]
    assert plan.tensors["y"].stored is QType.INT16


def test_outputs_are_stored_in_the_type_asked_for_them() -> None:
    """model_output_type int16 widens the output tensor, not what is in front of it."""
    plan = plan_of([CONV, node("Conv", ["c", "w3"], "y", "end")], ["y"], asks=Asks(output=QType.INT16))
    assert (plan.tensors["y"].stored, plan.tensors["c"].stored) == (QType.INT16, QType.INT8)


def test_one_input_asked_on_its_own_widens_that_tensor_only() -> None:
    """input1 of an Add in int16: its tensor is stored in int16, the other stays int8."""
    nodes = [
        CONV,
        node("Conv", ["x", "w2x"], "d", "conv2"),
        node("Mul", ["c", "d"], "m", "mul"),
        node("Conv", ["m", "w3"], "y", "end"),
    ]
    inits = weights(w=(4, 3, 1, 1), w2x=(4, 3, 1, 1), w3=(2, 4, 1, 1))
    plan = plan_of(nodes, ["y"], inits, Asks({"mul": Ask("int8", {1: "int16"}, level="node")}))
    assert (plan.tensors["c"].stored, plan.tensors["d"].stored) == (QType.INT8, QType.INT16)
    assert plan.nodes["mul"].asked == "int8 (input1 int16)"


def test_node_beats_op_beats_model() -> None:
    """All int16, Conv int8, conv2 int16: the levels as the configuration resolves them reach the tensors."""
    nodes = [CONV, node("Relu", ["c"], "r", "relu"), node("Conv", ["r", "w3"], "y", "conv2")]
    asks = Asks(
        {"conv": Ask("int8", level="op"), "conv2": Ask("int16", level="node"), "relu": Ask("int16", level="model")}
    )
    plan = plan_of(nodes, ["y"], asks=asks)
    assert [plan.nodes[n].granted for n in ("conv", "relu", "conv2")] == ["int8", "int16", "int16"]
    assert (plan.tensors["x"].stored, plan.tensors["r"].stored) == (QType.INT8, QType.INT16)


def test_tails_and_cpu_tensors_have_no_slot() -> None:
    """A high-precision output is no integer of 8 or 16 bits, and the CPU's tensors are floats."""
    plan = planned(EDGES["cpu_islands"]()[0])[1]
    assert "y" not in plan.tensors
    graph, _ = planned(EDGES["cpu_islands"]()[0])
    cpu_only = {str(o.name) for n in plan.nodes.values() if not n.on_bpu for o in graph.node(n.name).outputs}
    read_by_bpu = {
        str(v.name) for n in plan.nodes.values() if n.on_bpu for v in graph.node(n.name).inputs if v is not None
    }
    assert set(plan.tensors) & cpu_only == cpu_only & read_by_bpu
