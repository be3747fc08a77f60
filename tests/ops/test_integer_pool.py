"""AveragePool, ReduceMean, MaxPool and Pad on integers: by hand, against loops, and the same bits in every form."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small import INT8, INT16, LIMITS, MANY, QUICK, clamped, codes, each, every_form, output, rescaled

from ptqlab.arith.requantize import fixed_point
from ptqlab.graph import session
from ptqlab.ops.integer.pool import LARGEST_WINDOW

TYPES = st.sampled_from([INT8, INT16])


def windows(x: np.ndarray, kernel: list[int], g: dict[str, list[int]]) -> dict[tuple[int, ...], list[int]]:
    """Output position -> the codes of its window that lie inside of x."""
    rank = len(kernel)
    pads, strides, dilations = g["pads"], g["strides"], g["dilations"]
    sizes = [
        (x.shape[2 + i] + pads[i] + pads[rank + i] - dilations[i] * (kernel[i] - 1) - 1) // strides[i] + 1
        for i in range(rank)
    ]
    result: dict[tuple[int, ...], list[int]] = {}
    for position in itertools.product(range(x.shape[0]), range(x.shape[1]), *(range(s) for s in sizes)):
        result[position] = []
        for tap in itertools.product(*(range(k) for k in kernel)):
            where = [position[2 + i] * strides[i] + tap[i] * dilations[i] - pads[i] for i in range(rank)]
            if all(0 <= w < x.shape[2 + i] for i, w in enumerate(where)):
                result[position].append(int(x[(*position[:2], *where)]))
    return result


@st.composite
def geometries(draw: st.DrawFn) -> tuple[tuple[int, ...], list[int], dict[str, list[int]]]:
    """x shape, kernel, and strides, pads (smaller than the kernel, as onnxruntime wants) and dilations."""
    rank = draw(st.sampled_from([1, 2, 2, 3]))
    kernel = [draw(st.integers(1, 3)) for _ in range(rank)]
    dilations = [draw(st.sampled_from([1, 1, 2])) for _ in range(rank)]
    pads = [draw(st.integers(0, kernel[i % rank] - 1)) for i in range(2 * rank)]
    sizes = [
        max(1, dilations[i] * (kernel[i] - 1) + 1 - pads[i] - pads[rank + i]) + draw(st.integers(0, 3))
        for i in range(rank)
    ]
    strides = [draw(st.integers(1, 3)) for _ in range(rank)]
    return (
        (draw(st.integers(1, 2)), draw(st.integers(1, 3)), *sizes),
        kernel,
        {"strides": strides, "pads": pads, "dilations": dilations},
    )


def test_an_average_by_hand() -> None:
    """The mean of 1, 2, 3, 5 is 2.75 -> 3; padded by one before, the first window holds 1 and counts for 1."""
    x, window = np.array([[[[1, 2], [3, 5]]]], np.int8), np.ones((1, 1, 2, 2), np.int8)
    m, s = fixed_point(np.array([[[[0.25]]]]))
    geometry = {"strides": [2, 2], "pads": [0] * 4, "dilations": [1, 1], "group": 1, "x_zero_point": 0}
    assert (
        every_form("AveragePool", {"x": x}, {"window": window, "multiplier": m, "shift": s}, geometry | output()).item()
        == 3
    )
    m, s = fixed_point(1 / np.array([[[[1, 1], [1, 1]]]]))
    got = every_form(
        "AveragePool",
        {"x": x},
        {"window": window, "multiplier": m, "shift": s},
        geometry | {"pads": [1] * 4} | output(),
    )
    assert got.tolist() == [[[[1, 2], [3, 5]]]]


@MANY
@given(geometries(), TYPES, TYPES, st.data(), st.integers(0, 999))
def test_average_pool_equals_the_loop(
    g: tuple[tuple[int, ...], list[int], dict[str, list[int]]], source: int, to: int, data: st.DataObject, seed: int
) -> None:
    """A ratio per position, as counts at the border make it; 1 to 3 axes, zero points: equal to Python's integers."""
    shape, kernel, geometry = g
    rng = np.random.default_rng(seed)
    x = codes(rng, source, shape)
    zero = data.draw(st.sampled_from([0, 0, 7, *LIMITS[source]]))
    found = windows(x, kernel, geometry)
    out = tuple(np.array(list(found)).max(axis=0)[2:] + 1)
    m, s = fixed_point(2.0 ** rng.uniform(-10, 1, data.draw(st.sampled_from([(1, 1, *out), (1,) * (2 + len(out))]))))
    attributes = (
        geometry | {"group": shape[1], "x_zero_point": zero} | output(to, data.draw(st.sampled_from([0, *LIMITS[to]])))
    )
    constants = {"window": np.ones((shape[1], 1, *kernel), np.int8), "multiplier": m, "shift": s}
    got = every_form("AveragePool", {"x": x}, constants, attributes)
    ms, ss = each(m, got.shape), each(s, got.shape)
    assert got.size == len(found)
    for position, values in found.items():
        total = sum(v - zero for v in values)
        assert got[position] == clamped(rescaled(total, ms[position], ss[position]), attributes)


