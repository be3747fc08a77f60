"""float16 and float32 on platforms with a float vector unit: who gets them, and what the numbers are in every form."""
from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from core_models import EDGES
from lowered import Lowered, lowered
from models import init, ints, model, node, random, value
from small import all_engines_agree, compiled

from ptqlab.arith.formats import QType
from ptqlab.graph import session
from ptqlab.placement import Ask
from ptqlab.quantize.calibrated import calibrated_model
from ptqlab.stages.plan import Device


def half(x: np.ndarray) -> np.ndarray:
    return np.asarray(x).astype(np.float16)


def between(*nodes: onnx.NodeProto, inits: tuple = (), scale: float = 1.0) -> onnx.ModelProto:
    """conv - these nodes, from tensor c to tensor m - conv2."""
    w = random(4, 4, 1, 1, seed=1) * np.float32(scale)
    first = node("Conv", ["x", "w"], "c", "conv")
    last = node("Conv", ["m", "w2"], "y", "conv2")
    constants = [init("w", w), init("w2", random(4, 4, 1, 1, seed=2)), *inits]
    return model([first, *nodes, last], [value("x", [1, 4, 3, 5])], [value("y", None)], constants, opset=19)


def run(proto: onnx.ModelProto, march: str = "nash-p", qtype: str = "int8", factor: float = 1.0,
        **asks: str) -> Lowered:
    """Quantized with a request per node; the three executors gave the same bits."""
    given = {name: Ask(word, level="node") for name, word in asks.items()}
    return lowered(proto, {"x": random(1, 4, 3, 5) * np.float32(factor)}, qtype=qtype, march=march, asks=given)


def kept(made: Lowered, *names: str) -> dict[str, np.ndarray]:
    """Tensors of the integer model by onnxruntime."""
    runner = session(made.quantized.model, outputs=list(names), optimise=False)
    return dict(zip(names, runner.run(list(names), {"x": made.floats["x"]}), strict=True))


ELEMENTWISE = [
    ("Add", lambda c, k: c + k), ("Sub", lambda c, k: c - k), ("Mul", lambda c, k: c * k),
    ("Max", np.maximum), ("Min", np.minimum),
]


@pytest.mark.parametrize(("op", "exact"), ELEMENTWISE)
@pytest.mark.parametrize("march", ["nash-b", "nash-h", "nash-p"])
def test_float16_is_numpys_float16(op: str, exact: Any, march: str) -> None:
    """Operands rounded to float16, one float16 operation: the same numbers as numpy's float16, to the bit."""
    made = run(between(node(op, ["c", "x"], "m", "n")), march, n="float16")
    plan = made.plan.nodes["n"]
    assert (plan.device, plan.granted, plan.output, plan.segment) == (Device.BPU, "float16", QType.FLOAT16, 0)
    got = kept(made, "c", "m", "m_float16")
    assert got["m_float16"].dtype == np.float16
    assert np.array_equal(got["m_float16"], exact(half(got["c"]), half(made.floats["x"])))
    assert np.array_equal(got["m"], got["m_float16"].astype(np.float32))


def test_a_chain_stays_in_float16_and_the_neighbours_in_int8() -> None:
    """conv int8 - Mul, Sqrt, Transpose back and forth in float16 - conv2 int8: one Quantize behind, one segment."""
    proto = between(
        node("Mul", ["c", "c"], "a", "mul"), node("Transpose", ["a"], "t", "tr", perm=[0, 2, 3, 1]),
        node("Sqrt", ["t"], "s", "sqrt"), node("Transpose", ["s"], "m", "back", perm=[0, 3, 1, 2]),
    )
    made = run(proto, mul="float16", sqrt="float16")
    plan = made.plan
    assert [plan.nodes[n].granted for n in ("conv", "mul", "tr", "sqrt", "back", "conv2")] == [
        "int8", "float16", "float16", "float16", "float16", "int8"]
    assert plan.segments == 1 and {p.segment for p in made.quantized.parts} == {0}
    assert [p.floating for p in made.quantized.parts] == [False, True, False]
    assert set(plan.tensors) == {"x", "c", "m"} and plan.tensors["m"].stored is QType.INT8
    got = kept(made, "c", "m")
    c = half(got["c"])
    assert np.array_equal(got["m"], np.sqrt(c * c).astype(np.float32))
    assert made.cosine("y") > 0.999


def test_float32_is_float32() -> None:
    """No rounding between: Mul in float32 of what the int8 codes stand for."""
    made = run(between(node("Mul", ["c", "c"], "m", "n")), n="float32")
    got = kept(made, "c", "m")
    assert made.plan.nodes["n"].granted == "float32" and np.array_equal(got["m"], got["c"] * got["c"])
    assert "m_float16" not in {str(o.name) for n in made.quantized.model.graph for o in n.outputs}


