"""Matrix multiplication with a constant operand: MatMul and Gemm."""
from __future__ import annotations

import onnx_ir as ir

from ptqlab.ops.conv import lower_accumulating
from ptqlab.ops.node import attribute, shape
from ptqlab.ops.rules import constant_weights, few_products, float_features, not_empty
from ptqlab.ops.spec import Engine, Lowering, OpSpec, Role
from ptqlab.platforms import Platform


def plain_gemm(node: ir.Node, platform: Platform) -> str | None:
    """Gemm must be A * B + C with A as it stands; the optimizer folds alpha, beta and transB into constants."""
    if attribute(node, "transA", 0):
        return "transA is 1"
    if attribute(node, "alpha", 1.0) != 1.0 or attribute(node, "beta", 1.0) != 1.0:
        return f"alpha {attribute(node, 'alpha', 1.0)}, beta {attribute(node, 'beta', 1.0)}"
    return None


def matrix_weights(node: ir.Node, platform: Platform) -> str | None:
    """The constant operand must be a matrix [K, N], the features at least a vector [.., K]."""
    weight = shape(node.inputs[1])
    return None if len(weight) == 2 else f"shape {list(weight)}"


def channel_bias(node: ir.Node, platform: Platform) -> str | None:
    """A bias has one value per output channel, or one for all."""
    if len(node.inputs) < 3 or node.inputs[2] is None:
        return None
    bias, outputs = shape(node.inputs[2]), shape(node.outputs[0])[-1]
    fits = all(d == 1 for d in bias[:-1]) and (not bias or bias[-1] in (1, outputs))
    return None if fits else f"bias of shape {list(bias)} for {outputs} channels"


def lower_matmul(ctx: Lowering, node: ir.Node) -> None:
    lower_accumulating(ctx, node, "MatMul", {}, (shape(node.outputs[0])[-1],))


MATMUL = OpSpec(
    "MatMul", Role.ACTIVE, Engine.TAE, features=(0,),
    rules=(float_features, constant_weights, matrix_weights, few_products, not_empty), lower=lower_matmul,
    source="documented",
    note="int8 weights per output channel; a constant Add behind it joins the bias",
)
GEMM = OpSpec(
    "Gemm", Role.ACTIVE, Engine.TAE, features=(0,),
    rules=(float_features, constant_weights, matrix_weights, plain_gemm, channel_bias, few_products, not_empty),
    lower=lower_matmul, source="documented", note="as MatMul",
)
SPECS = (MATMUL, GEMM)
