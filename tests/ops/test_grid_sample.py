"""GridSample: constant and computed grids, every mode and padding, against float, loops and by hand."""
from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lowered import Lowered, lowered
from models import init, model, node, random, value
from small import INT8, INT16, MANY, clamped, codes, every_form, output, rescaled

from ptqlab.arith.formats import QType
from ptqlab.arith.requantize import fixed_point
from ptqlab.ops.grid_sample import fixed_taps
from ptqlab.ops.integer.grid_sample import ONE, POSITION_BITS, TAP_BITS
from ptqlab.placement import Ask
from ptqlab.stages.plan import Device

PADDINGS = ("zeros", "border", "reflection")
SIZE = (2, 3, 6, 9)


def places(reach: float = 1.4, seed: int = 3) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-reach, reach, (2, 5, 4, 2)).astype(np.float32)


def sampled(constant: bool, grid: np.ndarray, ask: Ask | None = None, march: str = "nash-e", asymmetric: bool = False,
            x: np.ndarray | None = None, **attributes: object) -> Lowered:
    """x -> Mul -> GridSample, with a grid that is constant or an input of the model."""
    feeds = {"x": random(*SIZE, seed=1) if x is None else x}
    inputs, inits = [value("x", feeds["x"].shape)], [init("two", np.float32(2))]
    if constant:
        inits.append(init("g", grid))
    else:
        inputs.append(value("g", grid.shape))
        feeds["g"] = grid
    nodes = [node("Mul", ["x", "two"], "a", "scale"), node("GridSample", ["a", "g"], "y", "op", **attributes)]
    asks = {"scale": Ask("int8", level="node"), "op": ask or Ask("int8", level="node")}
    return lowered(model(nodes, inputs, [value("y", None)], inits, opset=19), feeds, march=march, asks=asks,
                   asymmetric=asymmetric)


def slope(array: np.ndarray) -> float:
    """Largest difference between neighbours, a frame of zeros included."""
    framed = np.pad(array, [(0, 0), (0, 0), (1, 1), (1, 1)]).astype(np.float64)
    return float(max(np.abs(np.diff(framed, axis=axis)).max() for axis in (2, 3)))


@pytest.mark.parametrize("asymmetric", [False, True])
@pytest.mark.parametrize(("padding", "align"), list(product(PADDINGS, (0, 1))))
@pytest.mark.parametrize("constant", [True, False])
def test_bilinear_is_near_float(constant: bool, padding: str, align: int, asymmetric: bool) -> None:
    """Half a step of what is read and written, and what the rounding of weights or places costs."""
    made = sampled(constant, places(), padding_mode=padding, align_corners=align, mode="bilinear",
                   asymmetric=asymmetric)
    assert made.plan.nodes["op"].device is Device.BPU and made.plan.nodes["op"].granted == "int8"
    assert made.plan.tensors["y"].stored is QType.INT8
    bound = 0.51 * made.step("y") + 0.51 * made.step("a") + 2.0**-13 * float(np.abs(made.floats["a"]).max())
    if not constant:
        off = 0.5 * made.step("g") * max(SIZE) / 2 + 2.0**-15 * 1.4 * max(SIZE) / 2 + 0.5 / ONE
        bound += 2 * off * slope(made.floats["a"])
    assert np.abs(made.real("y") - made.floats["y"]).max() <= bound


@pytest.mark.parametrize(("padding", "align"), list(product(PADDINGS, (0, 1))))
@pytest.mark.parametrize("constant", [True, False])
def test_nearest_takes_the_same_pixels(constant: bool, padding: str, align: int) -> None:
    """No place of this grid is near the middle between two pixels, so that every output is one rounded element."""
    grid = places(2.6)
    for part, size in ((0, SIZE[3]), (1, SIZE[2])):
        half = (size - 1) / 2 if align else size / 2
        pixel = grid[..., part] * half + (size - 1) / 2
        grid[..., part] = (np.rint(pixel) + 0.9 * (pixel - np.rint(pixel)) - (size - 1) / 2) / half
    made = sampled(constant, grid, padding_mode=padding, align_corners=align, mode="nearest")
    bound = 0.51 * made.step("y") + 0.51 * made.step("a") + 2.0**-13 * float(np.abs(made.floats["a"]).max())
    assert np.abs(made.real("y") - made.floats["y"]).max() <= bound


def test_a_constant_grid_at_a_tie_is_the_float_model() -> None:
    """Halfway between pixels nearest rounds to the even one, as onnxruntime does."""
    grid = np.stack(np.meshgrid(np.linspace(-1, 1, 17), np.linspace(-1, 1, 9)), -1).astype(np.float32)[None]
    x = np.arange(45, dtype=np.float32).reshape(1, 1, 5, 9)
    made = sampled(True, grid, x=x, mode="nearest", align_corners=1)
    assert np.abs(made.real("y") - made.floats["y"]).max() <= 0.51 * (made.step("y") + made.step("a")) + 0.01


