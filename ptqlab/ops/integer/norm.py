"""Normalizations in integers: mean, variance and the root are integers, only what they are multiplied by is scaled.

Over the n elements that are normalized together (x: their codes):
    c = n x - sum x                                        n times the distance from the mean, exact
    U = max(n sum x^2 - (sum x)^2 + E, 1)                  n^2 times (variance + epsilon), E = epsilon n^2 / scale^2
    z = c / sqrt(U) with 16 bits behind the point          |z| <= sqrt(n) 2^16: neither scale nor zero point is in it
    y = clamp(y_zp + ((rescale(z, m, s-G) + offset + 2^(G-1)) >> G))        m 2^-s = gamma / 2^16 / y_scale
1 / sqrt(U): U = v 4^k with v of 23 or 24 bits (what is below is dropped), r = 2^30 / sqrt(v) from a table of 769
entries with linear interpolation, relative error below 2^-17; z = (c r + 2^(13+k)) >> (14 + k). A row whose elements
are all equal has c = 0 and gives beta. LpNormalization of order 2 has c = x - x_zp and U = max(sum c^2, 1), of order
1 it divides by the sum of |c|. All of it is our definition; the block names mean, var, rsqrt, mul, add are documented.
"""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from ptqlab.arith.requantize import GUARD_BITS, clamp, half, rescale
from ptqlab.arith.rounding import round_half_away
from ptqlab.ops.emit import DOUBLE, FLOAT, INT64, Emitter
from ptqlab.ops.integer.scaling import OUTPUT_ATTRIBUTES, emit_guarded, emit_requantize, emit_rounded, requantize
from ptqlab.ops.integer.spec import INT, IntegerOp, output_dtype

# n^2 * variance < 2^62 for int16 codes and n < 2^16; with E up to 2^61 the sum stays below 2^63
LARGEST_COUNT, LARGEST_EPSILON = 65535, 1 << 61
Z_BITS, UNIT_BITS, SUM_BITS = 16, 22, 50
ROOT_BITS = 30
REST = 14  # bits of v behind the 10 that pick the table's entry
# 2^30 / sqrt(v) at v = (256 + i) * 2^14
ROOTS = round_half_away(2.0**19 / np.sqrt(1 + np.arange(769) / 256)).astype(np.int64)
POWERS = 4 ** np.arange(32, dtype=object)
# by j = number of powers 4^1..4^31 that U reaches: what brings U to v, and 2^-k
UP = np.array([int(POWERS[max(11 - j, 0)]) for j in range(32)], np.int64)
DOWN = np.array([int(POWERS[max(j - 11, 0)]) for j in range(32)], np.int64)
HALVINGS = np.ldexp(1.0, 11 - np.arange(32))


