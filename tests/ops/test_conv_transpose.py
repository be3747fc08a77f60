"""ConvTranspose: by hand, against slow loops, the same bits in every form, near the float operator."""
from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lowered import Lowered, lowered
from models import init, model, node, random, value
from small import INT8, INT16, QUICK, clamped, codes, each, every_form, output, rescaled

from ptqlab.arith.requantize import fixed_point
from ptqlab.graph import session
from ptqlab.ops.conv import convolution_weights
from ptqlab.placement import Ask
from ptqlab.quantize.calibrated import calibrated_model
from ptqlab.stages.plan import Device


def test_by_hand() -> None:
    """Stride 2, kernel (1, 2, 3): 1 and 10 give 1 2 3+10 20 30; with one pad on each side 2 13 20."""
    weight = convolution_weights(np.array([[[1, 2, 3]]], np.int8), 1)
    assert weight.tolist() == [[[3, 2, 1]]]
    m, s = fixed_point(1.0)
    made = {"weight": weight, "bias": np.zeros((1, 1), np.int32), "ones": np.ones((1, 1, 1), np.int8),
            "multiplier": m, "shift": s}
    geometry = {"strides": [2], "dilations": [1], "group": 1, "channels": 1, "x_zero_point": 0}
    for pads, wanted in (([2, 2], [1, 2, 13, 20, 30]), ([1, 1], [2, 13, 20])):
        x = np.array([[[1, 10]]], np.int8)
        got = every_form("Int8ConvTranspose", {"x": x}, made, geometry | {"pads": pads} | output())
        assert got.tolist() == [[wanted]]


def slow(x: np.ndarray, codes_: np.ndarray, bias: np.ndarray, a: dict[str, Any], pads: list[int],
         extra: list[int]) -> np.ndarray:
    """By the definition of ONNX: every input element adds its kernel to the output. codes_ [C, O/group, kernel...]."""
    rank, group = x.ndim - 2, a["group"]
    kernel, own = codes_.shape[2:], codes_.shape[1]
    full = [(n - 1) * s + d * (k - 1) + 1 + o
            for n, s, d, k, o in zip(x.shape[2:], a["strides"], a["dilations"], kernel, extra, strict=True)]
    acc = np.zeros((x.shape[0], own * group, *full), object)
    for n, c in itertools.product(*map(range, x.shape[:2])):
        for place in np.ndindex(*x.shape[2:]):
            for o, tap in itertools.product(range(own), np.ndindex(*kernel)):
                at = tuple(p * s + t * d for p, s, t, d in zip(place, a["strides"], tap, a["dilations"], strict=True))
                g = c // (x.shape[1] // group)
                acc[(n, g * own + o, *at)] += (int(x[(n, c, *place)]) - a["x_zero_point"]) * int(codes_[(c, o, *tap)])
    cut = tuple(slice(pads[i], full[i] - pads[rank + i]) for i in range(rank))
    return acc[(slice(None), slice(None), *cut)] + each(bias, acc[(slice(None), slice(None), *cut)].shape)


@QUICK
@given(st.sampled_from([INT8, INT16]), st.sampled_from(["", "Add", "Tail"]), st.sampled_from([1, 2]),
       st.sampled_from([1, 2]), st.integers(1, 3), st.integers(1, 2), st.integers(1, 3), st.booleans(),
       st.sampled_from([0, 7]), st.booleans(), st.integers(0, 99))