@pytest.mark.parametrize("sizes", [(2, 1, 1, 1), (2, 1, 1, 5)])
@pytest.mark.parametrize(("padding", "align"), list(product(PADDINGS, (0, 1))))
@pytest.mark.parametrize("constant", [True, False])
def test_images_of_one_row_or_pixel(constant: bool, padding: str, align: int, sizes: tuple[int, ...]) -> None:
    """Mirroring between two edges that are the same one."""
    made = sampled(constant, places(0.9), padding_mode=padding, align_corners=align, x=random(*sizes, seed=4) + 1)
    reach = float(np.abs(made.floats["a"]).max())
    assert np.abs(made.real("y") - made.floats["y"]).max() <= 0.51 * (made.step("y") + made.step("a")) + 0.05 * reach


def test_types() -> None:
    """Features fall back to int8, the grid stays int16; a request for the grid by number is told."""
    made = sampled(False, places(), Ask("int16", level="node"))
    plan = made.plan.nodes["op"]
    assert plan.inputs == (QType.INT8, QType.INT16) and plan.rule == "type-not-available"
    assert plan.reason.startswith("GridSample has no int16 on nash-e: int8 is given.")
    plan = sampled(False, places(), Ask("int8", {1: "int8"}, level="node")).plan.nodes["op"]
    assert plan.inputs == (QType.INT8, QType.INT16)
    assert plan.reason.startswith("Input 1 of GridSample is int16 always: int16 is given.")


@pytest.mark.parametrize(("attributes", "rule"), [({"mode": "bicubic"}, "sampled_mode")])
def test_reasons_on_the_cpu(attributes: dict[str, object], rule: str) -> None:
    """A cubic kernel has no integer form."""
    assert sampled(False, places(), **attributes).plan.nodes["op"].rule == rule


def test_a_grid_that_is_not_finite_stays_on_the_cpu() -> None:
    """NaN names no place."""
    grid = places()
    grid[0, 0, 0, 0] = np.nan
    assert sampled(True, grid).plan.nodes["op"].rule == "finite_grid"


