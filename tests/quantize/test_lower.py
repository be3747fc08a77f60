"""Lowering: which integer operators come out, with which numbers."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from core_models import EDGES, FOUR, f32, net, weights
from hypothesis import given
from hypothesis import strategies as st
from models import init, node, random
from small import QUICK, Made, stages

from ptqlab.arith.formats import QType
from ptqlab.ops.integer import DOMAIN
from ptqlab.placement import Asks
from ptqlab.simulate import ReferenceExecutor

CONV = node("Conv", ["x", "w"], "c", "conv")
END = node("Conv", ["r", "w3"], "y", "end")


def made_of(
    nodes: list, outputs: list[str], inits: list | None = None, inputs: dict | None = None, **more: object
) -> Made:
    model, feeds = net(nodes, outputs, inits or weights(**FOUR), inputs)
    return stages(model, feeds, **more)


def operators(made: Made) -> list[tuple[str, str]]:
    return [(str(n.name), n.op_type) for n in made.integer.model.graph]


def attribute(made: Made, name: str, key: str) -> object:
    return next(n for n in made.integer.model.graph if n.name == name).attributes[key].value


def test_a_chain_becomes_quantize_operators_and_dequantize() -> None:
    """Conv+Relu is one operator; the last convolution is a tail whose accumulator is dequantized per channel."""
    made = made_of([CONV, node("Relu", ["c"], "r", "relu"), END], ["y"])
    assert operators(made) == [
        ("x_quantize", "Quantize"),
        ("conv", "Int8Conv"),
        ("end", "Int8ConvTail"),
        ("y_dequantize", "Dequantize"),
    ]
    tail = made.integer.integers["y"]
    assert tail.qtype is QType.INT32 and tail.scale.shape == (2, 1, 1)
    x, w = made.encodings.slots["r"], made.encodings.weights["end"]
    assert tail.scale.ravel().tolist() == (np.float64(x.scale) * w.scale.astype(np.float64)).astype(np.float32).tolist()


def test_the_multiplier_of_a_convolution_is_its_real_ratio() -> None:
    """m * 2^-s is s_x * s_w[c] / s_y within 2^-15, for every channel."""
    made = made_of([CONV, node("Relu", ["c"], "r", "relu"), END], ["y"])
    conv = next(n for n in made.integer.model.graph if n.name == "conv")
    arrays = [v.const_value.numpy().ravel() for v in conv.inputs[3:5]]
    for c, (m, s) in enumerate(zip(*arrays, strict=True)):
        ratio = Fraction(float(made.encodings.slots["x"].scale)) * Fraction(
            float(made.encodings.weights["conv"].scale[c])
        )
        ratio /= Fraction(float(made.encodings.slots["r"].scale))
        assert abs(Fraction(int(m)) / 2 ** int(s) / ratio - 1) <= Fraction(1, 1 << 15)


def test_a_relu_clamps_at_the_zero_point_and_a_clip_at_its_codes() -> None:
    """Relu: low is the code of 0; Clip(0, 6): high is the code of 6; a missing or infinite bound is the type's end."""
    made = made_of([CONV, node("Relu", ["c"], "r", "relu"), END], ["y"], bounds={"r": (0.0, 2.0)})
    assert attribute(made, "conv", "low") == attribute(made, "conv", "y_zero_point") == -128
    nodes = [CONV, node("Clip", ["c", "low", "high"], "r", "clip"), END]
    made = made_of(nodes, ["y"], [*weights(**FOUR), init("low", f32(-0.5)), init("high", f32(0.25))])
    scale = float(made.encodings.slots["r"].scale)
    assert (attribute(made, "conv", "low"), attribute(made, "conv", "high")) == (
        round(-0.5 / scale),
        round(0.25 / scale),
    )
    assert made.calibration.thresholds["r"].value == 0.5


