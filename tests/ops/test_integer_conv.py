"""Integer convolutions: by hand, against slow loops, the same bits in every form, on both sides of float32's bound."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small import INT8, INT16, LIMITS, MANY, clamped, codes, every_form, output, rescaled

from ptqlab.arith.requantize import GUARD_BITS, fixed_point

NO_PADS = {"strides": [1, 1], "pads": [0] * 4, "dilations": [1, 1], "group": 1, "x_zero_point": 0}
PREFIX = {INT8: "Int8", INT16: "Int16"}
TYPES = st.sampled_from([INT8, INT16])


def loops(x: np.ndarray, weight: np.ndarray, bias: np.ndarray, g: dict[str, object]) -> dict[tuple[int, ...], int]:
    """Accumulator at each output position, in Python's integers, straight from the definition of convolution."""
    strides, pads, dilations, group, zero = (g[k] for k in ("strides", "pads", "dilations", "group", "x_zero_point"))
    rank, per = x.ndim - 2, weight.shape[0] // group
    sizes = [
        (x.shape[2 + i] + pads[i] + pads[rank + i] - dilations[i] * (weight.shape[2 + i] - 1) - 1) // strides[i] + 1
        for i in range(rank)
    ]
    result = {}
    for position in itertools.product(range(x.shape[0]), range(weight.shape[0]), *(range(s) for s in sizes)):
        n, o, at = position[0], position[1], position[2:]
        total = int(bias.reshape(-1)[o])
        for c in range(weight.shape[1]):
            for tap in itertools.product(*(range(k) for k in weight.shape[2:])):
                where = [at[i] * strides[i] + tap[i] * dilations[i] - pads[i] for i in range(rank)]
                if all(0 <= w < x.shape[2 + i] for i, w in enumerate(where)):
                    value = int(x[(n, (o // per) * weight.shape[1] + c, *where)]) - zero
                    total += value * int(weight[(o, c, *tap)])
        result[position] = total
    return result


@st.composite
def geometries(draw: st.DrawFn) -> dict[str, object]:
    """x shape, weight shape, and attributes of a convolution: 1-D to 3-D, grouped, strided, dilated, uneven pads."""
    rank = draw(st.sampled_from([1, 2, 2, 3]))
    group = draw(st.sampled_from([1, 1, 2, 3]))
    per_in, per_out = draw(st.integers(1, 2)), draw(st.integers(1, 2))
    depthwise = draw(st.booleans())
    if depthwise:
        group, per_in, per_out = 3, 1, draw(st.sampled_from([1, 2]))
    kernel = [draw(st.integers(1, 3)) for _ in range(rank)]
    dilations = [draw(st.sampled_from([1, 1, 2])) for _ in range(rank)]
    pads = [draw(st.integers(0, 2)) for _ in range(2 * rank)]
    sizes = []
    for i in range(rank):
        least = dilations[i] * (kernel[i] - 1) + 1 - pads[i] - pads[rank + i]
        sizes.append(draw(st.integers(max(1, least), max(1, least) + 3)))
    return {
        "x": (draw(st.integers(1, 2)), group * per_in, *sizes),
        "weight": (group * per_out, per_in, *kernel),
        "strides": [draw(st.integers(1, 3)) for _ in range(rank)],
        "pads": pads,
        "dilations": dilations,
        "group": group,
    }


def zero_points(to: int) -> st.SearchStrategy[int]:
    return st.sampled_from([0, 0, 5, *LIMITS[to]])


def per_channel(values: np.ndarray, weight: np.ndarray) -> np.ndarray:
    return values.reshape(-1, *(1,) * (weight.ndim - 2))


def test_a_convolution_by_hand() -> None:
    """x = [[1,2],[3,4]] with w = [[1,0],[0,-1]] and bias 10: 1 - 4 + 10 = 7; at ratio 1/2 that is 3.5 -> 4."""
    x, w = np.array([[[[1, 2], [3, 4]]]], np.int8), np.array([[[[1, 0], [0, -1]]]], np.int8)
    m, s = fixed_point(np.array([[[0.5]]]))
    constants = {"weight": w, "bias": np.array([[[10]]], np.int32), "multiplier": m, "shift": s}
    assert every_form("Int8Conv", {"x": x}, constants, NO_PADS | output()).tolist() == [[[[4]]]]
    tail = {k: constants[k] for k in ("weight", "bias")}
    assert every_form("Int8ConvTail", {"x": x}, tail, NO_PADS).tolist() == [[[[7]]]]


def test_padding_stands_for_real_zero_and_not_for_code_zero() -> None:
    """With zero point 3 the code 3 stands for 0, and a pad adds nothing either: any window over 3, 5 sums to 2."""
    x, w = np.array([[[3, 5]]], np.int8), np.ones((1, 1, 3), np.int8)
    geometry = {"strides": [1], "pads": [2, 2], "dilations": [1], "group": 1, "x_zero_point": 3}
    got = every_form("Int8ConvTail", {"x": x}, {"weight": w, "bias": np.zeros((1, 1), np.int32)}, geometry)
    assert got.tolist() == [[[0, 2, 2, 2]]]


def test_a_residual_is_added_before_the_only_rounding() -> None:
    """acc/2 + r/4 = 1/2 + 3/4 = 1.25 -> 1; two roundings would give 1 + 1 = 2. A Relu clamps at the zero point."""
    x, w = np.array([[[[1]], [[-9]]]], np.int8), np.ones((2, 1, 1, 1), np.int8)
    residual = np.array([[[[3]], [[3]]]], np.int8)
    m, s = fixed_point(np.full((2, 1, 1), 0.5))
    rm, rs = fixed_point(np.asarray(0.25))
    constants = {
        "weight": w,
        "bias": np.zeros((2, 1, 1), np.int32),
        "multiplier": m,
        "shift": s,
        "residual_multiplier": rm,
        "residual_shift": rs,
    }
    attributes = NO_PADS | {"group": 2, "residual_zero_point": 0} | output(low=0)
    assert every_form("Int8ConvAdd", {"x": x, "residual": residual}, constants, attributes).ravel().tolist() == [1, 0]


@MANY
@given(geometries(), TYPES, TYPES, st.data(), st.integers(0, 999))
def test_conv_equals_the_loop(g: dict[str, object], source: int, to: int, data: st.DataObject, seed: int) -> None:
    """Any geometry, types, zero points and clamps, a ratio per channel: every form equals Python's integers."""
    rng = np.random.default_rng(seed)
    x, weight = codes(rng, source, g.pop("x")), codes(rng, INT8, g.pop("weight"))
    bias = per_channel(rng.integers(-(2**20), 2**20, weight.shape[0]).astype(np.int32), weight)
    m, s = fixed_point(per_channel(2.0 ** rng.uniform(-24, -6, weight.shape[0]), weight))
    zero, low = data.draw(zero_points(to)), data.draw(st.booleans())
    attributes = g | {"x_zero_point": data.draw(zero_points(source))} | output(to, zero, zero if low else None)
    got = every_form(
        f"{PREFIX[source]}Conv", {"x": x}, {"weight": weight, "bias": bias, "multiplier": m, "shift": s}, attributes
    )
    wanted = loops(x, weight, bias, attributes)
    assert got.size == len(wanted)
    for position, acc in wanted.items():
        o = position[1]
        assert got[position] == clamped(rescaled(acc, m.reshape(-1)[o], int(s.reshape(-1)[o])), attributes)


@MANY
@given(geometries(), TYPES, TYPES, TYPES, st.data(), st.integers(0, 999))
def test_conv_add_equals_the_loop(
    g: dict[str, object], source: int, other: int, to: int, data: st.DataObject, seed: int
) -> None:
    """As above with a residual operand of any type: one rounding of the sum."""
    rng = np.random.default_rng(seed)
    x, weight = codes(rng, source, g.pop("x")), codes(rng, INT8, g.pop("weight"))
    bias = per_channel(rng.integers(-(2**20), 2**20, weight.shape[0]).astype(np.int32), weight)
    m, s = fixed_point(per_channel(2.0 ** rng.uniform(-24, -6, weight.shape[0]), weight))
    rm, rs = fixed_point(np.asarray(2.0 ** rng.uniform(-9, 3)))
    attributes = g | {
        "x_zero_point": data.draw(zero_points(source)),
        "residual_zero_point": data.draw(zero_points(other)),
    }
    attributes |= output(to, data.draw(zero_points(to)))
    wanted = loops(x, weight, bias, attributes)
    shape = tuple(np.array(list(wanted)).max(axis=0) + 1)
    residual = codes(rng, other, shape)
    constants = {
        "weight": weight,
        "bias": bias,
        "multiplier": m,
        "shift": s,
        "residual_multiplier": rm,
        "residual_shift": rs,
    }
    got = every_form(f"{PREFIX[source]}ConvAdd", {"x": x, "residual": residual}, constants, attributes)
    for position, acc in wanted.items():
        o = position[1]
        total = rescaled(acc, m.reshape(-1)[o], int(s.reshape(-1)[o]) - GUARD_BITS)
        total += rescaled(int(residual[position]) - attributes["residual_zero_point"], int(rm), int(rs) - GUARD_BITS)
        assert got[position] == clamped((total + (1 << (GUARD_BITS - 1))) >> GUARD_BITS, attributes)


@MANY
@given(geometries(), TYPES, st.data(), st.integers(0, 999))
def test_conv_tail_equals_the_loop(g: dict[str, object], source: int, data: st.DataObject, seed: int) -> None:
    """The high-precision tail hands on the accumulator itself."""
    rng = np.random.default_rng(seed)
    x, weight = codes(rng, source, g.pop("x")), codes(rng, INT8, g.pop("weight"))
    bias = per_channel(rng.integers(-(2**30), 2**30, weight.shape[0]).astype(np.int32), weight)
    attributes = g | {"x_zero_point": data.draw(zero_points(source))}
    got = every_form(f"{PREFIX[source]}ConvTail", {"x": x}, {"weight": weight, "bias": bias}, attributes)
    for position, acc in loops(x, weight, bias, attributes).items():
        assert got[position] == max(-(2**31), min(2**31 - 1, acc))


@pytest.mark.parametrize(("channels", "path"), [(1040, "float32"), (1041, "uint8")])
@pytest.mark.parametrize("sign", [1, -1])
def test_both_sides_of_the_float32_bound_are_exact(channels: int, path: str, sign: int) -> None:
    """1040 weights of 126 on |x| <= 128 sum to 16773120 < 2^24 and are carried in float32; one more is not.

    An odd sum just below 2^24 would be the first to lose its last bit in float32.
    """
    from ptqlab.ops.integer.exact import EXACT_FLOAT32, reach

    x = np.full((1, channels, 1, 1), -128 * sign if sign > 0 else 127, np.int8)
    weight = np.full((1, channels, 1, 1), 126, np.int8)
    x[0, 0], weight[0, 0] = 127, 125
    attributes = NO_PADS | {"x_zero_point": 0}
    bias = np.array([[[1]]], np.int32)
    assert (reach(weight.astype(int), 0, (-128, 127)).max() < EXACT_FLOAT32) == (path == "float32")
    got = every_form("Int8ConvTail", {"x": x}, {"weight": weight, "bias": bias}, attributes)
    assert got.item() == int(x.astype(np.int64).ravel() @ weight.astype(np.int64).ravel()) + 1


@pytest.mark.parametrize("source", [INT8, INT16])
@pytest.mark.parametrize("group", [1, 300])
def test_the_byte_path_is_exact_with_groups_pads_and_zero_points(source: int, group: int) -> None:
    """Weights too large for float32 sums take the uint8 path (ConvInteger), padded and strided, depthwise too."""
    rng = np.random.default_rng(1)
    x = codes(rng, source, (1, 300, 5, 4))
    weight = rng.choice([-127, 127, 126], (300 if group > 1 else 2, 300 // group, 15, 15)).astype(np.int8)
    attributes = {"strides": [2, 3], "pads": [7, 6, 8, 9], "dilations": [1, 1], "group": group, "x_zero_point": 17}
    span = 255 if source == INT16 else 145
    assert (np.abs(weight.astype(int)).sum(axis=(1, 2, 3)) * span >= 1 << 24).all() == (group == 1)
    bias = per_channel(rng.integers(-(2**28), 2**28, weight.shape[0]).astype(np.int32), weight)
    got = every_form(f"{PREFIX[source]}ConvTail", {"x": x}, {"weight": weight, "bias": bias}, attributes)
    o, n = weight.shape[0] - 1, 0
    few = loops(x[:, -(300 // group) :], weight[o:], bias[o:], attributes | {"group": 1})
    for position, acc in few.items():
        assert got[(n, o, *position[2:])] == max(-(2**31), min(2**31 - 1, acc))


@pytest.mark.parametrize(
    ("source", "code", "bias"),
    [
        (INT16, 32767, 0),
        (INT16, -32768, 0),
        (INT8, 127, 2**31 - 1),
        (INT8, -128, -(2**31)),
    ],
)
def test_a_tail_beyond_32_bits_saturates_in_every_form(source: int, code: int, bias: int) -> None:
    """600 products of an extreme code with 127, or a bias at the end of its range, stop at the end of int32."""
    x = np.full((1, 600, 1, 1), code, np.int8 if source == INT8 else np.int16)
    weight = np.full((1, 600, 1, 1), 127, np.int8)
    constants = {"weight": weight, "bias": np.array([[[bias]]], np.int32)}
    got = every_form(f"{PREFIX[source]}ConvTail", {"x": x}, constants, NO_PADS)
    assert got.item() == (2**31 - 1 if code > 0 else -(2**31))


@pytest.mark.parametrize("bias", [2**30, -(2**30), 2**31 - 1, -(2**31)])
def test_a_large_bias_is_exact_beside_large_weights(bias: int) -> None:
    """The accumulator is the exact sum, though bias and products together leave 32 bits, before it is scaled down."""
    x = np.full((1, 40000, 1, 1), 127 if bias > 0 else -127, np.int8)
    weight = np.full((1, 40000, 1, 1), 127, np.int8)
    total = 40000 * 127 * (127 if bias > 0 else -127) + bias
    m, s = fixed_point(np.array([[[100 / total]]]) * np.sign(total))
    constants = {"weight": weight, "bias": np.array([[[bias]]], np.int32), "multiplier": m, "shift": s}
    got = every_form("Int8Conv", {"x": x}, constants, NO_PADS | output())
    assert got.item() == rescaled(total, int(m.item()), int(s.item()))
    assert abs(got.item()) == 100


def test_negative_multipliers_and_saturation_at_both_ends() -> None:
    """A negative ratio per channel mirrors its channel, and both ends of the clamp are met."""
    x = np.array([[[[-128]], [[127]]]], np.int8)
    weight = np.array([[[[100]]], [[[100]]]], np.int8)
    m, s = fixed_point(np.array([-0.5, 0.5]).reshape(2, 1, 1))
    constants = {"weight": weight, "bias": np.zeros((2, 1, 1), np.int32), "multiplier": m, "shift": s}
    got = every_form("Int8Conv", {"x": x}, constants, NO_PADS | {"group": 2} | output())
    assert got.ravel().tolist() == [127, 127]
    got = every_form("Int8Conv", {"x": -x - 1}, constants, NO_PADS | {"group": 2} | output())
    assert got.ravel().tolist() == [-128, -128]


def test_int16_features_at_the_extremes() -> None:
    """-32768 and 32767 split into bytes (0, 0) and (255, 255); their products are exact."""
    x = np.array([[[-32768, 32767, -1, 0, 255, -256]]], np.int16)
    weight = np.array([[[-127]]], np.int8)
    geometry = {"strides": [1], "pads": [0, 0], "dilations": [1], "group": 1, "x_zero_point": 0}
    got = every_form("Int16ConvTail", {"x": x}, {"weight": weight, "bias": np.array([[1]], np.int32)}, geometry)
    assert got.ravel().tolist() == [32768 * 127 + 1, -32767 * 127 + 1, 128, 1, -255 * 127 + 1, 256 * 127 + 1]
