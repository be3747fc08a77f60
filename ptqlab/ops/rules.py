"""Rules that several operators share. Each docstring is the rule as users read it."""
from __future__ import annotations

import numpy as np
import onnx_ir as ir

from ptqlab.ops.node import attribute, constant, input_value, shape
from ptqlab.platforms import Platform

PRODUCTS = 1 << 16


def float_features(node: ir.Node, platform: Platform) -> str | None:
    """The BPU quantizes float32 tensors; integer, bool and string tensors stay as they are."""
    for value in node.inputs:
        if value is not None and value.const_value is None and value.dtype != ir.DataType.FLOAT:
            return f"input {value.name} is {value.dtype.name.lower() if value.dtype else 'untyped'}"
    out = node.outputs[0]
    if out.dtype != ir.DataType.FLOAT:
        return f"output {out.name} is {out.dtype.name.lower() if out.dtype else 'untyped'}"
    return None


def float_tensors(node: ir.Node, platform: Platform) -> str | None:
    """The BPU quantizes float32 tensors; integer, bool and string tensors stay as they are."""
    data = node.inputs[0]
    if data is None or data.dtype != ir.DataType.FLOAT:
        return f"input {data.name if data is not None else '(absent)'} is not float32"
    return None


def constant_weights(node: ir.Node, platform: Platform) -> str | None:
    """The second operand must be constant: ptqlab has no kernel yet for two computed operands."""
    weight = input_value(node, 1)
    if constant(weight) is None:
        return f"operand {weight.name if weight is not None else '(absent)'} is computed"
    bias = input_value(node, 2)
    if bias is not None and constant(bias) is None:
        return f"bias {bias.name} is computed"
    return None


def few_products(node: ir.Node, platform: Platform) -> str | None:
    """One output sums at most 65,536 products, so that no data can overflow the accumulator."""
    # int8: 2^16 * 127 * 255 < 2^31;  int16: 2^16 * 127 * 2^15 + the largest bias < 2^38, what `rescale` is exact for
    count = product_count(node)
    return None if count <= PRODUCTS else f"{count} products"


def product_count(node: ir.Node) -> int:
    """Products that one output of a TAE operator sums."""
    weight = shape(node.inputs[1])
    if node.op_type == "Conv":
        return int(np.prod(weight[1:]))
    if node.op_type == "ConvTranspose":
        return weight[0] // int(attribute(node, "group", 1)) * int(np.prod(weight[2:]))
    return shape(node.inputs[0])[-1]


def explicit_pads(node: ir.Node, platform: Platform) -> str | None:
    """Padding must be given as numbers; the optimizer turns auto_pad into pads where shapes are known."""
    mode = attribute(node, "auto_pad", "NOTSET")
    return None if mode in ("NOTSET", "VALID") else f"auto_pad is {mode}"


def constant_shape_operand(node: ir.Node, platform: Platform) -> str | None:
    """Shapes, axes, pads and indices must be constant."""
    for index in range(1, len(node.inputs)):
        value = node.inputs[index]
        if value is not None and constant(value) is None:
            return f"input {index} ({value.name}) is computed"
    return None


def single_output(node: ir.Node, platform: Platform) -> str | None:
    """Only the first output may be used."""
    used = [o.name for o in node.outputs[1:] if o.name and (o.uses() or o.is_graph_output())]
    return f"output {used[0]} is used" if used else None


def not_empty(node: ir.Node, platform: Platform) -> str | None:
    """A tensor must hold at least one element."""
    for value in (*node.inputs, *node.outputs):
        if value is not None and value.name and 0 in shape(value):
            return f"tensor {value.name} has shape {list(shape(value))}"
    return None
