"""Resize: nearest moves codes, other modes are weighted sums near the float operator; the same bits in every form."""
from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lowered import Lowered, lowered
from models import init, model, node, random, value
from small import INT8, INT16, MANY, clamped, codes, every_form, output, rescaled

from ptqlab.arith.requantize import fixed_point
from ptqlab.ops.integer.resize import DROPPED, SUM_BITS, WEIGHT_BITS
from ptqlab.ops.resize import axis_weights, fixed_weights
from ptqlab.placement import Ask
from ptqlab.stages.plan import Device

ONE = 1 << WEIGHT_BITS
COORDINATES = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric")


def resized(shape: tuple[int, ...], qtype: str = "int8", march: str = "nash-e", *, scales: object = None,
            sizes: object = None, **attributes: object) -> Lowered:
    """x -> Mul (an anchor) -> Resize -> Relu that the configuration names."""
    given = ["", "s"] if scales is not None else ["", "", "s"]
    target = init("s", np.asarray(scales, np.float32) if scales is not None else np.asarray(sizes, np.int64))
    nodes = [node("Mul", ["x", "two"], "a", "scale"), node("Resize", ["a", *given], "m", "op", **attributes),
             node("Relu", ["m"], "y", "relu")]
    net = model(nodes, [value("x", shape)], [value("y", None)], [init("two", np.float32(2)), target], opset=19)
    return lowered(net, {"x": random(*shape, seed=1)}, qtype=qtype, march=march,
                   asks={n.name: Ask(qtype, level="node") for n in nodes})