def test_the_largest_window_of_int16_extremes_is_exact() -> None:
    """255 elements of 65535 steps each are 2^24 - 2^8 + ..: the last window that float32 sums without loss."""
    x = np.full((1, 1, LARGEST_WINDOW), 32767, np.int16)
    x[0, 0, 0] = 32766
    m, s = fixed_point(np.array([[[1 / 512]]]))
    geometry = {"strides": [1], "pads": [0, 0], "dilations": [1], "group": 1, "x_zero_point": -32768}
    constants = {"window": np.ones((1, 1, LARGEST_WINDOW), np.int8), "multiplier": m, "shift": s}
    got = every_form("AveragePool", {"x": x}, constants, geometry | output(INT16))
    assert got.item() == rescaled(255 * 65535 - 1, int(m.item()), int(s.item()))


@MANY
@given(st.sampled_from([(2, 3), (1, 2, 3, 2), (4,)]), st.data(), TYPES, TYPES, st.booleans(), st.integers(0, 999))
def test_reduce_mean_equals_the_loop(
    shape: tuple[int, ...], data: st.DataObject, source: int, to: int, keep: bool, seed: int
) -> None:
    """Any axes, kept or not, down to a scalar: equal to Python's integers."""
    rng = np.random.default_rng(seed)
    x = codes(rng, source, shape)
    axes = sorted(data.draw(st.sets(st.integers(0, len(shape) - 1), min_size=1)))
    zero = data.draw(st.sampled_from([0, 5, *LIMITS[source]]))
    m, s = fixed_point(np.asarray(2.0 ** rng.uniform(-12, 1)))
    attributes = {"x_zero_point": zero, "keepdims": int(keep)} | output(
        to, data.draw(st.sampled_from([0, *LIMITS[to]]))
    )
    constants = {"axes": np.array(axes, np.int64), "multiplier": m, "shift": s}
    got = every_form("ReduceMean", {"x": x}, constants, attributes)
    sums: dict[tuple[int, ...], int] = {}
    for index in np.ndindex(x.shape):
        key = tuple(0 if a in axes else i for a, i in enumerate(index) if keep or a not in axes)
        sums[key] = sums.get(key, 0) + int(x[index]) - zero
    assert got.size == len(sums)
    for key, total in sums.items():
        assert got[key] == clamped(rescaled(total, int(m), int(s)), attributes)


def test_reduce_mean_of_a_large_plane_is_exact() -> None:
    """256 x 300 codes of 65535 steps sum to 5e9, beyond float32 and beyond 32 bits."""
    x = np.full((1, 1, 256, 300), 32767, np.int16)
    x[..., 0, 0] = 32766
    m, s = fixed_point(np.asarray(1 / (256 * 300 * 2)))
    attributes = {"x_zero_point": -32768, "keepdims": 0} | output(INT16)
    got = every_form("ReduceMean", {"x": x}, {"axes": np.array([2, 3]), "multiplier": m, "shift": s}, attributes)
    assert got.item() == rescaled(256 * 300 * 65535 - 1, int(m), int(s))


