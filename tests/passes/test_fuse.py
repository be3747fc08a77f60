"""Arithmetic folded into weights: where it is right, and where it is refused."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from models import IMAGE, MODELS, batch_norm, image, init, ints, model, node, positive, random, value
from passes.compare import kinds, optimized

from ptqlab.graph import load
from ptqlab.passes import optimize


def behind_conv(
    made: list[onnx.NodeProto], inits: list[onnx.TensorProto], outputs: tuple[str, ...] = ("y",)
) -> tuple[dict[str, str], list[str]]:
    """Operators after optimizing Conv (4 channels, with bias) followed by `made`; the log."""
    nodes = [node("Conv", ["x", "w", "b"], "c", "conv"), *made]
    given = [init("w", random(4, 3, 1, 1)), init("b", random(4, seed=2)), *inits]
    after, lines = optimized(model(nodes, [value("x", IMAGE)], [value(o, None) for o in outputs], given), image())
    return kinds(after), lines


@pytest.mark.parametrize("name", ["conv_bn_relu", "conv_bias_grouped_bn", "conv_transpose_bn", "mlp"])
def test_batch_normalization_goes_into_the_weights(name: str) -> None:
    """Plain, with bias, grouped, depthwise, transposed and grouped, Gemm."""
    after, _ = optimized(*MODELS[name]())
    assert "BatchNormalization" not in kinds(after).values()
    assert all(after.aliases[n] != n for n in after.aliases if n.startswith("bn"))


@pytest.mark.parametrize("op", ["Add", "Sub", "Mul", "Div"])
@pytest.mark.parametrize("shape", [(), (1,), (4, 1, 1), (1, 4, 1, 1), (1, 1, 1, 1)])
@pytest.mark.parametrize("first", [False, True])
def test_a_constant_per_channel_goes_into_the_weights(op: str, shape: tuple[int, ...], first: bool) -> None:
    """On either side of the operator; a constant divided by the result is its reciprocal, times the constant."""
    inputs = ["k", "c"] if first else ["c", "k"]
    found, _ = behind_conv([node(op, inputs, "y", "n")], [init("k", positive(*shape))])
    divided = {"conv": "Conv", "n_reciprocal": "Reciprocal", "n": "Mul"}
    assert found == (divided if op == "Div" and first else {"conv": "Conv"})


@pytest.mark.parametrize("shape", [(8,), (8, 8), (1, 1, 8, 1), (1, 4, 8, 8), (2, 4, 1, 1)])
def test_a_constant_that_varies_otherwise_stays(shape: tuple[int, ...]) -> None:
    """Along width, height, everywhere, or over a new batch axis."""
    found, _ = behind_conv([node("Mul", ["c", "k"], "y", "n")], [init("k", positive(*shape))])
    assert found == {"conv": "Conv", "n": "Mul"}


def test_the_last_axis_is_no_channel() -> None:
    """Four channels and four columns: [4] broadcasts along the columns."""
    nodes = [node("Conv", ["x", "w"], "c", "conv"), node("Add", ["c", "k"], "y", "n")]
    inits = [init("w", random(4, 3, 1, 1)), init("k", random(4, seed=1))]
    after, _ = optimized(model(nodes, [value("x", [1, 3, 4, 4])], [value("y", None)], inits), {"x": random(1, 3, 4, 4)})
    assert kinds(after) == {"conv": "Conv", "n": "Add"}


def test_division_by_zero_stays() -> None:
    """Inf stays Inf."""
    found, _ = behind_conv(
        [node("Div", ["c", "k"], "d", "n"), node("Relu", ["d"], "y", "r")], [init("k", np.float32(0))]
    )
    assert found["n"] == "Div"


def test_a_result_that_is_needed_elsewhere_is_not_fused() -> None:
    """By another node, or as an output; the reason is logged."""
    names, inits = batch_norm("bn", 4)
    norm = node("BatchNormalization", ["c", *names], "n", "bn")
    reason = "bn (BatchNormalization) left as it is: the result of 'conv' is needed elsewhere, too"
    found, lines = behind_conv([norm, node("Add", ["n", "c"], "y", "add")], inits)
    assert found == {"conv": "Conv", "bn": "Mul", "bn_bias": "Add", "add": "Add"}
    assert reason in lines
    found, lines = behind_conv([norm], inits, ("n", "c"))
    assert found == {"conv": "Conv", "bn": "Mul", "bn_bias": "Add"}
    assert reason in lines


def test_statistics_that_are_computed_are_not_fused() -> None:
    """The scale is an input of the model: BatchNormalization stays."""
    names, inits = batch_norm("bn", 4)
    nodes = [node("Conv", ["x", "w"], "c", "conv"), node("BatchNormalization", ["c", "s", *names[1:]], "y", "bn")]
    proto = model(
        nodes, [value("x", IMAGE), value("s", [4])], [value("y", None)], [init("w", random(4, 3, 1, 1)), *inits[1:]]
    )
    after, lines = optimized(proto, {**image(), "s": positive(4)})
    assert kinds(after) == {"conv": "Conv", "bn": "BatchNormalization"}
    assert "bn (BatchNormalization) left as it is: its statistics are not constant" in lines


def test_weights_that_are_computed_are_not_fused() -> None:
    """Conv whose weights are an input."""
    names, inits = batch_norm("bn", 4)
    nodes = [node("Conv", ["x", "w"], "c", "conv"), node("BatchNormalization", ["c", *names], "y", "bn")]
    proto = model(nodes, [value("x", IMAGE), value("w", [4, 3, 1, 1])], [value("y", None)], inits)
    after, lines = optimized(proto, {**image(), "w": random(4, 3, 1, 1)})
    assert kinds(after) == {"conv": "Conv", "bn": "Mul", "bn_bias": "Add"}
    assert "bn (BatchNormalization) left as it is: the weights of 'conv' are not constant" in lines


def test_statistics_that_give_nan_or_overflow_are_not_fused() -> None:
    """A negative variance, and a scale beyond float32."""
    for bad in ({"var": -1.0}, {"scale": 3e38}):
        names, inits = batch_norm("bn", 3)
        inits = [init(t.name, np.full(3, bad[t.name[3:]], np.float32)) if t.name[3:] in bad else t for t in inits]
        nodes = [node("Conv", ["x", "w"], "c", "conv"), node("BatchNormalization", ["c", *names], "y", "bn")]
        proto = model(nodes, [value("x", IMAGE)], [value("y", None)], [init("w", random(3, 3, 1, 1, scale=99)), *inits])
        lines: list[str] = []
        from ptqlab.events import Watch

        optimize(load(proto), Watch(lambda event, into=lines: into.append(event.text)))  # type: ignore[misc]
        assert "bn (BatchNormalization) left as it is: the result would hold Inf or NaN" in lines


def test_shared_weights_are_copied_before_they_change() -> None:
    """conv_b keeps the plain weights that conv_a had, too."""
    proto, feeds = MODELS["shared_constants"]()
    after, _ = optimized(proto, feeds)
    np.testing.assert_array_equal(after.constant(after.node("conv_b").inputs[1]), random(4, 3, 1, 1))
    assert not np.array_equal(after.constant(after.node("conv_a").inputs[1]), random(4, 3, 1, 1))


@pytest.mark.parametrize(
    ("pads", "mode", "reader", "fused"),
    [
        ((0, 0, 1, 2, 0, 0, 0, 1), "constant", "Conv", True),
        ((0, 0, 1, 2, 0, 0, 0, 1), "constant", "AveragePool", True),
        ((0, 0, 1, 1, 0, 0, 1, 1), "reflect", "Conv", False),
        ((0, 0, 1, 1, 0, 0, -1, 1), "constant", "Conv", False),
        ((0, 1, 0, 0, 0, 0, 0, 0), "constant", "Relu", False),
        ((0, 0, 1, 1, 0, 0, 1, 1), "constant", "MaxPool", False),
        ((0, 0, 4, 0, 0, 0, 0, 0), "constant", "AveragePool", False),
    ],
)
def test_padding_goes_into_the_operator_behind(pads: tuple[int, ...], mode: str, reader: str, fused: bool) -> None:
    """Zeros on spatial axes in front of Conv or AveragePool; nothing else."""
    made = {
        "Conv": node("Conv", ["p", "w"], "y", "n", pads=[1, 0, 0, 1]),
        "AveragePool": node("AveragePool", ["p"], "y", "n", kernel_shape=[3, 3]),
        "MaxPool": node("MaxPool", ["p"], "y", "n", kernel_shape=[3, 3]),
        "Relu": node("Relu", ["p"], "y", "n"),
    }[reader]
    nodes = [node("Pad", ["x", "k"], "p", "pad", mode=mode), made]
    after, _ = optimized(
        model(nodes, [value("x", IMAGE)], [value("y", None)], [ints("k", *pads), init("w", random(4, 3, 3, 3))]),
        image(),
    )
    assert ("pad" not in kinds(after)) == fused
    if fused:
        assert after.aliases["pad"] == "n"


def test_padding_with_a_value_or_of_named_axes() -> None:
    """The value 1 stays; axes as a fourth input are understood."""
    for extra, fused in (([init("v", np.float32(1))], False), ([init("v", np.float32(0)), ints("ax", 3, -2)], True)):
        pads = ints("k", *([0, 0, 1, 1, 0, 0, 1, 1] if not fused else [1, 2, 0, 1]))
        nodes = [node("Pad", ["x", "k", *(t.name for t in extra)], "p", "pad"), node("Conv", ["p", "w"], "y", "conv")]
        proto = model(
            nodes, [value("x", IMAGE)], [value("y", None)], [pads, *extra, init("w", random(4, 3, 3, 3))], opset=18
        )
        after, _ = optimized(proto, image())
        assert ("pad" not in kinds(after)) == fused


def test_padding_in_front_of_an_average_that_does_not_count_it() -> None:
    """AveragePool with pads of its own and count_include_pad 0 divides by what is inside: Pad stays."""
    nodes = [
        node("Pad", ["x", "k"], "p", "pad"),
        node("AveragePool", ["p"], "y", "pool", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
    ]
    proto = model(nodes, [value("x", IMAGE)], [value("y", None)], [ints("k", 0, 0, 1, 1, 0, 0, 1, 1)])
    after, _ = optimized(proto, image())
    assert kinds(after) == {"pad": "Pad", "pool": "AveragePool"}


def test_matmul_and_bias_become_gemm_only_in_two_dimensions() -> None:
    """And only for a constant row."""
    after, _ = optimized(*MODELS["mlp"]())
    assert kinds(after) == {
        "fc1": "Gemm",
        "relu": "Relu",
        "fc2": "Gemm",
        "reshape": "Reshape",
        "fc3": "MatMul",
        "fc3_bias": "Add",
    }
    nodes = [node("MatMul", ["x", "w"], "m", "mm"), node("Add", ["m", "k"], "y", "add")]
    for bias, op in (
        (random(3), "Gemm"),
        (random(1, 3), "Gemm"),
        (random(1), "Gemm"),
        (random(2, 1), "MatMul"),
        (random(2, 3), "MatMul"),
    ):
        proto = model(nodes, [value("x", [2, 4])], [value("y", None)], [init("w", random(4, 3)), init("k", bias)])
        assert kinds(optimized(proto, {"x": random(2, 4)})[0])["mm"] == op
