"""dual-int16, int16 features with int16 weights: sums in Python's integers, the same bits in every form."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lowered import Lowered, lowered, one_node
from models import init, model, node, random, value
from small import INT8, INT16, QUICK, clamped, codes, every_form, output, rescaled

from ptqlab.arith.formats import QType
from ptqlab.arith.requantize import GUARD_BITS, fixed_point
from ptqlab.graph import session
from ptqlab.ops.conv import convolution_weights
from ptqlab.ops.integer.accumulate import LONGEST_SUM
from ptqlab.placement import Ask
from ptqlab.quantize.calibrated import calibrated_model
from ptqlab.stages.plan import Device

NO_PADS = {"strides": [1, 1], "pads": [0] * 4, "dilations": [1, 1], "group": 1, "x_zero_point": 0}


def dropped(total: int) -> int:
    """(total + 2^7) >> 8 in Python's integers."""
    return (int(total) + 128) >> 8


def test_a_sum_by_hand() -> None:
    """300 * 1000 = 300000 loses 8 bits, half up: 1171.875 -> 1172; bias 10 comes after; -300000 gives -1172 + 10."""
    x, w = np.array([[300]], np.int16), np.array([[1000, -1000]], np.int16)
    constants = {"weight": w, "bias": np.array([10, 10], np.int32)}
    got = every_form("DualInt16MatMulTail", {"x": x}, constants, {"x_zero_point": 0})
    assert got.tolist() == [[1182, -1162]]


def test_half_of_a_unit_goes_up() -> None:
    """128 is half of 256: 1; -128 gives 0, -129 gives -1."""
    x = np.array([[128], [-128], [-129]], np.int16)
    constants = {"weight": np.array([[1]], np.int16), "bias": np.array([0], np.int32)}
    got = every_form("DualInt16MatMulTail", {"x": x}, constants, {"x_zero_point": 0})
    assert got.ravel().tolist() == [1, 0, -1]


@pytest.mark.parametrize("zero", [0, 32767, -32768])
@pytest.mark.parametrize("length", [1, 2, 40, 600, LONGEST_SUM])
def test_sums_of_extreme_codes_are_exact(length: int, zero: int) -> None:
    """Codes and weights at both ends, sums below and far above 2^24 and 2^31, up to the longest one there is."""
    rng = np.random.default_rng(length)
    weight = codes(rng, INT16, (length, 3))
    weight[:, 0], weight[:, 1] = 32767, -32767
    x = codes(rng, INT16, (2, length))
    x[0] = 32767 if zero <= 0 else -32768
    m, s = fixed_point(np.array([3e-8, 3e-8, 1e-6]))
    constants = {"weight": weight, "bias": np.array([2**30, -(2**30), 5], np.int32), "multiplier": m, "shift": s}
    attributes = {"x_zero_point": zero} | output(INT16, -3)
    got = every_form("DualInt16MatMul", {"x": x}, constants, attributes)
    for row, n in np.ndindex(2, 3):
        total = sum((int(a) - zero) * int(b) for a, b in zip(x[row], weight[:, n], strict=True))
        acc = dropped(total) + int(constants["bias"][n])
        assert got[row, n] == clamped(rescaled(acc, int(m[n]), int(s[n])), attributes)
    tail = every_form("DualInt16MatMulTail", {"x": x}, {k: constants[k] for k in ("weight", "bias")},
                      {"x_zero_point": zero})
    total = dropped(sum((int(a) - zero) * 32767 for a in x[0])) + 2**30
    assert tail[0, 0] == max(-(2**31), min(2**31 - 1, total))


@QUICK
@given(st.sampled_from(["", "Add", "Tail"]), st.sampled_from([1, 2]), st.sampled_from([1, 2, 6]), st.integers(1, 3),
       st.sampled_from([1, 60]), st.sampled_from([0, 9, -32768]), st.sampled_from([INT8, INT16]), st.integers(0, 99))
