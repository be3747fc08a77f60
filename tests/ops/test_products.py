"""MatMul of two tensors, from float model to integers: types, groups, constants, and a whole attention block."""
from __future__ import annotations

import numpy as np
import onnx
import pytest
from lowered import lowered, one_node
from models import init, model, node, value

from ptqlab.arith.formats import QType
from ptqlab.graph import session
from ptqlab.placement import Ask
from ptqlab.quantize.calibrated import calibrated_model
from ptqlab.stages.plan import Device


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float((a * b).sum() / np.sqrt((a * a).sum() * (b * b).sum()))


PAIRS = [((2, 3, 4, 5), (2, 3, 5, 6)), ((5,), (5, 6)), ((2, 4, 5), (5,)), ((5,), (5,)), ((2, 1, 4, 5), (3, 5, 6))]


@pytest.mark.parametrize("shapes", PAIRS)
@pytest.mark.parametrize(("qtype", "wanted"), [
    ("int8", (QType.INT8, QType.INT8)), ("int16", (QType.INT16, QType.INT8)),
    ("dual-int16", (QType.INT16, QType.INT16)),
])
@pytest.mark.parametrize("output", [None, QType.INT8])
def test_every_rank_and_type(shapes: tuple[tuple[int, ...], ...], qtype: str, wanted: tuple[QType, ...],
                             output: QType | None) -> None:
    """int16 means int16 x int8, dual-int16 both (documented); as tail and with an integer output.

    dual-int16 has no int32 output (documented): its tail is int16.
    """
    feeds = {"a": normal(*shapes[0]), "b": normal(*shapes[1], seed=1)}
    run = lowered(one_node("MatMul", feeds), feeds, qtype=qtype, output=output)
    plan = run.plan.nodes["op"]
    tail = output is None and qtype != "dual-int16"
    assert (plan.device, plan.inputs, plan.granted, plan.tail) == (Device.BPU, wanted, qtype, tail)
    exact = np.matmul(run.real("a"), run.real("b"))
    if tail:
        assert np.abs(run.outputs["y"] - exact).max() <= 1e-6 * np.abs(exact).max() + run.step("y")
    else:
        high = 127 if output is QType.INT8 else 32767
        held = np.clip(exact, (-high - 1) * run.step("y"), high * run.step("y"))
        # the multiplier's 15 bits are worth up to half a step of 16 bits
        assert np.abs(run.real("y") - held).max() <= (0.52 if output else 1.1) * run.step("y")


@pytest.mark.parametrize("side", ["left", "right batch", "right vector"])
@pytest.mark.parametrize("qtype", ["int8", "int16"])
def test_a_constant_operand_is_quantized_by_row_or_column(side: str, qtype: str) -> None:
    """Rows of a left constant that differ a thousandfold keep their own scales; the calibrated model says the same."""
    constant = {"left": normal(4, 5), "right batch": normal(3, 5, 6), "right vector": normal(5)}[side]
    if side == "left":
        constant *= np.array([[1], [10], [100], [1000]], np.float32)
    elif side == "right batch":
        constant *= np.array([1, 10, 100, 1000, 1, 1], np.float32)
    feeds = {"x": normal(3, 5, 6, seed=2) if side == "left" else normal(3, 4, 5, seed=2)}
    names = ["c", "x"] if side == "left" else ["x", "c"]
    run = lowered(one_node("MatMul", feeds, {"c": constant}, inputs=names), feeds, qtype=qtype)
    exact = np.matmul(*(run.real("x") if n == "x" else constant.astype(np.float64) for n in names))
    reach = {
        "left": np.abs(constant).max(axis=-1)[:, None] if side == "left" else 0, "right vector": np.abs(constant).max(),
        "right batch": np.abs(constant).max(axis=(0, 1)) if side == "right batch" else 0,
    }[side]
    # half a step of the constant's code for each of 5 products
    assert (np.abs(run.outputs["y"] - exact) <= 5 * reach / 254 * np.abs(run.real("x")).max() * 1.01).all()
    calibrated = calibrated_model(run.graph, run.plan, run.encodings)
    got = session(calibrated.model).run(None, feeds)[0]
    assert np.abs(got - run.outputs["y"]).max() <= 1e-5 * np.abs(exact).max()


def test_a_constant_add_behind_a_product_stays_its_own() -> None:
    """There is no bias to join: MatMul, then an Add of a constant; with weights the Add joins."""
    feeds = {"a": normal(2, 4), "b": normal(4, 3, seed=1)}
    nodes = [node("MatMul", ["a", "b"], "m", "mm"), node("Add", ["m", "c"], "s", "add"), node("Neg", ["s"], "y", "neg")]
    proto = model(nodes, [value(n, a.shape) for n, a in feeds.items()], [value("y", None)], [init("c", normal(3))])
    run = lowered(proto, feeds, output=QType.INT8)
    assert run.operators()[-4:] == ["Int8Int8MatMul", "RescaleAdd", "Rescale", "Dequantize"]
    assert run.cosine("y") > 0.999


