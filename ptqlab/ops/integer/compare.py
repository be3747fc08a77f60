"""Comparisons of the VAE: both operands at one scale fine enough for either, the result bool."""
from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from ptqlab.arith.requantize import rescale
from ptqlab.ops.emit import DOUBLE, Emitter
from ptqlab.ops.integer.scaling import emit_rounded
from ptqlab.ops.integer.spec import INT, IntegerOp, output_dtype

COMPARISONS: dict[str, tuple[Callable[..., np.ndarray], str]] = {
    "Equal": (np.equal, "=="), "Less": (np.less, "<"), "LessOrEqual": (np.less_equal, "<="),
    "Greater": (np.greater, ">"), "GreaterOrEqual": (np.greater_equal, ">="),
}


def _reference(compare: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    def reference(attrs: Mapping[str, Any], a: np.ndarray, b: np.ndarray, a_multiplier: np.ndarray, a_shift: np.ndarray,
                  b_multiplier: np.ndarray, b_shift: np.ndarray) -> np.ndarray:
        left = rescale(a.astype(np.int64) - attrs["a_zero_point"], a_multiplier, a_shift)
        right = rescale(b.astype(np.int64) - attrs["b_zero_point"], b_multiplier, b_shift)
        return np.asarray(compare(left, right), output_dtype(attrs))

    return reference


def _emit(op: str) -> Callable[[Emitter], ir.Value]:
    def emit(e: Emitter) -> ir.Value:
        operands = []
        for name in ("a", "b"):
            centred = e.op("Sub", e.cast(e.input(name), DOUBLE), e.integer(f"{name}_zero_point", DOUBLE))
            scaled = e.op("Mul", centred, e.ratio(f"{name}_multiplier", f"{name}_shift"))
            operands.append(emit_rounded(e, scaled))
        return e.op(op, *operands)

    return emit


COMPARE_OPS = tuple(
    IntegerOp(op, ("a", "b", "a_multiplier", "a_shift", "b_multiplier", "b_shift"),
              {"a_zero_point": INT, "b_zero_point": INT, "to": INT}, _reference(compare), _emit(op),
              f"y = rescale(a - a_zp, ma, sa) {sign} rescale(b - b_zp, mb, sb), bool")
    for op, (compare, sign) in COMPARISONS.items()
)
