"""What computes nothing goes; the interface stays."""

from __future__ import annotations

import numpy as np
import pytest
from models import IMAGE, MODELS, image, init, ints, model, node, random, value
from onnx import NodeProto, TensorProto
from passes.compare import kinds, optimized


def between(made: NodeProto, *inits: object, shape: object = IMAGE) -> dict[str, str]:
    """Operators of Relu, the node, Sigmoid after optimizing."""
    nodes = [node("Relu", ["x"], "a", "before"), made, node("Sigmoid", ["b"], "y", "behind")]
    after, _ = optimized(model(nodes, [value("x", IMAGE)], [value("y", None)], inits), image())  # type: ignore[arg-type]
    return {n: k for n, k in kinds(after).items() if n not in ("before", "behind")}


@pytest.mark.parametrize(
    ("made", "inits"),
    [
        (node("Identity", ["a"], "b", "n"), []),
        (node("Dropout", ["a"], "b", "n"), []),
        (node("Cast", ["a"], "b", "n", to=TensorProto.FLOAT), []),
        (node("Reshape", ["a", "k"], "b", "n"), [ints("k", 0, -1, 8, 8)]),
        (node("Flatten", ["a"], "b", "n", axis=1), None),
        (node("Transpose", ["a"], "b", "n", perm=[0, 1, 2, 3]), []),
        (node("Pad", ["a", "k"], "b", "n"), [ints("k", *[0] * 8)]),
        (node("Slice", ["a", "k", "e"], "b", "n"), [ints("k", 0, 0), ints("e", 9, 2**62)]),
        (node("Tile", ["a", "k"], "b", "n"), [ints("k", 1, 1, 1, 1)]),
        (node("Expand", ["a", "k"], "b", "n"), [ints("k", 1, 1, 1, 1)]),
        (node("Concat", ["a"], "b", "n", axis=1), []),
        (node("Sum", ["a"], "b", "n"), []),
        (node("Max", ["a"], "b", "n"), []),
    ],
)
def test_a_node_that_gives_back_what_it_reads_is_gone(made: NodeProto, inits: list[object] | None) -> None:
    """Flatten is there to show that a change of shape is not one of them."""
    assert between(made, *(inits or [])) == ({} if inits is not None else {"n": "Reshape"})


@pytest.mark.parametrize(
    ("made", "inits"),
    [
        (
            node("Slice", ["a", "k", "e", "x0", "st"], "b", "n"),
            [ints("k", -1), ints("e", -99), ints("x0", 2), ints("st", -1)],
        ),
        (node("Transpose", ["a"], "b", "n", perm=[0, 1, 3, 2]), []),
        (node("Add", ["a", "k"], "b", "n"), [init("k", np.zeros((1, 3, 8, 8), np.float32))]),
        (node("Mul", ["a", "k"], "b", "n"), [init("k", np.float32(1))]),
        (node("Concat", ["a", "a"], "b", "n", axis=1), []),
    ],
)
def test_a_node_that_does_something_stays(made: NodeProto, inits: list[object]) -> None:
    """A flip, a turn of a square image, and arithmetic with a neutral constant, where a precision can be asked for."""
    assert between(made, *inits) == {"n": made.op_type}


def test_a_dropout_whose_mask_is_used_stays() -> None:
    """The second output has no other source."""
    nodes = [
        node("Dropout", ["x"], ["d", "m"], "drop"),
        node("Cast", ["m"], "c", "cast", to=1),
        node("Add", ["d", "c"], "y", "add"),
    ]
    after, _ = optimized(model(nodes, [value("x", IMAGE)], [value("y", IMAGE)]), image())
    assert kinds(after)["drop"] == "Dropout"


def test_outputs_keep_their_names_and_order() -> None:
    """One tensor under several names, an input as an output, Dropout last: Identity where the interface needs it."""
    proto, feeds = MODELS["identity_outputs"]()
    after, _ = optimized(proto, feeds)
    assert kinds(after) == {
        "conv": "Conv",
        "id2": "Identity",
        "drop": "Identity",
        "id_in": "Identity",
        "relu": "Relu",
    }
    assert [v.name for v in after.outputs] == ["y3", "y1", "y2", "y4", "y5"]


def test_transposes_that_cancel_and_that_add_up() -> None:
    """There and back is nothing; two turns are one, under the name of the last."""
    nodes = [
        node("Transpose", ["x"], "a", "one", perm=[0, 2, 3, 1]),
        node("Transpose", ["a"], "b", "two", perm=[0, 3, 1, 2]),
        node("Transpose", ["b"], "c", "three", perm=[0, 2, 3, 1]),
        node("Transpose", ["c"], "d", "four", perm=[3, 0, 2, 1]),
        node("Relu", ["d"], "y", "relu"),
    ]
    after, _ = optimized(model(nodes, [value("x", [1, 3, 8, 5])], [value("y", None)]), {"x": random(1, 3, 8, 5)})
    assert kinds(after) == {"four": "Transpose", "relu": "Relu"}
    assert tuple(after.node("four").attributes["perm"].as_ints()) == (1, 0, 3, 2)
    assert after.aliases["three"] == "four"


def test_a_transpose_with_another_reader_stays_for_it() -> None:
    """The second turn reads past it."""
    nodes = [
        node("Transpose", ["x"], "a", "one", perm=[0, 2, 3, 1]),
        node("Sigmoid", ["a"], "s", "sigmoid"),
        node("Transpose", ["a"], "b", "two", perm=[0, 3, 1, 2]),
        node("Relu", ["b"], "y", "relu"),
    ]
    after, _ = optimized(model(nodes, [value("x", IMAGE)], [value("y", None), value("s", None)]), image())
    assert kinds(after) == {"one": "Transpose", "sigmoid": "Sigmoid", "relu": "Relu"}


def test_reshapes_in_a_row_become_one() -> None:
    """Flatten, Unsqueeze, Squeeze and Reshape; the last gives its name."""
    nodes = [
        node("Flatten", ["x"], "a", "flatten"),
        node("Unsqueeze", ["a", "ax"], "b", "unsqueeze"),
        node("Reshape", ["b", "s"], "y", "reshape"),
    ]
    proto = model(nodes, [value("x", IMAGE)], [value("y", None)], [ints("ax", 0), ints("s", 3, -1)])
    after, _ = optimized(proto, image())
    assert kinds(after) == {"reshape": "Reshape"}
    assert {n for n, t in after.aliases.items() if t == "reshape"} == {"flatten", "unsqueeze", "reshape"}


def test_dead_nodes_and_constants_are_gone() -> None:
    """A chain nothing reads; an input nothing reads any more stays in the interface."""
    nodes = [
        node("Relu", ["x"], "y", "relu"),
        node("Mul", ["extra", "k"], "a", "dead1"),
        node("Relu", ["a"], "b", "dead2"),
    ]
    proto = model(nodes, [value("x", IMAGE), value("extra", IMAGE)], [value("y", IMAGE)], [init("k", random(1))])
    after, _ = optimized(proto, {**image(), "extra": random(*IMAGE)})
    assert kinds(after) == {"relu": "Relu"}
    assert after.initializers == ()
    assert [v.name for v in after.inputs] == ["x", "extra"]
    assert "dead1" not in after.aliases
