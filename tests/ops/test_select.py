"""Sub, Max, Min, Where: by hand, the same bits in every form, near the real function."""
from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lowered import Lowered, lowered
from models import init, model, node, random, value
from small import INT8, INT16, MANY, clamped, codes, each, every_form, output, rescaled

from ptqlab.arith.requantize import fixed_point
from ptqlab.placement import Ask
from ptqlab.stages.plan import Device

BOOL = onnx.TensorProto.BOOL


def constants(a: float, b: float) -> dict[str, np.ndarray]:
    (am, ash), (bm, bsh) = fixed_point(a), fixed_point(b)
    return {"a_multiplier": am, "a_shift": ash, "b_multiplier": bm, "b_shift": bsh}


ZERO = {"a_zero_point": 0, "b_zero_point": 0}


def test_by_hand() -> None:
    """Steps of 1 and 1/2 in steps of 1: (3, -3, 3) against 2.5 -> 3, -2.5 -> -2, 3.5 -> 4: ties go up."""
    feeds = {"a": np.array([3, -3, 3], np.int8), "b": np.array([5, -5, 7], np.int8)}
    made = constants(1.0, 0.5)
    assert every_form("Max", feeds, made, ZERO | output()).tolist() == [3, -2, 4]
    assert every_form("Min", feeds, made, ZERO | output()).tolist() == [3, -3, 3]
    condition = {"condition": np.array([True, False, False])}
    assert every_form("Where", condition | feeds, made, ZERO | output()).tolist() == [3, -2, 4]
    assert every_form("Where", feeds, made | condition, ZERO | output()).tolist() == [3, -2, 4]


@MANY
@given(st.sampled_from(["Max", "Min", "Where"]), st.sampled_from([INT8, INT16]), st.sampled_from([INT8, INT16]),
       st.integers(-100, 100), st.integers(-100, 100), st.floats(1e-6, 1e4), st.floats(-300, 300), st.integers(0, 99))
def test_against_loops(op: str, kind: int, to: int, zero_a: int, zero_b: int, a: float, b: float, seed: int) -> None:
    """Any types, zero points and ratios, operands that are broadcast, against Python's integers."""
    rng = np.random.default_rng(seed)
    feeds = {"a": codes(rng, kind, (3, 1, 4)), "b": codes(rng, to, (2, 1))}
    if op == "Where":
        feeds = {"condition": rng.random((2, 4)) < 0.5, **feeds}
    attributes = {"a_zero_point": zero_a, "b_zero_point": zero_b} | output(to, 5)
    made = constants(a, b)
    got = every_form(op, feeds, made, attributes)
    left, right = each(feeds["a"], got.shape), each(feeds["b"], got.shape)
    holds = np.broadcast_to(feeds.get("condition", np.zeros(1, bool)), got.shape)
    for where in np.ndindex(*got.shape):
        x = rescaled(left[where] - zero_a, int(made["a_multiplier"]), int(made["a_shift"]))
        y = rescaled(right[where] - zero_b, int(made["b_multiplier"]), int(made["b_shift"]))
        wanted = {"Max": max(x, y), "Min": min(x, y), "Where": x if holds[where] else y}[op]
        assert got[where] == clamped(wanted, attributes)


def named(net: onnx.ModelProto, *samples: dict[str, np.ndarray], qtype: str = "int8") -> Lowered:
    """Every node asked for by name, so that it is no tail."""
    return lowered(net, *samples, qtype=qtype, asks={n.name: Ask(qtype, level="node") for n in net.graph.node})


@pytest.mark.parametrize("qtype", ["int8", "int16"])
@pytest.mark.parametrize("op", ["Sub", "Max", "Min"])
@pytest.mark.parametrize("constant", ["", "first", "second"])
def test_near_the_float_operator(op: str, constant: str, qtype: str) -> None:
    """Within the steps of operands and output, on either side of a constant, with broadcasting."""
    x, k = random(2, 3, 4, seed=1, scale=2), random(3, 1, seed=2)
    order = ["k", "x"] if constant == "first" else ["x", "k"]
    inputs = [value("x", x.shape), *([] if constant else [value("k", k.shape)])]
    net = model([node(op, order, "y", "op")], inputs, [value("y", None)], [init("k", k)] if constant else [], opset=19)
    made = named(net, {"x": x} | ({} if constant else {"k": k}), qtype=qtype)
    assert "op" in made.plan.groups
    steps = made.step("y") + made.step("x") + (0 if constant else made.step("k"))
    assert np.abs(made.outputs["y"] - made.floats["y"]).max() <= 0.51 * steps + 1e-6


@pytest.mark.parametrize("computed", [True, False])
@pytest.mark.parametrize("branch", ["tensor", "constant"])
def test_where(computed: bool, branch: str) -> None:
    """By a condition that the CPU computes, or a constant one; the other branch computed or constant."""
    x, c, k = random(2, 5, seed=3), random(2, 5, seed=4) > 0, random(5, seed=5)
    inputs = [value("x", x.shape), *([value("c", c.shape, BOOL)] if computed else [])]
    inputs += [value("k", k.shape)] if branch == "tensor" else []
    inits = [*([] if computed else [init("c", c)]), *([init("k", k)] if branch == "constant" else [])]
    nodes = [node("Not", ["c"], "n", "flip"), node("Where", ["n", "x", "k"], "y", "op")] if computed else [
        node("Where", ["c", "x", "k"], "y", "op")]
    net = model(nodes, inputs, [value("y", None)], inits, opset=19)
    feeds = {"x": x} | ({"c": c} if computed else {}) | ({"k": k} if branch == "tensor" else {})
    made = lowered(net, feeds, asks={"op": Ask("int8", level="node")})
    assert made.plan.nodes["op"].device is Device.BPU, made.plan.nodes["op"].reason
    steps = made.step("y") + made.step("x") + (made.step("k") if branch == "tensor" else 0)
    assert np.abs(made.outputs["y"] - made.floats["y"]).max() <= 0.51 * steps


def test_division_by_a_tensor() -> None:
    """A table of reciprocals and a product: near the quotient where the divisor stays away from 0."""
    a, b = random(3, 8, seed=6), 1 + np.abs(random(3, 8, seed=7))
    net = model([node("Div", ["a", "b"], "y", "op")], [value("a", a.shape), value("b", b.shape)], [value("y", None)],
                opset=19)
    made = lowered(net, {"a": a, "b": b}, qtype="int16",
                   asks={n: Ask("int16", level="node") for n in ("op", "op_reciprocal")})
    assert {"Int16Table", "Mul"} <= set(made.operators()) and made.cosine("y") > 0.99999


@pytest.mark.parametrize(("upper", "k"), [(0, None), (1, 1), (1, -2)])
@pytest.mark.parametrize("asymmetric", [False, True])
def test_triangles(upper: int, k: int | None, asymmetric: bool) -> None:
    """What lies outside of the triangle is exactly 0, the rest within half a step of each of two roundings."""
    inits = [] if k is None else [init("k", np.int64(k))]
    net = model([node("Trilu", ["x", *(i.name for i in inits)], "y", "op", upper=upper)], [value("x", [2, 4, 5])],
                [value("y", None)], inits)  # fmt: skip
    made = lowered(net, {"x": random(2, 4, 5) + 1}, asymmetric=asymmetric)
    assert made.plan.nodes["op"].on_bpu
    assert not made.outputs["y"][made.floats["y"] == 0].any()
    assert np.abs(made.outputs["y"] - made.floats["y"]).max() <= 0.51 * (made.step("x") + made.step("y"))
