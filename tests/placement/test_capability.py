"""What the operator table says of one node: rules, types, and sentences."""

from __future__ import annotations

import numpy as np
import pytest
from core_models import FOUR, f32, net, weights
from models import init, ints, node, random
from small import planned

from ptqlab.arith.formats import QType
from ptqlab.ops.spec import Role, sentence
from ptqlab.ops.table import OPERATORS, spec_of
from ptqlab.placement import Ask, Asks
from ptqlab.placement.capability import grant_type, judge
from ptqlab.platforms import platform
from ptqlab.stages.plan import NodePlan


def plan_of(
    nodes: list,
    inits: list,
    inputs: dict[str, np.ndarray] | None = None,
    asks: Asks | None = None,
    march: str = "nash-e",
) -> NodePlan:
    """The plan of node `n`; its output is `y`."""
    return planned(net(nodes, ["y"], inits, inputs)[0], march, asks)[1].nodes["n"]


@pytest.mark.parametrize(
    ("wanted", "march", "granted", "rule"),
    [
        ("int8", "nash-e", QType.INT8, ""),
        ("int16", "nash-p", QType.INT16, ""),
        ("float16", "nash-e", None, "no-float-unit"),
        ("float32", "nash-m", None, "no-float-unit"),
        ("float16", "nash-p", QType.FLOAT16, ""),
        ("float32", "nash-b", QType.FLOAT32, ""),
    ],
)
def test_types_asked_and_given(wanted: str, march: str, granted: QType | None, rule: str) -> None:
    """Integers are given as asked, float where there is a float vector unit; else it means the CPU, with the reason."""
    given, note, changed = grant_type(wanted, OPERATORS["Relu"], platform(march))
    assert (given, changed) == (granted, rule)
    assert bool(note) == bool(rule)
    if granted is None:
        assert note.startswith("CPU: ") and march in note and wanted in note


def test_dual_int16_is_never_silently_something_else() -> None:
    """A vector operator gets int16 and says so; a convolution gets what was asked."""
    given, note, changed = grant_type("dual-int16", OPERATORS["Relu"], platform("nash-e"))
    assert (given, changed) == (QType.INT16, "dual-only-tae") and "int16 is given" in note
    assert grant_type("dual-int16", OPERATORS["Conv"], platform("nash-e")) == (QType.INT16, "", "")


def test_a_float_request_runs_the_node_on_the_cpu_and_tells_why() -> None:
    """float16 on nash-e: float32 on the CPU, with the way to stay on the BPU."""
    nodes = [
        node("Conv", ["x", "w"], "c", "conv"),
        node("Relu", ["c"], "r", "n"),
        node("Conv", ["r", "w3"], "y", "end"),
    ]
    found = plan_of(nodes, weights(**FOUR), asks=Asks({"n": Ask("float16", level="node")}))
    assert (found.on_bpu, found.asked, found.granted, found.rule) == (False, "float16", "float32", "no-float-unit")
    assert "int16 keeps it on the BPU" in found.reason


@pytest.mark.parametrize(
    ("nodes", "inits", "rule", "found"),
    [
        ([node("Conv", ["x", "k"], "y", "n")], [], "constant_weights", "operand k is computed"),
        (
            [node("ConvTranspose", ["x3", "w3d"], "y", "n")],
            weights(w3d=(3, 2, 2, 2, 2)),
            "at_most_two_spatial_axes",
            "3 spatial axes",
        ),
        ([node("Conv", ["v", "wide"], "y", "n")], [], "few_products", "65537 products"),
        (
            [node("AveragePool", ["x"], "y", "n", kernel_shape=[16, 16], pads=[8] * 4)],
            [],
            "window_fits",
            "window of 256 elements",
        ),
        ([node("Clip", ["x", "low"], "y", "n")], [], "constant_bounds", "bound low is computed"),
        (
            [node("MaxPool", ["x"], ["y", "i"], "n", kernel_shape=[2, 2]), node("Add", ["i", "i"], "z", "other")],
            [],
            "single_output",
            "output i is used",
        ),
        (
            [node("MaxPool", ["x"], "y", "n", kernel_shape=[2, 2], strides=[4, 4], dilations=[3, 3], ceil_mode=1)],
            [],
            "pads_within_kernel",
            "pads [0, 0, 0, 0] for kernel [2, 2]",
        ),
        (
            [node("ReduceMean", ["x"], "y", "n", noop_with_empty_axes=1)],
            [],
            "averages_something",
            "no axes and noop_with_empty_axes",
        ),
    ],
)
def test_rules_that_send_a_node_to_the_cpu(nodes: list, inits: list, rule: str, found: str) -> None:
    """Each rule of the table: the node is on the CPU, and its reason is the rule's sentence with what the node has."""
    inputs = {
        "x": random(1, 3, 8, 8),
        "k": random(2, 3, 1, 1),
        "x3": random(1, 3, 3, 3, 3),
        "v": random(1, 65537, 1, 1),
        "low": np.asarray(f32(0)),
    }
    if rule == "few_products":
        inits = [init("wide", random(1, 65537, 1, 1))]
    if rule == "pads_within_kernel":
        inputs["x"], found = random(1, 3, 6, 6), "pads [0, 0, 2, 2] for kernel [2, 2]"
    used = {i for n in nodes for i in n.input}
    made, _ = net(
        nodes,
        [o for o in ("y", "z") if any(o in n.output for n in nodes)],
        inits,
        {k: v for k, v in inputs.items() if k in used},
    )
    if rule == "averages_something":
        made.opset_import[0].version = 19
    graph, _ = planned(made)
    verdict = judge(graph.node("n"), Ask(), platform("nash-e"))
    assert not verdict.able and verdict.rule == rule
    text = next(sentence(r) for r in spec_of(graph.node("n").op_type).rules if r.__name__ == rule)
    assert verdict.reason == f"CPU: {text} Here: {found}."


def test_int64_tensors_stay_on_the_cpu() -> None:
    """An int64 Add is no BPU operator; the reason names the tensor and its type. An int32 one is."""
    found = plan_of([node("Add", ["i", "i"], "y", "n")], [], {"i": np.arange(3, dtype=np.int64)})
    assert found.rule == "float_features" and "input i is int64" in found.reason


def test_an_unknown_operator_runs_on_the_cpu_with_its_name() -> None:
    """What the table does not list is float, with a sentence that names it."""
    found = plan_of([node("Hardmax", ["x"], "y", "n")], [])
    assert (found.rule, found.reason) == (
        "float-operator",
        "Hardmax runs in float on the CPU: ptqlab has no integer kernel for it yet",
    )


def test_an_empty_tensor_keeps_its_node_on_the_cpu() -> None:
    """Nothing to quantize: the rule names the tensor and its shape."""
    nodes = [node("Conv", ["x", "w"], "c", "conv"), node("Slice", ["c", "s", "s"], "y", "n")]
    found = plan_of(nodes, [*weights(**FOUR), ints("s", 0)])
    assert found.rule == "not_empty" and "tensor y has shape [0, 4, 8, 8]" in found.reason


def test_every_rule_is_a_sentence_and_every_entry_is_whole() -> None:
    """The table: a rule reads as a sentence; what runs on the BPU can be lowered; what cannot has a note."""
    for op, spec in OPERATORS.items():
        assert spec.op_type == op
        for rule in spec.rules:
            text = sentence(rule)
            assert text[:1].isupper() and text.endswith("."), f"{op}: {rule.__name__}: {text!r}"
        if spec.role is Role.FLOAT:
            assert spec.note, op
        else:
            assert spec.lower is not None and spec.qtypes, op