def test_against_loops(kind: int, form: str, rank: int, group: int, stride: int, dilation: int, size: int, padded: bool,
                       zero: int, large: bool, seed: int) -> None:
    """Strides, dilations, groups, pads, output padding, one and two axes, sums below and above 2^24."""
    rng = np.random.default_rng(seed)
    channels = 2 * group * (60 if large and kind == INT8 and rank == 1 else 1)
    x = codes(rng, kind, (1, channels, *(3,) * rank))
    own = codes(rng, INT8, (channels, 2, *(size,) * rank))
    bias = rng.integers(-9999, 9999, (2 * group, *(1,) * rank)).astype(np.int32)
    reach = dilation * (size - 1)
    pads = [min(1, reach) if padded else 0] * (2 * rank)
    extra = [max(stride, dilation) - 1 if padded else 0] * rank
    a: dict[str, Any] = {
        "strides": [stride] * rank, "dilations": [dilation] * rank, "group": group, "channels": channels,
        "x_zero_point": zero, "pads": [reach - p for p in pads[:rank]] + [reach - p + extra[0] for p in pads[rank:]],
    }
    acc = slow(x, own, bias, a, pads, extra)
    made = {"weight": convolution_weights(own, group), "bias": bias,
            "ones": np.ones((channels, 1, *(1,) * rank), np.int8)}
    name = f"Int{x.dtype.itemsize * 8}ConvTranspose{form}"
    if form == "Tail":
        assert np.array_equal(every_form(name, {"x": x}, made, a), np.clip(acc, -(2**31), 2**31 - 1))
        return
    made["multiplier"], made["shift"] = fixed_point(rng.random((2 * group, *(1,) * rank)) * 1e-3)
    attributes = a | output(INT16 if seed % 2 else INT8, 3)
    feeds = {"x": x}
    if form == "Add":
        feeds["residual"] = codes(rng, INT8, acc.shape)
        made["residual_multiplier"], made["residual_shift"] = fixed_point(0.7)
        every_form(name, feeds, made, attributes | {"residual_zero_point": -2})
        return
    got = every_form(name, feeds, made, attributes)
    m, s = each(made["multiplier"], acc.shape), each(made["shift"], acc.shape)
    for where in np.ndindex(*acc.shape):
        assert got[where] == clamped(rescaled(acc[where], m[where], s[where]), attributes)


def upsampled(qtype: str, group: int, *more: object, **attributes: object) -> Lowered:
    """ConvTranspose with a bias behind an input, channels of very different weights, then `more`; all on the BPU."""
    weight = random(4, 6 // group, 3, 2, seed=2) * np.geomspace(1, 50, 6 // group, dtype=np.float32)[:, None, None]
    weight *= np.repeat(np.geomspace(1, 9, group, dtype=np.float32), 4 // group)[:, None, None, None]
    nodes = [node("ConvTranspose", ["x", "w", "b"], "y" if not more else "t", "up", group=group, **attributes), *more]
    net = model(nodes, [value("x", [1, 4, 5, 4])], [value("y", None)],
                [init("w", weight), init("b", random(6, seed=3))], opset=19)
    asks = {n.name: Ask(qtype, level="node") for n in nodes} if more else None
    return lowered(net, {"x": random(1, 4, 5, 4)}, qtype=qtype, asks=asks)


GEOMETRIES = [{}, {"strides": [2, 3], "pads": [1, 0, 1, 1]}, {"strides": [2, 2], "output_padding": [1, 1]},
              {"dilations": [2, 1], "strides": [1, 2], "pads": [2, 1, 0, 0]},
              {"strides": [2, 2], "auto_pad": "SAME_UPPER"}]


@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("attributes", GEOMETRIES)
def test_a_tail_is_near_float(attributes: dict[str, object], group: int) -> None:
    """As the last operator it leaves at high precision; every channel of every group has its own step."""
    made = upsampled("int8", group, **attributes)
    assert made.plan.nodes["up"].tail, made.plan.nodes["up"].reason
    error = np.abs(made.outputs["y"] - made.floats["y"]).max(axis=(0, 2, 3))
    assert (error <= 0.02 * np.abs(made.floats["y"]).max(axis=(0, 2, 3))).all()


@pytest.mark.parametrize("qtype", ["int8", "int16"])
def test_relu_is_computed_inside(qtype: str) -> None:
    """ConvTranspose and Relu are one operator, with no negative codes; the calibrated model is near it."""
    made = upsampled(qtype, 2, node("Relu", ["t"], "y", "relu"), strides=[2, 2])
    assert made.plan.nodes["relu"].group == "up" and made.codes["y"].min() == 0
    assert made.cosine("y") > 0.999
    shown = calibrated_model(made.graph, made.plan, made.encodings)
    x = random(1, 4, 5, 4)
    [y] = session(shown.model).run(None, {"x": x})
    assert np.abs(y - made.outputs["y"]).max() <= 2.01 * made.step("y")


def test_pads_beyond_the_kernel_stay_on_the_cpu() -> None:
    """What a convolution would have to cut."""
    made = upsampled("int8", 1, strides=[3, 3], pads=[0, 2, 0, 0])
    assert made.plan.nodes["up"].device is Device.CPU and made.plan.nodes["up"].rule == "transposed_reach"
