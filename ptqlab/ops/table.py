"""THE operator table: one entry per ONNX operator, one explicit list. What is not listed runs on the CPU."""
from __future__ import annotations

from ptqlab.ops import activation, conv, elementwise, floats, layout, matmul, pool, softmax
from ptqlab.ops.spec import Engine, OpSpec, Role

OPERATORS: dict[str, OpSpec] = {
    spec.op_type: spec
    for spec in (
        *conv.SPECS,
        *matmul.SPECS,
        *elementwise.SPECS,
        *activation.SPECS,
        *softmax.SPECS,
        *pool.SPECS,
        *layout.SPECS,
        *floats.SPECS,
    )
}


def spec_of(op_type: str) -> OpSpec:
    """The entry of an operator; one that says "float on the CPU" for an operator without an entry."""
    known = OPERATORS.get(op_type)
    return known or OpSpec(op_type, Role.FLOAT, Engine.CPU, note=floats.UNKNOWN_OPERATOR.format(op=op_type))
