"""From an accumulator to the output code: requantize, add a residual, clamp.

Reference and emitted form stand side by side, so that one can be read against the other.
`rescale` is defined in `arith.requantize`; here in float64, exact because |v * m| < 2^53:
    rescale(v, m, s)  =  floor(v * (m * 2^-s) + 1/2)      for s >= 1; for s <= 0 the product is whole already
"""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from ptqlab.arith import requantize as fixed
from ptqlab.arith.formats import QType
from ptqlab.arith.requantize import GUARD_BITS, clamp, half, rescale
from ptqlab.ops.emit import DOUBLE, INT32, Emitter, FastEmitter
from ptqlab.ops.integer.exact import Accumulator
from ptqlab.ops.integer.spec import INT, output_dtype

# whole numbers that float64 holds
EXACT_BITS = 53
OUTPUT_ATTRIBUTES = {"y_zero_point": INT, "low": INT, "high": INT, "to": INT}


def requantize(attrs: Mapping[str, Any], acc: np.ndarray, multiplier: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """y = clamp(zp + rescale(acc, m, s), low, high)"""
    codes = attrs["y_zero_point"] + rescale(acc, multiplier, shift)
    return clamp(codes, attrs["low"], attrs["high"], output_dtype(attrs))


def emit_requantize(e: Emitter, acc: Accumulator | ir.Value, ratio: ir.Value | None = None) -> ir.Value:
    """`ratio`: m * 2^-s where it is not simply that of the inputs "multiplier" and "shift"."""
    if isinstance(acc, Accumulator):
        assert isinstance(e, FastEmitter) and ratio is None
        zero_point = e.attributes["y_zero_point"]
        scaled, added, largest = _scaled(e, acc, ("multiplier", "shift", 0), zero_point)
        if added == zero_point and e.attributes["low"] >= 0 and largest < 2.0**31:
            return e.saturate_floored(scaled)
        codes = e.op("Floor", scaled)
        return e.saturate(codes if added == zero_point else e.op("Add", codes, e.integer("y_zero_point", DOUBLE)))
    scaled = e.op("Mul", e.cast(acc, DOUBLE), e.ratio("multiplier", "shift") if ratio is None else ratio)
    return _round_and_saturate(e, scaled)


def _scaled(e: FastEmitter, acc: Accumulator, ratio: tuple[str, str, int],
            offset: int) -> tuple[ir.Value, int, float]:
    """acc * m * 2^-s + ROUND + offset as float64; the offset, 0 where float64 would not hold the sum; a bound."""
    multiplier, shift, guard = ratio
    factor = e.factor(multiplier, shift, guard)
    largest = acc.bound * np.abs(factor) + abs(offset) + 1
    fraction = np.maximum(e.arrays[shift].astype(np.int64) - guard, 1)
    kept = offset if np.ldexp(largest, fraction).max(initial=0.0) < 2.0**EXACT_BITS else 0
    return acc.scaled(factor, fixed.ROUND + kept), kept, float(largest.max(initial=0.0))


def requantize_sum(attrs: Mapping[str, Any], *operands: tuple[np.ndarray, np.ndarray, np.ndarray]) -> np.ndarray:
    """y = clamp(zp + ((sum of rescale(v, m, s - G) + 2^(G-1)) >> G)), G = GUARD_BITS"""
    total = sum(rescale(v, m, s.astype(np.int64) - GUARD_BITS) for v, m, s in operands)
    rounded = (np.asarray(total) + half(GUARD_BITS)) >> GUARD_BITS
    return clamp(attrs["y_zero_point"] + rounded, attrs["low"], attrs["high"], output_dtype(attrs))


def emit_requantize_sum(e: Emitter, *operands: tuple[Accumulator | ir.Value, str, str]) -> ir.Value:
    terms, held = [], 0
    for value, m, s in operands:
        if isinstance(value, Accumulator):
            assert isinstance(e, FastEmitter)
            # the half of the last rounding may come in here: it is a whole number of guarded steps
            scaled, held, _ = _scaled(e, value, (m, s, GUARD_BITS), half(GUARD_BITS))
            terms.append(e.op("Floor", scaled))
        else:
            terms.append(emit_rounded(e, e.op("Mul", e.cast(value, DOUBLE), e.ratio(m, s, GUARD_BITS))))
    return emit_guarded(e, terms, rounded=held > 0)


def emit_rounded(e: Emitter, scaled: ir.Value) -> ir.Value:
    """floor(v + ROUND), the rounding of `rescale`, float64."""
    return e.op("Floor", e.op("Add", scaled, e.const(np.float64(fixed.ROUND))))


def emit_guarded(e: Emitter, terms: list[ir.Value], *, rounded: bool = False) -> ir.Value:
    """Sum of float64 terms with GUARD_BITS fractional bits to the code; `rounded`: one holds the half already."""
    total = terms[0]
    for term in terms[1:]:
        total = e.op("Add", total, term)
    return _round_and_saturate(e, e.op("Mul", total, e.const(np.float64(2.0**-GUARD_BITS))), rounded=rounded)


def _round_and_saturate(e: Emitter, scaled: ir.Value, *, rounded: bool = False) -> ir.Value:
    # the zero point comes after the floor: 0.5 + zp could cost the last bits of a small `scaled`
    codes = e.op("Floor", scaled) if rounded else emit_rounded(e, scaled)
    if not e.fast or e.attributes["y_zero_point"]:
        codes = e.op("Add", codes, e.integer("y_zero_point", DOUBLE))
    return e.saturate(codes)


def saturate32(acc: np.ndarray) -> np.ndarray:
    """y = clamp(acc, -2^31, 2^31 - 1): a tail hands its accumulator on in 32 bits; overflow saturates [doc, Add]."""
    return np.clip(acc, QType.INT32.qmin, QType.INT32.qmax).astype(np.int32)


def emit_saturate32(e: Emitter, acc: Accumulator | ir.Value) -> ir.Value:
    # by way of float64 in every form: it also keeps onnxruntime from fusing the convolution with what follows
    wide = acc.scaled(None, 0.0) if isinstance(acc, Accumulator) else e.cast(acc, DOUBLE)
    low, high = (e.const(np.float64(bound)) for bound in (QType.INT32.qmin, QType.INT32.qmax))
    return e.cast(e.op("Clip", wide, low, high), INT32)
