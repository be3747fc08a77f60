"""One spelling for what can be written in several ways."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from models import IMAGE, MODELS, image, init, model, node, positive, random, value
from passes.compare import kinds, optimized

from ptqlab.graph import FloatGraph


def bounds(graph: FloatGraph, name: str) -> tuple[float, float]:
    """The two bounds of a Clip; both are constants of rank 0."""
    low, high = (graph.constant(v) for v in graph.node(name).inputs[1:])
    assert low is not None
    assert high is not None
    assert low.shape == high.shape == ()
    assert low.dtype == high.dtype == np.float32
    return float(low), float(high)


def test_every_spelling_of_relu6_becomes_one() -> None:
    """Constants, Constant nodes of rank 1, Min of Max, Max of Min, Relu then Min; open bounds; integers stay."""
    after, _ = optimized(*MODELS["relu6_spellings"]())
    assert kinds(after) == {
        "clip": "Clip",
        "clip_nodes": "Clip",
        "min": "Clip",
        "max_last": "Clip",
        "relu_min": "Clip",
        "open_low": "Clip",
        "open_high": "Relu",
        "integer": "Clip",
        "cat": "Concat",
    }
    for name in ("clip", "clip_nodes", "min", "max_last", "relu_min"):
        assert bounds(after, name) == (0, 6)
    assert bounds(after, "open_low") == (-np.inf, 6)
    assert after.aliases["max"] == "min"
    assert after.aliases["relu"] == "relu_min"


def test_relu6_of_opset_10() -> None:
    """Bounds as attributes."""
    nodes = [node("Clip", ["x"], "y", "relu6", min=0.0, max=6.0)]
    after, _ = optimized(model(nodes, [value("x", IMAGE)], [value("y", IMAGE)], opset=10), image(scale=5))
    assert bounds(after, "relu6") == (0, 6)


def test_bounds_that_are_computed_or_crossed_stay() -> None:
    """A bound that is an input; Min of Max whose bounds cross."""
    nodes = [
        node("Clip", ["x", "", "top"], "a", "clip"),
        node("Max", ["a", "five"], "b", "max"),
        node("Min", ["b", "two"], "y", "min"),
    ]
    proto = model(
        nodes,
        [value("x", IMAGE), value("top", [])],
        [value("y", IMAGE)],
        [init("five", np.float32(5)), init("two", np.float32(2))],
    )
    after, _ = optimized(proto, {**image(), "top": np.array(1, np.float32)})
    assert kinds(after)["clip"] == "Clip"
    assert len(after.node("clip").inputs) == 3
    assert bounds(after, "min") == (2, 2)


def test_batch_normalization_alone_becomes_mul_and_add() -> None:
    """Named after it; its output is the sum."""
    after, _ = optimized(*MODELS["bn_alone"]())
    assert list(kinds(after)) == [
        "bn_in",
        "bn_in_bias",
        "relu",
        "bn_relu",
        "bn_relu_bias",
        "conv",
        "bn_shared",
        "bn_shared_bias",
    ]
    assert after.node("bn_in_bias").outputs[0].name == "a"
    assert after.constant(after.node("bn_in").inputs[1]).shape == (3, 1, 1)  # type: ignore[union-attr]


def test_gemm_is_plain() -> None:
    """No alpha, beta or transB; B [K, N]; C a row where it is one; a computed A is transposed by a node of its own."""
    after, _ = optimized(*MODELS["gemm_forms"]())
    assert kinds(after) == {"g1_transpose": "Transpose", "g1": "Gemm", "g2": "Gemm", "g3": "Gemm", "g4": "Gemm"}
    for name in ("g1", "g2", "g3", "g4"):
        assert not set(after.node(name).attributes) & {"alpha", "beta", "transA", "transB"}
    shapes = {n: [after.constant(v).shape for v in after.node(n).inputs[1:]] for n in ("g1", "g2", "g3", "g4")}  # type: ignore[union-attr]
    assert shapes == {"g1": [(6, 3), (3,)], "g2": [(3, 5)], "g3": [(5, 2), (2,)], "g4": [(5, 2), (4, 1)]}


def test_gemm_of_computed_matrices_keeps_its_factors() -> None:
    """alpha and transB with B an input, beta with C an input."""
    nodes = [node("Gemm", ["x", "b", "c"], "y", "gemm", alpha=0.5, beta=2.0, transB=1, transA=1)]
    proto = model(nodes, [value("x", [3, 2]), value("b", [4, 3]), value("c", [4])], [value("y", [2, 4])])
    after, _ = optimized(proto, {"x": random(3, 2), "b": random(4, 3, seed=1), "c": random(4, seed=2)})
    assert set(after.node("gemm").attributes) == {"alpha", "beta", "transB"}


def test_subtraction_and_division_by_constants() -> None:
    """Add of the negative, Mul by the reciprocal, constant or computed, Sum as Adds; integers stay."""
    after, _ = optimized(*MODELS["arithmetic"]())
    assert kinds(after) == {
        "sub_mean": "Add",
        "div_std": "Mul",
        "sum_part0": "Add",
        "sum": "Add",
        "one_minus": "Sub",
        "exp": "Exp",
        "div_exp_reciprocal": "Reciprocal",
        "div_exp": "Mul",
        "halve": "Div",
    }
    np.testing.assert_allclose(after.constant(after.node("div_std").inputs[1]), 1 / positive(3, 1, 1), rtol=1e-7)


@pytest.mark.parametrize("op", ["Max", "Min", "Mean"])
def test_operators_of_many_operands_become_chains(op: str) -> None:
    """Three operands, one of them broadcast: operators of two, the last one with the name; one operand: Identity."""
    nodes = [node(op, ["x", "k", "x2"], "t", "n"), node("Mul", ["x", "half"], "x2", "h"), node(op, ["t"], "y", "alone")]
    proto = model([nodes[1], nodes[0], nodes[2]], [value("x", [2, 3])], [value("y", None)],
                  [init("k", random(3, seed=8)), init("half", np.float32(0.5))])
    after, _ = optimized(proto, {"x": random(2, 3)})
    two = "Add" if op == "Mean" else op
    chain = {"n_part0": two, "n": op} if op != "Mean" else {"n_part0": two, "n_part1": two, "n": "Mul"}
    assert {k: v for k, v in kinds(after).items() if k.startswith("n")} == chain


@pytest.mark.parametrize("divisor", [0.0, np.inf, 1e-45])
def test_a_divisor_without_a_reciprocal_stays(divisor: float) -> None:
    """0, Inf, and a number so small that its reciprocal is Inf."""
    nodes = [node("Div", ["x", "k"], "y", "div")]
    proto = model(nodes, [value("x", [3])], [value("y", [3])], [init("k", np.array([1, divisor, 2], np.float32))])
    after, lines = optimized(proto, {"x": np.zeros(3, np.float32) + 1})
    assert kinds(after) == {"div": "Div"}
    assert lines == ["div (Div) left as it is: its divisor holds values that have no reciprocal"]


@pytest.mark.parametrize(
    ("shape", "axes", "keepdims", "result"),
    [
        ((1, 3, 8, 8), (2, 3), 1, {"m": "GlobalAveragePool"}),
        ((1, 3, 8, 8), (-1, -2), 0, {"m": "GlobalAveragePool", "m_reshape": "Reshape"}),
        ((2, 3, 4, 5, 6), (2, 3, 4), 0, {"m": "GlobalAveragePool", "m_reshape": "Reshape"}),
        ((1, 3, 8, 8), (1, 2), 1, {"m": "ReduceMean"}),
        ((1, 3, 8, 8), (3,), 1, {"m": "ReduceMean"}),
        ((1, 5, 8), (2,), 1, {"m": "ReduceMean"}),
    ],
)
def test_the_mean_over_an_image_is_global_average_pooling(
    shape: tuple[int, ...], axes: tuple[int, ...], keepdims: int, result: dict[str, str]
) -> None:
    """Over all spatial axes of a tensor of rank 4 or more; the mean of LayerNormalization stays."""
    nodes = [node("ReduceMean", ["x"], "y", "m", axes=list(axes), keepdims=keepdims)]
    after, _ = optimized(model(nodes, [value("x", shape)], [value("y", None)], opset=13), {"x": random(*shape)})
    assert kinds(after) == result


def test_a_mean_over_all_axes_without_naming_them_stays() -> None:
    """No axes: everything, batch and channels, too."""
    after, _ = optimized(model([node("ReduceMean", ["x"], "y", "m")], [value("x", IMAGE)], [value("y", None)]), image())
    assert kinds(after) == {"m": "ReduceMean"}


def test_flatten_is_reshape() -> None:
    """To the shape that is known."""
    nodes = [node("Flatten", ["x"], "y", "flat", axis=2)]
    after, _ = optimized(model(nodes, [value("x", IMAGE)], [value("y", None)]), image())
    assert kinds(after) == {"flat": "Reshape"}
    np.testing.assert_array_equal(after.constant(after.node("flat").inputs[1]), [3, 64])


def test_an_output_with_a_taken_name_does_not_collide() -> None:
    """Nodes and constants named as a pass would name its own."""
    nodes = [
        node("BatchNormalization", ["x", "s", "b", "m", "v"], "r", "bn"),
        node("Relu", ["r"], "bn_scale", "bn_bias"),
        node("ReduceMean", ["bn_scale"], "y", "bn_bias_1", axes=[2, 3], keepdims=0),
    ]
    inits = [init("s", positive(3)), init("b", random(3)), init("m", random(3, seed=2)), init("v", positive(3, seed=3))]
    proto: onnx.ModelProto = model(nodes, [value("x", IMAGE)], [value("y", None)], inits)
    after, _ = optimized(proto, image())
    assert kinds(after) == {
        "bn": "Mul",
        "bn_bias_2": "Add",
        "bn_bias": "Relu",
        "bn_bias_1": "GlobalAveragePool",
        "bn_bias_1_reshape": "Reshape",
    }