@pytest.mark.parametrize(("word", "dtype"), [("float16", np.float16), ("float32", np.float32)])
def test_a_convolution_gives_int16_by_int8_with_float_output(word: str, dtype: type) -> None:
    """The TAE stays integer: its accumulator, scaled, rounded to the float type; the Relu behind is not joined."""
    made = run(between(node("Relu", ["c"], "m", "relu")), conv=word, relu=word)
    plan = made.plan.nodes["conv"]
    assert (plan.granted, plan.inputs[0], plan.weights, plan.output, plan.tail) == (
        "int16", QType.INT16, QType.INT8, QType(word), False)
    assert plan.rule == "tae-float-output" and "The TAE computes in integers" in plan.reason
    assert "Int16ConvTail" in made.operators() and "c" not in made.plan.tensors
    got = kept(made, "c", "m")
    scale = made.quantized.integers["c"].scale
    assert np.array_equal(got["c"], (made.codes["c"].astype(np.float32) * scale).astype(dtype).astype(np.float32))
    assert np.array_equal(got["m"], np.maximum(got["c"], 0))


def test_the_last_operator_with_weights_is_float32_as_ever() -> None:
    """A tail asked for float16 keeps high precision."""
    made = run(between(node("Relu", ["c"], "m", "relu")), conv2="float16")
    plan = made.plan.nodes["conv2"]
    assert (plan.tail, plan.output) == (True, None) and plan.reason.endswith("float32 at high precision.")


def test_everything_in_float16() -> None:
    """All nodes asked at once: integers only inside of the convolutions and the pooling; near float."""
    proto = between(
        node("Sigmoid", ["c"], "s", "sig"), node("Mul", ["c", "s"], "p", "mul"),
        node("MaxPool", ["p"], "q", "pool", kernel_shape=[1, 1]), node("Reshape", ["q", "shape"], "r", "reshape"),
        node("Softmax", ["r"], "f", "softmax", axis=1), node("Reshape", ["f", "back"], "m", "again"),
        inits=(ints("shape", 1, 60), ints("back", 1, 4, 3, 5)),
    )
    made = run(proto, qtype="float16")
    granted = {n.name: (n.granted, n.output) for n in made.plan.nodes.values()}
    f16 = ("float16", QType.FLOAT16)
    assert granted["sig"] == granted["mul"] == granted["softmax"] == granted["again"] == f16
    assert granted["conv"] == ("int16", QType.FLOAT16) and granted["conv2"] == ("int16", None)
    assert made.cosine("y") > 0.9999
    shown = calibrated_model(made.graph, made.plan, made.encodings)
    [y] = session(shown.model).run(None, {"x": made.floats["x"]})
    assert np.abs(y - made.outputs["y"]).max() < 0.01 * np.abs(y).max()


def test_the_calibrated_model_rounds_to_float16_too() -> None:
    """With nothing but float16 between, its float16 tensor is what the integer model holds."""
    made = run(between(node("Mul", ["c", "x"], "m", "n")), n="float16")
    shown = calibrated_model(made.graph, made.plan, made.encodings)
    runner = session(shown.model, outputs=["m", shown.names["c"]], optimise=False)
    m, c = runner.run(["m", shown.names["c"]], {"x": made.floats["x"]})
    assert np.array_equal(m, (half(c) * half(made.floats["x"])).astype(np.float32))


def test_two_readers_of_a_float16_tensor() -> None:
    """A float16 Add and an int8 convolution read it: float16 for the one, codes for the other."""
    w3 = init("w3", random(4, 4, 1, 1, seed=7))
    proto = between(
        node("Mul", ["c", "c"], "a", "mul"), node("Conv", ["a", "w3"], "d", "side"),
        node("Add", ["a", "d"], "m", "add"),
        inits=(w3,),
    )
    made = run(proto, mul="float16", add="float16")
    got = kept(made, "c", "a", "d", "m")
    assert made.plan.tensors["a"].stored is QType.INT8
    assert np.array_equal(got["m"], (half(got["a"]) + half(got["d"])).astype(np.float32))


def test_one_operand_in_float_makes_a_node_of_floats() -> None:
    """input0 float16, input1 int8."""
    proto = between(node("Add", ["c", "x"], "m", "add"))
    made = lowered(proto, {"x": random(1, 4, 3, 5)}, march="nash-h",
                   asks={"add": Ask("int8", {0: "float16"}, level="node")})
    assert made.plan.nodes["add"].granted == "float16"
    assert made.plan.nodes["add"].inputs == (QType.FLOAT16, QType.FLOAT16)


