"""Reading a node: attributes with their ONNX defaults, constants, shapes."""
from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir


def attribute(node: ir.Node, name: str, default: Any = None) -> Any:
    """Value of an attribute as plain Python (tuples become lists), `default` where it is absent."""
    attr = node.attributes.get(name)
    if attr is None:
        return default
    value = attr.value
    return list(value) if isinstance(value, (tuple, list)) else value


def constant(value: ir.Value | None) -> np.ndarray | None:
    """The array behind a constant tensor, None where it is absent or computed."""
    return None if value is None or value.const_value is None else value.const_value.numpy()


def shape(value: ir.Value | None) -> tuple[int, ...]:
    """Static shape; the internal form has one for every tensor."""
    assert value is not None and value.shape is not None, "the internal form has a shape for every tensor"
    return tuple(int(d) for d in value.shape.numpy())


def input_value(node: ir.Node, index: int) -> ir.Value | None:
    return node.inputs[index] if index < len(node.inputs) else None


def has_weights(node: ir.Node) -> bool:
    """Whether the second operand of a TAE operator is weights: a constant, of MatMul and Gemm a constant matrix.

    MatMul of two computed operands has none, nor has it with a constant in front or a constant batch of matrices.
    """
    if node.op_type not in ("MatMul", "Gemm"):
        return True
    weight = constant(node.inputs[1])
    return weight is not None and weight.ndim == 2 and constant(node.inputs[0]) is None


def spatial_geometry(node: ir.Node, kernel: list[int]) -> dict[str, list[int]]:
    """strides, pads, dilations of a convolution or pooling node with ONNX defaults (auto_pad is gone by then)."""
    rank = len(kernel)
    return {
        "strides": attribute(node, "strides", [1] * rank),
        "pads": attribute(node, "pads", [0] * (2 * rank)),
        "dilations": attribute(node, "dilations", [1] * rank),
    }


def output_spatial(node: ir.Node) -> tuple[int, ...]:
    return shape(node.outputs[0])[2:]