def test_min_of_a_relu_is_exactly_zero() -> None:
    """A symmetric type has codes below zero; a Relu's output never holds one, and its smallest real value is 0."""
    model, feeds = net([CONV, node("Relu", ["c"], "r", "relu"), END], ["y", "r"], weights(**FOUR))
    made = stages(model, feeds)
    assert ReferenceExecutor(made.integer).run(feeds)["r"].min() == 0.0


def test_what_is_read_in_a_narrower_type_is_requantized_once() -> None:
    """Two int8 readers of an int16 tensor share one Rescale."""
    from ptqlab.placement import Ask

    nodes = [
        CONV,
        node("Conv", ["c", "w3"], "y", "wide"),
        node("Conv", ["c", "w3"], "z", "n1"),
        node("Conv", ["c", "w3"], "q", "n2"),
    ]
    made = made_of(nodes, ["y", "z", "q"], asks=Asks({"wide": Ask("int16", level="node")}))
    views = [(n, op) for n, op in operators(made) if op == "Rescale"]
    assert views == [("c_to_int8_requantize", "Rescale")]


def test_a_tensor_is_dequantized_once_for_all_float_readers() -> None:
    """Two operators on the CPU and an output read the same float tensor."""
    nodes = [
        CONV,
        node("LRN", ["c"], "s", "cpu1", size=3),
        node("LRN", ["c"], "t", "cpu2", size=3),
        node("Conv", ["c", "w3"], "y", "end"),
    ]
    made = made_of(nodes, ["y", "s", "t", "c"], weights(**FOUR))
    assert [n for n, op in operators(made) if op == "Dequantize" and n.startswith("c_")] == ["c_dequantize"]


def test_every_integer_tensor_is_listed_with_its_encoding() -> None:
    """`integers` tells name, type, scale and zero point of what each tensor is stored as."""
    model, feeds = EDGES["two_inputs"]()
    made = stages(model, feeds)
    kept = ReferenceExecutor(made.integer, keep=[t.name for t in made.integer.integers.values()]).run(feeds)
    for tensor, info in made.integer.integers.items():
        if tensor not in made.plan.tensors:
            continue
        slot = made.encodings.slots[made.plan.tensors[tensor].slot]
        assert (info.qtype, float(info.scale), info.zero_point) == (slot.qtype, float(slot.scale), slot.zero_point)
        assert kept[info.name].dtype == info.qtype.numpy


def test_names_of_operators_are_those_of_the_model_and_all_are_distinct() -> None:
    """Main nodes keep their names, whatever they are; added nodes and tensors make room for them."""
    for name in ("colliding_names", "hostile_names"):
        made = stages(*EDGES[name]())
        nodes = [str(n.name) for n in made.integer.model.graph]
        tensors = [
            str(v.name) for v in (*made.integer.model.graph.inputs, *made.integer.model.graph.initializers.values())
        ]
        tensors += [str(o.name) for n in made.integer.model.graph for o in n.outputs]
        assert len(nodes) == len(set(nodes)) and len(tensors) == len(set(tensors))
        assert {g.main for g in made.plan.groups.values()} <= set(nodes)


def test_bodies_read_the_float_form_of_what_the_bpu_stores() -> None:
    """The branches of an If refer to tensors of the integer model, not of the float graph it was made from."""
    made = stages(*EDGES["branches_that_capture"]())
    own = {id(o) for n in made.integer.model.graph for o in n.outputs} | {
        id(v) for v in made.integer.model.graph.initializers.values()
    }
    branch = next(n for n in made.integer.model.graph if n.op_type == "If")
    for attr in branch.attributes.values():
        for inner in attr.as_graph():
            for value in inner.inputs:
                assert id(value) in own, value.name
    clone = made.integer.model.clone()
    assert len(clone.graph) == len(made.integer.model.graph)


def test_an_identity_between_bpu_operators_stays_on_the_bpu() -> None:
    """It moves codes like any mover: no float tensor, no CPU part."""
    made = stages(*EDGES["identity_between"]())
    assert [p.device for p in made.integer.parts] == ["BPU"]
    assert any(n.op_type == "Identity" and n.domain != DOMAIN for n in made.integer.model.graph)


