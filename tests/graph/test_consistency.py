"""Weights, biases and statistics whose sizes do not fit the data."""

from __future__ import annotations

import numpy as np
import pytest
from models import init, model, node, random, value

from ptqlab.graph import ShapeInferenceError, load

CASES = [
    ("Conv", (1, 4, 8, 8), [(6, 3, 3, 3)], {}, "weights for 3 channels in 1 groups, data of 4 channels"),
    ("Conv", (1, 4, 8, 8), [(6, 4, 3, 3)], {"group": 2}, "weights for 4 channels in 2 groups, data of 4 channels"),
    ("Conv", (1, 4, 8, 8), [(5, 2, 3, 3)], {"group": 2}, "5 output channels in 2 groups"),
    ("Conv", (1, 4, 8, 8), [(6, 4, 3, 3), (4,)], {}, "bias of shape [4] where [6] is needed"),
    ("Conv", (1, 4, 8), [(6, 4, 3, 3)], {}, "data of 3 and weights of 4 dimensions"),
    ("ConvTranspose", (1, 4, 8, 8), [(3, 6, 2, 2)], {}, "weights for 3 channels in 1 groups, data of 4 channels"),
    ("ConvTranspose", (1, 4, 8, 8), [(4, 3, 2, 2), (3,)], {"group": 2}, "bias of shape [3] where [6] is needed"),
    ("Gemm", (2, 4), [(4, 3), (4,)], {}, "bias of shape [4] for a result of shape [2, 3]"),
    (
        "Gemm",
        (4, 2),
        [(3, 4), (2, 3, 1)],
        {"transA": 1, "transB": 1},
        "bias of shape [2, 3, 1] for a result of shape [2, 3]",
    ),
    ("BatchNormalization", (1, 4, 8), [(4,), (4,), (4,), (3,)], {}, "variance of shape [3] where [4] is needed"),
    ("InstanceNormalization", (1, 4, 8), [(4,), (1,)], {}, "bias of shape [1] where [4] is needed"),
    ("GroupNormalization", (1, 4, 8), [(3,), (3,)], {"num_groups": 3}, "3 groups over data of shape [1, 4, 8]"),
    ("GroupNormalization", (1, 4, 8), [(4,), (4,)], {"num_groups": 2}, "scale of shape [4] where [2] is needed"),
]


@pytest.mark.parametrize(("op", "data", "others", "attributes", "reason"), CASES)
def test_sizes_that_do_not_fit_are_named(
    op: str, data: tuple[int, ...], others: list[tuple[int, ...]], attributes: dict[str, int], reason: str
) -> None:
    """The library's own inference takes all of these; the message names the node and all shapes."""
    names = [f"k{i}" for i in range(len(others))]
    inits = [init(n, random(*s)) for n, s in zip(names, others, strict=True)]
    proto = model(
        [node(op, ["x", *names], "y", "n", **attributes)], [value("x", data)], [value("y", None)], inits, opset=18
    )
    with pytest.raises(ShapeInferenceError) as caught:
        load(proto)
    problem = caught.value.problems[0]
    assert problem.where == f"node 'n' ({op})"
    assert problem.found.endswith(f": {reason}")


@pytest.mark.parametrize("bias", [(), (1,), (3,), (1, 3), (2, 1), (2, 3)])
def test_every_bias_gemm_allows(bias: tuple[int, ...]) -> None:
    """All shapes that broadcast to the result."""
    inits = [init("b", random(3, 4)), init("c", random(*bias))]
    proto = model(
        [node("Gemm", ["x", "b", "c"], "y", "n", transA=1, transB=1)], [value("x", [4, 2])], [value("y", None)], inits
    )
    assert load(proto).shape("y") == (2, 3)


def test_an_empty_tensor_where_a_number_is_needed() -> None:
    """onnxruntime would crash on the trip count of a Loop that holds nothing."""
    body_nodes = [node("Identity", ["c"], "d", "i"), node("Relu", ["s"], "t", "r")]
    from onnx import TensorProto, helper

    inputs = [value("n", [], TensorProto.INT64), value("c", [], TensorProto.BOOL), value("s", [2])]
    body = helper.make_graph(body_nodes, "body", inputs, [value("d", [], TensorProto.BOOL), value("t", [2])])
    nodes = [node("Loop", ["trips", "", "x"], "y", "loop", body=body)]
    proto = model(nodes, [value("x", [2])], [value("y", None)], [init("trips", np.zeros(0, np.int64))])
    with pytest.raises(ShapeInferenceError, match=r"input 0 of shape \[0\] where one number is needed"):
        load(proto)
