"""From an accumulator to the output code: requantize, add a residual, clamp.

Reference and emitted form stand side by side, so that one can be read against the other.
`rescale` is defined in `arith.requantize`; here in float64, exact because |v * m| < 2^53:
    rescale(v, m, s)  =  floor(v * (m * 2^-s) + 0.5)      for s >= 1; for s <= 0 the product is whole already
"""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from ptqlab.arith.formats import QType
from ptqlab.arith.requantize import GUARD_BITS, clamp, rescale
from ptqlab.ops.emit import DOUBLE, INT32, Emitter
from ptqlab.ops.integer.spec import INT, output_dtype

OUTPUT_ATTRIBUTES = {"y_zero_point": INT, "low": INT, "high": INT, "to": INT}


def requantize(attrs: Mapping[str, Any], acc: np.ndarray, multiplier: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """y = clamp(zp + rescale(acc, m, s), low, high)"""
    codes = attrs["y_zero_point"] + rescale(acc, multiplier, shift)
    return clamp(codes, attrs["low"], attrs["high"], output_dtype(attrs))


def emit_requantize(e: Emitter, acc: ir.Value, ratio: ir.Value | None = None) -> ir.Value:
    """`ratio`: m * 2^-s where it is not simply that of the inputs "multiplier" and "shift"."""
    scaled = e.op("Mul", e.cast(acc, DOUBLE), e.ratio("multiplier", "shift") if ratio is None else ratio)
    return _round_and_saturate(e, scaled)


def requantize_sum(attrs: Mapping[str, Any], *operands: tuple[np.ndarray, np.ndarray, np.ndarray]) -> np.ndarray:
    """y = clamp(zp + ((sum of rescale(v, m, s - G) + 2^(G-1)) >> G)), G = GUARD_BITS"""
    total = sum(rescale(v, m, s.astype(np.int64) - GUARD_BITS) for v, m, s in operands)
    rounded = (np.asarray(total) + (1 << (GUARD_BITS - 1))) >> GUARD_BITS
    return clamp(attrs["y_zero_point"] + rounded, attrs["low"], attrs["high"], output_dtype(attrs))


def emit_requantize_sum(e: Emitter, *operands: tuple[ir.Value, str, str]) -> ir.Value:
    terms = [
        e.op("Floor", e.op("Add", e.op("Mul", e.cast(v, DOUBLE), e.ratio(m, s, GUARD_BITS)), e.const(np.float64(0.5))))
        for v, m, s in operands
    ]
    return emit_guarded(e, terms)


def emit_guarded(e: Emitter, terms: list[ir.Value]) -> ir.Value:
    """Sum of float64 terms with GUARD_BITS fractional bits to the output code."""
    total = terms[0]
    for term in terms[1:]:
        total = e.op("Add", total, term)
    return _round_and_saturate(e, e.op("Mul", total, e.const(np.float64(2.0**-GUARD_BITS))))


def _round_and_saturate(e: Emitter, scaled: ir.Value) -> ir.Value:
    # the zero point comes after the floor: 0.5 + zp could cost the last bits of a small `scaled`
    codes = e.op("Floor", e.op("Add", scaled, e.const(np.float64(0.5))))
    if not e.fast or e.attributes["y_zero_point"]:
        codes = e.op("Add", codes, e.integer("y_zero_point", DOUBLE))
    return e.saturate(codes)


def saturate32(acc: np.ndarray) -> np.ndarray:
    """y = clamp(acc, -2^31, 2^31 - 1): a tail hands its accumulator on in 32 bits; overflow saturates [doc, Add]."""
    return np.clip(acc, QType.INT32.qmin, QType.INT32.qmax).astype(np.int32)


def emit_saturate32(e: Emitter, acc: ir.Value) -> ir.Value:
    # by way of float64 in every form: it also keeps onnxruntime from fusing the convolution with what follows
    low, high = (e.const(np.float64(bound)) for bound in (QType.INT32.qmin, QType.INT32.qmax))
    return e.cast(e.op("Clip", e.cast(acc, DOUBLE), low, high), INT32)
