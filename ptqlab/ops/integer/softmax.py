"""Softmax and LogSoftmax: max, subtract, exp table, sum, reciprocal (or logarithm), multiply - in integers.

    d = max(x) - x                                         along the axis, 0 <= d < 2^16
    e = exp(-d * scale) * 2^F                              int8: table of 256; int16: (coarse[d >> 8] * fine[d & 255]
                                                           + 2^21) >> 22, coarse with F bits, fine with 22
    S = sum of e                                           2^F <= S <= n * 2^F < 2^31
    Softmax     r = (2^(F+30) + (S >> 1)) / S              integer division: 1 / S with 30 bits behind the point
                p = (e * r + 2^(F+5)) >> (F + 6)           the probability with 24 bits behind the point
                y = clamp(y_zp + rescale(p, m, s))
    LogSoftmax  L = ln(S / 2^F) * 2^20                     by the power of two in S and a table of 257 entries
                y = clamp(y_zp + ((rescale(-d, m, s-G) + rescale(-L, ml, sl-G) + 2^(G-1)) >> G))

Documented are the sequence of steps and intermediates of 16 and 32 bits; the widths are our definition. F is 22 where
the axis has at most 256 elements, and shrinks so that S keeps to 30 bits; S is off by at most n/2 units of 2^-F.
The zero point of x cancels in d. The operator's attribute `one` is 2^F.
"""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from ptqlab.arith.rounding import round_half_away
from ptqlab.ops.emit import DOUBLE, INT64, Emitter
from ptqlab.ops.integer.scaling import (
    OUTPUT_ATTRIBUTES,
    emit_requantize,
    emit_requantize_sum,
    requantize,
    requantize_sum,
)
from ptqlab.ops.integer.spec import INT, IntegerOp
from ptqlab.ops.integer.tables import emit_look_up

MOST_FRACTION, SUM_BITS = 22, 30
FINE_BITS = 22
RECIPROCAL_BITS, PROBABILITY_BITS = 30, 24
LOG_BITS, MANTISSA_BITS, INDEX_BITS = 20, 23, 8
LARGEST_AXIS = 65535
# ln(1 + i / 256) and j ln 2, with LOG_BITS behind the point
LOGS = round_half_away(np.log1p(np.arange(257) / 256) * (1 << LOG_BITS)).astype(np.int64)
DOUBLINGS = round_half_away(np.arange(17) * np.log(2.0) * (1 << LOG_BITS)).astype(np.int64)


def fraction_bits(count: int) -> int:
    """F for an axis of `count` elements."""
    return min(MOST_FRACTION, SUM_BITS - (count - 1).bit_length())


def exp_table(scale: float, fraction: int) -> np.ndarray:
    """exp(-d * scale) * 2^F for d = 0..255, int32."""
    return round_half_away(np.exp(-np.arange(256) * scale) * (1 << fraction)).astype(np.int32)


def exp_tables(scale: float, fraction: int) -> tuple[np.ndarray, np.ndarray]:
    """(coarse, fine): exp(-256 i * scale) * 2^F and exp(-i * scale) * 2^22 for i = 0..255, int32."""
    return exp_table(256 * scale, fraction), exp_table(scale, FINE_BITS)


