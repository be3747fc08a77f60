"""The number formats of the BPU and their ranges.

Full two's complement ranges for activations (documented). Weights use the same code range; symmetric scales
divide the threshold by 127 or 32767 (published logs: a threshold of 127.0 on an int8 image input).
"""
from __future__ import annotations

from enum import StrEnum

import numpy as np


class QType(StrEnum):
    """Type of a tensor on the BPU; the values are the words of quant_config."""

    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    FLOAT16 = "float16"
    FLOAT32 = "float32"

    @property
    def is_integer(self) -> bool:
        return self in (QType.INT8, QType.INT16, QType.INT32)

    @property
    def bits(self) -> int:
        return int(self.value.removeprefix("int").removeprefix("float"))

    @property
    def qmin(self) -> int:
        return -(1 << (self.bits - 1))

    @property
    def qmax(self) -> int:
        """Largest code, which is also the divisor of a symmetric scale."""
        return (1 << (self.bits - 1)) - 1

    @property
    def numpy(self) -> np.dtype:
        return np.dtype(self.value)

    @property
    def word(self) -> str:
        """The word of the node table's "Output Data Type" column: si8, si16, si32, f16, f32."""
        return {"int8": "si8", "int16": "si16", "int32": "si32", "float16": "f16", "float32": "f32"}[self.value]


def widest(types: list[QType]) -> QType:
    """The type that holds every one of `types` without loss of codes: int8 < int16 < float16 < float32."""
    order = [QType.INT8, QType.INT16, QType.FLOAT16, QType.INT32, QType.FLOAT32]
    return max(types, key=order.index)
