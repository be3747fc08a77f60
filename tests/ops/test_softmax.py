"""Softmax and LogSoftmax: by hand, against slow loops, the same bits in every form, near the real function."""
from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lowered import lowered, one_node
from models import init, model, node, value
from small import INT8, INT16, QUICK, clamped, codes, every_form, output, rescaled

from ptqlab.arith.requantize import GUARD_BITS, fixed_point
from ptqlab.examples import digits
from ptqlab.graph import load
from ptqlab.ops.integer.softmax import DOUBLINGS, LOGS, exp_table, exp_tables, fraction_bits, logarithm
from ptqlab.passes import optimize
from ptqlab.placement import place
from ptqlab.platforms import platform
from ptqlab.stages.plan import Device

LN2 = math.log(2)


def constants(op: str, source: int, axis: int, count: int, scale: float, step: float) -> dict[str, np.ndarray]:
    fraction = fraction_bits(count)
    made: dict[str, np.ndarray] = {"axes": np.array([axis])}
    if source == INT8:
        made["table"] = exp_table(scale, fraction)
    else:
        made["coarse"], made["fine"] = exp_tables(scale, fraction)
    if op == "Softmax":
        made["multiplier"], made["shift"] = fixed_point(2.0**-24 / step)
    else:
        made["multiplier"], made["shift"] = fixed_point(scale / step)
        made["log_multiplier"], made["log_shift"] = fixed_point(2.0**-20 / step)
    return made


def run(op: str, x: np.ndarray, axis: int, scale: float, step: float, to: int = INT8, zero: int = 0) -> np.ndarray:
    source = INT8 if x.dtype == np.int8 else INT16
    one = {"one": 1 << fraction_bits(x.shape[axis])}
    name = f"Int{x.dtype.itemsize * 8}{op}"
    return every_form(name, {"x": x}, constants(op, source, axis, x.shape[axis], scale, step), one | output(to, zero))


@pytest.mark.parametrize("dtype", [np.int8, np.int16])
def test_softmax_by_hand(dtype: type) -> None:
    """Steps of ln 2: codes 0, -1, -2 give 4/7, 2/7, 1/7 of 127: 72.57, 36.29, 18.14; two equal ones 63.5 -> 64."""
    x = np.array([[0, -1, -2], [100, 99, 98]], dtype)
    assert run("Softmax", x, 1, LN2, 1 / 127).tolist() == [[73, 36, 18]] * 2
    assert run("Softmax", np.array([[5, 5]], dtype), 1, 0.3, 1 / 127).tolist() == [[64, 64]]


@pytest.mark.parametrize("dtype", [np.int8, np.int16])
def test_what_is_far_below_the_maximum_has_probability_zero(dtype: type) -> None:
    """The lowest code (what a mask saturates at), 25 below the maximum in real numbers: exactly 0, in int16 too."""
    info = np.iinfo(dtype)
    x = np.array([[info.max, info.min, info.min]], dtype)
    scale = 25 / (info.max - info.min)
    assert run("Softmax", x, 1, scale, 1 / 32767, INT16).tolist() == [[32767, 0, 0]]


@pytest.mark.parametrize("dtype", [np.int8, np.int16])
def test_log_softmax_by_hand(dtype: type) -> None:
    """Two equal codes: -ln 2 = -0.693 is -69 steps of 0.01; ten steps of 0.1 apart: -0.313 and -1.313."""
    assert run("LogSoftmax", np.array([[3, 3]], dtype), 1, 0.1, 0.01).tolist() == [[-69, -69]]
    assert run("LogSoftmax", np.array([[10, 0]], dtype), 1, 0.1, 0.01).tolist() == [[-31, -128]]
    assert run("LogSoftmax", np.array([[10, 0]], dtype), 1, 0.1, 0.01, INT16).tolist() == [[-31, -131]]


