"""Integer weights and biases of the operators with weights."""
from __future__ import annotations

import numpy as np
import onnx_ir as ir

from ptqlab.arith.formats import QType
from ptqlab.arith.rounding import quantize, round_half_away
from ptqlab.ops.integer.accumulate import drop_bits
from ptqlab.ops.node import attribute, constant, input_value, shape
from ptqlab.ops.spec import Encoding, WeightEncoding
from ptqlab.quantize.means import common, mean_output_error, output_means

# steps of weights that "mse" tries, relative to the largest weight's
SHRINKS = np.linspace(1.0, 0.6, 41)
# The bias takes at most half of the 32 bits of the accumulator, which leaves the other half to the products.
LARGEST_BIAS = 1 << 30


def channel_axis(node: ir.Node) -> int:
    """Axis of the output channels in the weight as the node holds it: Conv 0, ConvTranspose 1 (of each group), MatMul
    1, Gemm 1 (0 with transB)."""
    if node.op_type == "Conv":
        return 0
    return 0 if node.op_type == "Gemm" and attribute(node, "transB", 0) else 1


def numbers(array: np.ndarray) -> np.ndarray:
    """The array with 0 in place of NaN and Inf, which no code can stand for (`encode` tells of them)."""
    return np.where(np.isfinite(array), array, np.zeros((), array.dtype))


def float_bias(node: ir.Node, added: np.ndarray | None, channels: int) -> np.ndarray:
    """Bias of each channel, float64: the node's own and the constant that its group adds."""
    total = np.zeros(channels)
    for part in (constant(input_value(node, 2)), added):
        if part is not None:
            total = total + np.broadcast_to(numbers(part).astype(np.float64).ravel(), (channels,))
    return total


def weight_groups(node: ir.Node) -> int:
    """Groups whose channels share an index on the channel axis."""
    return int(attribute(node, "group", 1)) if node.op_type == "ConvTranspose" else 1


def per_weight(node: ir.Node, channels: np.ndarray, rank: int) -> np.ndarray:
    """A number per output channel, shaped to broadcast against the weight as the node holds it, of `rank` axes."""
    group = weight_groups(node)
    if group == 1:
        axis = channel_axis(node)
        return channels.reshape(tuple(-1 if a == axis else 1 for a in range(rank)))
    rows = shape(node.inputs[1])[0] // group
    by_group = np.repeat(channels.reshape(group, -1), rows, axis=0)
    return by_group.reshape(*by_group.shape, *(1,) * (rank - 2))


def channel_scales(weight: np.ndarray, axis: int, group: int = 1, qtype: QType = QType.INT8) -> np.ndarray:
    """scale[c] = max |w[c]| / 127 (int16: / 32767), float32; 1.0 for a channel of zeros.

    group  of a ConvTranspose, whose axis 0 holds the groups one after the other
    """
    largest = np.abs(weight.astype(np.float32))
    if group > 1:
        largest = largest.reshape(group, weight.shape[0] // group, weight.shape[1], -1).max(axis=(1, 3)).ravel()
    else:
        largest = largest.max(axis=tuple(a for a in range(weight.ndim) if a != axis))
    scale = largest / np.float32(qtype.qmax)
    return np.where(scale > 0, scale, np.float32(1.0)).astype(np.float32)


def least_error_scales(node: ir.Node, weight: np.ndarray, scale: np.ndarray, qtype: QType) -> np.ndarray:
    """Of SHRINKS times each channel's largest step the one with the smallest sum of (w - w')^2; of equal ones the
    largest. float32, one entry per channel."""
    best, least = scale.copy(), np.full(scale.shape, np.inf)
    number = per_weight(node, np.arange(scale.size), weight.ndim)
    channel = np.broadcast_to(number, weight.shape).ravel()
    for shrink in SHRINKS:
        tried = (scale * np.float32(shrink)).astype(np.float32)
        along = per_weight(node, tried, weight.ndim)
        error = (weight - quantize(weight, along, 0, qtype.qmin, qtype.qmax) * along).astype(np.float64) ** 2
        sums = np.bincount(channel, error.ravel(), scale.size)
        better = sums < least
        best, least = np.where(better, tried, best), np.where(better, sums, least)
    return best


def dequantized(node: ir.Node, encoding: WeightEncoding) -> np.ndarray:
    """Quantized weights as float32, laid out as the node holds them."""
    axis = channel_axis(node)
    codes = encoding.codes.T if node.op_type == "Gemm" and axis == 0 else encoding.codes
    along = per_weight(node, encoding.scale, codes.ndim)
    if encoding.factors is not None:
        along = along / encoding.factors
    return np.asarray(codes.astype(np.float32) * along)


def encode_weights(
    node: ir.Node, added: np.ndarray | None, x: Encoding, mean: np.ndarray | None = None, qtype: QType = QType.INT8,
    factors: np.ndarray | None = None, method: str = "max", correction: np.ndarray | None = None,
    shift: np.ndarray | None = None,
) -> tuple[WeightEncoding, tuple[int, ...]]:
    """Integer weights and bias for input encoding `x`; also the channels whose scale was widened for their bias.

    bias = round_half_away(b / (x.scale * scale[c])), of dual-int16 (int16 weights) at 256 times that step: see
    `ops.integer.accumulate`. Where it leaves 31 bits, the scale of the channel grows until it fits: its weights then
    use fewer codes.

    mean     of what the kernel reads (`quantize.means`): the bias then takes back the mean error that rounding the
             weights makes in each output channel
    shift    what rounding adds to what the kernel reads, a mean for each sample (`quantize.shifts`): the error that
             these have in common is taken back besides
    correction  of the bias of each channel, instead of what follows from the means
    method   "max", or "mse" for steps of the smallest squared error of the weights
    factors  of the steps of the input's channels, which the weights take in before they are rounded
    """
    raw = constant(node.inputs[1])
    assert raw is not None, "weights are constant by rule"
    raw = numbers(raw)
    given = raw if factors is None else raw * factors
    axis = channel_axis(node)
    scale = channel_scales(given, axis, weight_groups(node), qtype)
    if method == "mse":
        scale = least_error_scales(node, given, scale, qtype)
    bias = float_bias(node, added, scale.size)
    step = np.float64(x.scale) * (1 << drop_bits(x.qtype.bits, qtype.bits))
    smallest = np.abs(bias) / (step * LARGEST_BIAS)
    widened = tuple(int(c) for c in np.nonzero(smallest > scale)[0])
    # nextafter: the float32 scale must not round below what the bias needs
    scale = np.where(smallest > scale, np.nextafter(smallest.astype(np.float32), np.float32(np.inf)), scale).astype(
        np.float32
    )
    along = per_weight(node, scale, raw.ndim)
    codes = quantize(given, along, 0, qtype.qmin, qtype.qmax).astype(qtype.numpy)
    own = correction
    if correction is None and mean is not None:
        held = codes * along.astype(np.float64)
        held = held if factors is None else held / factors.astype(np.float64)
        correction = own = mean_output_error(node, raw.astype(np.float64) - held, mean)
        if shift is not None:
            correction = own - common(output_means(node, held, shift))
    if correction is not None:
        bias = bias + correction
    if node.op_type == "Gemm" and axis == 0:
        codes = np.ascontiguousarray(codes.T)
    integer_bias = round_half_away(bias / (step * scale.astype(np.float64))).astype(np.int64)
    return WeightEncoding(codes, scale, integer_bias, correction, factors, own), widened
