"""Accumulators of the fast path: which floating point products are exact whole numbers, and which of them is cheapest.

float32 holds every whole number up to 2^24, float64 up to 2^53, and sums in any order are exact while every partial sum
stays below. The largest partial sum that any input can give is known beforehand, for each output channel, from the
weights and the bounds of the codes (a Relu gives none below its zero point):

    reach = max(P * high - N * low, N * high - P * low)    P, N = sums of the positive and of the negative |weights|,
                                                           low <= 0 <= high bounds of x - zero_point

In this order:
  bytes    MatMul of very few rows: reading the weights is all the work, and as bytes they are shortest.
  matrix   MatMul and 1x1 convolutions in float64, the output's ratio multiplied into the weights. For int16, and
           for int8 where few channels become many, so that fewer passes over the output pay for the slower product.
  float32  one product where reach < 2^24.
  digits   weights as w = d0 + 2^k d1 + ..., one float32 product for each digit (int16 features). Channels of small
           reach have their whole weight in d0; where few have more, the further products are made for these alone.
  halves   features as x = 256 hi + lo, a float32 product (int16 weights: their digits) for each.
  bytes    uint8 x uint8 as the model-local functions do (None here).
"""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from ptqlab.arith.requantize import MULTIPLIER_BITS
from ptqlab.ops.emit import DOUBLE, Emitter, FastEmitter

EXACT_FLOAT32 = 1 << 24
# |acc| * m stays below 2^52, which leaves room for the half of rounding
LARGEST = 1 << (52 - MULTIPLIER_BITS)
BYTE = 256
# int8 with at most so many channels in, and at least as many out, is faster as a float64 matrix product
NARROW = 32
# onnxruntime's fastest convolutions take channels in blocks of 8 or 16
BLOCK = 16

# float64 codes times an array of weights, plus an offset of the bias's shape
MatrixProduct = Callable[[np.ndarray, np.ndarray], ir.Value]


@dataclass(frozen=True)
class Kernel:
    """What a kind of operator has to offer for its sums of products.

    channel_axis     of the output channels in the weights; those of the result are axis 1 for 0, the last for -1
    product          float32 features times an array of weights; with channels, for these alone
    integer_product  uint8 features, uint8 weights, zero points of both -> int32
    matrix           the float64 product of the codes, None where the operator is no matrix product
    divisible        whether `product` can do some output channels alone
    few_rows         whether reading the weights is most of the work
    """

    channel_axis: int
    product: Callable[[Emitter, ir.Value, np.ndarray, np.ndarray | None], ir.Value]
    integer_product: Callable[[Emitter, ir.Value, ir.Value, ir.Value, ir.Value], ir.Value]
    matrix: Callable[[FastEmitter], MatrixProduct | None] = lambda e: None
    divisible: Callable[[FastEmitter], bool] = lambda e: False
    few_rows: Callable[[FastEmitter], bool] = lambda e: False


@dataclass(frozen=True)
class Accumulator:
    """An accumulator in the making: `scaled(factor, offset)` gives acc * factor + offset as float64.

    bound   largest |acc| of each channel that any input can give, int64
    factor  float64, broadcast over the accumulator as the bias is; None for 1
    """

    bound: np.ndarray
    scaled: Callable[[np.ndarray | None, float], ir.Value]


def exact_accumulator(e: FastEmitter, kernel: Kernel, bits: tuple[int, int], dropped: int) -> Accumulator | None:
    """The cheapest exact form, None for uint8 x uint8. `dropped` bits of the sum are rounded away before the bias."""
    weight, bias = e.arrays["weight"].astype(np.int64), e.arrays["bias"].astype(np.int64)
    zero, axis = e.attributes["x_zero_point"], kernel.channel_axis
    span = e.span("x", zero)
    bound = (reach(weight, axis, span) >> dropped).reshape(bias.shape) + np.abs(bias) + 1
    if bound.max(initial=0) >= LARGEST or kernel.few_rows(e):
        return None
    unit = 2.0**-dropped
    inputs, outputs = weight.size // max(1, weight.shape[axis]), weight.shape[axis]
    matrix = kernel.matrix(e) if bits[0] == 16 or inputs <= min(NARROW, outputs) else None
    if matrix is not None:
        others = tuple(a for a in range(weight.ndim) if a != axis % weight.ndim)
        shift = -zero * weight.sum(axis=others).reshape(bias.shape)
        if not dropped:
            return _of_matrix(kernel, matrix, weight, bias + shift, bound)
        return _of_sum(e, kernel, e.op("Floor", matrix(weight * unit, 0.5 + shift * unit)), bias, bound)
    terms = _float_terms(e, kernel, weight, span, bits)
    if terms is None:
        return None
    total = None
    for x, digit, channels in terms:
        made = e.cast(kernel.product(e, x, digit * unit, channels), DOUBLE)
        total = made if total is None else _added(e, total, made, channels)
    assert total is not None
    if dropped:
        total = e.op("Floor", e.op("Add", total, e.const(np.float64(0.5))))
    return _of_sum(e, kernel, total, bias, bound)


# features, weights, output channels (None: all)
Term = tuple[ir.Value, np.ndarray, np.ndarray | None]


