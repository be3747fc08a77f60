"""Matrix multiplication: MatMul and Gemm with weights, MatMul of two tensors."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from ptqlab.arith.formats import QType
from ptqlab.arith.rounding import quantize
from ptqlab.ops.conv import lower_accumulating, output_attributes, residual_inputs, scaled_by
from ptqlab.ops.integer.accumulate import LONGEST_SUM, drop_bits
from ptqlab.ops.node import attribute, constant, has_weights, shape
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


def one_operand_computed(node: ir.Node, platform: Platform) -> str | None:
    """At least one operand of MatMul must be computed."""
    return None if any(constant(v) is None for v in node.inputs) else "both operands are constant"


def moderate_sum(node: ir.Node, platform: Platform) -> str | None:
    """One output sums at most 65,536 products with weights, and 16,384 products of two tensors."""
    count = shape(node.inputs[0])[-1]
    if has_weights(node):
        return few_products(node, platform)
    return None if count <= LONGEST_SUM else f"{count} products of two tensors"


def lower_gemm(ctx: Lowering, node: ir.Node) -> None:
    lower_accumulating(ctx, node, "MatMul", {}, (shape(node.outputs[0])[-1],))


def lower_matmul(ctx: Lowering, node: ir.Node) -> None:
    if has_weights(node):
        lower_gemm(ctx, node)
    else:
        lower_product(ctx, node)


@dataclass(frozen=True)
class Side:
    """One operand of a product: codes, type, zero point, and its scale(s) in a shape that broadcasts to the output."""

    codes: ir.Value | np.ndarray
    qtype: QType
    zero_point: int
    scale: np.ndarray


def constant_codes(array: np.ndarray, index: int, qtype: QType) -> tuple[np.ndarray, np.ndarray, int]:
    """Constant operand `index` of a product: (codes, float32 scales, their axis); a vector has one scale, axis -1.

    Every row of a left operand and every column of a right one has a scale, shared by all matrices of a batch.
    """
    axis = -1 if array.ndim < 2 else array.ndim - 2 + index
    others = tuple(i for i in range(array.ndim) if i != axis)
    largest = np.abs(array.astype(np.float32)).max(axis=others)
    scale = np.where(largest > 0, largest / np.float32(qtype.qmax), np.float32(1)).astype(np.float32)
    along = scale.reshape([-1 if i == axis else 1 for i in range(array.ndim)])
    return quantize(array, along, 0, qtype.qmin, qtype.qmax).astype(qtype.numpy), scale, axis


def _side(ctx: Lowering, node: ir.Node, index: int) -> Side:
    array = ctx.constant(node, index)
    if array is None:
        operand = ctx.read(node, index)
        encoding = operand.encoding
        return Side(operand.value, encoding.qtype, encoding.zero_point, np.asarray(encoding.scale, np.float64))
    qtype = ctx.weight_type(node)
    codes, scale, axis = constant_codes(array, index, qtype)
    if axis >= 0 and index == 0 and len(shape(node.inputs[1])) > 1:
        scale = scale[:, None]
    return Side(codes, qtype, 0, scale.astype(np.float64))


def lower_product(ctx: Lowering, node: ir.Node) -> None:
    """MatMul of two tensors, one of which may be a constant: plain, with a residual operand, or tail."""
    a, b = _side(ctx, node, 0), _side(ctx, node, 1)
    prefix = f"Int{a.qtype.bits}Int{b.qtype.bits}MatMul"
    inputs: dict[str, ir.Value | np.ndarray] = {"a": a.codes, "b": b.codes}
    attributes: dict[str, object] = {
        "a_zero_point": a.zero_point, "b_zero_point": b.zero_point, "length": shape(node.inputs[0])[-1],
    }
    accumulator_scale = np.asarray(a.scale * b.scale * (1 << drop_bits(a.qtype.bits, b.qtype.bits)))
    out = ctx.output(node)
    if out is None:
        ctx.write_tail(node, f"{prefix}Tail", inputs, attributes, accumulator_scale.astype(np.float32))
        return
    inputs |= scaled_by("", accumulator_scale / float(out.scale))
    attributes |= output_attributes(ctx, node, out)
    residual = ctx.residual(node)
    if residual is None:
        ctx.write(node, prefix, inputs, attributes)
        return
    inputs |= residual_inputs(residual, out)
    ctx.write(node, f"{prefix}Add", inputs, attributes | {"residual_zero_point": residual.encoding.zero_point})


MATMUL = OpSpec(
    "MatMul", Role.ACTIVE, Engine.TAE, features=(0, 1),
    rules=(float_features, one_operand_computed, moderate_sum, not_empty), lower=lower_matmul, source="documented",
    note="int8 weights per output channel, a constant Add behind it joins the bias; of two computed operands int16 "
         "makes the first int16 and the second int8, dual-int16 both int16",
)
GEMM = OpSpec(
    "Gemm", Role.ACTIVE, Engine.TAE, features=(0,),
    rules=(float_features, constant_weights, matrix_weights, plain_gemm, channel_bias, few_products, not_empty),
    lower=lower_gemm, source="documented", note="as MatMul with weights",
)
SPECS = (MATMUL, GEMM)
