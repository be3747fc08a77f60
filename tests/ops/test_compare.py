"""Comparisons, logic and the Cast of a bool: by hand, the same bits in every form, on the BPU between its operators."""
from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lowered import lowered
from models import init, model, node, random, value
from small import INT8, INT16, MANY, codes, each, every_form, rescaled

from ptqlab.arith.requantize import fixed_point
from ptqlab.ops.integer.compare import COMPARISONS
from ptqlab.placement import Ask
from ptqlab.stages.plan import Device

BOOL = int(onnx.TensorProto.BOOL)


def constants(a: float, b: float) -> dict[str, np.ndarray]:
    (am, ash), (bm, bsh) = fixed_point(a), fixed_point(b)
    return {"a_multiplier": am, "a_shift": ash, "b_multiplier": bm, "b_shift": bsh}


def test_by_hand() -> None:
    """Steps of 1 and 1/2: 2, 3 and 4 against 5 halves."""
    feeds = {"a": np.array([2, 3, 4], np.int8), "b": np.array([5], np.int8)}
    zero = {"a_zero_point": 0, "b_zero_point": 0}
    made = constants(256.0, 128.0)
    results = {op: every_form(op, feeds, made, zero | {"to": BOOL}).tolist() for op in COMPARISONS}
    assert results == {"Equal": [False] * 3, "Less": [True, False, False], "LessOrEqual": [True, False, False],
                       "Greater": [False, True, True], "GreaterOrEqual": [False, True, True]}


@MANY
@given(st.sampled_from(list(COMPARISONS)), st.sampled_from([INT8, INT16]), st.booleans(), st.integers(-100, 100),
       st.floats(0.5, 300), st.floats(0.5, 300), st.integers(0, 99))
def test_against_loops(op: str, kind: int, constant: bool, zero: int, a: float, b: float, seed: int) -> None:
    """Broadcast operands of any type, a constant one in 32 bits, against Python's integers."""
    rng = np.random.default_rng(seed)
    left = codes(rng, kind, (3, 1, 4))
    right = rng.integers(-(2**31) + 1, 2**31 - 1, (2, 1)).astype(np.int32) if constant else codes(rng, INT8, (2, 1))
    made = constants(a, 1.0 if constant else b)
    feeds = {"a": left} | ({} if constant else {"b": right})
    got = every_form(op, feeds, made | ({"b": right} if constant else {}),
                     {"a_zero_point": zero, "b_zero_point": -1, "to": BOOL})
    x, y = each(left, got.shape), each(right, got.shape)
    for where in np.ndindex(*got.shape):
        p = rescaled(x[where] - zero, int(made["a_multiplier"]), int(made["a_shift"]))
        q = rescaled(int(y[where]) + 1, int(made["b_multiplier"]), int(made["b_shift"]))
        assert got[where] == COMPARISONS[op][0](p, q)


@pytest.mark.parametrize("constant", [True, False])
def test_a_mask_made_on_the_bpu(constant: bool) -> None:
    """Compare, combine, cast, multiply and choose: one segment, no bool is quantized, wrong only near a tie."""
    other = "k" if constant else "z"
    nodes = [node("Greater", ["x", other], "g", "greater"), node("Less", ["x", "top"], "l", "less"),
             node("And", ["g", "l"], "b", "both"), node("Not", ["b"], "n", "not"),
             node("Cast", ["b"], "m", "cast", to=1), node("Mul", ["m", "x"], "s", "mul"),
             node("Where", ["n", "s", "x"], "y", "where")]
    inputs = [value("x", [4, 16]), *([] if constant else [value("z", [16])])]
    constants_ = [init("k", np.float32(0.3)), init("top", np.float32(1.5))]
    net = model(nodes, inputs, [value("y", None)], constants_, opset=19)
    feeds = {"x": random(4, 16)} | ({} if constant else {"z": random(16, seed=3, scale=0.3)})
    made = lowered(net, feeds, asks={n.name: Ask("int8", level="node") for n in nodes})
    assert {made.plan.nodes[n.name].device for n in nodes} == {Device.BPU} and made.plan.segments == 1
    assert set(made.plan.tensors).isdisjoint({"g", "l", "b", "n"})
    assert made.plan.tensors["m"].slot == "m" and made.step("m") == pytest.approx(1 / 127)
    x = feeds["x"]
    distance = np.minimum(np.abs(x - (np.float32(0.3) if constant else feeds["z"])), np.abs(x - 1.5))
    sure = distance > made.step("x") + (0 if constant else made.step("z"))
    assert sure.mean() > 0.8
    assert np.abs(made.outputs["y"] - made.floats["y"])[sure].max() <= made.step("x") + made.step("s") + made.step("y")


def test_equal_codes_are_equal() -> None:
    """A tensor compared with itself, moved about."""
    nodes = [node("Relu", ["x"], "r", "relu"), node("Transpose", ["r"], "t", "turn", perm=[1, 0]),
             node("Transpose", ["t"], "u", "back", perm=[1, 0]), node("Equal", ["r", "r"], "e", "equal"),
             node("Cast", ["e"], "y", "cast", to=1)]
    net = model(nodes, [value("x", [3, 5])], [value("y", None)], opset=19)
    made = lowered(net, {"x": random(3, 5)}, asks={n.name: Ask("int8", level="node") for n in nodes})
    assert made.plan.nodes["equal"].device is Device.BPU and made.outputs["y"].min() == 1


def test_integers_and_detection_heads_stay_on_the_cpu() -> None:
    """int64 is compared exactly there; behind the last operator with weights a comparison reads its float output."""
    net = model(
        [node("MatMul", ["x", "w"], "l", "mm"), node("Greater", ["l", "k"], "y", "keep"),
         node("Equal", ["i", "i"], "e", "same"), node("Not", ["e"], "n", "not")],
        [value("x", [2, 3]), value("i", [4], 7)], [value("y", None, BOOL), value("n", None, BOOL)],
        [init("w", random(3, 5)), init("k", np.float32(0.1))], opset=19)
    made = lowered(net, {"x": random(2, 3), "i": np.arange(4)})
    rules = {n: made.plan.nodes[n].rule for n in ("keep", "same", "not")}
    assert rules == {"keep": "after-tail", "same": "float_operands", "not": "passive-tail"}
    assert made.plan.nodes["mm"].tail
