"""The fast path's choice of exact products: every route is taken where it should be, and gives the same bits."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small import INT8, INT16, MANY, codes, every_form, one_operator, output

from ptqlab.arith.requantize import fixed_point
from ptqlab.ops.integer import INTEGER_OPS
from ptqlab.ops.integer.exact import EXACT_FLOAT32, reach, weight_digits
from ptqlab.simulate.fast import fast_model

NO_PADS = {"strides": [1, 1], "pads": [0] * 4, "dilations": [1, 1], "group": 1, "x_zero_point": 0}
SAME = NO_PADS | {"pads": [1] * 4}


def constants(weight: np.ndarray, ratio: float, rank: int = 2) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(5)
    channels = weight.shape[0] if rank else weight.shape[1]
    m, s = fixed_point((ratio * rng.uniform(0.5, 1, channels)).reshape(-1, *(1,) * rank))
    bias = rng.integers(-(2**20), 2**20, channels).astype(np.int32).reshape(-1, *(1,) * rank)
    return {"weight": weight, "bias": bias, "multiplier": m, "shift": s}


def fast_nodes(op: str, x: np.ndarray, held: dict[str, np.ndarray], attributes: dict[str, Any]) -> list[ir.Node]:
    """The standard nodes that the fast path runs for one operator."""
    arrays = {"x": x, **held}
    result = INTEGER_OPS[op].reference(attributes, *(arrays[i] for i in INTEGER_OPS[op].inputs))
    quantized = one_operator(op, {"x": x}, held, attributes, result)
    part = quantized.parts[0]
    return list(fast_model({str(n.name): n for n in quantized.model.graph}, part, ["result"]).graph)


def counted(nodes: list[ir.Node], op_type: str) -> int:
    return sum(n.op_type == op_type for n in nodes)


def depthwise(channels: int, taps: int, *, large: int, dtype: type = np.int8) -> np.ndarray:
    """3 x 3 weights per channel; `large` channels have all taps at the end of the range, the others few."""
    weight = np.zeros((channels, 1, 3, 3), dtype)
    weight.reshape(channels, 9)[:, :taps] = 127
    weight.reshape(channels, 9)[:large] = -128 if dtype is np.int8 else -21846  # no digit of it is 0
    return weight


ROUTES = {
    # name: operator, codes, weights, attributes, {standard operator: how many}
    "int16 1x1 is a float64 matrix product": (
        "Int16Conv", INT16, np.full((6, 40, 1, 1), -127, np.int8), NO_PADS, {"MatMul": 1, "Conv": 0}),
    "few int8 channels that become many, too": (
        "Int8Conv", INT8, np.full((40, 6, 1, 1), -127, np.int8), NO_PADS, {"MatMul": 1, "Concat": 1, "Conv": 0}),
    "other int8 channels are one float32 convolution": (
        "Int8Conv", INT8, np.full((6, 40, 1, 1), -127, np.int8), NO_PADS, {"Conv": 1, "MatMul": 0}),
    "small sums of int16 are one float32 convolution": (
        "Int16Conv", INT16, depthwise(48, 4, large=0), SAME | {"group": 48}, {"Conv": 1, "ScatterND": 0}),
    "few channels with large sums have a second one": (
        "Int16Conv", INT16, depthwise(48, 4, large=3), SAME | {"group": 48}, {"Conv": 2, "ScatterND": 1, "Gather": 1}),
    "many channels with large sums are done twice": (
        "Int16Conv", INT16, depthwise(48, 4, large=30), SAME | {"group": 48}, {"Conv": 2, "ScatterND": 0}),
    "dense convolutions of int16 by digits of the weights": (
        "Int16Conv", INT16, np.full((2, 3, 3, 3), -128, np.int8), SAME, {"Conv": 2, "Floor": 1}),
    "large ones by halves of the features": (
        "Int16Conv", INT16, np.full((2, 50, 3, 3), -128, np.int8), SAME, {"Conv": 2, "Floor": 2}),
    "still larger ones by bytes": (
        "Int16Conv", INT16, np.full((2, 600, 3, 3), -128, np.int8), SAME, {"ConvInteger": 2, "Conv": 0}),
    "int8 beyond float32 by bytes": (
        "Int8Conv", INT8, np.full((2, 600, 3, 3), -128, np.int8), SAME, {"ConvInteger": 1, "Conv": 0}),
    "dual-int16 depthwise by three digits": (
        "DualInt16Conv", INT16, depthwise(16, 3, large=12, dtype=np.int16), SAME | {"group": 16}, {"Conv": 3}),
    "dual-int16 by digits and halves": (
        "DualInt16Conv", INT16, np.full((2, 20, 3, 3), -(2**15), np.int16), SAME, {"Conv": 4, "ConvInteger": 0}),
    "dual-int16 1x1 is a float64 matrix product": (
        "DualInt16Conv", INT16, np.full((6, 40, 1, 1), -(2**15), np.int16), NO_PADS, {"MatMul": 1, "Conv": 0}),
    "strided 1x1 is a convolution": (
        "Int16Conv", INT16, np.full((6, 8, 1, 1), -127, np.int8), NO_PADS | {"strides": [2, 2]}, {"MatMul": 0}),
}  # fmt: skip


@pytest.mark.parametrize("zero_point", [0, -7, 32767])
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("route", ROUTES)
def test_convolutions_take_their_route_and_are_exact(route: str, sign: int, zero_point: int) -> None:
    """Weights and codes at the ends of their range, where the last bit of a sum is the first to be lost."""
    op, source, weight, attributes, wanted = ROUTES[route]
    if source == INT8:
        zero_point = max(-128, min(127, zero_point))
    attributes = attributes | {"x_zero_point": zero_point} | output(INT16)
    channels = weight.shape[1] * attributes["group"]
    rng = np.random.default_rng(1)
    ends = (-128, 127) if source == INT8 else (-(2**15), 2**15 - 1)
    x = np.full((2, channels, 5, 4), ends[0 if sign > 0 else 1], np.int8 if source == INT8 else np.int16)
    x[1] = rng.choice(ends, x.shape[1:])
    x[1, :, 1] = codes(rng, source, x[1, :, 1].shape)
    held = constants(weight, 2.0**-14 if weight.dtype == np.int8 else 2.0**-22)
    every_form(op, {"x": x}, held, attributes)
    tail = {k: held[k] for k in ("weight", "bias")}
    every_form(f"{op}Tail", {"x": x}, tail, {k: v for k, v in attributes.items() if k not in output()})
    if not zero_point:
        nodes = fast_nodes(op, x, held, attributes)
        assert {name: counted(nodes, name) for name in wanted} == wanted


@pytest.mark.parametrize(("rows", "integer"), [(4, 2), (5, 0)])
def test_very_few_rows_of_large_weights_are_multiplied_as_bytes(rows: int, integer: int) -> None:
    """A classifier's cost is reading its weights: bytes are read, float64 for more rows; the bits are the same."""
    rng = np.random.default_rng(2)
    weight = codes(rng, INT8, (512, 256))
    x = codes(rng, INT16, (rows, 512))
    attributes = {"x_zero_point": 3} | output(INT16)
    held = constants(weight, 2.0**-17, 0)
    every_form("Int16MatMul", {"x": x}, held, attributes)
    nodes = fast_nodes("Int16MatMul", x, held, attributes)
    assert counted(nodes, "MatMulInteger") == integer
    assert counted(nodes, "MatMul") == (not integer)