@MANY
@given(geometries(), TYPES, st.integers(0, 999))
def test_max_pool_equals_the_loop(
    g: tuple[tuple[int, ...], list[int], dict[str, list[int]]], to: int, seed: int
) -> None:
    """The largest code inside of x; a window that lies in the padding alone gives the type's smallest code."""
    shape, kernel, geometry = g
    x = codes(np.random.default_rng(seed), to, shape)
    attributes = geometry | {"kernel_shape": kernel, "lowest": LIMITS[to][0], "to": to}
    got = every_form("MaxPool", {"x": x}, {}, attributes)
    found = windows(x, kernel, geometry)
    assert got.size == len(found)
    for position, values in found.items():
        assert got[position] == max(values, default=LIMITS[to][0])


def test_max_pool_pads_never_win_over_negative_codes() -> None:
    """All codes are negative: the border keeps them, a pad of 0 would not."""
    x = np.array([[[-5, -3, -128]]], np.int8)
    attributes = {"kernel_shape": [3], "strides": [1], "pads": [1, 1], "dilations": [1], "lowest": -128, "to": INT8}
    assert every_form("MaxPool", {"x": x}, {}, attributes).ravel().tolist() == [-3, -3, -3]


def test_a_window_of_nothing_but_padding_gives_the_smallest_code() -> None:
    """Both taps of a dilated kernel miss the only element: -128, where float pooling has minus infinity."""
    attributes = {"kernel_shape": [2], "strides": [1], "pads": [1, 1], "dilations": [2], "lowest": -128, "to": INT8}
    assert every_form("MaxPool", {"x": np.array([[[7]]], np.int8)}, {}, attributes).tolist() == [[[-128]]]


@pytest.mark.parametrize(
    ("mode", "wanted"),
    [
        ("constant", [9, 9, 1, 2, 3, 9]),
        ("reflect", [3, 2, 1, 2, 3, 2]),
        ("edge", [1, 1, 1, 2, 3, 3]),
    ],
)
@pytest.mark.parametrize("to", [INT8, INT16])
def test_pad_modes_by_hand(mode: str, wanted: list[int], to: int) -> None:
    """[1, 2, 3] padded by two before and one behind; the constant is a code, 9."""
    x = np.array([1, 2, 3], np.int8 if to == INT8 else np.int16)
    got = every_form("Pad", {"x": x}, {"pads": np.array([2, 1])}, {"mode": mode, "value": 9, "to": to})
    assert got.tolist() == wanted


@QUICK
@given(st.sampled_from(["constant", "edge", "reflect"]), st.data(), TYPES, st.integers(0, 999))
def test_pad_equals_onnxruntime_on_floats(mode: str, data: st.DataObject, to: int, seed: int) -> None:
    """Growing and, for constants, cutting any axis gives what Pad of the same numbers in float gives."""
    import onnx
    from models import init, model, node, value

    shape = data.draw(st.sampled_from([(3,), (2, 3), (1, 2, 3, 4)]))
    x = codes(np.random.default_rng(seed), to, shape)
    least = -1 if mode == "constant" else 0
    most = [3 if mode == "constant" else size - 1 for size in shape]
    pads = np.array(
        [
            data.draw(st.integers(least if shape[i % len(shape)] > 2 else 0, most[i % len(shape)]))
            for i in range(2 * len(shape))
        ]
    )
    got = every_form("Pad", {"x": x}, {"pads": pads}, {"mode": mode, "value": -7, "to": to})
    made = model(
        [node("Pad", ["x", "p", "v"], "y", mode=mode)],
        [value("x", shape)],
        [value("y", None)],
        [init("p", pads, np.int64), init("v", np.float32(-7))],
        opset=18,
    )
    assert isinstance(made, onnx.ModelProto)
    wanted = session(made.SerializeToString(), optimise=False).run(None, {"x": x.astype(np.float32)})[0]
    assert got.tolist() == wanted.tolist()
