"""Further outputs of a quantized model for debugging: what each operator with weights wrote, dequantized."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from ptqlab.ops.node import shape
from ptqlab.quantize.rewrite import Rewriter
from ptqlab.stages.quantized import QuantizedModel


def with_tensor_outputs(quantized: QuantizedModel, tensors: Sequence[str]) -> QuantizedModel:
    """The model with these tensors of the optimized graph as float outputs, behind its own outputs."""
    work = Rewriter(quantized)
    for tensor in tensors:
        values = work.values()
        value = values.get(tensor)
        if value is None:
            stored = work.integers[tensor]
            codes = values[stored.name]
            value = work.operator(
                "Dequantize",
                f"{tensor}_dequantize",
                {"x": codes, "scale": np.asarray(stored.scale, np.float32)},
                {"x_zero_point": stored.zero_point},
                tensor,
                shape(codes),
                ir.DataType.FLOAT,
                None,
            )
        if not value.is_graph_output():
            work.graph.outputs.append(value)
    return work.done()