def test_what_has_no_float_says_so() -> None:
    """A pooling runs in the AAE: its widest integers, and the reason."""
    made = run(between(node("AveragePool", ["c"], "m", "n", kernel_shape=[1, 1])), n="float16")
    found = made.plan.nodes["n"]
    assert (found.granted, found.rule) == ("int16", "no-float-here")
    assert found.reason == "AveragePool runs in the AAE and has no float: int16 is given."


def whole(folder: Path, config: dict[str, Any], factor: float = 1.0, march: str = "nash-p", *more: Any) -> Any:
    proto = between(
        node("Mul", ["c", "c"], "a", "square"), node("Mul", ["a", "a"], "b", "fourth"),
        node("Mul", ["b", "k"], "m", "down"), inits=(init("k", np.float32([1e-6])),), scale=factor,
    )
    return compiled(proto, {"x": random(1, 4, 3, 5)}, folder, march=march, quant_config=config)


def test_overflow_names_the_first_node_and_the_way_out(tmp_path: Path) -> None:
    """Values near 1e6 are Inf in float16: the node that made them is named first; float32 cures it."""
    def all_three(word: str) -> dict[str, Any]:
        return {"node_config": {n: {"qtype": word} for n in ("square", "fourth", "down")}}

    found = whole(tmp_path / "a", all_three("float16"), 20.0)
    [told] = [f for f in found.record.findings if f.code == "PTQ530"]
    assert told.nodes == ("fourth", "down") and told.message.startswith("float16 overflows first in fourth (Mul): ")
    assert told.hint == "float32 for fourth, or int16"
    assert {r.node: r.output_data_type for r in found.record.nodes}["fourth"] == "f16"
    all_engines_agree(found, {"x": random(1, 4, 3, 5)})
    cured = whole(tmp_path / "b", all_three("float32"), 20.0)
    assert not [f for f in cured.record.findings if f.code == "PTQ530"]
    assert cured.outputs["Quantized Cosine"].min() > 0.999
    assert {r.node: r.output_data_type for r in cured.record.nodes}["fourth"] == "f32"


def test_a_type_for_the_whole_model_is_answered_once(tmp_path: Path) -> None:
    """On nash-p the convolutions get something else; on nash-e every vector operator runs on the CPU."""
    config = {"model_config": {"all_node_type": "float16"}}
    [told] = [f for f in whole(tmp_path / "a", config).record.findings if f.code == "PTQ405"]
    assert told.nodes == ("conv", "conv2") and "2 of 5 nodes are given something else: conv and 1 more got int16 " in (
        told.message)
    [told] = [f for f in whole(tmp_path / "b", config, 1.0, "nash-e").record.findings if f.code == "PTQ405"]
    assert len(told.nodes) == 5 and "conv and 4 more run in float32 (CPU: float16 was asked for" in told.message
    plain = {"model_config": {"all_node_type": "int16"}}
    assert not [f for f in whole(tmp_path / "c", plain).record.findings if f.code == "PTQ405"]


def test_a_float16_convolution_with_an_int8_reader() -> None:
    """conv in float16, conv2 in int8: what conv2 reads is quantized from the float16 tensor, not the accumulator."""
    nodes = [node("Conv", ["x", "w"], "c", "conv"), node("Conv", ["c", "w2"], "y", "conv2")]
    constants = [init("w", random(4, 4, 1, 1, seed=1)), init("w2", random(4, 4, 1, 1, seed=2))]
    made = run(model(nodes, [value("x", [1, 4, 3, 5])], [value("y", None)], constants, opset=19), conv="float16")
    assert made.plan.tensors["c"].stored is QType.INT8 and made.plan.nodes["conv"].output is QType.FLOAT16
    got = kept(made, "c")["c"]
    assert np.array_equal(got, half(got).astype(np.float32))
    assert np.abs(made.real("c") - got).max() <= made.step("c") / 2 * 1.001
    assert made.cosine("y") > 0.999


@pytest.mark.slow
@pytest.mark.parametrize(("word", "march"), [("float16", "nash-p"), ("float32", "nash-b")])
@pytest.mark.parametrize("edge", sorted(EDGES))
def test_models_at_the_edge_in_float(edge: str, word: str, march: str, tmp_path: Path) -> None:
    """Every small model that tries the core, all of it asked for in float: files and engines give the same bits."""
    proto, feeds = EDGES[edge]()
    config = {"model_config": {"all_node_type": word}}
    all_engines_agree(compiled(proto, feeds, tmp_path, march=march, samples=1, quant_config=config), feeds)