def test_weights_by_hand() -> None:
    """A quarter and a half between four pixels; outside in a corner only one of the four counts."""
    grid = np.array([[[[-0.5, 0.0], [-1.5, -1.5]]]], np.float32)
    made = sampled(True, grid, x=random(1, 1, 2, 2), align_corners=1)
    index, weight = fixed_taps(made.graph.node("op"))
    eighth = (1 << TAP_BITS) // 8
    assert index[0, 0, 0].tolist() == [0, 1, 2, 3]
    assert weight[0, 0, 0].tolist() == [3 * eighth, eighth, 3 * eighth, eighth]
    assert index[0, 0, 1].tolist() == [0, 0, 0, 0]
    assert weight[0, 0, 1].tolist() == [0, 0, 0, (1 << TAP_BITS) * 9 // 16]


def test_by_hand() -> None:
    """Codes -64 and 0 of a grid in steps of 1/128 name a quarter and the middle between 10, 20, 30 and 40."""
    x, grid = np.array([[[[10, 20], [30, 40]]]], np.int8), np.array([[[[-64, 0], [-256, 0]]]], np.int16)
    place, out = fixed_point(0.5 / 128 * ONE), fixed_point(2.0 ** (-2 * POSITION_BITS))
    made = {"columns_multiplier": place[0], "columns_shift": place[1], "rows_multiplier": place[0],
            "rows_shift": place[1], "multiplier": out[0], "shift": out[1]}
    common = {"x_zero_point": 0, "grid_zero_point": 0, "height": 2, "width": 2} | output()
    feeds = {"x": x, "grid": grid}
    # rows halfway: 20 and 30. Column 0.25 gives 22.5, which rounds up; column -0.5 is half outside: 10 with zeros
    assert every_form("GridSample", feeds, made, common | {"step": 1, "margin": ONE}).tolist() == [[[[23, 10]]]]
    assert every_form("GridSample", feeds, made, common | {"step": 1, "margin": 0}).tolist() == [[[[23, 20]]]]
    # row 0.5 is nearest to row 1 (half up), column 0.25 to 0; column -0.5 to 0
    assert every_form("GridSample", feeds, made, common | {"step": ONE, "margin": 0}).tolist() == [[[[30, 30]]]]
    # -0.5 mirrored at 0 is 0.5
    assert every_form("GridSampleMirrored", feeds, made, common | {"step": 1, "edge": 0}).tolist() == [[[[23, 25]]]]
    taps = {"index": np.array([[[[0, 3]]]]), "weight": np.array([[[[1 << 13, 1 << 13]]]], np.int16)}
    out = fixed_point(2.0**-TAP_BITS)
    taps |= {"multiplier": out[0], "shift": out[1]}
    assert every_form("GridSampleConstant", {"x": x}, taps, {"x_zero_point": 0} | output()).tolist() == [[[[25]]]]


@MANY
@given(st.sampled_from([("GridSample", {"margin": 0}), ("GridSample", {"margin": ONE}),
                        ("GridSampleMirrored", {"edge": 0}), ("GridSampleMirrored", {"edge": ONE // 2})]),
       st.sampled_from([1, ONE]), st.integers(1, 5), st.integers(1, 7), st.integers(-128, 127),
       st.integers(-300, 300), st.floats(1e-4, 2000), st.sampled_from([INT8, INT16]), st.integers(0, 99))
def test_against_loops(kind: tuple[str, dict[str, int]], step: int, height: int, width: int, zero: int,
                       grid_zero: int, scale: float, to: int, seed: int) -> None:
    """Any place however far out, any zero points, against Python's integers."""
    rng = np.random.default_rng(seed)
    x, grid = codes(rng, INT8, (2, 2, height, width)), codes(rng, INT16, (2, 2, 3, 2))
    along, down, out = fixed_point(scale), fixed_point(scale / 3), fixed_point(2.0 ** (-2 * POSITION_BITS))
    made = {"columns_multiplier": along[0], "columns_shift": along[1], "rows_multiplier": down[0],
            "rows_shift": down[1], "multiplier": out[0], "shift": out[1]}
    attributes = {"x_zero_point": zero, "grid_zero_point": grid_zero, "height": height, "width": width, "step": step,
                  **kind[1], **output(to, 3)}
    got = every_form(kind[0], {"x": x, "grid": grid}, made, attributes)

    def place(code: int, ratio: tuple[np.ndarray, np.ndarray], size: int) -> int:
        p = rescaled(code - grid_zero, int(ratio[0]), int(ratio[1])) + (size - 1) * ONE // 2
        p = (p + step // 2) // step * step
        last = (size - 1) * ONE
        if "margin" in kind[1]:
            return max(-kind[1]["margin"], min(last + kind[1]["margin"], p))
        edge, span = kind[1]["edge"], last + 2 * kind[1]["edge"]
        turns, rest = divmod(p + edge, span) if span else (0, 0)
        return max(0, min(last, (span - rest if turns % 2 else rest) - edge))

    for n, c, i, j in np.ndindex(*got.shape):
        px, py = (place(int(grid[n, i, j, k]), r, size) for k, r, size in ((0, along, width), (1, down, height)))
        total = 0
        for h, w in np.ndindex(height, width):
            weight = max(0, ONE - abs(px - w * ONE)) * max(0, ONE - abs(py - h * ONE))
            total += weight * (int(x[n, c, h, w]) - zero)
        assert got[n, c, i, j] == clamped(rescaled(total, int(out[0]), int(out[1])), attributes)


def test_a_grid_that_the_bpu_computes_is_stored_in_int16() -> None:
    """The type that its reader has, whatever is asked for the model; another reader may take it as int8."""
    nodes = [node("Mul", ["x", "two"], "a", "scale"), node("Tanh", ["p"], "g", "grid"),
             node("GridSample", ["a", "g"], "s", "op"), node("Neg", ["g"], "n", "other"),
             node("Mul", ["n", "two"], "z", "scale2"), node("Relu", ["s"], "y", "relu")]
    inputs = [value("x", SIZE), value("p", (2, 5, 4, 2))]
    net = model(nodes, inputs, [value("y", None), value("z", None)], [init("two", np.float32(2))], opset=19)
    made = lowered(net, {"x": random(*SIZE, seed=1), "p": places()},
                   asks={n.name: Ask("int8", level="node") for n in nodes})
    assert made.plan.tensors["g"].stored is QType.INT16 and made.plan.tensors["s"].stored is QType.INT8
    assert made.codes["g"].dtype == np.int16 and "Rescale" in made.operators()
    assert made.cosine("y") > 0.9995 and made.cosine("z") > 0.9995


def test_fixed_weights_keep_their_sum() -> None:
    """Inside of the image the weights of every output add up to one, so that a flat image stays flat."""
    made = sampled(True, places(seed=8), padding_mode="border")
    index, weight = fixed_taps(made.graph.node("op"))
    assert (weight.astype(np.int64).sum(axis=-1) == 1 << TAP_BITS).all() and weight.min() >= 0
    assert index.shape == weight.shape == (2, 5, 4, 4)
