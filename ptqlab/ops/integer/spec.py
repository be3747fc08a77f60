"""What an integer operator of the BPU is: the boxes that a quantized model is made of."""
from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from ptqlab.ops.emit import Emitter, function_body

DOMAIN = "ptqlab.bpu"
DOMAIN_VERSION = 1
OPSET = 19

INT, INTS = ir.AttributeType.INT, ir.AttributeType.INTS
REAL, TEXT = ir.AttributeType.FLOAT, ir.AttributeType.STRING

Reference = Callable[..., np.ndarray]


@dataclass(frozen=True)
class IntegerOp:
    """One integer operator.

    name        operator type in the domain "ptqlab.bpu"
    inputs      names of its inputs, in order
    attributes  names and kinds of its attributes; all are required
    reference   the definition: reference(attributes, *arrays) -> array, plain numpy on integers
    emit        writes the same computation as standard ONNX operators, exact to the bit
    equation    what it computes, for the definition page
    """

    name: str
    inputs: tuple[str, ...]
    attributes: Mapping[str, ir.AttributeType]
    reference: Callable[..., np.ndarray]
    emit: Callable[[Emitter], ir.Value]
    equation: str

    def function(self) -> ir.Function:
        return function_body(DOMAIN, self.name, self.emit, self.inputs, self.attributes, OPSET)


def output_dtype(attributes: Mapping[str, Any]) -> np.dtype:
    """numpy dtype of the operator's output, from its `to` attribute (an ONNX type number)."""
    return np.dtype(ir.DataType(attributes["to"]).numpy())
