"""Sizes of weights, biases and statistics that the library's inference takes without looking.

One short function per operator: shapes of the inputs and the attributes in, what does not fit out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import onnx

Shape = tuple[int, ...]
Shapes = Sequence[Shape | None]
Rule = Callable[[Shapes, Mapping[str, int]], str | None]


def misfit(node: onnx.NodeProto, shapes: Shapes) -> str | None:
    """What does not fit among the inputs of a node (None for one that is left out or not known yet), else None."""
    rule = RULES.get(node.op_type)
    if rule is None:
        return None
    return rule(shapes, {a.name: a.i for a in node.attribute if a.type == onnx.AttributeProto.INT})


def _conv(shapes: Shapes, attributes: Mapping[str, int]) -> str | None:
    data, weights = shapes[0], shapes[1]
    if data is None or weights is None:
        return None
    group = attributes.get("group", 1)
    if len(weights) != len(data) or len(data) < 3:
        return f"data of {len(data)} and weights of {len(weights)} dimensions"
    if group < 1 or weights[1] * group != data[1]:
        return f"weights for {weights[1]} channels in {group} groups, data of {data[1]} channels"
    if weights[0] % group:
        return f"{weights[0]} output channels in {group} groups"
    return _vector(shapes, 2, weights[0], "bias")


def _conv_transpose(shapes: Shapes, attributes: Mapping[str, int]) -> str | None:
    data, weights = shapes[0], shapes[1]
    if data is None or weights is None:
        return None
    group = attributes.get("group", 1)
    if len(weights) != len(data) or len(data) < 3:
        return f"data of {len(data)} and weights of {len(weights)} dimensions"
    if group < 1 or weights[0] != data[1] or weights[0] % group:
        return f"weights for {weights[0]} channels in {group} groups, data of {data[1]} channels"
    return _vector(shapes, 2, weights[1] * group, "bias")


def _normalization(names: Sequence[str]) -> Rule:
    """Vectors of one value per channel."""

    def rule(shapes: Shapes, attributes: Mapping[str, int]) -> str | None:
        data = shapes[0]
        if data is None:
            return None
        if len(data) < 2:
            return f"data of {len(data)} dimensions"
        found = (_vector(shapes, index, data[1], name) for index, name in enumerate(names, 1))
        return next((f for f in found if f), None)

    return rule


def _gemm(shapes: Shapes, attributes: Mapping[str, int]) -> str | None:
    first, second, third = (*shapes, None, None)[:3]
    if first is None or second is None or third is None or len(first) != 2 or len(second) != 2:
        return None  # ranks are looked after by the library
    size = (first[attributes.get("transA", 0) and 1], second[0 if attributes.get("transB", 0) else 1])
    padded = (1,) * (2 - len(third)) + third
    if len(third) > 2 or any(given not in (1, wanted) for given, wanted in zip(padded, size, strict=True)):
        return f"bias of shape {list(third)} for a result of shape {list(size)}"
    return None


def _group_normalization(shapes: Shapes, attributes: Mapping[str, int]) -> str | None:
    data = shapes[0]
    if data is None:
        return None
    groups = attributes.get("num_groups", 1)
    if len(data) < 3 or groups < 1 or data[1] % groups:
        return f"{groups} groups over data of shape {list(data)}"
    return _vector(shapes, 1, groups, "scale") or _vector(shapes, 2, groups, "bias")


def _numbers(*indices: int) -> Rule:
    """Inputs that must hold one number each."""

    def rule(shapes: Shapes, attributes: Mapping[str, int]) -> str | None:
        for index in indices:
            shape = shapes[index] if index < len(shapes) else None
            if shape is not None and shape not in ((), (1,)):
                return f"input {index} of shape {list(shape)} where one number is needed"
        return None

    return rule


def _vector(shapes: Shapes, index: int, size: int, name: str) -> str | None:
    shape = shapes[index] if index < len(shapes) else None
    if shape is None or shape == (size,):
        return None
    return f"{name} of shape {list(shape)} where [{size}] is needed"


RULES: dict[str, Rule] = {
    "BatchNormalization": _normalization(("scale", "bias", "mean", "variance")),
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "Gemm": _gemm,
    "GroupNormalization": _group_normalization,
    "If": _numbers(0),
    "InstanceNormalization": _normalization(("scale", "bias")),
    "Loop": _numbers(0, 1),
    "Range": _numbers(0, 1, 2),
}
