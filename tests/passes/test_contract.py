"""Einsum and Gemm of computed tensors become MatMul, and compute the same."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from models import init, model, node, random, value
from passes.compare import kinds, optimized

SIZES = {c: 2 + i for i, c in enumerate("bhqkde")}


def einsum(equation: str, shapes: list[tuple[int, ...]], constant: int | None = None) -> onnx.ModelProto:
    names = [f"x{i}" for i in range(len(shapes))]
    nodes = [node("Einsum", names, "y", "e", equation=equation)]
    inputs = [value(n, s) for i, (n, s) in enumerate(zip(names, shapes, strict=True)) if i != constant]
    inits = [init(names[constant], random(*shapes[constant], seed=9))] if constant is not None else []
    return model(nodes, inputs, [value("y", None)], inits)


def feeds(proto: onnx.ModelProto) -> dict[str, np.ndarray]:
    return {v.name: random(*(d.dim_value for d in v.type.tensor_type.shape.dim), seed=i)
            for i, v in enumerate(proto.graph.input)}


def shapes_of(equation: str) -> list[tuple[int, ...]]:
    return [tuple(SIZES[c] for c in operand) for operand in equation.split("->")[0].split(",")]


@pytest.mark.parametrize(("equation", "wanted"), [
    ("bhqd,bhdk->bhqk", {"e": "MatMul"}),
    ("bhqd,bhkd->bhqk", {"e_right": "Transpose", "e": "MatMul"}),
    ("qd,dk", {"e": "MatMul", "e_order": "Transpose"}),  # without arrow the labels are in alphabetical order
    ("bqhd,bkhd->bhqk", {"e_left": "Transpose", "e_right": "Transpose", "e": "MatMul"}),
    ("bhqk,bkhd->bqhd", {"e_right": "Transpose", "e": "MatMul", "e_order": "Transpose"}),
    ("bqd,dk->bqk", {"e_left_merge": "Reshape", "e": "MatMul", "e_split": "Reshape"}),
    ("q,k->qk", {"e_left_merge": "Reshape", "e_right_merge": "Reshape", "e": "Mul"}),
    ("bhq->qbh", {"e": "Transpose"}),
])
def test_an_einsum_becomes_one_product(equation: str, wanted: dict[str, str]) -> None:
    """The product keeps the name; axes are moved only where the equation asks for it."""
    proto = einsum(equation, shapes_of(equation))
    after, _ = optimized(proto, feeds(proto))
    assert kinds(after) == wanted


def test_a_constant_operand_comes_to_stand_where_weights_do() -> None:
    """First operand constant: the operands change places, its axes are moved beforehand, and it is a matrix."""
    proto = einsum("dk,bqd->bqk", shapes_of("dk,bqd->bqk"), constant=0)
    after, _ = optimized(proto, feeds(proto))
    product = after.node("e")
    assert product.op_type == "MatMul" and len(after.constant(product.inputs[1]).shape) == 2
    assert "Transpose" not in kinds(after).values()


@pytest.mark.parametrize(("equation", "shapes"), [
    ("...qd,...dk->...qk", [(2, 3, 4, 5), (2, 3, 5, 6)]),
    ("...qd,...dk->...qk", [(2, 1, 4, 5), (1, 3, 5, 6)]),
    ("...qhd,...dk->...qhk", [(3, 4, 2, 5), (1, 5, 6)]),
    ("...qd,dk", [(2, 3, 4, 5), (5, 6)]),
    ("b...,b...->...b", [(2, 3, 4), (2, 3, 4)]),
    ("i,i->", [(4,), (4,)]),
])
def test_three_dots_stand_for_any_axes(equation: str, shapes: list[tuple[int, ...]]) -> None:
    """As many as there are, broadcast where one operand has size 1 or none of them."""
    proto = einsum(equation, shapes)
    after, _ = optimized(proto, feeds(proto))
    assert "Einsum" not in kinds(after).values()


@pytest.mark.parametrize(("equation", "reason"), [
    ("bqd,dk->bk", "label 'q' is summed over in one operand alone"),
    ("qq,qk->qk", "a label is twice in one operand"),
    ("bq->b", "it does more than permute axes"),
    ("bq,qd,dk->bk", "it has 3 operands"),
])
def test_what_is_no_product_of_two_stays_and_says_why(equation: str, reason: str) -> None:
    """The log names the node and the reason."""
    proto = einsum(equation, shapes_of(equation))
    after, lines = optimized(proto, feeds(proto))
    assert kinds(after)["e"] == "Einsum" and any(reason in line for line in lines)


@settings(max_examples=60)
@given(st.data())
def test_every_contraction_computes_the_same(data: st.DataObject) -> None:
    """Random labels in random order: batch, summed, and of either operand alone."""
    roles = {c: data.draw(st.sampled_from(["batch", "summed", "left", "right", "absent"])) for c in "bhqkde"}
    a = [c for c, r in roles.items() if r in ("batch", "summed", "left")]
    b = [c for c, r in roles.items() if r in ("batch", "summed", "right")]
    if not a or not b:
        return
    out = data.draw(st.permutations([c for c, r in roles.items() if r in ("batch", "left", "right")]))
    left, right = data.draw(st.permutations(a)), data.draw(st.permutations(b))
    equation = f"{''.join(left)},{''.join(right)}->{''.join(out)}"
    proto = einsum(equation, shapes_of(equation), data.draw(st.sampled_from([None, 0, 1])))
    after, _ = optimized(proto, feeds(proto))
    assert "Einsum" not in kinds(after).values()


def gemm(constants: dict[str, np.ndarray], trans_b: int = 0, **attributes: float) -> onnx.ModelProto:
    shapes = {"a": (3, 4), "b": (5, 4) if trans_b else (4, 5), "c": (5,)}
    inputs = [value(n, s) for n, s in shapes.items() if n not in constants]
    return model([node("Gemm", ["a", "b", "c"], "y", "g", transB=trans_b, **attributes)], inputs, [value("y", None)],
                 [init(n, a) for n, a in constants.items()])


@pytest.mark.parametrize(("trans_b", "attributes", "wanted"), [
    (0, {}, {"g": "MatMul", "g_bias": "Add"}),
    (1, {}, {"g_transpose_b": "Transpose", "g": "MatMul", "g_bias": "Add"}),
    (1, {"alpha": 0.5, "beta": 3.0}, {"g_transpose_b": "Transpose", "g": "MatMul", "g_alpha": "Mul", "g_bias": "Add"}),
])
def test_a_gemm_of_two_tensors_is_written_out(trans_b: int, attributes: dict[str, float],
                                              wanted: dict[str, str]) -> None:
    """MatMul under the name of the Gemm, with what else it does in nodes of its own."""
    proto = gemm({"c": random(5)}, trans_b, **attributes)
    after, _ = optimized(proto, feeds(proto))
    assert kinds(after) == wanted


def test_a_computed_bias_is_added_behind_the_weights() -> None:
    """Gemm with weights and a bias that is an input: MatMul with weights, and an Add that can join its accumulator."""
    proto = gemm({"b": random(5, 4, seed=3)}, 1, alpha=2.0)
    after, _ = optimized(proto, feeds(proto))
    assert kinds(after) == {"g": "MatMul", "g_bias": "Add"}


def test_a_computed_bias_with_a_factor_stays() -> None:
    """beta would need a product of its own: left as it is, and said so."""
    proto = gemm({"b": random(4, 5, seed=3)}, beta=0.5)
    after, lines = optimized(proto, feeds(proto))
    assert kinds(after) == {"g": "Gemm"} and any("multiplied by 0.5" in line for line in lines)


def test_a_gemm_with_weights_stays_a_gemm() -> None:
    """Constant weights and bias: nothing to write out."""
    proto = gemm({"b": random(4, 5, seed=3), "c": random(5)})
    after, _ = optimized(proto, feeds(proto))
    assert kinds(after) == {"g": "Gemm"}
