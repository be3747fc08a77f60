"""`load`: what is repaired, what is refused, and in which words."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from models import IMAGE, MODELS, image, init, ints, model, node, random, value
from onnx import TensorProto, helper

from ptqlab.errors import PtqError
from ptqlab.graph import FloatGraph, load, session, verify


def refusal(source: object, *args: object, **keywords: object) -> str:
    """The text of the refusal of a model."""
    with pytest.raises(PtqError) as caught:
        load(source, *args, **keywords)  # type: ignore[arg-type]
    return str(caught.value)


def conv(**keywords: object) -> onnx.ModelProto:
    nodes = [node("Conv", ["x", "w"], "y", "conv")]
    return model(nodes, [value("x", IMAGE)], [value("y", IMAGE)], [init("w", random(3, 3, 1, 1))], **keywords)  # type: ignore[arg-type]


def codes(graph: FloatGraph) -> list[str]:
    return [f.code for f in graph.findings]


@pytest.mark.parametrize("name", MODELS)
def test_every_test_model_loads_and_computes_the_same(name: str) -> None:
    """Loading changes nothing of what is computed, and the internal form holds."""
    proto, feeds = MODELS[name]()
    before = proto.SerializeToString()
    graph = load(proto)
    verify(graph)
    assert proto.SerializeToString() == before, "the given model is untouched"
    assert [v.name for v in graph.outputs] == [v.name for v in proto.graph.output]
    plain = onnx_session(proto)
    expected = plain.run(None, feeds)
    for found, wanted in zip(session(graph.model, optimise=False).run(None, feeds), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)


def onnx_session(proto: onnx.ModelProto):  # type: ignore[no-untyped-def]
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])


def test_all_forms_of_a_model_load_alike(tmp_path: Path) -> None:
    """Path, text path, bytes, ModelProto and onnx_ir model give the same graph."""
    proto = conv()
    path = tmp_path / "net.onnx"
    onnx.save(proto, path)
    for source in (path, str(path), proto.SerializeToString(), proto, ir.from_proto(proto)):
        graph = load(source)
        assert [n.name for n in graph.nodes] == ["conv"]
        np.testing.assert_array_equal(graph.array("w"), random(3, 3, 1, 1))
    assert load(path).source == path
    assert load(proto).source is None


@pytest.mark.parametrize("opset", [9, 20])
def test_an_opset_outside_is_refused_with_both_limits_and_the_way_out(opset: int) -> None:
    """Found, allowed and what to do, in one message."""
    hint = {
        9: "export again with opset_version=10 or above, or lift it with onnx.version_converter",
        20: "export again with opset_version=19",
    }[opset]
    assert refusal(conv(opset=opset, ir_version=10)) == (
        "Loading the model: 1 problem\n"
        "PTQ106  the model\n"
        f"    found     opset {opset}, ir_version 10\n"
        "    expected  opset 10 to 19 and ir_version 9 or less (a higher ir_version alone is lowered)\n"
        f"    do        {hint}"
    )


def test_an_ir_version_above_alone_is_lowered_with_a_warning() -> None:
    """The model in memory has ir_version 9."""
    graph = load(conv(ir_version=10))
    assert graph.model.ir_version == 9
    assert [(f.code, f.severity) for f in graph.findings] == [("PTQ130", "warning")]
    assert graph.findings[0].message == "ir_version 10 was lowered to 9 in memory; the file is untouched."


def test_the_long_name_of_the_standard_domain_is_understood() -> None:
    """Opset and node domain written as ai.onnx."""
    proto = conv()
    proto.opset_import[0].domain = "ai.onnx"
    proto.graph.node[0].domain = "ai.onnx"
    assert load(proto).node("conv").domain == ""


def test_all_problems_of_a_model_are_told_at_once() -> None:
    """Custom operator, unknown operator, dangling input and dynamic shape in one refusal."""
    nodes = [
        helper.make_node("DeformAgg", ["x"], ["a"], name="my_deform", domain="com.example"),
        node("Convv", ["a", "w"], "b", "typo"),
        node("Relu", ["nowhere"], "y", "relu"),
    ]
    proto = model(
        nodes,
        [value("x", ["N", 3, None, 8])],
        [value("y", None)],
        [init("w", random(3, 3, 1, 1))],
        domains=["com.example"],
    )
    assert refusal(proto) == (
        "Loading the model: 4 problems\n"
        "PTQ107  node 'my_deform'\n"
        "    found     operator DeformAgg of domain com.example\n"
        "    expected  operators of the ONNX standard, or model-local functions of them\n"
        "    do        export it as standard operators, or cut the model before it with output_nodes\n"
        "PTQ108  node 'typo'\n"
        "    found     operator 'Convv', which ONNX does not know\n"
        "    expected  an operator of opset 17; nearest: Conv, Concat, DeformConv\n"
        "PTQ109  node 'relu'\n"
        "    found     input 0 reads tensor 'nowhere', which nothing produces\n"
        "    expected  an input, a constant or the output of a node\n"
        "PTQ114  input 'x'\n"
        "    found     dynamic shape [N,3,?,8]\n"
        "    expected  sizes for every dimension\n"
        "    do        set input_shape, for example 1x3x1x8 (-i x 1x3x1x8)"
    )


def test_unnamed_nodes_get_the_same_names_every_time() -> None:
    """<operator>_<output>; a name in the file wins over a made-up one."""
    proto, _ = MODELS["unnamed_nodes"]()
    names = [n.name for n in load(proto).nodes]
    assert names == ["Conv_c", "Relu_r_1", "Relu_r"]
    assert names == [n.name for n in load(proto).nodes]


def test_listed_initializers_are_no_inputs_and_unused_inputs_are_told() -> None:
    """`w` is a constant although it is listed; `extra` stays in the interface; `dead` goes."""
    nodes = [node("Conv", ["x", "w"], "y", "conv")]
    inputs = [value("x", IMAGE), value("extra", [1, 5]), value("w", [3, 3, 1, 1])]
    graph = load(model(nodes, inputs, [value("y", IMAGE)], [init("w", random(3, 3, 1, 1)), init("dead", random(7))]))
    assert [v.name for v in graph.inputs] == ["x", "extra"]
    assert graph.initializers == ("w",)
    assert [f.message for f in graph.findings] == [
        "Input 'extra' feeds nothing; it stays in the interface, its data are ignored."
    ]


def test_shapes_that_lie_are_overruled_with_a_warning() -> None:
    """Stated shapes and types of inner tensors and outputs do not count against computed ones."""
    nodes = [node("Conv", ["x", "w"], "c", "conv"), node("Relu", ["c"], "y", "relu")]
    proto = model(nodes, [value("x", IMAGE)], [value("y", [1, 9, 8, 8])], [init("w", random(4, 3, 1, 1))])
    proto.graph.value_info.append(value("c", [1, 4, 7, "W"]))
    graph = load(proto)
    assert graph.shape("c") == graph.shape("y") == (1, 4, 8, 8)
    assert [f.message for f in graph.findings] == [
        "The file states shapes that are wrong; the computed ones count: "
        "'c' is [1,4,8,8], stated as [1,4,7,?]; 'y' is [1,4,8,8], stated as [1,9,8,8]."
    ]


def test_half_precision_is_widened_and_told() -> None:
    """Input, weights and output in float16: float32 inside, values of the constants unchanged, interface named."""
    nodes = [node("Cast", ["x"], "f", "cast", to=TensorProto.FLOAT16), node("Conv", ["f", "w"], "y", "conv")]
    weights = random(3, 3, 1, 1).astype(np.float16)
    proto = model(
        nodes, [value("x", IMAGE, TensorProto.FLOAT16)], [value("y", IMAGE, TensorProto.FLOAT16)], [init("w", weights)]
    )
    graph = load(proto)
    assert graph.dtype("x") == graph.dtype("y") == graph.dtype("w") == np.float32
    np.testing.assert_array_equal(graph.array("w"), weights.astype(np.float32))
    assert [(f.code, f.severity) for f in graph.findings] == [("PTQ136", "note")]
    assert "Inputs and outputs that are float32 now: 'x', 'y'." in graph.findings[0].message
    result = session(graph.model).run(None, {"x": np.full(IMAGE, 54800, np.float32)})[0]
    assert np.isfinite(result).all()


def test_a_quantized_model_is_refused_with_advice() -> None:
    """Quantize and dequantize nodes are named, the rest counted."""
    nodes = [node("QuantizeLinear", [f"t{i}" if i else "x", "s", "z"], f"q{i}", f"quant{i}") for i in range(1)]
    nodes += [node("DequantizeLinear", ["q0", "s", "z"], f"d{i}", f"dequant{i}") for i in range(4)]
    nodes += [node("Sum", [f"d{i}" for i in range(4)], "y", "sum")]
    text = refusal(
        model(nodes, [value("x", IMAGE)], [value("y", IMAGE)], [init("s", np.float32(1)), init("z", 0, np.int8)])
    )
    assert text == (
        "Loading the model: 1 problem\n"
        "PTQ113  the model\n"
        "    found     quantized already: node 'quant0' (QuantizeLinear), node 'dequant0' (DequantizeLinear), "
        "node 'dequant1' (DequantizeLinear) and 2 more\n"
        "    expected  a float model\n"
        "    do        give the float model from before quantization, or what ptqlab.remove_quantization makes of "
        "this one (thresholds: this file keeps its ranges)"
    )


def test_output_nodes_cut_the_model_in_the_given_order() -> None:
    """The outputs of the named nodes become the outputs; an unknown name is refused with the nearest."""
    proto, feeds = MODELS["mobile_block"]()
    graph = load(proto, output_nodes=["bn2", "conv0"])
    assert [v.name for v in graph.outputs] == ["b2", "c0"]
    assert "add" not in graph
    assert graph.shape("b2") == (1, 8, 6, 6)
    assert session(graph.model).run(None, feeds)[1].shape == (1, 16, 6, 6)
    assert refusal(proto, output_nodes=["conv9", "bn2"]) == (
        "Loading the model: 1 problem\n"
        "PTQ118  output_nodes: 'conv9'\n"
        "    found     no node of that name\n"
        "    expected  nearest: conv2, conv1, conv0"
    )


def test_an_opaque_branch_keeps_running() -> None:
    """If and Loop stay as they are; tensors their bodies read count as read."""
    graph = load(MODELS["branches"]()[0])
    assert {n.name for n in graph.consumers("r")} == {"branch"}
    assert {n.name for n in graph.consumers("two")} == {"branch", "loop"}


def test_hostile_names_are_kept_as_they_are() -> None:
    """Markup, paths, controls and wide characters in names of nodes and tensors."""
    names = ["<script>alert(1)</script>", "../../evil", "a\nb\0c", "卷积", "%s{x}"]
    nodes = [node("Relu", [names[i - 1] if i else "x"], n, n) for i, n in enumerate(names)]
    graph = load(model(nodes, [value("x", [1])], [value(names[-1], [1])]))
    assert [n.name for n in graph.nodes] == names
    assert session(graph.model).run(None, {"x": np.ones(1, np.float32)})[0] == 1


def test_a_model_with_a_dynamic_input_becomes_static_with_input_shapes() -> None:
    """Flatten by Shape, Gather, Concat and Reshape; every tensor is static."""
    nodes = [
        node("Conv", ["x", "w"], "c", "conv"),
        node("Shape", ["c"], "s", "shape"),
        node("Gather", ["s", "i"], "n", "gather"),
        node("Unsqueeze", ["n", "a"], "n1", "unsqueeze"),
        node("Concat", ["n1", "m"], "t", "concat", axis=0),
        node("Reshape", ["c", "t"], "y", "reshape"),
    ]
    inits = [init("w", random(4, 3, 1, 1)), init("i", 0, np.int64), ints("a", 0), ints("m", -1)]
    proto = model(nodes, [value("x", ["N", 3, "H", "W"])], [value("y", ["N", None])], inits)
    for shapes in ({"x": (1, 3, 8, 8)}, {"": (1, 3, 8, 8)}):
        graph = load(proto, shapes)
        assert graph.shape("y") == (1, 256)
        assert session(graph.model).run(None, image())[0].shape == (1, 256)
