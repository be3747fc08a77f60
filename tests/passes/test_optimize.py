"""The whole pipeline: the same results, names that survive, and rest."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from models import MODELS, batch_norm, init, model, node, positive, random, value
from passes.compare import kinds, optimized, same_results

from ptqlab.graph import load
from ptqlab.passes import PIPELINE, Work, optimize, run_group


@pytest.mark.parametrize("name", MODELS)
def test_every_model_computes_the_same(name: str) -> None:
    """Outputs within float tolerance; interface, shapes and types exactly."""
    optimized(*MODELS[name]())


@pytest.mark.parametrize("name", MODELS)
def test_optimizing_twice_changes_nothing(name: str) -> None:
    """The result is a fixed point, and the same every time."""
    proto, feeds = MODELS[name]()
    once = optimize(load(proto))
    twice = optimize(once)
    assert kinds(once) == kinds(twice) == kinds(optimize(load(proto)))
    assert [n.name for n in once.nodes] == [n.name for n in twice.nodes]
    same_results(once, twice, feeds, 0)


def test_the_given_graph_is_left_as_it_was() -> None:
    """Optimizing works on a copy; weights that nothing changed are shared with it, not copied."""
    proto, _ = MODELS["mobile_block"]()
    graph = load(proto)
    before = kinds(graph), {n: graph.array(n).copy() for n in graph.initializers}
    after = optimize(graph)
    assert before[0] == kinds(graph)
    for name, array in before[1].items():
        np.testing.assert_array_equal(graph.array(name), array)
    assert after.array("six") is graph.array("six")


def test_names_survive_and_fused_names_are_aliases() -> None:
    """A fused node keeps the name of its main operator; every name of the file that is computed finds its node."""
    after, _ = optimized(*MODELS["mobile_block"]())
    assert kinds(after) == {
        "conv0": "Conv",
        "relu6_0": "Clip",
        "conv1": "Conv",
        "relu6_1": "Clip",
        "conv2": "Conv",
        "add": "Add",
        "mean": "GlobalAveragePool",
        "mean_reshape": "Reshape",
        "fc": "Gemm",
        "softmax": "Softmax",
    }
    fused = {a: n for a, n in after.aliases.items() if a != n}
    assert fused == {"bn0": "conv0", "bn1": "conv1", "bn2": "conv2"}


def test_the_log_says_what_each_group_did() -> None:
    """What each pass changed, node counts before and after, and reasons of what was left."""
    _, lines = optimized(*MODELS["bn_alone"]())
    assert lines == [
        "bn_shared (BatchNormalization) left as it is: the result of 'conv' is needed elsewhere, too",
        "replace: SplitBatchNormalization changed 3 places.",
        "After replace, the number of nodes has changed from 5 to 8.",
    ]


def test_a_group_that_does_not_come_to_rest_is_an_error() -> None:
    """A pass that always reports a change."""
    graph = load(MODELS["conv_bn_relu"]()[0])
    from ptqlab.events import Watch

    with pytest.raises(AssertionError, match="'restless' do not come to rest"):
        run_group(Work(graph, Watch()), "restless", (lambda work: 1,))


def test_every_pass_says_what_is_given_and_what_comes_out() -> None:
    """The docstring is the documentation of the pipeline."""
    for _, group in PIPELINE:
        for one in group:
            text = (type(one).__doc__ or "").lower()
            assert "given" in text, type(one)
            assert "result" in text, type(one)


Nodes = tuple[list[onnx.NodeProto], list[onnx.TensorProto]]


@st.composite
def networks(draw: st.DrawFn) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """Up to 9 operators on image tensors of a few channels; any tensor may be read again or be an output."""
    nodes: list[onnx.NodeProto] = []
    inits: list[onnx.TensorProto] = []
    shapes = {"x": (1, 4, 6, 6)}

    def add(
        op: str, inputs: list[str], shape: tuple[int, ...], constants: Sequence[np.ndarray] = (), **attributes: object
    ) -> None:
        names = [f"k{len(inits) + i}" for i in range(len(constants))]
        inits.extend(init(n, c) for n, c in zip(names, constants, strict=True))
        output = f"t{len(nodes)}"
        nodes.append(node(op, [*inputs, *names], output, **attributes))
        shapes[output] = shape

    for step in range(draw(st.integers(2, 9))):
        source = draw(st.sampled_from(sorted(shapes)))
        shape = shapes[source]
        channels = shape[1]
        seed = draw(st.integers(0, 99))
        kinds_of_step = ["conv", "deconv", "bn", "scale", "shift", "act", "clip", "add", "pad", "pool", "move", "same"]
        match draw(st.sampled_from(kinds_of_step)):
            case "conv":
                group = draw(st.sampled_from([1, channels]))
                out = channels if group > 1 else draw(st.sampled_from([2, 4]))
                bias = [random(out, seed=seed)] if draw(st.booleans()) else []
                weights = random(out, channels // group, 3, 3, seed=seed, scale=0.3)
                add("Conv", [source], (1, out, *shape[2:]), [weights, *bias], group=group, pads=[1] * 4)
            case "deconv":
                group = draw(st.sampled_from([1, 2]))
                weights = random(channels, channels // group, 3, 3, seed=seed, scale=0.3)
                add("ConvTranspose", [source], shape, [weights], group=group, pads=[1] * 4)
            case "bn":
                names, more = batch_norm(f"s{step}", channels, seed)
                inits.extend(more)
                add("BatchNormalization", [source, *names], shape)
            case "scale":
                size = draw(st.sampled_from([(), (1,), (channels, 1, 1), (1, channels, 1, 1), (shape[3],)]))
                add(draw(st.sampled_from(["Mul", "Div"])), [source], shape, [positive(*size, seed=seed)])
            case "shift":
                size = draw(st.sampled_from([(), (channels, 1, 1), (1, channels, 1, 1), shape[2:]]))
                op, first = draw(st.sampled_from(["Add", "Sub"])), draw(st.booleans())
                name = f"k{len(inits)}"
                inits.append(init(name, random(*size, seed=seed)))
                add(op, [name, source] if first else [source, name], shape)
            case "act":
                add(draw(st.sampled_from(["Relu", "Sigmoid", "Tanh", "Identity", "Dropout"])), [source], shape)
            case "clip":
                add("Clip", [source], shape, [np.float32(draw(st.sampled_from([-1, 0]))), np.float32(6)])
            case "add":
                others = [n for n, s in shapes.items() if s == shape]
                add(draw(st.sampled_from(["Add", "Sum", "Mul", "Sub"])), [source, draw(st.sampled_from(others))], shape)
            case "pad":
                grown = (1, channels, shape[2] + 2, shape[3])
                if grown[2] < 12:
                    add("Pad", [source], grown, [np.array([0, 0, 1, 0, 0, 0, 1, 0])])
            case "pool":
                include = draw(st.integers(0, 1))
                add("AveragePool", [source], shape, kernel_shape=[3, 3], pads=[1] * 4, count_include_pad=include)
            case "move":
                turned = (1, channels, shape[3], shape[2])
                add("Transpose", [source], turned, perm=[0, 1, 3, 2])
            case "same":
                add("Reshape", [source], shape, [np.array(shape)])
    if not nodes:
        add("Relu", ["x"], shapes["x"])
    last = f"t{len(nodes) - 1}"
    outputs = sorted({last, *draw(st.lists(st.sampled_from([n for n in shapes if n != "x"]), max_size=2))})
    opset = draw(st.sampled_from([11, 13, 17, 19]))
    proto = model(nodes, [value("x", shapes["x"])], [value(n, shapes[n]) for n in outputs], inits, opset=opset)
    return proto, {"x": random(*shapes["x"], seed=draw(st.integers(0, 9)))}


@given(networks())
@settings(max_examples=120, deadline=None, derandomize=True)
def test_random_networks_compute_the_same(built: tuple[onnx.ModelProto, dict[str, np.ndarray]]) -> None:
    """Whatever the order of operators and readers: equal within 1e-4 of the largest value."""
    optimized(*built, tolerance=1e-4)