@pytest.mark.parametrize("qtype", ["int8", "int16"])
@pytest.mark.parametrize("rounding", ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
@pytest.mark.parametrize("coordinates", COORDINATES)
def test_nearest_moves_codes(coordinates: str, rounding: str, qtype: str) -> None:
    """Any rounding and coordinates, growing and shrinking: codes at the input's step, placed as in the float model."""
    made = resized((1, 2, 5, 7), qtype, sizes=[1, 2, 9, 4], mode="nearest", nearest_mode=rounding,
                   coordinate_transformation_mode=coordinates)
    assert made.plan.nodes["op"].device is Device.BPU and made.step("m") == made.step("a")
    order = dict(zip(made.floats["a"].ravel(), made.codes["a"].ravel(), strict=True))
    assert np.array_equal(made.codes["m"], np.vectorize(order.__getitem__)(made.floats["m"]))


@pytest.mark.parametrize("given", [{"scales": [1, 1, 2, 1.5]}, {"sizes": [1, 2, 3, 14]}, {"scales": [1, 1, 0.6, 3]}])
@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_weighted_modes_are_near_float(mode: str, coordinates: str, given: dict[str, object]) -> None:
    """int8 within its steps; on nash-b int16 within the few steps that weights of 14 bits leave."""
    for qtype, march in (("int8", "nash-e"), ("int16", "nash-b")):
        made = resized((1, 2, 6, 7), qtype, march, mode=mode, coordinate_transformation_mode=coordinates, **given)
        assert made.plan.nodes["op"].granted == qtype
        gain = 2.0 if mode == "cubic" else 1.0
        reach = float(np.abs(made.floats["a"]).max())
        bound = 0.51 * made.step("m") + gain * made.step("a") + (gain * 2.0**-WEIGHT_BITS + 2.0**-14) * 4 * reach
        assert np.abs(made.real("m") - made.floats["m"]).max() <= bound


def test_int16_falls_back() -> None:
    """Elsewhere than on nash-b linear modes have int8 alone, and the node says so; nearest has both."""
    made = resized((1, 1, 4, 4), "int16", scales=[1, 1, 2, 2], mode="linear")
    assert made.plan.nodes["op"].granted == "int8"
    assert made.plan.nodes["op"].reason.startswith("Resize has no int16 on nash-e: int8 is given.")


@pytest.mark.parametrize(("shape", "sizes"), [((2, 3, 8), [2, 3, 12]), ((2, 2, 3, 4, 5), [2, 2, 3, 8, 5])])
def test_other_ranks(shape: tuple[int, ...], sizes: list[int]) -> None:
    """One spatial axis, and three of which one grows."""
    made = resized(shape, sizes=sizes, mode="nearest", coordinate_transformation_mode="asymmetric")
    assert made.plan.nodes["op"].device is Device.BPU and made.step("m") == made.step("a")


@pytest.mark.parametrize(("attributes", "rule"), [
    ({"antialias": 1, "mode": "linear"}, "plain_coordinates"),
    ({"mode": "nearest", "keep_aspect_ratio_policy": "not_larger"}, "plain_coordinates"),
    ({"mode": "nearest", "channels": 4}, "last_two_axes"),
])
def test_reasons_on_the_cpu(attributes: dict[str, object], rule: str) -> None:
    """An antialias filter, a kept aspect ratio, a changed channel axis."""
    channels = attributes.pop("channels", 2)
    made = resized((1, 2, 6, 6), sizes=[1, channels, 3, 3], **attributes)
    assert made.plan.nodes["op"].rule == rule


def test_weights_by_hand() -> None:
    """Doubling by half_pixel: a quarter and three quarters, whole at the ends; fixed weights keep the sum of a row."""
    made = resized((1, 1, 2, 2), scales=[1, 1, 2, 2], mode="linear")
    weights = axis_weights(made.graph.node("op"), -1)
    assert weights.tolist() == [[1, 0], [0.75, 0.25], [0.25, 0.75], [0, 1]]
    assert fixed_weights(weights).tolist() == [[ONE, 0], [ONE * 3 // 4, ONE // 4], [ONE // 4, ONE * 3 // 4], [0, ONE]]
    assert fixed_weights(np.full((1, 3), 1 / 3)).sum() == ONE


def test_by_hand() -> None:
    """Between 10 and 20: a quarter of the way is 12.5, which rounds up."""
    rows, columns = np.array([[ONE]], np.int16), np.array([[ONE * 3 // 4, ONE // 4]], np.int16)
    m, s = fixed_point(2.0**-SUM_BITS)
    feeds, made = {"x": np.array([[10, 20]], np.int8)}, {"rows": rows, "columns": columns, "multiplier": m, "shift": s}
    assert every_form("Resize", feeds, made, {"x_zero_point": 0} | output()).tolist() == [[13]]
    index = {"rows": np.array([0, 0]), "columns": np.array([1, 0, 1])}
    assert every_form("ResizeNearest", feeds, index, {"to": INT8}).tolist() == [[20, 10, 20]] * 2


@MANY
@given(st.sampled_from([INT8, INT16]), st.sampled_from([INT8, INT16]), st.integers(-128, 127), st.integers(1, 4),
       st.integers(1, 12), st.floats(1e-3, 100), st.integers(0, 99))
def test_against_loops(kind: int, to: int, zero: int, height: int, width: int, ratio: float, seed: int) -> None:
    """Random weights, few and many taps, against Python's integers."""
    rng = np.random.default_rng(seed)
    x = codes(rng, kind, (2, height, width))
    rows, columns = (rng.integers(-3000, ONE, (3, n)).astype(np.int16) // n for n in (height, width))
    m, s = fixed_point(ratio * 2.0**-SUM_BITS)
    attributes = {"x_zero_point": zero} | output(to, 3)
    got = every_form("Resize", {"x": x}, {"rows": rows, "columns": columns, "multiplier": m, "shift": s}, attributes)
    for n, p, q in np.ndindex(*got.shape):
        total = 0
        for i in range(height):
            along = sum((int(x[n, i, j]) - zero) * int(columns[q, j]) for j in range(width))
            total += int(rows[p, i]) * ((along + (1 << (DROPPED - 1))) >> DROPPED)
        assert got[n, p, q] == clamped(rescaled(total, int(m), int(s)), attributes)