def _exponentials8(x: np.ndarray, axis: int, table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    codes = x.astype(np.int64)
    d = codes.max(axis=axis, keepdims=True) - codes
    return d, table.astype(np.int64)[d]


def _product_of_tables(d: np.ndarray, coarse: np.ndarray, fine: np.ndarray) -> np.ndarray:
    product = coarse.astype(np.int64)[d >> 8] * fine.astype(np.int64)[d & 255]
    return (product + (1 << (FINE_BITS - 1))) >> FINE_BITS


def _exponentials16(x: np.ndarray, axis: int, coarse: np.ndarray, fine: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    codes = x.astype(np.int64)
    d = codes.max(axis=axis, keepdims=True) - codes
    return d, _product_of_tables(d, coarse, fine)


def probabilities(e: np.ndarray, axis: int, one: int) -> np.ndarray:
    """p = (e * r + 2^(F+5)) >> (F + 6), 24 bits behind the point; e * r < 2^52 + 2^22 because e <= S."""
    total = e.sum(axis=axis, keepdims=True)
    reciprocal = ((one << RECIPROCAL_BITS) + (total >> 1)) // total
    unit = one << (RECIPROCAL_BITS - PROBABILITY_BITS)
    return (e * reciprocal + unit // 2) // unit


def logarithm(total: np.ndarray, one: int) -> np.ndarray:
    """L = ln(S / one) * 2^20 for S >= one; off by less than 4 units of 2^-20."""
    doublings = np.sum(total[..., None] >= one << np.arange(1, len(DOUBLINGS), dtype=np.int64), axis=-1)
    mantissa = (total << MANTISSA_BITS) // (one << doublings) - (1 << MANTISSA_BITS)
    rest = MANTISSA_BITS - INDEX_BITS
    i, f = mantissa >> rest, mantissa & ((1 << rest) - 1)
    return DOUBLINGS[doublings] + LOGS[i] + (((LOGS[i + 1] - LOGS[i]) * f + (1 << (rest - 1))) >> rest)


def softmax8(attrs: Mapping[str, Any], x: np.ndarray, axes: np.ndarray, table: np.ndarray, multiplier: np.ndarray,
             shift: np.ndarray) -> np.ndarray:
    _, e = _exponentials8(x, int(axes[0]), table)
    return requantize(attrs, probabilities(e, int(axes[0]), attrs["one"]), multiplier, shift)


def softmax16(attrs: Mapping[str, Any], x: np.ndarray, axes: np.ndarray, coarse: np.ndarray, fine: np.ndarray,
              multiplier: np.ndarray, shift: np.ndarray) -> np.ndarray:
    _, e = _exponentials16(x, int(axes[0]), coarse, fine)
    return requantize(attrs, probabilities(e, int(axes[0]), attrs["one"]), multiplier, shift)


def _log_softmax(attrs: Mapping[str, Any], d: np.ndarray, e: np.ndarray, axis: int, scaled: tuple[np.ndarray, ...],
                 log_scaled: tuple[np.ndarray, ...]) -> np.ndarray:
    log = logarithm(e.sum(axis=axis, keepdims=True), attrs["one"])
    return requantize_sum(attrs, (-d, *scaled), (-log, *log_scaled))  # type: ignore[arg-type]


def log_softmax8(attrs: Mapping[str, Any], x: np.ndarray, axes: np.ndarray, table: np.ndarray, multiplier: np.ndarray,
                 shift: np.ndarray, log_multiplier: np.ndarray, log_shift: np.ndarray) -> np.ndarray:
    d, e = _exponentials8(x, int(axes[0]), table)
    return _log_softmax(attrs, d, e, int(axes[0]), (multiplier, shift), (log_multiplier, log_shift))


def log_softmax16(attrs: Mapping[str, Any], x: np.ndarray, axes: np.ndarray, coarse: np.ndarray, fine: np.ndarray,
                  multiplier: np.ndarray, shift: np.ndarray, log_multiplier: np.ndarray,
                  log_shift: np.ndarray) -> np.ndarray:
    d, e = _exponentials16(x, int(axes[0]), coarse, fine)
    return _log_softmax(attrs, d, e, int(axes[0]), (multiplier, shift), (log_multiplier, log_shift))


# ---- the same as standard operators


def _emit_distance(e: Emitter) -> ir.Value:
    return e.op("Sub", e.op("ReduceMax", e.codes("x"), e.input("axes"), keepdims=1), e.codes("x"))


def _emit_exp8(e: Emitter, d: ir.Value) -> ir.Value:
    return emit_look_up(e, e.cast(e.input("table"), DOUBLE), d)


def _emit_exp16(e: Emitter, d: ir.Value) -> ir.Value:
    coarse, fine = e.known("coarse"), e.known("fine")
    if coarse is not None and fine is not None:
        both = e.const(_product_of_tables(np.arange(1 << 16), coarse, fine).astype(np.float64))
        return emit_look_up(e, both, d)
    high = e.op("Floor", e.op("Mul", d, e.const(np.float32(1 / 256))))
    low = e.op("Sub", d, e.op("Mul", high, e.const(np.float32(256))))
    factors = (emit_look_up(e, e.cast(e.input(t), DOUBLE), i) for t, i in (("coarse", high), ("fine", low)))
    return _emit_shift(e, e.op("Mul", *factors), e.const(np.float64(2.0**-FINE_BITS)))


def _emit_shift(e: Emitter, value: ir.Value, factor: ir.Value) -> ir.Value:
    """floor(v * factor + 1/2): the product rounded half up, exact while it fits 53 bits."""
    return e.op("Floor", e.op("Add", e.op("Mul", value, factor), e.const(np.float64(0.5))))


def _emit_sum(e: Emitter, exponentials: ir.Value) -> ir.Value:
    return e.cast(e.op("ReduceSum", exponentials, e.input("axes"), keepdims=1), INT64)


def _emit_softmax(e: Emitter, exponentials: ir.Value) -> ir.Value:
    total, one = _emit_sum(e, exponentials), e.integer("one", INT64)
    large = e.op("Mul", one, e.const(np.int64(1 << RECIPROCAL_BITS)))
    half = e.op("Div", total, e.const(np.int64(2)))
    reciprocal = e.cast(e.op("Div", e.op("Add", large, half), total), DOUBLE)
    unit = e.op("Div", e.const(np.float64(2.0 ** (PROBABILITY_BITS - RECIPROCAL_BITS))), e.cast(one, DOUBLE))
    return emit_requantize(e, _emit_shift(e, exponentials, e.op("Mul", reciprocal, unit)))


def _emit_logarithm(e: Emitter, total: ir.Value) -> ir.Value:
    one = e.integer("one", INT64)
    powers = e.op("Mul", one, e.const(1 << np.arange(1, len(DOUBLINGS), dtype=np.int64)))
    last = e.const(np.array([-1], np.int64))
    reached = e.op("GreaterOrEqual", e.op("Unsqueeze", total, last), powers)
    doublings = e.op("ReduceSum", e.cast(reached, INT64), last, keepdims=0)
    divisor = e.op("Mul", one, e.op("Gather", e.const(1 << np.arange(len(DOUBLINGS), dtype=np.int64)), doublings))
    scaled = e.op("Div", e.op("Mul", total, e.const(np.int64(1 << MANTISSA_BITS))), divisor)
    mantissa = e.op("Sub", scaled, e.const(np.int64(1 << MANTISSA_BITS)))
    rest = 1 << (MANTISSA_BITS - INDEX_BITS)
    i = e.op("Div", mantissa, e.const(np.int64(rest)))
    f = e.op("Sub", mantissa, e.op("Mul", i, e.const(np.int64(rest))))
    left = e.op("Gather", e.const(LOGS), i)
    rise = e.op("Gather", e.const(np.diff(LOGS)), i)
    # the rises are positive: integer division rounds down
    inside = e.op("Div", e.op("Add", e.op("Mul", rise, f), e.const(np.int64(rest // 2))), e.const(np.int64(rest)))
    return e.op("Add", e.op("Gather", e.const(DOUBLINGS), doublings), e.op("Add", left, inside))


def _emit_log_softmax(e: Emitter, d: ir.Value, exponentials: ir.Value) -> ir.Value:
    log = _emit_logarithm(e, _emit_sum(e, exponentials))
    return emit_requantize_sum(e, (e.op("Neg", d), "multiplier", "shift"),
                               (e.op("Neg", log), "log_multiplier", "log_shift"))


def _emit_log8(e: Emitter) -> ir.Value:
    d = _emit_distance(e)
    return _emit_log_softmax(e, d, _emit_exp8(e, d))


def _emit_log16(e: Emitter) -> ir.Value:
    d = _emit_distance(e)
    return _emit_log_softmax(e, d, _emit_exp16(e, d))


ATTRIBUTES = {"one": INT} | OUTPUT_ATTRIBUTES
SCALED, LOG_SCALED = ("multiplier", "shift"), ("log_multiplier", "log_shift")
TABLES8, TABLES16 = ("x", "axes", "table"), ("x", "axes", "coarse", "fine")
EXP8 = "d = max(x) - x; e = table[d]; S = sum e;  "
EXP16 = "d = max(x) - x; e = (coarse[d >> 8] * fine[d & 255] + 2^21) >> 22; S = sum e;  "
SOFTMAX = "r = (2^(F+30) + (S >> 1)) / S; p = (e * r + 2^(F+5)) >> (F + 6); y = clamp(y_zp + rescale(p, m, s))"
LOG_SOFTMAX = "L = ln(S / 2^F) * 2^20; y = clamp(y_zp + ((rescale(-d, m, s-G) + rescale(-L, ml, sl-G) + 2^(G-1)) >> G))"

SOFTMAX_OPS = (
    IntegerOp("Int8Softmax", (*TABLES8, *SCALED), ATTRIBUTES, softmax8,
              lambda e: _emit_softmax(e, _emit_exp8(e, _emit_distance(e))), EXP8 + SOFTMAX),
    IntegerOp("Int16Softmax", (*TABLES16, *SCALED), ATTRIBUTES, softmax16,
              lambda e: _emit_softmax(e, _emit_exp16(e, _emit_distance(e))), EXP16 + SOFTMAX),
    IntegerOp("Int8LogSoftmax", (*TABLES8, *SCALED, *LOG_SCALED), ATTRIBUTES, log_softmax8, _emit_log8,
              EXP8 + LOG_SOFTMAX),
    IntegerOp("Int16LogSoftmax", (*TABLES16, *SCALED, *LOG_SCALED), ATTRIBUTES, log_softmax16, _emit_log16,
              EXP16 + LOG_SOFTMAX),
)