POOL = st.fixed_dictionaries(
    {
        "kernel": st.lists(st.integers(1, 3), min_size=2, max_size=2),
        "strides": st.lists(st.integers(1, 3), min_size=2, max_size=2),
        "ceil_mode": st.integers(0, 1),
        "count_include_pad": st.integers(0, 1),
    }
)


@QUICK
@given(POOL, st.data(), st.integers(0, 999))
def test_average_pooling_is_the_exact_mean_of_what_its_codes_stand_for(p: dict, data: st.DataObject, seed: int) -> None:
    """ceil_mode and count_include_pad as ONNX defines them: the rational mean, within half a step and 2^-15 of it."""
    pads = [data.draw(st.integers(0, p["kernel"][i % 2] - 1)) for i in range(4)]
    x = random(1, 2, *(data.draw(st.integers(3, 6)) for _ in range(2)), seed=seed)
    pool = node(
        "AveragePool",
        ["x"],
        "r",
        "pool",
        kernel_shape=p["kernel"],
        strides=p["strides"],
        pads=pads,
        ceil_mode=p["ceil_mode"],
        count_include_pad=p["count_include_pad"],
    )
    model, feeds = net([pool], ["r"], [], {"x": x}, opset=19)
    made = stages(model, feeds, asks=Asks(output=QType.INT8))
    if "r" not in made.integer.integers:
        return  # a 1x1 pooling that the optimizer took away
    kept = ReferenceExecutor(made.integer, keep=[t.name for t in made.integer.integers.values()]).run(feeds)
    stored, got = made.integer.integers["x"], kept[made.integer.integers["r"].name]
    codes = kept[stored.name].astype(int)
    ratio = Fraction(float(stored.scale)) / Fraction(float(made.integer.integers["r"].scale))
    for position in np.ndindex(got.shape):
        total, count = _window(codes, position, p, pads)
        mean = min(max(Fraction(total, max(count, 1)) * ratio, Fraction(-128)), Fraction(127))
        assert abs(int(got[position]) - mean) <= Fraction(1, 2) + abs(mean) / (1 << 15), position


def _window(codes: np.ndarray, position: tuple[int, ...], p: dict, pads: list[int]) -> tuple[int, int]:
    """Sum over the window and the number of elements that ONNX divides by."""
    total = count = 0
    for i in range(p["kernel"][0]):
        for j in range(p["kernel"][1]):
            h, w = position[2] * p["strides"][0] + i - pads[0], position[3] * p["strides"][1] + j - pads[1]
            inside = 0 <= h < codes.shape[2] and 0 <= w < codes.shape[3]
            padded = -pads[0] <= h < codes.shape[2] + pads[2] and -pads[1] <= w < codes.shape[3] + pads[3]
            total += int(codes[position[0], position[1], h, w]) if inside else 0
            count += inside or bool(p["count_include_pad"] and padded)
    return total, count


@pytest.mark.parametrize("bias", [1e9, -1e9])
def test_an_offset_far_outside_of_the_output_saturates(bias: float) -> None:
    """A constant that no sample reaches (a mask) pins the output to the end of its range without overflow."""
    nodes = [
        node("Add", ["x", "k"], "a", "add"),
        node("Clip", ["a", "lo", "hi"], "r", "clip"),
        node("Conv", ["r", "w3"], "y", "end"),
    ]
    inits = [*weights(w3=(2, 3, 1, 1)), init("k", f32(bias)), init("lo", f32(-1)), init("hi", f32(1))]
    made = made_of(nodes, ["y"], inits)
    out = ReferenceExecutor(made.integer, keep=[made.integer.integers["r"].name]).run({"x": random(1, 3, 8, 8)})
    codes = out[made.integer.integers["r"].name]
    assert codes.min() == codes.max() == (127 if bias > 0 else -127)
