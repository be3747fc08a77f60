"""Vector operators of the VAE: rescale (also Relu, Clip, multiplication by a constant), add, multiply."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from ptqlab.arith.requantize import GUARD_BITS, clamp, half, rescale
from ptqlab.ops.emit import DOUBLE, Emitter
from ptqlab.ops.integer.scaling import (
    OUTPUT_ATTRIBUTES,
    emit_guarded,
    emit_requantize,
    emit_requantize_sum,
    emit_rounded,
    requantize,
    requantize_sum,
)
from ptqlab.ops.integer.spec import INT, IntegerOp, output_dtype


def _minus(codes: np.ndarray, zero_point: int) -> np.ndarray:
    return codes.astype(np.int64) - zero_point


def _emit_minus(e: Emitter, name: str) -> ir.Value:
    zero_point = f"{name}_zero_point"
    if e.fast and not e.attributes[zero_point]:
        return e.codes(name)
    return e.op("Sub", e.codes(name, DOUBLE), e.integer(zero_point, DOUBLE))


def rescale_codes(attrs: Mapping[str, Any], x: np.ndarray, multiplier: np.ndarray, shift: np.ndarray) -> np.ndarray:
    return requantize(attrs, _minus(x, attrs["x_zero_point"]), multiplier, shift)


def rescale_add(attrs: Mapping[str, Any], x: np.ndarray, multiplier: np.ndarray, shift: np.ndarray,
                offset: np.ndarray) -> np.ndarray:
    scaled = rescale(_minus(x, attrs["x_zero_point"]), multiplier, shift.astype(np.int64) - GUARD_BITS)
    rounded = (scaled + offset.astype(np.int64) + half(GUARD_BITS)) >> GUARD_BITS
    return clamp(attrs["y_zero_point"] + rounded, attrs["low"], attrs["high"], output_dtype(attrs))


def _emit_rescale_add(e: Emitter) -> ir.Value:
    product = e.op("Mul", e.cast(_emit_minus(e, "x"), DOUBLE), e.ratio("multiplier", "shift", GUARD_BITS))
    return emit_guarded(e, [emit_rounded(e, product), e.cast(e.input("offset"), DOUBLE)])


def add(attrs: Mapping[str, Any], a: np.ndarray, b: np.ndarray, a_multiplier: np.ndarray, a_shift: np.ndarray,
        b_multiplier: np.ndarray, b_shift: np.ndarray) -> np.ndarray:
    return requantize_sum(attrs, (_minus(a, attrs["a_zero_point"]), a_multiplier, a_shift),
                          (_minus(b, attrs["b_zero_point"]), b_multiplier, b_shift))


def _emit_add(e: Emitter) -> ir.Value:
    return emit_requantize_sum(e, (_emit_minus(e, "a"), "a_multiplier", "a_shift"),
                               (_emit_minus(e, "b"), "b_multiplier", "b_shift"))


def multiply(attrs: Mapping[str, Any], a: np.ndarray, b: np.ndarray, multiplier: np.ndarray,
             shift: np.ndarray) -> np.ndarray:
    product = _minus(a, attrs["a_zero_point"]) * _minus(b, attrs["b_zero_point"])
    return requantize(attrs, product, multiplier, shift)


def _emit_multiply(e: Emitter) -> ir.Value:
    product = e.op("Mul", e.cast(_emit_minus(e, "a"), DOUBLE), e.cast(_emit_minus(e, "b"), DOUBLE))
    return emit_requantize(e, product)


ONE = {"x_zero_point": INT} | OUTPUT_ATTRIBUTES
TWO = {"a_zero_point": INT, "b_zero_point": INT} | OUTPUT_ATTRIBUTES

ELEMENTWISE_OPS = (
    IntegerOp("Rescale", ("x", "multiplier", "shift"), ONE, rescale_codes,
              lambda e: emit_requantize(e, _emit_minus(e, "x")),
              "y = clamp(y_zp + rescale(x - x_zp, m, s)); Relu and Clip are its bounds, a constant factor is in m"),
    IntegerOp("RescaleAdd", ("x", "multiplier", "shift", "offset"), ONE, rescale_add, _emit_rescale_add,
              "y = clamp(y_zp + ((rescale(x - x_zp, m, s-G) + offset + 2^(G-1)) >> G)); "
              "offset = a constant at the output scale with G fractional bits"),
    IntegerOp("Add", ("a", "b", "a_multiplier", "a_shift", "b_multiplier", "b_shift"), TWO, add, _emit_add,
              "y = clamp(y_zp + ((rescale(a - a_zp, ma, sa-G) + rescale(b - b_zp, mb, sb-G) + 2^(G-1)) >> G))"),
    IntegerOp("Mul", ("a", "b", "multiplier", "shift"), TWO, multiply, _emit_multiply,
              "y = clamp(y_zp + rescale((a - a_zp) * (b - b_zp), m, s))"),
)
