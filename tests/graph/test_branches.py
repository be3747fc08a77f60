"""If whose condition is a constant."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from models import IMAGE, init, ints, model, node, random, value
from onnx import helper

from ptqlab.graph import load, session
from ptqlab.passes import optimize


def choose(
    name: str, condition: str, outputs: list[str], then: onnx.GraphProto, other: onnx.GraphProto
) -> onnx.NodeProto:
    return helper.make_node("If", [condition], outputs, name=name, then_branch=then, else_branch=other)


def body(
    name: str, nodes: list[onnx.NodeProto], outputs: list[str], inits: Sequence[onnx.TensorProto] = ()
) -> onnx.GraphProto:
    return helper.make_graph(nodes, name, [], [onnx.ValueInfoProto(name=o) for o in outputs], list(inits))


def rank_check() -> list[onnx.NodeProto]:
    """What exporters write for squeeze: is axis 1 of size 1?"""
    return [
        node("Shape", ["x"], "shape", "shape"),
        node("Gather", ["shape", "index"], "size", "gather"),
        node("Equal", ["size", "one"], "is_one", "equal"),
    ]


INITS = [init("index", 1, np.int64), init("one", 1, np.int64)]


def test_a_condition_on_shapes_is_decided() -> None:
    """The branch that does not fit the shapes is gone; inner names show the If; the If is an alias."""
    squeeze = body("then", [node("Squeeze", ["x", "ax"], "s", "squeeze")], ["s"], [ints("ax", 1)])
    keep = body("else", [node("Mul", ["x", "two"], "m", "double"), node("Add", ["m", "bias"], "k", "add")], ["k"],
                [init("two", np.float32(2)), init("bias", random(1))])  # fmt: skip
    nodes = [*rank_check(), choose("pick", "is_one", ["y"], squeeze, keep)]
    proto = model(nodes, [value("x", IMAGE)], [value("y", None)], INITS)
    graph = load(proto)
    assert [n.name for n in graph.nodes] == ["shape", "gather", "equal", "pick/double", "pick/add"]
    assert graph.aliases["pick"] == "pick/add"
    assert [f.message for f in graph.findings] == [
        "The conditions of 1 If nodes are constant; the branch taken was written out."
    ]
    x = random(*IMAGE)
    expected = x * 2 + random(1)
    for made in (graph, optimize(graph)):
        np.testing.assert_allclose(session(made.model).run(None, {"x": x})[0], expected, rtol=1e-6)
    assert [n.name for n in optimize(graph).nodes] == ["pick/double", "pick/add"]
    assert load(model(nodes, [value("x", [1, 1, 4])], [value("y", None)], INITS)).shape("y") == (1, 4)


def test_branches_inside_branches_and_outer_tensors() -> None:
    """A nested If, two calls with the same inner names, a branch that gives back an outer tensor and one twice."""
    inner = [body(n, [node("Neg" if n == "t" else "Abs", ["a"], "o", f"inner_{n}")], ["o"]) for n in "te"]
    outer = body(
        "then", [node("Relu", ["x"], "a", "relu"), choose("nested", "yes", ["o2"], *inner)], ["o2", "a", "a", "x"]
    )
    empty = body("else", [node("Relu", ["x"], "z", "never")], ["z", "z", "z", "z"])
    outs = ["p", "q", "r", "s"]
    again = choose("two", "yes", [f"{o}2" for o in outs], outer, empty)
    nodes = [choose("one", "yes", outs, outer, empty), again, node("Sum", [*outs, "q2"], "y", "sum")]
    proto = model(nodes, [value("x", IMAGE)], [value("y", IMAGE)], [init("yes", True)])
    graph = load(proto)
    assert not any(n.op_type == "If" for n in graph.nodes)
    assert graph.aliases["one"] == "one/nested/inner_t"
    x = random(*IMAGE)
    relu = np.maximum(x, 0)
    np.testing.assert_allclose(session(graph.model).run(None, {"x": x})[0], 2 * relu + x, rtol=1e-6)


@pytest.mark.parametrize("taken", [True, False])
def test_a_condition_that_depends_on_data_stays(taken: bool) -> None:
    """An input decides."""
    branches = [body(n, [node(op, ["x"], f"{n}o", n)], [f"{n}o"]) for n, op in (("t", "Neg"), ("e", "Abs"))]
    proto = model(
        [choose("pick", "c", ["y"], *branches)],
        [value("x", IMAGE), value("c", [], onnx.TensorProto.BOOL)],
        [value("y", IMAGE)],
    )
    graph = load(proto)
    assert [n.op_type for n in graph.nodes] == ["If"]
    x = random(*IMAGE)
    found = session(optimize(graph).model).run(None, {"x": x, "c": np.array(taken)})[0]
    np.testing.assert_array_equal(found, -x if taken else np.abs(x))


def test_a_run_for_shapes_sees_branches_that_were_written_out() -> None:
    """NonZero inside the branch taken: its size is taken from a run of the nodes as they are now."""
    hits = body("then", [node("Cos", ["x"], "c", "cos"), node("NonZero", ["c"], "n", "hits")], ["n"])
    other = body("else", [node("NonZero", ["x"], "m", "never")], ["m"])
    nodes = [choose("pick", "yes", ["n2"], hits, other), node("NonZero", ["n2"], "y", "again")]
    graph = load(model(nodes, [value("x", [2, 3])], [value("y", None, onnx.TensorProto.INT64)], [init("yes", True)]))
    assert graph.shape("n2") == (2, 6)
    assert graph.shape("y") == (2, 7)
    assert [f.nodes for f in graph.findings if f.code == "PTQ135"] == [("pick/hits", "again")]
