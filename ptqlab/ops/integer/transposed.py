"""Integer transposed convolutions: a convolution over x with strides - 1 zeros between its elements.

The weights are those of that convolution, [O, C/group, kernel...] with the kernel turned around; its pads are
dilation * (kernel - 1) minus the node's pads, the output padding included at the end.
"""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from ptqlab.ops.emit import FLOAT, UINT8, Emitter
from ptqlab.ops.integer import conv
from ptqlab.ops.integer.accumulate import accumulate as accumulator
from ptqlab.ops.integer.exact import Accumulator, Kernel
from ptqlab.ops.integer.scaling import (
    OUTPUT_ATTRIBUTES,
    emit_requantize,
    emit_saturate32,
    requantize,
    requantize_sum,
    saturate32,
)
from ptqlab.ops.integer.spec import INT, IntegerOp


def accumulate(attrs: Mapping[str, Any], x: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """acc[n,o,p] = bias[o] + sum over c,k of (x[n,c,i] - x_zp) * w[o,c,k] where i * stride = p + k * dilation - pad."""
    strides = attrs["strides"]
    size = [(n - 1) * s + 1 for n, s in zip(x.shape[2:], strides, strict=True)]
    # a zero between the elements is the code of zero
    spread = np.full((*x.shape[:2], *size), attrs["x_zero_point"], x.dtype)
    spread[(slice(None), slice(None), *(slice(None, None, s) for s in strides))] = x
    return conv.accumulate({**attrs, "strides": [1] * len(strides)}, spread, weight, bias)


def transposed(attrs: Mapping[str, Any], x: np.ndarray, weight: np.ndarray, bias: np.ndarray, ones: np.ndarray,
               multiplier: np.ndarray, shift: np.ndarray) -> np.ndarray:
    return requantize(attrs, accumulate(attrs, x, weight, bias), multiplier, shift)


def transposed_add(attrs: Mapping[str, Any], x: np.ndarray, weight: np.ndarray, bias: np.ndarray, ones: np.ndarray,
                   multiplier: np.ndarray, shift: np.ndarray, residual: np.ndarray, residual_multiplier: np.ndarray,
                   residual_shift: np.ndarray) -> np.ndarray:
    other = residual.astype(np.int64) - attrs["residual_zero_point"]
    return requantize_sum(attrs, (accumulate(attrs, x, weight, bias), multiplier, shift),
                          (other, residual_multiplier, residual_shift))


def transposed_tail(attrs: Mapping[str, Any], x: np.ndarray, weight: np.ndarray, bias: np.ndarray,
                    ones: np.ndarray) -> np.ndarray:
    return saturate32(accumulate(attrs, x, weight, bias))


def _product(e: Emitter, x: ir.Value, weight: np.ndarray, channels: np.ndarray | None) -> ir.Value:
    """With the weights known, the float32 ConvTranspose itself (every partial sum is exact: see exact.py)."""
    a = e.attributes
    group, rank = a["group"], weight.ndim - 2
    grouped = weight.reshape(group, weight.shape[0] // group, *weight.shape[1:])
    turned = np.flip(np.swapaxes(grouped, 1, 2), tuple(range(3, 3 + rank)))
    own = turned.reshape(-1, grouped.shape[1], *weight.shape[2:])
    reach = [d * (k - 1) for d, k in zip(a["dilations"], weight.shape[2:], strict=True)]
    begins = [r - p for r, p in zip(reach, a["pads"][:rank], strict=True)]
    extra = [max(0, p - r) for r, p in zip(reach, a["pads"][rank:], strict=True)]
    ends = [r - p + o for r, p, o in zip(reach, a["pads"][rank:], extra, strict=True)]
    w = e.const(np.ascontiguousarray(own, np.float32))
    return e.op("ConvTranspose", x, w, strides=list(a["strides"]), pads=[*begins, *ends], output_padding=extra,
                dilations=list(a["dilations"]), group=group)


def _integer_product(e: Emitter, x: ir.Value, w: ir.Value, x_zero: ir.Value, w_zero: ir.Value) -> ir.Value:
    """Zeros come between the elements by a ConvTranspose with a kernel of one 1 per channel, exact in float32."""
    zero = e.cast(x_zero, FLOAT)
    centred = e.op("Sub", e.cast(x, FLOAT), zero)
    spread = e.op("ConvTranspose", centred, e.codes("ones"), strides=e.attr("strides"), group=e.attr("channels"))
    codes = e.cast(e.op("Add", spread, zero), UINT8)
    return e.op("ConvInteger", codes, w, x_zero, w_zero, pads=e.attr("pads"), dilations=e.attr("dilations"),
                group=e.attr("group"))


KERNEL = Kernel(0, _product, _integer_product)

GEOMETRY = conv.GEOMETRY | {"channels": INT}
WEIGHTS = (*conv.WEIGHTS, "ones")
SCALED = (*WEIGHTS, "multiplier", "shift")
RESIDUAL = (*SCALED, "residual", "residual_multiplier", "residual_shift")
SPREAD = "over x with stride - 1 zeros between its elements"
EQUATION = f"acc = bias + sum (x - x_zp) * w {SPREAD};  "
DUAL_EQUATION = f"acc = bias + ((sum (x - x_zp) * w + 2^7) >> 8) {SPREAD};  "


def _variants(prefix: str, bits: tuple[int, int], equation: str = EQUATION) -> tuple[IntegerOp, ...]:
    def acc(e: Emitter) -> Accumulator | ir.Value:
        return accumulator(e, KERNEL, bits)

    return (
        IntegerOp(f"{prefix}ConvTranspose", SCALED, GEOMETRY | OUTPUT_ATTRIBUTES, transposed,
                  lambda e: emit_requantize(e, acc(e)), equation + "y = clamp(y_zp + rescale(acc, m, s))"),
        IntegerOp(f"{prefix}ConvTransposeAdd", RESIDUAL, GEOMETRY | OUTPUT_ATTRIBUTES | {"residual_zero_point": INT},
                  transposed_add, lambda e: conv.emit_residual(e, acc(e)),
                  equation + "y = clamp(y_zp + ((rescale(acc, m, s-G) + rescale(r - r_zp, mr, sr-G) + 2^(G-1)) >> G))"),
        IntegerOp(f"{prefix}ConvTransposeTail", WEIGHTS, GEOMETRY, transposed_tail,
                  lambda e: emit_saturate32(e, acc(e)), equation + "y = clamp(acc, -2^31, 2^31 - 1)"),
    )


TRANSPOSED_OPS = (
    *_variants("Int8", (8, 8)), *_variants("Int16", (16, 8)), *_variants("DualInt16", (16, 16), DUAL_EQUATION),
)
