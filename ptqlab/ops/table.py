"""THE operator table: one entry per ONNX operator, one explicit list. What is not listed runs on the CPU."""
from __future__ import annotations

from collections.abc import Callable

import onnx_ir as ir

from ptqlab.ops import (
    activation,
    compare,
    conv,
    elementwise,
    floats,
    gather,
    grid_sample,
    layout,
    matmul,
    native,
    norm,
    pool,
    reduce,
    resize,
    select,
    softmax,
)
from ptqlab.ops.spec import Engine, OpSpec, Role

# operators of which the node decides what it is
VARIANTS: dict[str, Callable[[ir.Node], OpSpec]] = {
    "Resize": resize.resize_of, "Cast": reduce.cast_of, "Gather": gather.gather_of,
}

OPERATORS: dict[str, OpSpec] = {
    spec.op_type: spec
    for spec in (
        *conv.SPECS,
        *matmul.SPECS,
        *elementwise.SPECS,
        *select.SPECS,
        *compare.SPECS,
        *activation.SPECS,
        *softmax.SPECS,
        *norm.SPECS,
        *pool.SPECS,
        *layout.SPECS,
        *gather.SPECS,
        *resize.SPECS,
        *grid_sample.SPECS,
        *reduce.SPECS,
        *floats.SPECS,
    )
}


def spec_of(node: ir.Node | str) -> OpSpec:
    """The entry of a node or operator type; one that says "float on the CPU" where there is none.

    Where an operator is several (Resize: a mover in nearest mode, arithmetic in the others; Mul of int32 tensors: left
    as it is), a node gives its own.
    """
    if isinstance(node, ir.Node) and native.is_native(node):
        return native.NATIVE[node.op_type]
    if isinstance(node, ir.Node) and node.op_type in VARIANTS:
        return VARIANTS[node.op_type](node)
    op_type = node if isinstance(node, str) else node.op_type
    known = OPERATORS.get(op_type)
    return known or OpSpec(op_type, Role.FLOAT, Engine.CPU, note=floats.UNKNOWN_OPERATOR.format(op=op_type))