def inverse_root(u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(r, k) with 1 / sqrt(u) = r * 2^-(30 + k), int64; 1 <= u < 2^63, 2^18 <= r <= 2^19, -11 <= k <= 20."""
    powers = POWERS[1:].astype(np.int64)
    j = np.sum(u[..., None] >= powers, axis=-1)
    v = u * UP[j] // DOWN[j]
    i, f = (v >> REST) - 256, v & ((1 << REST) - 1)
    return ROOTS[i] + (((ROOTS[i + 1] - ROOTS[i]) * f + (1 << (REST - 1))) >> REST), j - 11


def _divided(c: np.ndarray, u: np.ndarray, bits: int) -> np.ndarray:
    """c / sqrt(u) with `bits` behind the point, rounded half up."""
    r, k = inverse_root(u)
    shift = ROOT_BITS + k - bits
    product = (c * r) << np.maximum(-shift, 0)
    right = np.maximum(shift, 0)
    return (product + ((np.int64(1) << right) >> 1)) >> right


def normalize(attrs: Mapping[str, Any], x: np.ndarray, multiplier: np.ndarray, shift: np.ndarray,
              offset: np.ndarray) -> np.ndarray:
    """Each run of `count` consecutive codes is normalized; multiplier, shift and offset broadcast against x."""
    n = attrs["count"]
    rows = x.astype(np.int64).reshape(-1, n)
    total, squares = rows.sum(axis=1, keepdims=True), (rows * rows).sum(axis=1, keepdims=True)
    u = np.maximum(n * squares - total * total + attrs["epsilon"], 1)
    z = _divided(n * rows - total, u, Z_BITS).reshape(x.shape)
    guarded = rescale(z, multiplier, shift.astype(np.int64) - GUARD_BITS) + offset.astype(np.int64)
    rounded = (guarded + half(GUARD_BITS)) >> GUARD_BITS
    return clamp(attrs["y_zero_point"] + rounded, attrs["low"], attrs["high"], output_dtype(attrs))


def unit_length(attrs: Mapping[str, Any], x: np.ndarray, axes: np.ndarray, multiplier: np.ndarray,
                shift: np.ndarray) -> np.ndarray:
    """c / sqrt(sum c^2) with 22 bits behind the point, requantized; 0 for a row of zeros."""
    c = x.astype(np.int64) - attrs["x_zero_point"]
    u = np.maximum((c * c).sum(axis=int(axes[0]), keepdims=True), 1)
    return requantize(attrs, _divided(c, u, UNIT_BITS), multiplier, shift)


def unit_sum(attrs: Mapping[str, Any], x: np.ndarray, axes: np.ndarray, multiplier: np.ndarray,
             shift: np.ndarray) -> np.ndarray:
    """r = (2^50 + (S >> 1)) / S, S = max(sum |c|, 1); z = (c r + 2^27) >> 28 has 22 bits behind the point."""
    c = x.astype(np.int64) - attrs["x_zero_point"]
    total = np.maximum(np.abs(c).sum(axis=int(axes[0]), keepdims=True), 1)
    reciprocal = ((1 << SUM_BITS) + (total >> 1)) // total
    drop = SUM_BITS - UNIT_BITS
    return requantize(attrs, (c * reciprocal + (1 << (drop - 1))) >> drop, multiplier, shift)


# ---- the same as standard operators


def _vector(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def _emit_inverse_root(e: Emitter, u: ir.Value) -> ir.Value:
    """r * 2^-k as float64: 19 bits and a power of two, so exact. u is int64."""
    last = e.const(_vector(-1))
    reached = e.op("GreaterOrEqual", e.op("Unsqueeze", u, last), e.const(POWERS[1:].astype(np.int64)))
    j = e.op("ReduceSum", e.cast(reached, INT64), last, keepdims=0)
    v = e.op("Div", e.op("Mul", u, e.op("Gather", e.const(UP), j)), e.op("Gather", e.const(DOWN), j))
    whole = e.op("Div", v, e.const(np.int64(1 << REST)))
    i = e.op("Sub", whole, e.const(np.int64(256)))
    f = e.op("Sub", v, e.op("Mul", whole, e.const(np.int64(1 << REST))))
    # entries fall: with their negative steps turned round, integer division rounds the right way
    fall = e.op("Mul", e.op("Gather", e.const(ROOTS[:-1] - ROOTS[1:]), i), f)
    inside = e.op("Div", e.op("Add", fall, e.const(np.int64((1 << (REST - 1)) - 1))), e.const(np.int64(1 << REST)))
    r = e.cast(e.op("Sub", e.op("Gather", e.const(ROOTS), i), inside), DOUBLE)
    return e.op("Mul", r, e.op("Gather", e.const(HALVINGS), j))


def _emit_divided(e: Emitter, c: ir.Value, u: ir.Value, bits: int) -> ir.Value:
    factor = e.op("Mul", _emit_inverse_root(e, u), e.const(np.float64(2.0 ** (bits - ROOT_BITS))))
    return e.op("Floor", e.op("Add", e.op("Mul", c, factor), e.const(np.float64(0.5))))


def _emit_normalize(e: Emitter) -> ir.Value:
    one = e.const(_vector(1))
    count = e.op("Reshape", e.integer("count", INT64), one)
    x = e.codes("x", DOUBLE)
    rows = e.op("Reshape", x, e.op("Concat", e.const(_vector(-1)), count, axis=0))
    total = e.op("ReduceSum", rows, one, keepdims=1)
    squares = e.cast(e.op("ReduceSumSquare", rows, one, keepdims=1), INT64)
    whole = e.cast(total, INT64)
    spread = e.op("Sub", e.op("Mul", count, squares), e.op("Mul", whole, whole))
    u = e.op("Max", e.op("Add", spread, e.integer("epsilon", INT64)), e.const(np.int64(1)))
    c = e.op("Sub", e.op("Mul", rows, e.integer("count", DOUBLE)), total)
    z = e.op("Reshape", _emit_divided(e, c, u, Z_BITS), e.op("Shape", x))
    scaled = e.op("Mul", z, e.ratio("multiplier", "shift", GUARD_BITS))
    return emit_guarded(e, [emit_rounded(e, scaled), e.cast(e.input("offset"), DOUBLE)])


def _emit_centred(e: Emitter) -> ir.Value:
    return e.cast(e.op("Sub", e.codes("x"), e.integer("x_zero_point", FLOAT)), DOUBLE)


def _emit_unit_length(e: Emitter) -> ir.Value:
    c = _emit_centred(e)
    squares = e.cast(e.op("ReduceSumSquare", c, e.input("axes"), keepdims=1), INT64)
    u = e.op("Max", squares, e.const(np.int64(1)))
    return emit_requantize(e, _emit_divided(e, c, u, UNIT_BITS))


def _emit_unit_sum(e: Emitter) -> ir.Value:
    c = _emit_centred(e)
    total = e.cast(e.op("ReduceSum", e.op("Abs", c), e.input("axes"), keepdims=1), INT64)
    total = e.op("Max", total, e.const(np.int64(1)))
    half = e.op("Div", total, e.const(np.int64(2)))
    reciprocal = e.op("Div", e.op("Add", half, e.const(np.int64(1 << SUM_BITS))), total)
    product = e.op("Mul", c, e.cast(reciprocal, DOUBLE))
    scaled = e.op("Mul", product, e.const(np.float64(2.0 ** (UNIT_BITS - SUM_BITS))))
    return emit_requantize(e, e.op("Floor", e.op("Add", scaled, e.const(np.float64(0.5)))))


SCALED = ("multiplier", "shift")
LP = {"x_zero_point": INT} | OUTPUT_ATTRIBUTES

NORM_OPS = (
    IntegerOp("Normalize", ("x", *SCALED, "offset"), {"count": INT, "epsilon": INT} | OUTPUT_ATTRIBUTES, normalize,
              _emit_normalize,
              "over n = count codes: c = n x - sum x; U = max(n sum x^2 - (sum x)^2 + E, 1); z = c / sqrt(U) * 2^16; "
              "y = clamp(y_zp + ((rescale(z, m, s-G) + offset + 2^(G-1)) >> G))"),
    IntegerOp("UnitLength", ("x", "axes", *SCALED), LP, unit_length, _emit_unit_length,
              "c = x - x_zp; z = c / sqrt(max(sum c^2, 1)) * 2^22; y = clamp(y_zp + rescale(z, m, s))"),
    IntegerOp("UnitSum", ("x", "axes", *SCALED), LP, unit_sum, _emit_unit_sum,
              "c = x - x_zp; S = max(sum |c|, 1); r = (2^50 + (S >> 1)) / S; z = (c r + 2^27) >> 28; "
              "y = clamp(y_zp + rescale(z, m, s))"),
)
