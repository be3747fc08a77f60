"""Normalizations, Softmax and hard activations in primitive nodes become one operator; what only looks so does not."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from models import init, ints, model, node, random, value
from passes.compare import kinds, optimized

SEQUENCE, IMAGES = [2, 5, 6], [2, 3, 4, 5]
Nodes = list[onnx.NodeProto]
NUMBERS = {
    "two": 2.0, "eps": 1e-3, "zero": 0.0, "one": 1.0, "half": 0.5, "minus_half": -0.5, "three": 3.0, "six": 6.0,
    "sixth": 1 / 6, "share6": 1 / 6, "six_elements": 6.0,
}  # fmt: skip


def net(nodes: Nodes, shape: list[int], *more: onnx.TensorProto, opset: int = 17) -> onnx.ModelProto:
    numbers = [init(n, np.float32(v)) for n, v in NUMBERS.items()]
    return model(nodes, [value("x", shape)], [value("y", None)], [*numbers, *more], opset=opset)


def result(nodes: Nodes, shape: list[int], *more: onnx.TensorProto, opset: int = 17, tolerance: float = 1e-5):
    """The optimized graph; it computes the same."""
    used = {i for n in nodes for i in n.input}
    made = net(nodes, shape, *more, opset=opset)
    kept = [t for t in made.graph.initializer if t.name in used]
    del made.graph.initializer[:]
    made.graph.initializer.extend(kept)
    return optimized(made, {"x": random(*shape, seed=3) * 2 + 1}, tolerance)[0]


def mean(x: str, out: str, axes: list[int], keep: int = 1) -> onnx.NodeProto:
    return node("ReduceMean", [x], out, out, axes=axes, keepdims=keep)


def torch_form(axes: list[int], square: str = "Pow", end: str = "Div") -> Nodes:
    """x - mean, its square, the mean of that, plus epsilon, root; `n` is the normalized tensor."""
    squared = {
        "Pow": node("Pow", ["c", "two"], "q", "square"), "Mul": node("Mul", ["c", "c"], "q", "square"),
    }[square]  # fmt: skip
    ends = {
        "Div": [node("Sqrt", ["e"], "r", "root"), node("Div", ["c", "r"], "n", "norm")],
        "Reciprocal": [
            node("Sqrt", ["e"], "r", "root"), node("Reciprocal", ["r"], "i", "inverse"),
            node("Mul", ["i", "c"], "n", "norm"),
        ],
        "Pow": [node("Pow", ["e", "minus_half"], "i", "inverse"), node("Mul", ["c", "i"], "n", "norm")],
        "PowHalf": [node("Pow", ["e", "half"], "r", "root"), node("Div", ["c", "r"], "n", "norm")],
    }[end]  # fmt: skip
    return [
        mean("x", "m", axes), node("Sub", ["x", "m"], "c", "centre"), squared, mean("q", "v", axes),
        node("Add", ["v", "eps"], "e", "epsilon"), *ends,
    ]  # fmt: skip


def affine(*shape: int) -> tuple[Nodes, list[onnx.TensorProto]]:
    nodes = [node("Mul", ["g", "n"], "s", "scale"), node("Add", ["s", "b"], "y", "shift")]
    return nodes, [init("g", random(*shape, seed=5)), init("b", random(*shape, seed=6))]


@pytest.mark.parametrize("end", ["Div", "Reciprocal", "Pow", "PowHalf"])
@pytest.mark.parametrize("square", ["Pow", "Mul"])
def test_layer_norm_as_torch_writes_it(square: str, end: str) -> None:
    """One LayerNormalization under the name of the last node, which every other name leads to; epsilon kept."""
    tail, constants = affine(6)
    after = result([*torch_form([-1], square, end), *tail], SEQUENCE, *constants)
    assert kinds(after) == {"shift": "LayerNormalization"}
    assert after.node("shift").attributes["epsilon"].as_float() == pytest.approx(1e-3)
    assert {after.aliases[name] for name in ("m", "centre", "square", "v", "epsilon", "norm", "scale")} == {"shift"}


def test_two_subtractions_of_one_mean() -> None:
    """Older exports subtract the mean once for the variance and once for the result."""
    nodes = [
        mean("x", "m", [-1]), node("Sub", ["x", "m"], "c", "centre"), node("Sub", ["x", "m"], "d", "again"),
        node("Pow", ["d", "two"], "q", "square"), mean("q", "v", [-1]), node("Add", ["eps", "v"], "e", "epsilon"),
        node("Sqrt", ["e"], "r", "root"), node("Div", ["c", "r"], "y", "norm"),
    ]  # fmt: skip
    assert kinds(result(nodes, SEQUENCE)) == {"norm": "LayerNormalization"}


def test_layer_norm_as_jax_writes_it() -> None:
    """Sums times 1/n without kept axes, mean of squares less square of mean, a clamp at 0, factor joined first."""
    nodes = [
        node("ReduceSum", ["x", "last"], "sum", "sum", keepdims=0), node("Mul", ["share6", "sum"], "m", "mean"),
        node("Mul", ["x", "x"], "xx", "squares"), node("ReduceSum", ["xx", "last"], "sum2", "sum2", keepdims=0),
        node("Div", ["sum2", "six_elements"], "mm", "mean2"), node("Mul", ["m", "m"], "m2", "mean_squared"),
        node("Sub", ["mm", "m2"], "d", "variance"), node("Max", ["d", "zero"], "p", "positive"),
        node("Unsqueeze", ["p", "last"], "v", "kept_variance"), node("Add", ["v", "eps"], "e", "epsilon"),
        node("Sqrt", ["e"], "r", "root"), node("Reciprocal", ["r"], "i", "inverse"),
        node("Mul", ["i", "g"], "f", "factor"), node("Reshape", ["m", "column"], "k", "kept_mean"),
        node("Sub", ["x", "k"], "c", "centre"), node("Mul", ["c", "f"], "n", "norm"),
        node("Add", ["n", "b"], "y", "shift"),
    ]  # fmt: skip
    constants = [ints("last", 2), ints("column", 2, 5, 1), init("g", random(1, 1, 6)), init("b", random(6))]
    after = result(nodes, SEQUENCE, *constants, tolerance=1e-4)
    assert kinds(after) == {"shift": "LayerNormalization"}


def test_layer_norm_as_tensorflow_writes_it() -> None:
    """x * f + (beta - mean * f)."""
    nodes = [
        mean("x", "m", [2]), node("Sub", ["x", "m"], "c", "centre"), node("Mul", ["c", "c"], "q", "square"),
        mean("q", "v", [2]), node("Add", ["v", "eps"], "e", "epsilon"), node("Sqrt", ["e"], "r", "root"),
        node("Reciprocal", ["r"], "i", "inverse"), node("Mul", ["i", "g"], "f", "factor"),
        node("Mul", ["x", "f"], "xf", "scaled"), node("Mul", ["m", "f"], "mf", "mean_scaled"),
        node("Sub", ["b", "mf"], "o", "offset"), node("Add", ["xf", "o"], "y", "sum"),
    ]  # fmt: skip
    after = result(nodes, SEQUENCE, init("g", random(6)), init("b", random(6)), tolerance=1e-4)
    assert kinds(after) == {"sum": "LayerNormalization"}


def test_axes_that_are_not_the_last_are_turned_there() -> None:
    """A norm over the channels of an image stands between two Transposes; factors per channel are inside."""
    tail, constants = affine(3, 1, 1)
    after = result([*torch_form([1]), *tail], IMAGES, *constants)
    assert kinds(after) == {"shift_last": "Transpose", "shift": "LayerNormalization", "shift_first": "Transpose"}


@pytest.mark.parametrize(
    ("axes", "shape", "factors", "expected"),
    [
        ([2, 3], IMAGES, (3, 1, 1), {"shift": "InstanceNormalization"}),
        ([2, 3], IMAGES, (4, 5), {"shift": "LayerNormalization"}),
        ([2], SEQUENCE, (5, 1), {"shift": "InstanceNormalization"}),
        ([-2, -1], SEQUENCE, (5, 6), {"shift": "LayerNormalization"}),
        ([-1], SEQUENCE, (1,), {"shift": "LayerNormalization"}),
        ([-1], SEQUENCE, (5, 6), {"norm": "LayerNormalization", "scale": "Mul", "shift": "Add"}),
    ],
)
def test_the_factors_decide_between_layer_and_instance(axes: list, shape: list, factors: tuple, expected: dict) -> None:
    """Per channel over images: InstanceNormalization; along the normalized axes: LayerNormalization; else they stay."""
    tail, constants = affine(*factors)
    assert kinds(result([*torch_form(axes), *tail], shape, *constants)) == expected


def test_a_norm_without_factors_or_with_another_reader() -> None:
    """Alone it is a LayerNormalization with ones; a mean that is read elsewhere stays, too."""
    assert kinds(result([*torch_form([-1])[:-1], node("Div", ["c", "r"], "y", "norm")], SEQUENCE)) == {
        "norm": "LayerNormalization"
    }
    after = result([*torch_form([-1]), node("Add", ["n", "m"], "y", "sum")], SEQUENCE)
    assert kinds(after) == {"m": "ReduceMean", "norm": "LayerNormalization", "sum": "Add"}


def _replaced(index: int, *nodes: onnx.NodeProto) -> Nodes:
    form = [*torch_form([-1])[:-1], node("Div", ["c", "r"], "y", "norm")]
    return [*form[:index], *nodes, *form[index + 1 :]]


@pytest.mark.parametrize(
    "nodes",
    [
        _replaced(0, mean("x", "m", [1])),
        _replaced(2, node("Pow", ["c", "three"], "w", "cube"), node("Abs", ["w"], "q", "abs")),
        _replaced(3, mean("q", "v", [0])),
        _replaced(6, node("Div", ["x", "r"], "y", "norm")),
        _replaced(6, node("Mul", ["c", "r"], "y", "norm")),
        _replaced(0, node("ReduceMax", ["x"], "m", "m", axes=[-1])),
    ],
    ids=["other-axes", "cube", "variance-over-batch", "mean-left-in", "times-the-root", "maximum"],
)
def test_what_only_looks_like_a_norm_stays(nodes: Nodes) -> None:
    """The same nodes with one thing changed."""
    assert "Normalization" not in " ".join(kinds(result(nodes, SEQUENCE)).values())


def softmax(axis: int, *, top: bool = True, end: str = "Div", keep: int = 1, total: int | None = None) -> Nodes:
    nodes, x = [], "x"
    if top:
        nodes, x = [
            node("ReduceMax", ["x"], "t", "top", axes=[axis], keepdims=1), node("Sub", ["x", "t"], "d", "less"),
        ], "d"  # fmt: skip
    nodes.append(node("Exp", [x], "e", "exp"))
    nodes.append(node("ReduceSum", ["e", "axis"], "s", "sum", keepdims=keep))
    if not keep:
        nodes.append(node("Unsqueeze", ["s", "axis"], "u", "kept"))
    s = "s" if keep else "u"
    if end == "Div":
        return [*nodes, node("Div", ["e", s], "y", "end")]
    if end == "Log":
        return [*nodes, node("Log", [s], "l", "log"), node("Sub", [x, "l"], "y", "end")]
    return [*nodes, node("Reciprocal", [s], "i", "inverse"), node("Mul", ["i", "e"], "y", "end")]


@pytest.mark.parametrize(
    ("axis", "options", "kind"),
    [
        (-1, {}, "Softmax"), (1, {}, "Softmax"), (2, {"top": False}, "Softmax"), (-1, {"end": "Mul"}, "Softmax"),
        (1, {"keep": 0}, "Softmax"), (-1, {"end": "Log"}, "LogSoftmax"), (1, {"end": "Log", "keep": 0}, "LogSoftmax"),
    ],
)  # fmt: skip
def test_softmax_in_primitive_nodes(axis: int, options: dict, kind: str) -> None:
    """With or without the maximum taken off, division or reciprocal, kept axes or not, and its logarithm."""
    after = result(softmax(axis, **options), SEQUENCE, ints("axis", axis))
    assert kinds(after) == {"end": kind}
    assert after.node("end").attributes["axis"].as_int() == axis % 3
    assert after.aliases["exp"] == "end"


def test_sums_over_something_else_are_no_softmax() -> None:
    """Two axes, the sum of another tensor, or a maximum over another axis, which stays in front."""
    for axes in ((1, 2), ()):
        after = result(softmax(-1, top=False), SEQUENCE, ints("axis", *axes))
        assert "Softmax" not in kinds(after).values()
    other = [*softmax(-1)[:-1], node("Exp", ["x"], "e2", "exp2"), node("Div", ["e2", "s"], "y", "end")]
    assert "Softmax" not in kinds(result(other, SEQUENCE, ints("axis", -1))).values()
    mixed = softmax(1)[:2] + softmax(-1)[2:]
    assert kinds(result(mixed, SEQUENCE, ints("axis", -1))) == {"top": "ReduceMax", "less": "Sub", "end": "Softmax"}


CLIP = [node("Add", ["x", "three"], "a", "add"), node("Clip", ["a", "zero", "six"], "k", "clip")]


@pytest.mark.parametrize(
    ("nodes", "kind"),
    [
        ([*CLIP, node("Mul", ["x", "k"], "m", "mul"), node("Div", ["m", "six"], "y", "end")], "HardSwish"),
        ([*CLIP, node("Div", ["k", "six"], "d", "div"), node("Mul", ["d", "x"], "y", "end")], "HardSwish"),
        ([*CLIP, node("Mul", ["k", "sixth"], "d", "div"), node("Mul", ["x", "d"], "y", "end")], "HardSwish"),
        ([node("HardSigmoid", ["x"], "h", "h", alpha=1 / 6), node("Mul", ["x", "h"], "y", "end")], "HardSwish"),
        ([*CLIP, node("Div", ["k", "six"], "y", "end")], "HardSigmoid"),
        ([node("HardSigmoid", ["x"], "h", "h"), node("Mul", ["x", "h"], "y", "end")], "Mul"),
        ([*CLIP, node("Div", ["k", "three"], "y", "end")], "Mul"),
    ],
)
def test_hard_activations_in_primitive_nodes(nodes: Nodes, kind: str) -> None:
    """Recognized by what they compute; a slope of 0.2, or a third instead of a sixth, is something else."""
    assert kinds(result(nodes, IMAGES))["end"] == kind


def test_the_pattern_keeps_what_is_read_elsewhere() -> None:
    """A Clip that is an operand of something else keeps its nodes; the HardSwish is not made."""
    nodes = [*CLIP, node("Mul", ["x", "k"], "m", "mul"), node("Div", ["m", "six"], "d", "end"),
             node("Add", ["d", "k"], "y", "sum")]  # fmt: skip
    assert "HardSwish" not in kinds(result(nodes, IMAGES)).values()
