"""Slices of a graph compute what the graph does."""
from __future__ import annotations

import numpy as np
import pytest
from core_models import net
from models import init, node, random
from onnx import TensorProto, helper

from ptqlab.errors import PtqError
from ptqlab.graph import load, session
from ptqlab.graph.slices import Slicer


def graph():
    """Two Convs, of large and small weights, and a sum with the input."""
    nodes = [node("Conv", ["x", "w"], "a", "conv0", pads=[1, 1, 1, 1]), node("Relu", ["a"], "r", "relu"),
             node("Conv", ["r", "v", "b"], "c", "conv1"), node("Add", ["c", "x"], "y", "add")]
    inits = [init("w", random(8, 8, 3, 3, seed=1)), init("v", random(8, 8, 1, 1, seed=2)), init("b", random(8, seed=3))]
    feeds = {"x": random(1, 8, 5, 5, seed=4)}
    return load(net(nodes, ["y"], inits, feeds)[0]), feeds


def test_a_slice_reads_what_it_does_not_make():
    """Its inputs are the tensors before it; the results are those of the whole, bit for bit."""
    made, feeds = graph()
    a, c, y = session(made.model, outputs=["a", "c", "y"], optimise=False).run(None, feeds)
    part = Slicer(made).session([1, 2, 3], ["c", "y"], optimise=False)
    assert set(part.input_names) == {"a", "x"}
    got = part.run(None, {"a": a, **feeds})
    assert np.array_equal(got[0], c) and np.array_equal(got[1], y)


def test_inputs_and_constants_can_be_others():
    """One reader of a tensor reads something else, a weight is another one, and a slice can be made again."""
    made, feeds = graph()
    slicer = Slicer(made)
    weights = np.zeros((8, 8, 3, 3), np.float32)
    for _ in range(2):
        part = slicer.session(range(4), ["c", "y"], fed={(3, 1): "other"}, constants={(0, 1): weights})
        c, y = part.run(None, {**feeds, "other": 2 * feeds["x"]})
        assert np.allclose(c, made.array("b").reshape(1, 8, 1, 1)) and np.allclose(y, c + 2 * feeds["x"])
    plain = slicer.session(range(4), ["y"]).run(None, feeds)[0]
    assert np.allclose(plain, session(made.model).run(None, feeds)[0], atol=1e-5)


def test_outputs_can_be_rounded_to_float16():
    """Of the nodes named, under their own names, for readers and as results."""
    made, feeds = graph()
    a = session(made.model, outputs=["a"], optimise=False).run(None, feeds)[0]
    got = Slicer(made).session([0, 1], ["a", "r"], halves=[0], optimise=False).run(None, feeds)
    half = a.astype(np.float16).astype(np.float32)
    assert np.array_equal(got[0], half) and np.array_equal(got[1], np.maximum(half, 0)) and not np.array_equal(half, a)


def test_what_a_body_reads_from_outside_is_fed():
    """A branch of an If that reads a tensor of the graph around it."""
    branches = [helper.make_graph([node(op, ["a", "x"], f"o{op}", f"in{op}")], op, [],
                                  [helper.make_tensor_value_info(f"o{op}", TensorProto.FLOAT, [1, 2])])
                for op in ("Add", "Sub")]
    nodes = [node("Relu", ["x"], "a", "relu"), node("ReduceSum", ["a"], "s", "sum", keepdims=0),
             node("Greater", ["s", "one"], "q", "greater"),
             helper.make_node("If", ["q"], ["y"], "if", then_branch=branches[0], else_branch=branches[1])]
    made = load(net(nodes, ["y"], [init("one", np.float32(1.0))], {"x": random(1, 2)})[0])
    index = [n.op_type for n in made.nodes].index("If")
    part = Slicer(made).session([index], ["y"])
    assert set(part.input_names) == {"q", "a", "x"}
    x = np.ones((1, 2), np.float32)
    assert (part.run(None, {"q": np.array(False), "a": 3 * x, "x": x})[0] == 2).all()


def test_feeds_are_checked():
    """A slice names what is missing."""
    made, _ = graph()
    with pytest.raises(PtqError, match="input 'a'"):
        Slicer(made).session([1], ["r"]).run(None, {})
