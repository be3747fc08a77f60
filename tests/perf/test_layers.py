"""Layers from a plan: what the BPU computes together is one layer, and a graph gives what its layer table gives."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from perf import structures
from perf.common import table
from perf.mobile import CHECKS, Check
from perf.structures import layers_of

from ptqlab.arith.formats import QType
from ptqlab.perf import estimate
from ptqlab.placement import Ask, Asks


def net(nodes: list[onnx.NodeProto], output: str, **constants: np.ndarray) -> onnx.ModelProto:
    """A small network on `x` [1, 16, 8, 8]; w16 is a 3x3 kernel of 16 channels."""
    constants = {"w16": np.ones((16, 16, 3, 3), np.float32)} | constants
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 16, 8, 8])],
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def conv(x: str, y: str) -> onnx.NodeProto:
    return helper.make_node("Conv", [x, "w16"], [y], name=y, pads=[1, 1, 1, 1])


def node(op: str, inputs: list[str], y: str, **attributes: object) -> onnx.NodeProto:
    return helper.make_node(op, inputs, [y], name=y, **attributes)


@pytest.mark.parametrize(
    ("name", "build"),
    [
        ("MobileNetV2", structures.mobilenet_v2),
        ("YOLO11n", structures.yolo11n),
        pytest.param("ResNet152", structures.resnet152, marks=pytest.mark.slow),
    ],
)
def test_a_graph_gives_what_its_layer_table_gives(
    name: str,
    build: Callable[[], onnx.ModelProto],
) -> None:
    """The same MACs, and both latencies within 2 %."""
    made, published = layers_of(build()), table(name).layers
    assert sum(layer.macs for layer in made) == sum(layer.macs for layer in published)
    assert sum(layer.weights for layer in made) == sum(layer.weights for layer in published)
    here, there = estimate(made, "nash-e"), estimate(published, "nash-e")
    assert here.latency_us == pytest.approx(there.latency_us, rel=0.02)
    assert here.board_latency_us == pytest.approx(there.board_latency_us, rel=0.02)
    assert (here.cpu_us, len(here.segments_us)) == (0, 1)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_published_static_figures_never_fitted(check: Check) -> None:
    """Mobile networks of other families: the published operations exactly, the static latency within 12 %."""
    found = estimate(layers_of(check.build()), "nash-e")
    assert found.macs.original_conv_ops == check.operations and found.cpu_us == 0
    assert found.latency_us == pytest.approx(check.us, rel=0.12)


def test_bias_residual_and_relu_are_one_layer() -> None:
    """Shapes, sources, sizes and the nodes inside, of a convolution with a residual Add and Relu."""
    made = layers_of(
        net(
            [conv("x", "a"), conv("a", "b"), node("Add", ["b", "x"], "s"), node("Relu", ["s"], "r"), conv("r", "c")],
            "c",
        )
    )
    a, b, c = made
    assert (b.name, b.op, b.act, b.add, b.nodes) == ("b", "Conv", "relu", True, ("b", "s", "r"))
    assert (b.inputs, b.outputs, b.sources) == (((1, 16, 8, 8),) * 2, ((1, 16, 8, 8),), (0, -1))
    assert (b.macs, b.weights, b.reads, b.writes) == (16 * 144 * 64, 16 * 144, 2 * 1024, 1024)
    assert (b.kernel, b.group, b.device, b.segment) == ((3, 3), 1, "BPU", 0)
    assert (a.consumers, b.consumers, c.consumers) == ((1,), (2,), ())
    assert (c.tail, c.net_out, b.tail) == (True, True, False)


@pytest.mark.parametrize(
    ("nodes", "act"),
    [
        ([node("Sigmoid", ["a"], "s"), node("Mul", ["a", "s"], "m")], "silu"),
        ([node("Sigmoid", ["a"], "m")], "sigmoid"),
        ([node("Relu", ["a"], "m")], "relu"),
        ([node("Clip", ["a", "zero", "six"], "m")], "relu6"),
        ([node("Clip", ["a", "zero", "two"], "m")], "clip"),
        ([node("Mul", ["a", "two"], "m")], ""),
    ],
)
def test_activations_belong_to_their_convolution(nodes: list[onnx.NodeProto], act: str) -> None:
    """A function of one variable behind a convolution is part of its layer; a constant factor is in its weights."""
    constants = {"zero": np.float32(0), "six": np.float32(6), "two": np.float32(2)}
    made = layers_of(net([conv("x", "a"), *nodes, conv("m", "z")], "z", **constants))
    assert [(layer.op, layer.act) for layer in made] == [("Conv", act), ("Conv", "")]
    assert made[1].sources == (0,)


def test_what_somebody_else_reads_stays_apart() -> None:
    """An activation is no part of a convolution whose result has another reader."""
    nodes = [
        conv("x", "a"), node("Sigmoid", ["a"], "s"), node("Mul", ["a", "s"], "m"), conv("m", "p"), conv("a", "q"),
        node("Add", ["p", "q"], "z"),
    ]  # fmt: skip
    made = {layer.name: layer for layer in layers_of(net(nodes, "z"))}
    assert made["a"].act == "" and made["s"].nodes == ("s", "m")


def test_two_tensors_are_no_function_of_one_variable() -> None:
    """A gate (one convolution's sigmoid times another convolution) keeps its Mul; the sigmoid joins its convolution."""
    made = layers_of(
        net(
            [conv("x", "a"), conv("x", "b"), node("Sigmoid", ["a"], "s"), node("Mul", ["b", "s"], "m"), conv("m", "z")],
            "z",
        )
    )
    assert sorted((layer.op, layer.act) for layer in made) == [
        ("Conv", ""),
        ("Conv", ""),
        ("Conv", "sigmoid"),
        ("Mul", ""),
    ]


def test_types_of_the_plan_arrive() -> None:
    """int16 in one convolution: its features, and what is written for it; dual-int16 doubles the weights' bytes."""
    model = net([conv("x", "a"), conv("a", "b"), conv("b", "c")], "c")
    first, second, _ = layers_of(model, Asks({"b": Ask("int16", level="node")}))
    assert (first.qtype, first.output_qtype) == (QType.INT8, QType.INT16)
    assert (second.qtype, second.output_qtype, second.weight_qtype) == (QType.INT16, QType.INT8, QType.INT8)


def test_what_runs_on_the_cpu() -> None:
    """A node put onto the CPU splits the segments; behind the tail nothing is on the BPU."""
    model = net([conv("x", "a"), node("Sigmoid", ["a"], "s"), conv("s", "b"), node("Softmax", ["b"], "p", axis=1)], "p")
    made = layers_of(model, Asks({"s": Ask("int8", on="CPU", level="node")}))
    assert [(layer.op, layer.device, layer.segment) for layer in made] == [
        ("Conv", "BPU", 0),
        ("Sigmoid", "CPU", None),
        ("Conv", "BPU", 1),
        ("Softmax", "CPU", None),
    ]
    found = estimate(made, "nash-e")
    assert len(found.segments_us) == 2 and found.cpu_us > 0


def test_several_inputs_and_split() -> None:
    """Inputs of the network are -1, -2, ...; an operator with several results is read under one index."""
    nodes = [
        helper.make_node("Split", ["x"], ["p", "q"], name="split", axis=1),
        node("Concat", ["q", "p"], "j", axis=1),
        node("Add", ["j", "y"], "s"),
        conv("s", "z"),
    ]
    model = net([conv("x0", "x1"), *nodes], "z")
    model.graph.input[0].name = "x0"
    model.graph.node[1].input[0] = "x1"
    model.graph.input.append(helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 16, 8, 8]))
    made = {layer.name: layer for layer in layers_of(model)}
    split, join, add = made["split"], made["j"], made["s"]
    assert split.outputs == ((1, 8, 8, 8), (1, 8, 8, 8)) and (split.reads, split.writes) == (1024, 1024)
    assert join.sources == (1, 1) and join.inputs == ((1, 8, 8, 8),) * 2
    assert -2 in add.sources


def test_matmul_of_a_transformer() -> None:
    """MACs of Gemm and of MatMul, with and without constant weights."""
    nodes = [
        node("Reshape", ["x", "shape"], "t"),
        node("MatMul", ["t", "wm"], "u"),
        node("Transpose", ["u"], "v", perm=[0, 2, 1]),
        node("MatMul", ["u", "v"], "m"),
        node("MatMul", ["m", "wn"], "n"),
    ]
    model = net(
        nodes, "n", shape=np.array([1, 64, 16]), wm=np.ones((16, 32), np.float32), wn=np.ones((64, 8), np.float32)
    )
    made = {layer.name: layer for layer in layers_of(model)}
    assert [(made[n].macs, made[n].weights) for n in ("u", "m", "n")] == [
        (64 * 16 * 32, 512),
        (64 * 64 * 32, 0),
        (64 * 64 * 8, 512),
    ]
