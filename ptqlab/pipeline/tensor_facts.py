"""What a program must know of an input or output to feed it or to read it: shape, type, scale and zero point.

The keys are those of hbm_infer's get_input_info and get_output_info (documented), so that pre- and post-processing
written for the board reads them here. Words behind DATA_TYPE_ are our definition: S8, U8, S16, S32, F16, F32, ...
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ptqlab.arith.rounding import dequantize, quantize
from ptqlab.stages.quantized import IntegerTensor

LETTERS = {"i": "S", "u": "U", "f": "F"}


@dataclass(frozen=True)
class TensorFacts:
    """One input or output.

    shape        static, -1 where open
    dtype        numpy word
    scale        float32, one or one per channel; None where the numbers are real already
    zero_point   of the codes
    axis         of the channels that scale belongs to, -1 for one scale
    stride       bytes from one element to the next along each axis, rows of nv12 padded as on the board
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    scale: np.ndarray | None = None
    zero_point: int = 0
    axis: int = -1
    stride: tuple[int, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain data under the names of hbm_infer; scale_data and zero_point_data are empty for real numbers."""
        scale = [] if self.scale is None else [float(s) for s in self.scale.ravel()]
        return {
            "valid_shape": list(self.shape),
            "stride": list(self.stride),
            "tensor_type": data_type(self.dtype),
            "quanti_type": "QUANTI_TYPE_NONE" if self.scale is None else "QUANTI_TYPE_SCALE",
            "quantizeAxis": self.axis,
            "scale_data": scale,
            "zero_point_data": [self.zero_point] * len(scale),
        }

    def real(self, values: np.ndarray) -> np.ndarray:
        """What an array of this tensor stands for: (codes - zero point) * scale in float32; itself where it is real."""
        return values if self.scale is None else dequantize(values, self.scale, self.zero_point)

    def codes(self, values: np.ndarray) -> np.ndarray:
        """The array to feed for real numbers: clamp(round(x / scale + zero point)), halves away from zero."""
        if self.scale is None:
            return values
        limits = np.iinfo(self.dtype)
        return quantize(values, self.scale, self.zero_point, limits.min, limits.max).astype(self.dtype)


def data_type(dtype: str) -> str:
    """DATA_TYPE_S8 for "int8", DATA_TYPE_BOOL for "bool"."""
    if dtype == "?":
        return "DATA_TYPE_UNKNOWN"
    kind = np.dtype(dtype)
    return "DATA_TYPE_" + (f"{LETTERS[kind.kind]}{8 * kind.itemsize}" if kind.kind in LETTERS else dtype.upper())


def tensor_facts(
    name: str, shape: tuple[int, ...], dtype: str, integers: Mapping[str, IntegerTensor], row_bytes: int | None = None
) -> TensorFacts:
    """Facts of one tensor; `integers` as in a quantized model, `row_bytes` the padded row of an nv12 plane."""
    if dtype == "?":
        return TensorFacts(name, shape, dtype)
    held = next((t for t in integers.values() if t.name == name), None)
    stride = _strides(shape, np.dtype(dtype).itemsize)
    if row_bytes is not None:
        stride = (shape[1] * row_bytes, row_bytes, *stride[2:])
    if held is None or np.dtype(dtype).kind != "i":
        return TensorFacts(name, shape, dtype, stride=stride)
    channels = [axis for axis, size in enumerate(reversed(held.scale.shape), start=1) if size > 1]
    axis = len(shape) - channels[0] if channels else -1
    return TensorFacts(name, shape, dtype, held.scale, held.zero_point, axis, stride)


def _strides(shape: tuple[int, ...], size: int) -> tuple[int, ...]:
    """Of a dense array; empty where a size is open."""
    if any(d < 0 for d in shape):
        return ()
    out = []
    for length in reversed(shape):
        out.append(size)
        size *= length
    return tuple(reversed(out))
