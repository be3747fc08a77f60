"""Products of two tensors in one spelling, MatMul: Einsum and Gemm without constant weights become it."""

from __future__ import annotations

import math
import string
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from ptqlab.passes.base import Work, get_float, get_int, get_string, shape_of

# stand for the axes of "...", counted from the last; no equation can hold them
ELLIPSIS_LABELS = "".join(chr(0x2460 + i) for i in range(20))


class ReplaceEinsum:
    """Given Einsum of one float tensor that permutes its axes, or of two tensors where every label that is summed is
    in both, and none is twice in one.
    Result: Transpose, or MatMul (Mul where nothing is summed) under the name of the Einsum, with Transposes and
    Reshapes `<name>_left`, `<name>_right`, `.._merge` in front and `<name>_split`, `<name>_order` behind it where the
    axes want it; those of constants are computed at once, and a single constant operand becomes the right one, where
    weights stand."""

    def __call__(self, work: Work) -> int:
        return sum(_replace(work, n) for n in list(work.graph) if n.op_type == "Einsum" and _is_float(n.outputs[0]))


class SplitGemm:
    """Given Gemm of two computed tensors, or with a computed bias (transA gone, alpha and transB folded where B is
    constant).
    Result: MatMul under the name of the Gemm, behind a Transpose `<name>_transpose_b`, before a Mul `<name>_alpha` and
    an Add `<name>_bias`, each where it is needed; beta goes into a constant bias."""

    def __call__(self, work: Work) -> int:
        return sum(_split(work, n) for n in list(work.graph) if n.op_type == "Gemm" and _is_float(n.outputs[0]))


def _is_float(value: ir.Value) -> bool:
    return value.dtype == ir.DataType.FLOAT


def parse(equation: str, ranks: Iterable[int]) -> tuple[list[str], str] | None:
    """Labels of each operand and of the result, one character per axis; "..." becomes labels of its own."""
    text = equation.replace(" ", "")
    left, arrow, right = text.partition("->")
    operands = left.split(",")
    expanded = []
    widest = ""
    for operand, rank in zip(operands, ranks, strict=True):
        missing = rank - len(operand.replace("...", ""))
        labels = ELLIPSIS_LABELS[:missing][::-1] if "..." in operand else ""
        widest = max(widest, labels, key=len)
        expanded.append(operand.replace("...", labels))
        if len(expanded[-1]) != rank:
            return None
    if not arrow:
        every = "".join(expanded)
        right = "..." + "".join(c for c in sorted(set(every)) if c in string.ascii_letters and every.count(c) == 1)
    return expanded, right.replace("...", widest)


@dataclass(frozen=True)
class Contraction:
    """How the labels of two operands fall: in both and the result, summed, in one operand only."""

    batch: str
    summed: str
    left: str
    right: str


def classify(a: str, b: str, out: str) -> Contraction | str:
    """The contraction, or why it is none."""
    for labels in (a, b, out):
        if len(set(labels)) != len(labels):
            return "a label is twice in one operand"
    alone = [c for c in a + b if c not in out and not (c in a and c in b)]
    if alone:
        return f"label {alone[0]!r} is summed over in one operand alone"
    if any(c not in a + b for c in out):
        return "the result has a label that no operand has"
    return Contraction(
        "".join(c for c in out if c in a and c in b),
        "".join(c for c in a if c in b and c not in out),
        "".join(c for c in out if c in a and c not in b),
        "".join(c for c in out if c in b and c not in a),
    )


def _replace(work: Work, node: ir.Node) -> int:
    values = [v for v in node.inputs if v is not None]
    parsed = parse(get_string(node, "equation", ""), [len(shape_of(v)) for v in values])
    if parsed is None:
        return work.refuse(node, "its equation does not fit the ranks of its operands")
    operands, out = parsed
    if len(operands) == 1:
        if sorted(operands[0]) != sorted(out) or len(set(out)) != len(out):
            return work.refuse(node, "it does more than permute axes")
        perm = ir.AttrInt64s("perm", [operands[0].index(c) for c in out])
        work.retype(node, "Transpose", values, [perm])
        return 1
    if len(operands) > 2:
        return work.refuse(node, f"it has {len(operands)} operands")
    if work.constant(values[0]) is not None and work.constant(values[1]) is None:
        values, operands = values[::-1], operands[::-1]
    kinds = classify(operands[0], operands[1], out)
    if isinstance(kinds, str):
        return work.refuse(node, kinds)
    sizes = [dict(zip(o, shape_of(v), strict=True)) for o, v in zip(operands, values, strict=True)]
    if any(sizes[0][c] != sizes[1][c] for c in kinds.summed):
        return work.refuse(node, "a summed axis is broadcast")
    if 0 in (*sizes[0].values(), *sizes[1].values()):
        return work.refuse(node, "a tensor is empty")
    _write(work, node, values, operands, out, kinds, sizes)
    return 1