def slow_exponentials(row: list[int], made: dict[str, np.ndarray]) -> list[int]:
    most = max(row)
    if "table" in made:
        return [int(made["table"][most - v]) for v in row]
    pairs = ((int(made["coarse"][(most - v) // 256]), int(made["fine"][(most - v) % 256])) for v in row)
    return [(a * b + (1 << 21)) >> 22 for a, b in pairs]


def slow_log(total: int, one: int) -> int:
    doublings = 0
    while total >= one << (doublings + 1):
        doublings += 1
    i, f = divmod(math.floor(Fraction(total, one << doublings) * 2**23) - 2**23, 1 << 15)
    return int(DOUBLINGS[doublings]) + int(LOGS[i]) + (((int(LOGS[i + 1]) - int(LOGS[i])) * f + (1 << 14)) >> 15)


def slow(op: str, row: list[int], made: dict[str, np.ndarray], attributes: dict[str, int]) -> list[int]:
    """One row from the definition, in Python's integers."""
    e = slow_exponentials(row, made)
    total, one = sum(e), attributes["one"]
    m, s = int(made["multiplier"]), int(made["shift"])
    if op == "Softmax":
        reciprocal = (one * 2**30 + total // 2) // total
        shift = one.bit_length() - 1 + 6
        return [clamped(rescaled((v * reciprocal + (1 << (shift - 1))) >> shift, m, s), attributes) for v in e]
    log = rescaled(-slow_log(total, one), int(made["log_multiplier"]), int(made["log_shift"]) - GUARD_BITS)
    sums = [rescaled(v - max(row), m, s - GUARD_BITS) + log for v in row]
    return [clamped((v + (1 << (GUARD_BITS - 1))) >> GUARD_BITS, attributes) for v in sums]


@QUICK
@given(st.sampled_from(["Softmax", "LogSoftmax"]), st.sampled_from([INT8, INT16]), st.sampled_from([INT8, INT16]),
       st.integers(0, 2), st.floats(2.0**-16, 2.0), st.sampled_from([0, -128, 7]), st.integers(0, 999))
def test_every_form_equals_the_loop(op: str, source: int, to: int, axis: int, scale: float, zero: int,
                                    seed: int) -> None:
    """Any axis, scale and type: reference, fast path and function equal Python's integers."""
    x = codes(np.random.default_rng(seed), source, (3, 4, 5))
    step = (1.0 if op == "Softmax" else 40 * scale) / (127 if to == INT8 else 32767)
    got = run(op, x, axis, scale, step, to, zero)
    made = constants(op, source, axis, x.shape[axis], scale, step)
    attributes = {"one": 1 << fraction_bits(x.shape[axis])} | output(to, zero)
    rows, results = (np.moveaxis(a, axis, -1).reshape(-1, x.shape[axis]) for a in (x, got))
    for row, result in zip(rows.tolist(), results.tolist(), strict=True):
        assert result == slow(op, row, made, attributes)


@pytest.mark.parametrize("source", [INT8, INT16])
def test_every_bit_of_the_probabilities_is_as_defined(source: int) -> None:
    """2000 elements have probabilities of a few thousand units of 2^-24: with steps of one unit all bits are seen."""
    reach, dtype = (128, np.int8) if source == INT8 else (500, np.int16)
    x = np.random.default_rng(8).integers(-reach, reach, (6, 2000)).astype(dtype)
    got = run("Softmax", x, 1, 0.5 / reach, 2.0**-24, INT16)
    made, one = constants("Softmax", source, 1, 2000, 0.5 / reach, 2.0**-24), 1 << fraction_bits(2000)
    assert 0 < got.min() < got.max() < 32767
    for row, result in zip(x.tolist(), got.tolist(), strict=True):
        assert result == slow("Softmax", row, made, {"one": one} | output(INT16))


def test_the_sum_keeps_to_31_bits_for_every_length() -> None:
    """n equal elements are the largest sum: n * 2^F < 2^31, with as many bits as fit."""
    for count in (1, 2, 3, 255, 256, 257, 512, 1000, 1024, 32768, 65535):
        total = count << fraction_bits(count)
        assert total < 1 << 31 and (fraction_bits(count) == 22 or total >= 1 << 29)


def test_the_logarithm_is_as_good_as_it_says() -> None:
    """Off by less than 4 units of 2^-20 over sums from 1 to 65535 times 2^F."""
    for fraction in (14, 22):
        one = 1 << fraction
        total = np.unique(np.geomspace(one, min(65535 * one, 2**31 - 1), 20001).astype(np.int64))
        off = logarithm(total, one) - np.log(total / one) * 2**20
        assert np.abs(off).max() < 4


SHAPES = [((2, 3, 16, 10), -1), ((2, 300, 5), 1), ((1, 2, 7, 8), 2), ((2, 3, 4), 0), ((4, 1), 1)]


@pytest.mark.parametrize("qtype", ["int8", "int16"])
@pytest.mark.parametrize(("shape", "axis"), SHAPES)
@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax"])
def test_a_node_is_near_the_real_function(op: str, shape: tuple[int, ...], axis: int, qtype: str) -> None:
    """Any axis of the node: at the codes of its input half a step of rounding, and one more for int16's multipliers."""
    x = np.random.default_rng(3).standard_normal(shape).astype(np.float32) * 3
    made = lowered(one_node(op, {"x": x}, axis=axis), {"x": x}, qtype=qtype)
    assert made.plan.nodes["op"].device is Device.BPU
    d = made.real("x") - made.real("x").max(axis, keepdims=True)
    total = np.exp(d).sum(axis, keepdims=True)
    wanted = np.exp(d) / total if op == "Softmax" else d - np.log(total)
    high = 127 if qtype == "int8" else 32767
    wanted = np.clip(wanted, -(high + 1) * made.step("y"), high * made.step("y"))
    assert np.abs(made.real("y") - wanted).max() / made.step("y") <= (0.52 if qtype == "int8" else 1.5)


def test_the_axis_of_old_models_is_what_they_meant() -> None:
    """Softmax of opset 11 with its default axis 1 normalizes everything behind axis 0: each sample sums to one."""
    x = np.random.default_rng(4).standard_normal((2, 3, 4)).astype(np.float32)
    proto = model([node("Softmax", ["x"], "y", "op")], [value("x", x.shape)], [value("y", None)], opset=11)
    made = lowered(proto, {"x": x}, qtype="int16")
    assert made.outputs["y"].reshape(2, -1).sum(1) == pytest.approx([1, 1], abs=1e-3)
    assert made.cosine("y") > 0.9999


def test_a_very_long_axis_runs_on_the_cpu() -> None:
    """65536 elements are one too many for the sum; the reason counts them."""
    x = np.zeros((1, 65536), np.float32)
    made = lowered(one_node("Softmax", {"x": x}), {"x": x})
    assert made.plan.nodes["op"].device is Device.CPU
    assert "65536 elements along axis 1" in made.plan.nodes["op"].reason


def test_behind_the_last_convolution_softmax_stays_on_the_cpu() -> None:
    """The digits network ends in Gemm and Softmax: Gemm is the tail at high precision, Softmax follows it in float."""
    plan = place(optimize(load(digits.model_path())), platform("nash-e"))
    *_, gemm, softmax = plan.nodes.values()
    assert (gemm.op_type, gemm.tail, softmax.op_type, softmax.device) == ("Gemm", True, "Softmax", Device.CPU)
    assert softmax.rule == "after-tail"


def test_inside_a_network_softmax_runs_on_the_bpu() -> None:
    """Between two convolutions it does, with its own threshold, and keeps the network in one segment."""
    x = np.random.default_rng(5).standard_normal((1, 4, 6, 6)).astype(np.float32)
    w = np.random.default_rng(6).standard_normal((4, 4, 1, 1)).astype(np.float32)
    proto = model([node("Conv", ["x", "w"], "a", "c1"), node("Softmax", ["a"], "p", "soft", axis=1),
                   node("Conv", ["p", "w"], "y", "c2")], [value("x", x.shape)], [value("y", None)], [init("w", w)])
    made = lowered(proto, {"x": x})
    assert [n.device for n in made.plan.nodes.values()] == [Device.BPU] * 3 and made.plan.segments == 1
    assert made.cosine("y") > 0.999
