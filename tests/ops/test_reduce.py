"""Reductions and indices of the largest element: by hand, the same bits in every form, near the float operator."""
from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lowered import Lowered, lowered
from models import init, ints, model, node, random, value
from small import INT8, INT16, MANY, clamped, codes, every_form, output, rescaled

from ptqlab.arith.requantize import fixed_point
from ptqlab.graph import load
from ptqlab.passes import optimize
from ptqlab.placement import Ask, Asks, place
from ptqlab.platforms import platform
from ptqlab.stages.plan import Device

INT32 = int(onnx.TensorProto.INT32)
NUMPY = {"ReduceSum": np.sum, "ReduceMax": np.max, "ReduceMin": np.min}


def test_by_hand() -> None:
    """3, 7 and -5 in steps of 1/2: sum 5, largest 7, smallest -5 are 2.5 -> 3, 3.5 -> 4, -2.5 -> -2."""
    m, s = fixed_point(0.5)
    feeds, made = {"x": np.array([[3, 7, -5]], np.int8)}, {"axes": np.array([1]), "multiplier": m, "shift": s}
    attributes = {"x_zero_point": 0, "keepdims": 0} | output()
    assert [every_form(op, feeds, made, attributes).tolist() for op in NUMPY] == [[3], [4], [-2]]


def test_index_by_hand() -> None:
    """The first of equal ones, or the last one; int8, int16 and int32."""
    feeds = {"x": np.array([[1, 7, 7], [-3, -3, 0]], np.int8)}
    for to in (INT8, INT16, INT32):
        attributes = {"axis": 1, "keepdims": 0, "last": 0, "to": to}
        assert every_form("ArgMax", feeds, {}, attributes).tolist() == [1, 2]
        assert every_form("ArgMin", feeds, {}, attributes).tolist() == [0, 0]
        assert every_form("ArgMax", feeds, {}, attributes | {"last": 1}).tolist() == [2, 2]
        assert every_form("ArgMin", feeds, {}, attributes | {"last": 1, "keepdims": 1}).tolist() == [[0], [1]]


@MANY
@given(st.sampled_from(list(NUMPY)), st.sampled_from([INT8, INT16]), st.sampled_from([INT8, INT16]),
       st.integers(-128, 127), st.sampled_from([(0,), (1,), (0, 2), (0, 1, 2)]), st.booleans(),
       st.floats(1e-4, 30), st.integers(0, 99))
def test_against_loops(op: str, kind: int, to: int, zero: int, axes: tuple[int, ...], keep: bool, ratio: float,
                       seed: int) -> None:
    """Any axes, types, zero points and ratios, against Python's integers."""
    x = codes(np.random.default_rng(seed), kind, (2, 3, 4))
    m, s = fixed_point(ratio)
    attributes = {"x_zero_point": zero, "keepdims": int(keep)} | output(to, -7)
    got = every_form(op, {"x": x}, {"axes": np.array(axes), "multiplier": m, "shift": s}, attributes)
    exact = NUMPY[op](x.astype(np.int64) - zero, axis=axes, keepdims=keep)
    assert got.shape == exact.shape
    for wanted, value_ in zip(np.ravel(exact), np.ravel(got), strict=True):
        assert value_ == clamped(rescaled(int(wanted), int(m), int(s)), attributes)


@MANY
@given(st.sampled_from(["ArgMax", "ArgMin"]), st.sampled_from([np.int8, np.int16]),
       st.sampled_from([INT8, INT16, INT32]), st.integers(0, 2), st.booleans(), st.booleans(), st.integers(0, 99))
def test_indices_in_every_form(op: str, dtype: type, to: int, axis: int, keep: bool, last: bool, seed: int) -> None:
    """Few different codes, so that ties are common: the index points at the extreme code, the first or last of them."""
    x = np.random.default_rng(seed).integers(-2, 2, (3, 4, 5)).astype(dtype)
    got = every_form(op, {"x": x}, {}, {"axis": axis, "keepdims": int(keep), "last": int(last), "to": to})
    rows = np.moveaxis(x, axis, -1).reshape(-1, x.shape[axis]).tolist()
    index = np.moveaxis(got if keep else np.expand_dims(got, axis), axis, -1).ravel().tolist()
    for row, found in zip(rows, index, strict=True):
        best = max(row) if op == "ArgMax" else min(row)
        places = [i for i, v in enumerate(row) if v == best]
        assert found == (places[-1] if last else places[0])