def _float_terms(e: FastEmitter, kernel: Kernel, weight: np.ndarray, span: tuple[int, int],
                 bits: tuple[int, int]) -> list[Term] | None:
    """Products that float32 holds and that add up to the sum; None where there are none. The first has all channels."""
    axis, zero = kernel.channel_axis, e.attributes["x_zero_point"]
    digits = weight_digits(weight, axis, span, bits[1], 1 if bits[0] == 8 else bits[1] // 4)
    highs = lows = None
    if digits is None and bits[0] == 16:
        highs = weight_digits(weight, axis, (span[0] // BYTE, span[1] // BYTE), bits[1], bits[1] // 8)
        lows = weight_digits(weight, axis, (0, BYTE - 1), bits[1], bits[1] // 8)
    if digits is None and (highs is None or lows is None):
        return None
    x = e.op("Sub", e.codes("x"), e.const(np.float32(zero))) if zero else e.codes("x")
    if digits is not None:
        return [(x, digits[0], None), *((x, d, _channels(e, kernel, d)) for d in digits[1:] if d.any())]
    high = e.op("Mul", e.op("Floor", e.op("Mul", x, e.const(np.float32(1 / BYTE)))), e.const(np.float32(BYTE)))
    low = e.op("Sub", x, high)
    return [(part, digit, None) for part, pieces in ((high, highs), (low, lows)) for digit in pieces or ()]


def weight_digits(weight: np.ndarray, channel_axis: int, span: tuple[int, int], bits: int,
                  most: int) -> list[np.ndarray] | None:
    """Arrays whose sum is `weight` (of so many bits) and whose products with features of that span float32 sums hold.

    The fewest that do, `most` at most: weights as signed digits d0 + 2^k d1 + ..., each returned with its power of two;
    channels that need no digits have their weight in the first array and zeros in the others.
    None where even the largest number of digits is not enough.
    """
    small = reach(weight, channel_axis, span) < EXACT_FLOAT32
    along = [1] * weight.ndim
    along[channel_axis] = -1
    whole = np.where(small.reshape(along), weight, 0)
    rest = weight - whole
    for count in range(1, most + 1):
        k = -(-bits // count)
        half, digits, left = 1 << (k - 1), [], rest
        for _ in range(count - 1):
            digits.append(((left + half) & ((1 << k) - 1)) - half)
            left = (left - digits[-1]) >> k
        digits.append(left)
        if all(reach(d, channel_axis, span).max(initial=0) < EXACT_FLOAT32 for d in digits):
            return [(d << (k * i)) + (0 if i else whole) for i, d in enumerate(digits)]
    return None


def reach(weight: np.ndarray, channel_axis: int, span: tuple[int, int]) -> np.ndarray:
    """Largest |partial sum| of weight * x of each output channel, over x in `span` (low <= 0 <= high); int64."""
    axes = tuple(a for a in range(weight.ndim) if a != channel_axis % weight.ndim)
    low, high = span
    positive, negative = (np.maximum(w, 0).sum(axis=axes, dtype=np.int64) for w in (weight, -weight))
    return np.maximum(positive * high - negative * low, negative * high - positive * low)


def _channels(e: FastEmitter, kernel: Kernel, digit: np.ndarray) -> np.ndarray | None:
    """Output channels whose digit is not 0, filled up to whole blocks; None where they are many or cannot be alone."""
    needs = np.abs(digit).reshape(digit.shape[0], -1).sum(axis=1) > 0
    count = -(-int(needs.sum()) // BLOCK) * BLOCK
    if 2 * count > len(needs) or not kernel.divisible(e):
        return None
    return np.sort(np.concatenate([np.flatnonzero(needs), np.flatnonzero(~needs)])[:count])


def _added(e: FastEmitter, total: ir.Value, term: ir.Value, channels: np.ndarray | None) -> ir.Value:
    """total + term, which has all channels or some."""
    if channels is None:
        return e.op("Add", total, term)
    batch = e.operands["x"].shape[0]
    at = np.stack(np.broadcast_arrays(np.arange(batch)[:, None], channels), axis=-1).astype(np.int64)
    return e.op("ScatterND", total, e.const(at), term, reduction="add")


def _of_sum(e: FastEmitter, kernel: Kernel, total: ir.Value, bias: np.ndarray, bound: np.ndarray) -> Accumulator:
    def scaled(factor: np.ndarray | None, offset: float) -> ir.Value:
        added = bias * (1.0 if factor is None else factor) + offset
        if factor is None:
            return plus(e, total, added)
        if kernel.channel_axis:
            return plus(e, e.op("Mul", total, e.const(factor)), added)
        # multiplication and addition per channel in one pass: y = x * scale + bias, since mean = 0, variance = 1
        channels = e.arrays["weight"].shape[0]
        scale, shift = (np.broadcast_to(v.reshape(-1), (channels,)).copy() for v in (factor, added))
        mean, variance = (e.const(np.full(channels, v, np.float64)) for v in (0.0, 1.0))
        return e.op("BatchNormalization", total, e.const(scale), e.const(shift), mean, variance, epsilon=0.0)

    return Accumulator(bound, scaled)


def _of_matrix(kernel: Kernel, matrix: MatrixProduct, weight: np.ndarray, bias: np.ndarray,
               bound: np.ndarray) -> Accumulator:
    along = [1] * weight.ndim
    along[kernel.channel_axis] = -1

    def scaled(factor: np.ndarray | None, offset: float) -> ir.Value:
        factors = np.ones(1) if factor is None else factor
        return matrix(weight * factors.reshape(along), bias * factors + offset)

    return Accumulator(bound, scaled)


def plus(e: FastEmitter, value: ir.Value, offset: np.ndarray) -> ir.Value:
    """value + offset in float64, nothing where the offset is 0."""
    if not offset.any():
        return value
    same = bool((offset == offset.flat[0]).all())
    return e.op("Add", value, e.const(np.float64(offset.flat[0]) if same else offset))