def test_a_residual_and_relu_are_computed_inside() -> None:
    """MatMul + computed tensor, then Relu: one operator."""
    feeds = {"a": normal(2, 4), "b": normal(4, 3, seed=1), "r": normal(2, 3, seed=2)}
    nodes = [node("MatMul", ["a", "b"], "m", "mm"), node("Add", ["m", "r"], "s", "add"),
             node("Relu", ["s"], "y", "relu")]
    proto = model(nodes, [value(n, a.shape) for n, a in feeds.items()], [value("y", None)])
    run = lowered(proto, feeds, output=QType.INT8)
    assert run.operators() == ["Quantize"] * 3 + ["Int8Int8MatMulAdd", "Dequantize"]
    assert run.outputs["y"].min() == 0 and run.cosine("y") > 0.999


def test_each_operand_may_be_asked_for_on_its_own() -> None:
    """node_config input0 int8, input1 int16."""
    feeds = {"a": normal(2, 4), "b": normal(4, 3, seed=1)}
    run = lowered(one_node("MatMul", feeds), feeds, asks={"op": Ask("int8", {1: "int16"}, level="node")})
    assert run.operators()[-2] == "Int8Int16MatMulTail" and run.plan.nodes["op"].granted == "int16/int8"


def test_a_tensor_with_itself() -> None:
    """x times its own transpose: one tensor read twice, through a Transpose."""
    x = normal(1, 3, 8)
    nodes = [node("Relu", ["x"], "r", "relu"), node("Transpose", ["r"], "t", "tr", perm=[0, 2, 1]),
             node("MatMul", ["r", "t"], "y", "gram")]
    run = lowered(model(nodes, [value("x", x.shape)], [value("y", None)]), {"x": x})
    assert run.plan.segments == 1 and run.cosine("y") > 0.999


def test_too_long_a_sum_runs_on_the_cpu() -> None:
    """16385 products of two tensors are one too many; the reason counts them."""
    feeds = {"a": normal(1, 16385), "b": normal(16385, 1)}
    run = lowered(one_node("MatMul", feeds), feeds)
    assert run.plan.nodes["op"].device is Device.CPU and "16385 products of two tensors" in run.plan.nodes["op"].reason


def attention(heads: int, length: int, depth: int, mask: np.ndarray | None = None) -> onnx.ModelProto:
    """softmax(q k^T / sqrt(d) + mask) v, then a projection."""
    inits = [init("scale", np.float32(depth**-0.5)), init("w", normal(depth, depth, seed=9) * np.float32(depth**-0.5))]
    nodes = [node("Transpose", ["k"], "kt", "kt", perm=[0, 1, 3, 2]), node("MatMul", ["q", "kt"], "qk", "qk"),
             node("Mul", ["qk", "scale"], "s", "scale")]
    if mask is not None:
        nodes.append(node("Add", ["s", "mask"], "s2", "add_mask"))
        inits.append(init("mask", mask))
    nodes += [node("Softmax", [nodes[-1].output[0]], "p", "softmax", axis=-1), node("MatMul", ["p", "v"], "z", "pv"),
              node("MatMul", ["z", "w"], "y", "proj")]
    shapes = [value(n, [1, heads, length, depth]) for n in ("q", "k", "v")]
    return model(nodes, shapes, [value("y", None)], inits)


@pytest.mark.parametrize(("qtype", "least"), [("int8", 0.99), ("int16", 0.999), ("dual-int16", 0.9999)])
@pytest.mark.parametrize("masked", [False, True])
def test_attention_end_to_end(qtype: str, least: float, masked: bool) -> None:
    """MatMul, scale, mask, Softmax, MatMul, projection in one BPU segment: cosine above 0.99 in int8."""
    feeds = {n: normal(1, 4, 32, 16, seed=i) for i, n in enumerate("qkv")}
    mask = np.where(np.triu(np.ones((32, 32)), 1), np.float32(-8), np.float32(0)) if masked else None
    run = lowered(attention(4, 32, 16, mask), feeds, qtype=qtype)
    assert {n.device for n in run.plan.nodes.values() if n.op_type != "Transpose"} == {Device.BPU}
    assert run.plan.segments == 1 and run.cosine("y") > least
    calibrated = calibrated_model(run.graph, run.plan, run.encodings)
    got = session(calibrated.model).run(None, feeds)[0]
    assert cosine(got, run.outputs["y"]) > 1 - (1 - least) / 2
