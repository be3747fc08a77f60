"""Integer weights and biases: scales per channel, rounding, and biases that do not fit."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small import MANY

from ptqlab.arith.formats import QType
from ptqlab.ops.spec import Encoding
from ptqlab.quantize.weights import LARGEST_BIAS, channel_axis, channel_scales, encode_weights

X = Encoding(QType.INT8, np.float32(0.5))


def operator(op: str, weight: np.ndarray, bias: np.ndarray | None = None, **attributes: int) -> ir.Node:
    """A Conv, MatMul or Gemm node with these constants."""
    values = [ir.Value(name="x")]
    for name, array in (("w", weight), ("b", bias)):
        if array is not None:
            values.append(ir.Value(name=name, const_value=ir.tensor(array, name=name)))
    attrs = [ir.AttrInt64(k, v) for k, v in attributes.items()]
    return ir.Node("", op, values, attributes=attrs, num_outputs=1, name="n")


def conv(weight: object, bias: object = None) -> ir.Node:
    shaped = np.array(weight, np.float32)
    return operator(
        "Conv", shaped.reshape(shaped.shape[0], -1, 1, 1), None if bias is None else np.array(bias, np.float32)
    )


def test_each_channel_uses_its_whole_range() -> None:
    """scale = max |w| / 127 per output channel: 127 and 1.27 become code 127, their halves 64 (63.5 goes up)."""
    made, widened = encode_weights(conv([[127, -63.5], [1.27, 0.635]]), None, X)
    assert made.codes.reshape(2, 2).tolist() == [[127, -64], [127, 64]]
    assert made.scale.tolist() == pytest.approx([1.0, 0.01])
    assert made.codes.dtype == np.int8 and widened == ()


def test_an_all_zero_channel_gets_scale_1_and_zeros_and_keeps_its_bias() -> None:
    """A pruned channel makes no 0/0; its bias is counted in steps of the input."""
    made, _ = encode_weights(conv([[0, 0], [1, 2]], [3.25, 0]), None, X)
    assert (made.scale[0], made.codes[0].any(), made.bias[0]) == (1.0, False, 7)  # 3.25 / (0.5 * 1) = 6.5 -> 7


def test_bias_and_the_constant_that_the_group_adds_go_together() -> None:
    """bias = round_half_away((b + added) / (x.scale * scale)): (1 + 0.25) / (0.5 * 1) = 2.5 -> 3, (-1.25) -> -3."""
    weight = [[127.0], [127.0]]
    made, _ = encode_weights(conv(weight, [1, -1]), np.array([[[0.25]], [[-0.25]]], np.float32), X)
    assert made.bias.tolist() == [3, -3]
    made, _ = encode_weights(conv(weight), np.array(0.25, np.float32), X)
    assert made.bias.tolist() == [1, 1]  # 0.5 -> 1: one value for all channels


@pytest.mark.parametrize(("op", "transposed", "axis"), [("MatMul", 0, 1), ("Gemm", 0, 1), ("Gemm", 1, 0)])
def test_channels_of_matrices(op: str, transposed: int, axis: int) -> None:
    """MatMul and Gemm have their channels on axis 1, Gemm with transB on axis 0; codes always come as [K, N]."""
    weight = np.array([[1, 20, 300], [2, -10, 150]], np.float32)
    held = weight.T if transposed else weight
    node = operator(op, np.ascontiguousarray(held), **({"transB": 1} if transposed else {}))
    assert channel_axis(node) == axis
    made, _ = encode_weights(node, None, X)
    assert made.codes.tolist() == [[64, 127, 127], [127, -64, 64]]
    assert made.scale.tolist() == pytest.approx([2 / 127, 20 / 127, 300 / 127])


def test_a_bias_that_does_not_fit_widens_the_scale_of_its_channel_only() -> None:
    """Bias 1 beside weights of 1e-9 and an input step of 1e-3: the channel's scale grows until the bias has 31 bits."""
    x = Encoding(QType.INT8, np.float32(1e-3))
    made, widened = encode_weights(conv([[1e-9], [1.0]], [1.0, 1.0]), None, x)
    assert widened == (0,)
    assert LARGEST_BIAS * 0.99 < made.bias[0] <= LARGEST_BIAS
    assert made.scale[1] == np.float32(1 / 127)
    real = made.bias * np.float64(x.scale) * made.scale.astype(np.float64)
    assert real.tolist() == pytest.approx([1.0, 1.0], rel=1e-4)


@MANY
@given(st.integers(0, 10**6), st.floats(-12, 3), st.floats(-6, 3))
def test_weights_and_biases_are_near_and_fit(seed: int, weight_size: float, input_size: float) -> None:
    """Any sizes: codes within [-127, 127], each weight within half a step, each bias within half a step and 31 bits."""
    rng = np.random.default_rng(seed)
    weight = (rng.standard_normal((3, 2, 2, 2)) * 10.0**weight_size).astype(np.float32)
    bias = rng.standard_normal(3).astype(np.float32)
    x = Encoding(QType.INT16, np.float32(10.0**input_size))
    made, _ = encode_weights(operator("Conv", weight, bias), None, x)
    steps = made.scale.astype(np.float64).reshape(3, 1, 1, 1)
    assert np.abs(made.codes.astype(int)).max() <= 127
    assert np.all(np.abs(made.codes * steps - weight) <= steps * 0.5001)
    unit = np.float64(x.scale) * made.scale.astype(np.float64)
    assert np.all(np.abs(made.bias) <= LARGEST_BIAS)
    assert np.all(np.abs(made.bias * unit - bias) <= unit * 0.5001)


def test_scales_never_vanish() -> None:
    """A channel whose scale would underflow is treated as zero."""
    weight = np.array([[1e-45], [1e-40], [0.0]], np.float32)
    scales = channel_scales(weight, 0)
    assert scales[0] == scales[2] == 1.0 and np.all(scales > 0)


def test_int16_weights_use_int16_codes_and_a_bias_of_256_times_their_step() -> None:
    """scale = max |w| / 32767; with int16 features the sum loses 8 bits before the bias joins it."""
    x = Encoding(QType.INT16, np.float32(0.5))
    made, _ = encode_weights(conv([[32767, -1], [0.5, 0.25]], [640, 0]), None, x, qtype=QType.INT16)
    assert made.qtype is QType.INT16 and made.codes.reshape(2, 2).tolist() == [[32767, -1], [32767, 16384]]
    assert made.scale.tolist() == pytest.approx([1.0, 0.5 / 32767])
    assert made.bias.tolist() == [5, 0]  # 640 / (0.5 * 1 * 256)