def _write(work: Work, node: ir.Node, values: list[ir.Value], operands: list[str], out: str, kinds: Contraction,
           sizes: list[dict[str, int]]) -> None:
    batch = [[s[c] for c in kinds.batch] for s in sizes]
    rows, columns = math.prod(sizes[0][c] for c in kinds.left), math.prod(sizes[1][c] for c in kinds.right)
    depth = math.prod(sizes[0][c] for c in kinds.summed)
    left = _arranged(work, node, "left", values[0], operands[0], kinds.batch + kinds.left + kinds.summed,
                     [*batch[0], rows, depth])
    right = _arranged(work, node, "right", values[1], operands[1], kinds.batch + kinds.summed + kinds.right,
                      [*batch[1], depth, columns])
    whole = [max(p, q) for p, q in zip(*batch, strict=True)]
    made = kinds.batch + kinds.left + kinds.right
    full = [{**sizes[0], **sizes[1]}[c] for c in made]
    full[: len(whole)] = whole
    work.retype(node, "MatMul" if kinds.summed else "Mul", [left, right])
    shape = [*whole, rows, columns]
    if made != out:
        perm = ir.AttrInt64s("perm", [made.index(c) for c in out])
        work.append_node(node, "Transpose", [], f"{node.name}_order", inner_shape=full, attributes=[perm])
    if full != shape:
        target = work.add_constant(f"{node.name}_split_shape", np.array(full, np.int64))
        work.append_node(node, "Reshape", [target], f"{node.name}_split", inner_shape=shape)


def _arranged(work: Work, node: ir.Node, side: str, value: ir.Value, labels: str, wanted: str,
              shape: list[int]) -> ir.Value:
    """An operand with its axes in the wanted order, then in the wanted shape."""
    perm = [labels.index(c) for c in wanted]
    array = work.constant(value)
    if array is not None:
        if perm == sorted(perm) and list(array.shape) == shape:
            return value
        return work.add_constant(f"{node.name}_{side}", np.ascontiguousarray(array.transpose(perm).reshape(shape)))
    dtype, sizes = value.dtype, shape_of(value)
    assert dtype is not None
    if perm != sorted(perm):
        value = work.add_node(
            "Transpose", [value], f"{node.name}_{side}", before=node, shape=[sizes[i] for i in perm], dtype=dtype,
            attributes=[ir.AttrInt64s("perm", perm)],
        ).outputs[0]
    if list(shape_of(value)) != shape:
        target = work.add_constant(f"{node.name}_{side}_shape", np.array(shape, np.int64))
        value = work.add_node(
            "Reshape", [value, target], f"{node.name}_{side}_merge", before=node, shape=shape, dtype=dtype
        ).outputs[0]
    return value


def _split(work: Work, node: ir.Node) -> int:
    a, b, *rest = node.inputs
    c = rest[0] if rest else None
    assert a is not None and b is not None
    bias = work.constant(c)
    computed_bias = c is not None and bias is None
    if (work.constant(b) is not None and not computed_bias) or get_int(node, "transA", 0):
        return 0
    alpha, beta = get_float(node, "alpha", 1.0), get_float(node, "beta", 1.0)
    if computed_bias and beta != 1:
        return work.refuse(node, f"its bias is computed and multiplied by {beta:g}")
    if get_int(node, "transB", 0):
        b = _transposed(work, node, b)
    shape = shape_of(node.outputs[0])
    if bias is not None:
        c = work.add_constant(f"{node.name}_beta", (bias * np.float32(beta)).astype(np.float32)) if beta != 1 else c
    work.retype(node, "MatMul", [a, b])
    if c is not None:
        work.append_node(node, "Add", [c], f"{node.name}_bias", inner_shape=shape)
    if alpha != 1:
        factor = work.add_constant(f"{node.name}_factor", np.asarray(alpha, np.float32))
        work.append_node(node, "Mul", [factor], f"{node.name}_alpha", inner_shape=shape)
    return 1


def _transposed(work: Work, node: ir.Node, b: ir.Value) -> ir.Value:
    array = work.constant(b)
    if array is not None:
        return work.add_constant(f"{node.name}_transpose_b", np.ascontiguousarray(array.T))
    assert b.dtype is not None
    return work.add_node(
        "Transpose", [b], f"{node.name}_transpose_b", before=node, shape=shape_of(b)[::-1], dtype=b.dtype,
        attributes=[ir.AttrInt64s("perm", [1, 0])],
    ).outputs[0]