@MANY
@given(st.integers(0, 999), st.integers(0, 2), st.integers(0, 2))
def test_a_residual_and_a_clamp_at_zero_join_in_every_route(seed: int, kind: int, clamp: int) -> None:
    """With a residual, a zero point of the output and the clamps of Relu: the same bits as the reference."""
    rng = np.random.default_rng(seed)
    op, bits = (("Int8ConvAdd", INT8), ("Int16ConvAdd", INT16), ("DualInt16ConvAdd", INT16))[kind]
    weight = codes(rng, INT16 if kind == 2 else INT8, (rng.integers(1, 40), rng.integers(1, 40), 1, 1))
    x = codes(rng, bits, (1, weight.shape[1], 2, 3))
    residual = codes(rng, INT16, (1, weight.shape[0], 2, 3))
    held = constants(weight, 2.0 ** -rng.uniform(0, 24))
    rm, rs = fixed_point(np.asarray(2.0 ** rng.uniform(-12, 4)))
    zero = int(rng.integers(-300, 300))
    attributes = NO_PADS | {"residual_zero_point": int(rng.integers(-9, 9))} | output(
        INT16, zero, (None, zero, 0)[clamp])  # fmt: skip
    every_form(op, {"x": x, "residual": residual}, held | {"residual_multiplier": rm, "residual_shift": rs}, attributes)
    plain = {k: v for k, v in attributes.items() if k != "residual_zero_point"}
    every_form(op.removesuffix("Add"), {"x": x}, held, plain)


