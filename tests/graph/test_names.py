"""Names of nodes and their order."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from models import init, ints, model, node, random, value

from ptqlab.errors import PtqError
from ptqlab.graph import load, session
from ptqlab.graph.names import name_nodes, sort_nodes, unique


def chain(names: list[str]) -> onnx.ModelProto:
    nodes = [node("Relu", [f"t{i}"], f"t{i + 1}", n) for i, n in enumerate(names)]
    return model(nodes, [value("t0", [1])], [value(f"t{len(names)}", [1])])


def test_shared_names_are_told_and_numbered() -> None:
    """The first keeps the name; numbers that are taken are skipped."""
    graph = load(chain(["a", "a", "a_1", "a", ""]))
    assert [n.name for n in graph.nodes] == ["a", "a_2", "a_1", "a_3", "Relu_t5"]
    assert [(f.code, f.severity, f.nodes) for f in graph.findings] == [
        ("PTQ132", "note", ()),
        ("PTQ132", "warning", ("a_2", "a_3")),
    ]
    assert (
        graph.findings[1].message == "2 nodes shared a name with another and were renamed: 'a' -> 'a_2', 'a' -> 'a_3'."
    )


@given(st.lists(st.sampled_from(["", "a", "a_1", "Relu_t1", "Relu_t2", "Relu_t1_1"]), max_size=8))
def test_names_are_always_unique_and_stable(names: list[str]) -> None:
    """Whatever the file holds; naming again changes nothing."""
    proto = chain(names)
    name_nodes(proto.graph)
    first = [n.name for n in proto.graph.node]
    assert len(set(first)) == len(names)
    assert all(first)
    assert not name_nodes(proto.graph)
    assert first == [n.name for n in proto.graph.node]


def test_unique_takes_the_first_free_name() -> None:
    """And marks it as taken."""
    taken = {"x", "x_1"}
    assert [unique(n, taken) for n in ("x", "y", "x", "y")] == ["x_2", "y", "x_3", "y_1"]


@given(st.permutations(range(7)))
def test_any_order_is_sorted(order: list[int]) -> None:
    """Two chains that meet; every node comes after what it reads."""
    nodes = [
        node("Relu", ["x"], "a"),
        node("Relu", ["a"], "b"),
        node("Add", ["b", "e"], "c"),
        node("Neg", ["x"], "d"),
        node("Neg", ["d"], "e"),
        node("Add", ["c", "a"], "f"),
        node("Add", ["f", "d"], "y"),
    ]
    proto = model([nodes[i] for i in order], [value("x", [1])], [value("y", [1])])
    sort_nodes(proto.graph)
    seen = {"x"}
    for one in proto.graph.node:
        assert seen.issuperset(one.input)
        seen.update(one.output)
    assert len(proto.graph.node) == 7


def test_sorted_nodes_stay_where_they_are() -> None:
    """A valid order of the file is not touched; an invalid one is told."""
    proto = chain(["a", "b", "c"])
    assert not sort_nodes(proto.graph)
    nodes = list(proto.graph.node)
    reverse = model(nodes[::-1], proto.graph.input, proto.graph.output)
    graph = load(reverse)
    assert [n.name for n in graph.nodes] == ["a", "b", "c"]
    assert [f.message for f in graph.findings] == [
        "The nodes of the file were not in topological order; they were sorted."
    ]


def test_a_node_that_only_a_body_reads_counts() -> None:
    """The If comes before the node whose result its branch reads."""
    body = [
        onnx.helper.make_graph([node("Neg", ["late"], f"{n}o", f"{n}n")], n, [], [value(f"{n}o", [1])]) for n in "te"
    ]
    nodes = [
        node("If", ["cond"], "y", "if", then_branch=body[0], else_branch=body[1]),
        node("Relu", ["x"], "late", "relu"),
    ]
    proto = model(nodes, [value("x", [1]), value("cond", [], onnx.TensorProto.BOOL)], [value("y", [1])])
    assert [n.name for n in load(proto).nodes] == ["relu", "if"]


def test_a_cycle_names_its_nodes() -> None:
    """And only those."""
    nodes = [
        node("Relu", ["x"], "a", "before"),
        node("Add", ["a", "c"], "b", "one"),
        node("Relu", ["b"], "c", "two"),
        node("Relu", ["c"], "y", "behind"),
    ]
    with pytest.raises(PtqError) as caught:
        load(model(nodes, [value("x", [1])], [value("y", [1])]))
    assert str(caught.value) == (
        "Loading the model: 1 problem\n"
        "PTQ111  node 'one', node 'two'\n"
        "    found     nodes that wait for each other\n"
        "    expected  a graph without cycles"
    )


def test_a_long_chain_in_reverse_is_sorted_without_recursion() -> None:
    """5000 nodes."""
    proto = chain([f"n{i}" for i in range(5000)])
    nodes = list(proto.graph.node)[::-1]
    reverse = model(nodes, proto.graph.input, proto.graph.output)
    assert sort_nodes(reverse.graph)
    assert [n.name for n in reverse.graph.node] == [f"n{i}" for i in range(5000)]


SPLITS = {
    "18, sizes": (18, ["x", "s"], ["a", ""], {}),
    "18, sizes, first": (18, ["x", "s"], ["", "a"], {}),
    "18, count": (18, ["x"], ["a", ""], {"num_outputs": 2}),
    "13": (13, ["x"], ["", "a"], {}),
}


@pytest.mark.parametrize("case", SPLITS)
def test_a_part_of_split_without_a_name_gets_one(case: str) -> None:
    """onnxruntime crashes on such a model, or refuses it; the parts that are read stay what they are."""
    opset, inputs, outputs, attributes = SPLITS[case]
    nodes = [node("Split", inputs, outputs, "split", axis=1, **attributes), node("Neg", ["a"], "y", "neg")]
    proto = model(nodes, [value("x", [1, 4])], [value("y", None)], [ints("s", 2, 2)], opset=opset)
    x, graph, first = random(1, 4), load(proto), outputs[0] == "a"
    made = f"split_output_{int(first)}"
    assert sorted(o.name for o in graph.node("split").outputs) == ["a", made]
    assert list(proto.graph.node[0].output) == outputs
    [finding] = [f for f in graph.findings if f.code == "PTQ132"]
    assert (finding.severity, finding.nodes) == ("note", ("split",)) and f"'{made}'" in finding.message
    assert np.array_equal(session(graph.model).run(None, {"x": x})[0], -x[:, :2] if first else -x[:, 2:])


def test_names_of_outputs_avoid_those_of_the_model() -> None:
    """Those inside of bodies, which are repaired as well, among them."""
    branches = {
        name: onnx.helper.make_graph(
            [node("Split", ["x", "s"], [f"{name}_part", ""], "split")], name, [], [value(f"{name}_part", [2])]
        )
        for name in ("then", "else")
    }
    nodes = [
        node("Neg", ["x"], "split_output_1", "neg"),
        node("If", ["cond"], "p", "if", then_branch=branches["then"], else_branch=branches["else"]),
        node("Concat", ["split_output_1", "p"], "y", "join", axis=0),
    ]
    inputs = [value("x", [4]), value("cond", [], onnx.TensorProto.BOOL)]
    graph = load(model(nodes, inputs, [value("y", None)], [ints("s", 2, 2)], opset=18))
    bodies = [graph.node("if").attributes[f"{name}_branch"].as_graph() for name in branches]
    made = [str(n.outputs[1].name) for body in bodies for n in body if n.op_type == "Split"]
    assert sorted(made) == ["split_1_output_1", "split_output_1_1"]


def test_outputs_that_may_be_left_out_stay_so() -> None:
    """The mean and deviation of LayerNormalization; TopK has no such output."""
    nodes = [
        node("LayerNormalization", ["x", "w"], ["a", "", ""], "norm"),
        node("TopK", ["a", "k"], ["", "y"], "top"),
    ]
    inits = [init("w", np.ones(4, np.float32)), ints("k", 1)]
    outputs = [value("y", None, onnx.TensorProto.INT64)]
    graph = load(model(nodes, [value("x", [1, 4])], outputs, inits, opset=17))
    assert [o.name for o in graph.node("norm").outputs] == ["a", "", ""]
    assert [o.name for o in graph.node("top").outputs] == ["top_output_0", "y"]