@pytest.mark.parametrize("qtype", ["int8", "int16"])
@pytest.mark.parametrize("op", NUMPY)
@pytest.mark.parametrize(("axes", "keep"), [((-1,), 1), ((1, 2), 0), ((), 1)])
def test_near_the_float_operator(op: str, axes: tuple[int, ...], keep: int, qtype: str) -> None:
    """Within half a step of the output and what the elements' half steps add up to."""
    x = random(2, 3, 4, seed=1)
    operand = [ints("axes", *axes)] if axes else []
    net = model([node(op, ["x", "axes"] if axes else ["x"], "y", "op", keepdims=keep)], [value("x", x.shape)],
                [value("y", None)], operand, opset=19 if op == "ReduceSum" else 18)
    made = lowered(net, {"x": x}, qtype=qtype, asks={"op": Ask(qtype, level="node")})
    assert made.plan.nodes["op"].device is Device.BPU, made.plan.nodes["op"].reason
    count = x.size // made.floats["y"].size if op == "ReduceSum" else 1
    assert np.abs(made.outputs["y"] - made.floats["y"]).max() <= 0.51 * (made.step("y") + count * made.step("x"))


def test_global_max_pool_keeps_codes() -> None:
    """Between two operators it takes the largest code at the step of its input."""
    nodes = [node("Mul", ["x", "x"], "a", "square"), node("GlobalMaxPool", ["a"], "m", "op"),
             node("Relu", ["m"], "y", "relu")]
    net = model(nodes, [value("x", [1, 2, 3, 5])], [value("y", None)])
    made = lowered(net, {"x": random(1, 2, 3, 5)}, asks={n.name: Ask("int8", level="node") for n in nodes})
    assert made.plan.nodes["op"].device is Device.BPU and made.step("m") == made.step("a")
    assert np.array_equal(made.codes["m"], made.codes["a"].max(axis=(2, 3), keepdims=True))


def classified(to: int | None, readers: int = 1, ask: dict[str, Ask] | None = None, size: int = 10) -> Lowered:
    """MatMul -> ArgMax -> Cast to `to` (None: no Cast), the Cast read by `readers` nodes of the CPU."""
    index = "i" if to else "y"
    nodes = [node("MatMul", ["x", "w"], "l", "mm"), node("ArgMax", ["l"], index, "am", axis=-1, keepdims=0)]
    if to:
        nodes.append(node("Cast", ["i"], "y", "cast", to=to))
        nodes += [node("Neg", ["y"], f"z{k}", f"neg{k}") for k in range(readers)]
    outs = [value("y", None, to or 7), *(value(f"z{k}", None, to) for k in range(readers if to else 0))]
    net = model(nodes, [value("x", [6, 4])], outs, [init("w", random(4, size, seed=2))], opset=19)
    return lowered(net, {"x": random(6, 4)}, asks=ask)


@pytest.mark.parametrize("to", [INT8, INT16, INT32])
def test_argmax_with_a_cast_runs_on_the_bpu(to: int) -> None:
    """Both nodes in one operator, the logits quantized; what is behind it reads the type of the Cast, on the CPU where
    that is not int32."""
    made = classified(to)
    assert {n: made.plan.nodes[n].device.value for n in ("mm", "am", "cast", "neg0")} == {
        "mm": "BPU", "am": "BPU", "cast": "BPU", "neg0": "BPU" if to == INT32 else "CPU"}
    assert made.plan.nodes["cast"].group == "am" and not made.plan.nodes["mm"].tail
    assert np.array_equal(made.outputs["y"], made.codes["l"].argmax(axis=-1))
    assert np.array_equal(made.outputs["z0"], -made.outputs["y"].astype(np.int64))


def test_argmax_on_the_cpu() -> None:
    """Without a Cast, with one to int64's neighbours of another kind, or where the configuration asks for it."""
    made = classified(None)
    assert made.plan.nodes["mm"].tail and made.plan.nodes["am"].rule == "cast_behind"
    for name in ("am", "cast"):
        made = classified(INT16, ask={name: Ask(on="CPU", level="node")})
        assert made.plan.nodes["am"].device is made.plan.nodes["cast"].device is Device.CPU
        other = "cast" if name == "am" else "am"
        assert made.plan.nodes[other].reason == f"CPU: it runs where {name} does, which is on the CPU."
    assert classified(INT8, size=200).plan.nodes["am"].rule == "short_index_axis"


def test_float_casts_stay_on_the_cpu() -> None:
    """A Cast that is not behind ArgMax says why."""
    net = model([node("Cast", ["i"], "y", "cast", to=1)], [value("i", [3], onnx.TensorProto.INT64)], [value("y", [3])])
    plan = place(optimize(load(net)), platform("nash-e"), Asks())
    assert "never quantized" in plan.nodes["cast"].reason