def test_the_reach_by_hand() -> None:
    """Weights 3 and -2 on x in -1..4: at most 3 * 4 + 2 * 1 = 14, at least -(2 * 4 + 3 * 1) = -11."""
    assert reach(np.array([[3, -2]]), 0, (-1, 4)).tolist() == [14]
    assert reach(np.array([[3], [-2]]), 1, (-1, 4)).tolist() == [14]


@MANY
@given(st.integers(0, 999), st.sampled_from([8, 16]), st.integers(1, 4))
def test_digits_add_up_to_the_weights_and_stay_in_reach(seed: int, bits: int, most: int) -> None:
    """Whatever the span: the digits' sum is the weights, each reach is below 2^24 at its own power of two."""
    rng = np.random.default_rng(seed)
    half = 1 << (bits - 1)
    weight = rng.integers(-half, half, (5, rng.integers(1, 60)))
    span = (-int(rng.integers(0, 2**16)), int(rng.integers(0, 2**16)))
    digits = weight_digits(weight, 0, span, bits, most)
    if digits is None:
        assert reach(weight, 0, span).max() >= EXACT_FLOAT32
        return
    assert len(digits) <= most
    assert np.array_equal(sum(digits), weight)
    for index, digit in enumerate(digits):
        unit = 1 << (index * -(-bits // len(digits)))
        assert not (digit % unit).any()
        assert reach(digit // unit, 0, span).max() < EXACT_FLOAT32


BYTES = ir.DataType.UINT8


@pytest.mark.parametrize("op", [name for name, o in INTEGER_OPS.items() if "weight" in o.inputs or "b" in o.inputs])
def test_functions_multiply_bytes_with_bytes_only(op: str) -> None:
    """uint8 x int8 saturates on processors without VNNI: both operands of every integer product are uint8."""
    _only_bytes(op, INTEGER_OPS[op].function().graph)


@pytest.mark.parametrize("op", [f"{p}Conv{t}" for p in ("Int8", "Int16", "DualInt16") for t in ("", "Tail")])
def test_the_fast_path_multiplies_bytes_with_bytes_only(op: str) -> None:
    """The same where its sums are too large for float."""
    weight = np.full((2, 600, 3, 3), -(2**15) if "Dual" in op else -128, np.int16 if "Dual" in op else np.int8)
    x = np.zeros((1, 600, 3, 3), np.int8 if op.startswith("Int8") else np.int16)
    held = {k: v for k, v in constants(weight, 2.0**-14).items() if k in INTEGER_OPS[op].inputs}
    attributes = {k: v for k, v in (SAME | output(INT16)).items() if k in INTEGER_OPS[op].attributes}
    nodes = fast_nodes(op, x, held, attributes)
    assert any("Integer" in n.op_type for n in nodes)
    _only_bytes(op, nodes)


def _only_bytes(op: str, nodes: Iterable[ir.Node]) -> None:
    for node in nodes:
        if node.op_type in ("ConvInteger", "MatMulInteger"):
            for operand in node.inputs[:2]:
                assert operand is not None
                assert _is_bytes(operand), f"{op}: {operand.name} is not known to be uint8"


def _is_bytes(value: ir.Value) -> bool:
    if value.const_value is not None:
        return value.const_value.dtype == BYTES
    made = value.producer()
    return made is not None and made.op_type == "Cast" and made.attributes["to"].value == int(BYTES)
