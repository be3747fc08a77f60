"""Constants are computed once; outputs that are constant stay exact."""

from __future__ import annotations

import numpy as np
from models import IMAGE, MODELS, image, init, ints, model, node, random, value
from onnx import TensorProto, helper
from passes.compare import kinds, optimized

from ptqlab.graph import load, session
from ptqlab.passes import fold, optimize


def test_weights_from_constant_nodes_become_initializers() -> None:
    """Names and contents as if they had been stored plainly."""
    constants = [
        helper.make_node("Constant", [], [n], name=f"const_{n}", value=init(n, a))
        for n, a in (("w", random(4, 3, 3, 3)), ("b", random(4, seed=2)), ("s", np.array([1, -1])))
    ]
    nodes = [*constants, node("Conv", ["x", "w", "b"], "c", "conv"), node("Reshape", ["c", "s"], "y", "reshape")]
    after, _ = optimized(model(nodes, [value("x", IMAGE)], [value("y", [1, 144])]), image())
    assert kinds(after) == {"conv": "Conv", "reshape": "Reshape"}
    np.testing.assert_array_equal(after.array("w"), random(4, 3, 3, 3))
    np.testing.assert_array_equal(after.array("b"), random(4, seed=2))


def test_every_spelling_of_constant() -> None:
    """value, value_float, value_floats, value_int, value_ints."""
    spellings = {"value_float": 2.5, "value_floats": [1.0, 2.0], "value_int": 3, "value_ints": [1, 2]}
    nodes = [helper.make_node("Constant", [], [k], name=k, **{k: v}) for k, v in spellings.items()]
    nodes += [
        node("Mul", ["x", "value_float"], "a"),
        node("Mul", ["a", "value_floats"], "y"),
        node("Mul", ["i", "value_int"], "b"),
        node("Mul", ["b", "value_ints"], "z"),
    ]
    inputs = [value("x", [2]), value("i", [2], TensorProto.INT64)]
    outputs = [value("y", [2]), value("z", [2], TensorProto.INT64)]
    after, _ = optimized(model(nodes, inputs, outputs), {"x": random(2), "i": np.array([1, 2])})
    assert len(after.nodes) == 4


def test_a_chain_of_constants_ends_in_plain_weights() -> None:
    """Cast, Reshape, Transpose of weights, Mul of two biases, Shape to Reshape."""
    after, _ = optimized(*MODELS["folded_weights"]())
    assert kinds(after) == {"conv": "Conv", "reshape": "Reshape"}
    expected = random(27, 4).reshape(3, 3, 3, 4).transpose(3, 0, 1, 2)
    np.testing.assert_array_equal(after.array("w"), expected)
    np.testing.assert_array_equal(after.array("b"), random(4, seed=2) * np.float32(0.5))


def test_constant_outputs_keep_their_names_and_are_exact() -> None:
    """Through a chain, one of two outputs of a Split, a Constant node, an initializer that is an output."""
    proto, feeds = MODELS["constant_outputs"]()
    after, _ = optimized(proto, feeds)
    assert kinds(after) == {
        "addh": "Identity",
        "const": "Identity",
        "split_s0": "Identity",
        "conv": "Conv",
        "mul": "Mul",
    }
    anchors = np.arange(16, dtype=np.float32) * 8 + 4
    results = dict(zip((v.name for v in after.outputs), session(after.model).run(None, feeds), strict=True))
    np.testing.assert_array_equal(results["anchors"], anchors)
    np.testing.assert_array_equal(results["s0"], anchors[:8])
    np.testing.assert_array_equal(results["c0"], random(3))


def test_a_constant_output_that_is_read_further_on() -> None:
    """What reads it is folded, too; the output stays."""
    nodes = [
        node("Mul", ["a", "b"], "k", "mul"),
        node("Neg", ["k"], "n", "neg"),
        node("Identity", ["n"], "alias", "id"),
        node("Add", ["x", "alias"], "y", "add"),
    ]
    inits = [init("a", random(3)), init("b", random(3, seed=1))]
    outputs = [value(n, [3]) for n in ("k", "alias", "y")]
    after, _ = optimized(model(nodes, [value("x", [3])], outputs, inits), {"x": random(3, seed=2)})
    assert kinds(after) == {"mul": "Identity", "id": "Identity", "add": "Add"}


def test_what_would_grow_too_large_is_left_and_told(monkeypatch: object) -> None:
    """Expand and ConstantOfShape of a small constant; what is made of large constants is folded all the same."""
    monkeypatch.setattr(fold, "LARGEST", 1000)  # type: ignore[attr-defined]
    nodes = [
        node("Expand", ["k", "shape"], "big", "expand"),
        node("Add", ["x", "big"], "a", "add"),
        node("Transpose", ["w"], "t", "turn", perm=[1, 0]),
        node("MatMul", ["a", "t"], "y", "mm"),
    ]
    inits = [init("k", random(1)), ints("shape", 20, 30), init("w", random(4, 30))]
    proto = model(nodes, [value("x", [20, 30])], [value("y", [20, 4])], inits)
    after, lines = optimized(proto, {"x": random(20, 30)})
    assert kinds(after) == {"expand": "Expand", "add": "Add", "mm": "MatMul"}
    assert "expand (Expand) left as it is: its constant result would take 2400 bytes" in lines


def test_random_numbers_are_no_constants() -> None:
    """RandomNormal stays a node."""
    nodes = [node("RandomNormal", [], "r", "rand", shape=[3], seed=1.0), node("Add", ["x", "r"], "y", "add")]
    after = optimize(load(model(nodes, [value("x", [3])], [value("y", [3])])))
    assert kinds(after) == {"rand": "RandomNormal", "add": "Add"}


def test_shapes_of_computed_tensors_are_constants() -> None:
    """Shape with start and end, Size; the tensor itself is not needed any more."""
    nodes = [
        node("Sigmoid", ["x"], "big", "sigmoid"),
        node("Shape", ["big"], "s", "shape", start=-2, end=4),
        node("Size", ["big"], "n", "size"),
        node("Add", ["s", "n"], "y", "add"),
    ]
    after, _ = optimized(model(nodes, [value("x", IMAGE)], [value("y", None, TensorProto.INT64)]), image())
    assert kinds(after) == {"add": "Identity"}
    np.testing.assert_array_equal(session(after.model).run(None, image())[0], [200, 200])


def test_a_constant_that_cannot_be_computed_is_left_and_told() -> None:
    """An index out of range: the node stays, as it was in the file."""
    nodes = [node("Gather", ["t", "i"], "g", "gather"), node("Add", ["x", "g"], "y", "add")]
    proto = model(nodes, [value("x", [3])], [value("y", [3])], [init("t", random(2, 3)), init("i", 7, np.int64)])
    lines: list[str] = []
    from ptqlab.events import Watch

    after = optimize(load(proto), Watch(lambda event: lines.append(event.text)))
    assert kinds(after) == {"gather": "Gather", "add": "Add"}
    assert any("constants not folded" in line and "gather" in line for line in lines)