def test_convolutions_equal_the_loop(form: str, rank: int, group: int, size: int, wide: int, zero: int, to: int,
                                     seed: int) -> None:
    """Pads, strides, groups, depthwise, sums that fit float32 and sums that do not."""
    rng = np.random.default_rng(seed)
    per = wide if group < 6 else 1
    x = codes(rng, INT16, (2, group * per, *(4,) * rank))
    weight = codes(rng, INT16, (2 * group, per, *(size,) * rank))
    if seed % 3 == 0:
        weight //= 512
    bias = rng.integers(-(2**20), 2**20, (2 * group, *(1,) * rank)).astype(np.int32)
    attributes: dict[str, Any] = {"strides": [2] * rank, "pads": [size - 1] * (2 * rank), "dilations": [1] * rank,
                                  "group": group, "x_zero_point": zero}
    padded = np.pad(x.astype(np.int64) - zero, [(0, 0), (0, 0), *((size - 1, size - 1),) * rank])
    places = (padded.shape[2] - size) // 2 + 1
    acc = np.zeros((2, 2 * group, *(places,) * rank), np.int64)
    for n, o, *at in np.ndindex(*acc.shape):
        window = (slice(o // 2 * per, o // 2 * per + per), *(slice(2 * p, 2 * p + size) for p in at))
        total = (padded[n][window] * weight[o].astype(np.int64)).sum()
        acc[(n, o, *at)] = dropped(total) + int(bias.reshape(-1)[o])
    made = {"weight": weight, "bias": bias}
    if form == "Tail":
        got = every_form("DualInt16ConvTail", {"x": x}, made, attributes)
        assert np.array_equal(got, np.clip(acc, -(2**31), 2**31 - 1))
        return
    m, s = fixed_point(2.0 ** rng.uniform(-20, -10, bias.shape))
    made |= {"multiplier": m, "shift": s}
    attributes |= output(to, 3)
    feeds = {"x": x}
    if form == "Add":
        feeds["residual"] = codes(rng, INT8, acc.shape)
        rm, rs = fixed_point(0.7)
        made |= {"residual_multiplier": rm, "residual_shift": rs}
        attributes["residual_zero_point"] = -2
    got = every_form(f"DualInt16Conv{form}", feeds, made, attributes)
    for where in np.ndindex(*acc.shape):
        mc, sc = int(m.reshape(-1)[where[1]]), int(s.reshape(-1)[where[1]])
        wanted = rescaled(acc[where], mc, sc)
        if form == "Add":
            total = rescaled(acc[where], mc, sc - GUARD_BITS)
            total += rescaled(int(feeds["residual"][where]) + 2, int(rm), int(rs) - GUARD_BITS)
            wanted = (total + (1 << (GUARD_BITS - 1))) >> GUARD_BITS
        assert got[where] == clamped(wanted, attributes)


@pytest.mark.parametrize("form", ["", "Add", "Tail"])
@pytest.mark.parametrize(("channels", "large"), [(4, False), (4, True), (200, True)])
def test_transposed_convolutions_in_every_form(form: str, channels: int, large: bool) -> None:
    """Small weights go through float32, large ones through bytes; zero points and groups; near what float says."""
    rng = np.random.default_rng(channels)
    x = codes(rng, INT16, (1, channels, 3, 4))
    own = codes(rng, INT16, (channels, 3, 2, 2))
    if not large:
        own //= 256
    weight = convolution_weights(own, 2)
    bias = rng.integers(-999, 999, (6, 1, 1)).astype(np.int32)
    made = {"weight": weight, "bias": bias, "ones": np.ones((channels, 1, 1, 1), np.int8)}
    attributes: dict[str, Any] = {"strides": [2, 1], "dilations": [1, 1], "group": 2, "channels": channels,
                                  "x_zero_point": 77, "pads": [1, 1, 0, 1]}
    feeds = {"x": x}
    if form == "Tail":
        every_form("DualInt16ConvTransposeTail", feeds, made, attributes)
        return
    made["multiplier"], made["shift"] = fixed_point(rng.random((6, 1, 1)) * 1e-5)
    attributes |= output(INT16, 3)
    if form == "Add":
        made["residual_multiplier"], made["residual_shift"] = fixed_point(0.7)
        attributes["residual_zero_point"] = -2
        feeds["residual"] = codes(rng, INT8, (1, 6, 5, 5))
    every_form(f"DualInt16ConvTranspose{form}", feeds, made, attributes)


def two(op: str, march: str = "nash-e", output_type: QType | None = None, **asks: Ask) -> Lowered:
    """Operator with weights of very different channels and a bias, Relu, a second one; dual-int16 by default."""
    if op == "Gemm":
        x, w, w2 = random(3, 6), random(6, 8, seed=1), random(8, 4, seed=2)
        w *= np.geomspace(1, 1000, 8, dtype=np.float32)
        more = [init("b", random(8, seed=3)), init("b2", random(4, seed=4))]
        nodes = [node(op, ["x", "w", "b"], "a", "first"), node("Relu", ["a"], "r", "relu"),
                 node(op, ["r", "w2", "b2"], "y", "last")]
    else:
        x, w, w2 = random(2, 4, 6, 5), random(4, 4, 3, 3, seed=1), random(4, 4, 1, 1, seed=2)
        w *= np.geomspace(1, 1000, 4, dtype=np.float32)[:, None, None, None]
        more = [init("b", random(4, seed=3)), init("b2", random(4, seed=4))]
        nodes = [node(op, ["x", "w", "b"], "a", "first"), node("Relu", ["a"], "r", "relu"),
                 node(op, ["r", "w2", "b2"], "y", "last")]
    net = model(nodes, [value("x", x.shape)], [value("y", None)], [init("w", w), init("w2", w2), *more], opset=19)
    given_types = {"relu": Ask("int16", level="model")} | asks
    return lowered(net, {"x": x}, qtype="dual-int16", march=march, asks=given_types, output=output_type)


@pytest.mark.parametrize("op", ["Conv", "ConvTranspose", "Gemm"])
@pytest.mark.parametrize(("march", "tail"), [("nash-e", False), ("nash-m", False), ("nash-p", True), ("nash-b", True)])
def test_from_float_to_integers(op: str, march: str, tail: bool) -> None:
    """Granted as asked, weights in int16 codes, near float; no int32 tail on nash-e/m, a float32 one elsewhere."""
    made = two(op, march)
    plan = made.plan.nodes
    assert [(plan[n].granted, plan[n].weights, plan[n].tail) for n in ("first", "last")] == [
        ("dual-int16", QType.INT16, False), ("dual-int16", QType.INT16, tail)]
    weights = made.encodings.weights["first"]
    assert weights.codes.dtype == np.int16 and np.abs(weights.codes).max() == 32767
    kernel = "MatMul" if op == "Gemm" else op
    wanted = [f"DualInt16{kernel}", f"DualInt16{kernel}{'Tail' if tail else ''}"]
    assert [o for o in made.operators() if o.startswith("Dual")] == wanted
    assert np.abs(made.outputs["y"] - made.floats["y"]).max() < 2e-4 * np.abs(made.floats["y"]).max()
    shown = calibrated_model(made.graph, made.plan, made.encodings)
    [calibrated] = session(shown.model).run(None, {"x": made.floats["x"]})
    assert np.abs(calibrated - made.outputs["y"]).max() < 1e-4 * np.abs(calibrated).max()


def test_the_tail_says_what_it_gives() -> None:
    """On nash-e it is int16, and the reason says why."""
    last = two("Conv").plan.nodes["last"]
    assert (last.rule, last.tail) == ("dual-int16-tail", False)
    assert last.reason.endswith("dual-int16 has no int32 output, so its output is int16.")


def test_a_bias_uses_the_bits_that_the_sum_dropped() -> None:
    """A bias of 200 times the largest product fits without widening the weights: its step is 256 times theirs."""
    x = random(1, 1, 4, 4)
    feeds, w = {"x": x}, np.full((1, 1, 1, 1), 0.01, np.float32)
    bias = np.array([200 * 0.01 * np.abs(x).max()], np.float32)
    made = lowered(one_node("Conv", feeds, {"w": w, "b": bias}), feeds, qtype="dual-int16", output=QType.INT16)
    assert not made.encodings.findings and made.encodings.weights["op"].codes.item() == 32767
    step = np.float64(made.step("x")) * made.encodings.weights["op"].scale[0] * 256
    assert abs(made.encodings.weights["op"].bias.item() * step - bias.item()) <= step / 2 + 1e-6 * bias.item()


def test_weights_asked_for_alone_stay_int8_and_say_so() -> None:
    """int16 weights with int8 features: there is no such product."""
    made = two("Conv", first=Ask("int8", {1: "int16"}, level="node"), relu=Ask("int8"))
    first = made.plan.nodes["first"]
    assert (first.granted, first.weights, first.rule) == ("int8", QType.INT8, "dual-needs-features")
    assert "int16 weights go with int16 features only" in first.reason


def test_too_long_a_sum_gets_int8_weights() -> None:
    """16385 products are one too many for int16 weights: int16 features with int8 weights, and the reason counts."""
    feeds = {"x": random(1, 16385)}
    made = lowered(one_node("MatMul", feeds, {"w": random(16385, 1, seed=1)}), feeds, qtype="dual-int16")
    found = made.plan.nodes["op"]
    assert (found.granted, found.device, found.rule) == ("int16", Device.BPU, "dual-long-sum")
    assert "one output here sums 16385" in found.reason


@pytest.mark.parametrize("side", ["left", "batch"])
def test_constants_of_products_without_weights_are_int16_too(side: str) -> None:
    """A left constant and a batch of matrices: Int16Int16MatMul, near float by a thousandth of an int8 step."""
    feeds = {"x": random(3, 5, 6)}
    constant = random(4, 5, seed=2) if side == "left" else random(3, 6, 4, seed=2)
    names = ["c", "x"] if side == "left" else ["x", "c"]
    made = lowered(one_node("MatMul", feeds, {"c": constant}, inputs=names), feeds, qtype="dual-int16",
                   output=QType.INT16)
    assert "Int16Int16MatMul" in made.operators() and made.plan.nodes["op"].granted == "dual-int16"
    assert np.abs(made.outputs["y"] - made.floats["y"]).max() < 2e-4 * np.abs(made.floats["y"]).max()
    shown = calibrated_model(made.graph, made.plan, made.encodings)
    [calibrated] = session(shown.model).run(None, feeds)
    assert np.abs(calibrated - made.floats["y"]).max() < 2e-4 * np.abs(made.floats["y"]).max()
