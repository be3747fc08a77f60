"""CumSum: integer sums along an axis, in both directions, with and without the element itself."""
from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lowered import Lowered, lowered
from models import init, model, node, random, value
from small import INT8, INT16, MANY, clamped, codes, every_form, output, rescaled

from ptqlab.arith.requantize import fixed_point
from ptqlab.placement import Ask
from ptqlab.stages.plan import Device


def summed(x: np.ndarray, axis: object, qtype: str = "int8", asymmetric: bool = False,
           **attributes: object) -> Lowered:
    nodes = [node("Mul", ["x", "two"], "a", "scale"), node("CumSum", ["a", "axis"], "y", "op", **attributes)]
    net = model(nodes, [value("x", x.shape)], [value("y", None)], [init("two", np.float32(2)), init("axis", axis)],
                opset=19)
    return lowered(net, {"x": x}, qtype=qtype, asymmetric=asymmetric,
                   asks={n.name: Ask(qtype, level="node") for n in nodes})


@pytest.mark.parametrize("asymmetric", [False, True])
@pytest.mark.parametrize("qtype", ["int8", "int16"])
@pytest.mark.parametrize(("axis", "reverse", "exclusive"), [(1, 0, 0), (-1, 1, 0), (np.array([0]), 0, 1), (2, 1, 1)])
def test_near_float(axis: object, reverse: int, exclusive: int, qtype: str, asymmetric: bool) -> None:
    """Half a step for every element that was added, half a step of the output, and the ratio's last bit."""
    x = random(3, 4, 6, seed=2) + 0.3
    made = summed(x, np.asarray(axis, np.int64), qtype, asymmetric, reverse=reverse, exclusive=exclusive)
    assert made.plan.nodes["op"].device is Device.BPU and made.plan.nodes["op"].granted == qtype
    reach = float(np.abs(made.floats["y"]).max())
    bound = 0.51 * made.step("y") + 6 * 0.51 * made.step("a") + 2.0**-15 * reach
    assert np.abs(made.real("y") - made.floats["y"]).max() <= bound


def test_a_long_axis_stays_on_the_cpu() -> None:
    """65,537 elements of int16 are more than the sum is made for."""
    long = summed(np.ones((1, (1 << 16) + 1), np.float32), np.int64(1))
    assert long.plan.nodes["op"].rule == "short_sums" and "65537 elements" in long.plan.nodes["op"].reason


def test_by_hand() -> None:
    """1, 2, 4 become 1, 3, 7, halved 0.5, 1.5, 3.5, which round up; and the other ways around."""
    m, s = fixed_point(0.5)
    made, feeds = {"multiplier": m, "shift": s}, {"x": np.array([[1, 2, 4]], np.int8)}
    for reverse, exclusive, wanted in ((0, 0, [1, 2, 4]), (1, 0, [4, 3, 2]), (0, 1, [0, 1, 2]), (1, 1, [3, 2, 0])):
        attributes = {"x_zero_point": 0, "axis": 1, "exclusive": exclusive, "reverse": reverse} | output()
        assert every_form("CumSum", feeds, made, attributes).tolist() == [wanted]


@MANY
@given(st.sampled_from([INT8, INT16]), st.sampled_from([INT8, INT16]), st.integers(-128, 127), st.integers(0, 2),
       st.booleans(), st.booleans(), st.floats(1e-4, 100), st.integers(0, 99))
def test_against_loops(kind: int, to: int, zero: int, axis: int, reverse: bool, exclusive: bool, ratio: float,
                       seed: int) -> None:
    """Whole range, any zero point, against Python's integers."""
    x = codes(np.random.default_rng(seed), kind, (2, 3, 40))
    m, s = fixed_point(ratio)
    attributes = {"x_zero_point": zero, "axis": axis, "exclusive": int(exclusive), "reverse": int(reverse),
                  **output(to, 3)}
    got = np.moveaxis(every_form("CumSum", {"x": x}, {"multiplier": m, "shift": s}, attributes), axis, -1)
    lines = np.moveaxis(x, axis, -1)
    for index in np.ndindex(*got.shape[:-1]):
        total, line = 0, [int(v) - zero for v in lines[index]]
        order = range(len(line))[::-1] if reverse else range(len(line))
        for i in order:
            here = total if exclusive else total + line[i]
            assert got[index][i] == clamped(rescaled(here, int(m), int(s)), attributes)
            total += line[i]
