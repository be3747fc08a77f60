"""Movers in plain numpy against onnxruntime on the same integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small import MANY, same_bits

from ptqlab.graph import session
from ptqlab.ops.integer.movers import MOVERS
from ptqlab.ops.table import OPERATORS

X = np.arange(24, dtype=np.int16).reshape(2, 3, 4)


def by_onnxruntime(op: str, x: np.ndarray, operands: list[np.ndarray | None], attributes: dict[str, Any]) -> np.ndarray:
    """What onnxruntime gives for a standard operator with constant operands (None: left out)."""
    value = ir.Value(name="x", shape=ir.Shape(x.shape), type=ir.TensorType(ir.DataType.from_numpy(x.dtype)))
    constants = [
        None
        if a is None
        else ir.Value(
            name=f"c{i}",
            const_value=ir.tensor(a, name=f"c{i}"),
            shape=ir.Shape(a.shape),
            type=ir.TensorType(ir.DataType.from_numpy(a.dtype)),
        )
        for i, a in enumerate(operands)
    ]
    node = ir.Node(
        "",
        op,
        [value, *constants],
        num_outputs=1,
        name="mover",
        attributes=[ir.convenience.convert_attribute(k, v) for k, v in attributes.items()],
    )
    node.outputs[0].name, node.outputs[0].dtype = "y", ir.DataType.from_numpy(x.dtype)
    graph = ir.Graph(
        [value],
        list(node.outputs),
        nodes=[node],
        initializers=[c for c in constants if c is not None],
        opset_imports={"": 19},
        name="one",
    )
    return session(ir.Model(graph, ir_version=8), optimise=False).run(None, {"x": x})[0]


def both(op: str, x: np.ndarray, *operands: np.ndarray | None, **attributes: Any) -> np.ndarray:
    got = np.ascontiguousarray(MOVERS[op](attributes, x, *operands))
    same_bits(got, by_onnxruntime(op, x, list(operands), attributes), op)
    return got


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


@pytest.mark.parametrize("shape", [(6, 4), (-1,), (0, -1), (2, 0, 2, 2), (1, 2, 3, 4)])
def test_reshape(shape: tuple[int, ...]) -> None:
    """0 keeps an axis, -1 takes the rest."""
    both("Reshape", X, ints(*shape))


def test_reshape_with_zeros_allowed() -> None:
    """allowzero turns 0 into a size; for a tensor with elements it may then not stand there."""
    both("Reshape", X, ints(4, 6), allowzero=1)


@pytest.mark.parametrize("axis", [-2, 0, 1, 2, 3])
def test_flatten(axis: int) -> None:
    """Any axis, the ends and negative ones included, gives a matrix."""
    assert both("Flatten", X, axis=axis).ndim == 2


@pytest.mark.parametrize("attributes", [{}, {"perm": [1, 2, 0]}, {"perm": [0, 1, 2]}])
def test_transpose(attributes: dict[str, Any]) -> None:
    """Without perm the axes are reversed."""
    both("Transpose", X, **attributes)


@pytest.mark.parametrize("operands", [[], [ints(0)], [ints(-1)], [ints(0, 2)]])
def test_squeeze(operands: list[np.ndarray]) -> None:
    """No axes: all of length 1; negative axes count from the end."""
    both("Squeeze", np.arange(3, dtype=np.int8).reshape(1, 3, 1), *operands)


@pytest.mark.parametrize("axes", [ints(0), ints(-1), ints(1, 4), ints(-1, 0)])
def test_unsqueeze(axes: np.ndarray) -> None:
    """Axes count in the result."""
    both("Unsqueeze", X, axes)


def test_slice_with_operands_left_out() -> None:
    """Axes may be left out while steps are given."""
    both("Slice", X, ints(0, 1, 0), ints(2, 3, 4), None, ints(1, 1, 2))
    both("Slice", X, ints(1), ints(9))


@MANY
@given(st.data())
def test_slice_equals_onnxruntime(data: st.DataObject) -> None:
    """Starts and ends far outside, negative, on any axis, forwards and backwards."""
    size = data.draw(st.integers(1, 5))
    x = np.arange(size * 2, dtype=np.int8).reshape(2, size)
    axis = data.draw(st.sampled_from([1, -1]))
    edge = st.sampled_from([*range(-size - 2, size + 3), 2**63 - 1, -(2**63), 2**31 - 1, -(2**31)])
    start, end, step = data.draw(edge), data.draw(edge), data.draw(st.sampled_from([1, 2, 3, -1, -2]))
    wanted = by_onnxruntime("Slice", x, [ints(start), ints(end), ints(axis), ints(step)], {})
    if wanted.size:  # no element: the node stays on the CPU by rule
        same_bits(
            np.ascontiguousarray(MOVERS["Slice"]({}, x, ints(start), ints(end), ints(axis), ints(step))),
            wanted,
            f"[{start}:{end}:{step}] of {size}",
        )


def test_concat_of_three_along_a_negative_axis() -> None:
    """Operands may be constants; the axis may count from the end."""
    other = np.arange(6, dtype=np.int16).reshape(2, 3, 1)
    assert both("Concat", X, other, other, axis=-1).shape == (2, 3, 6)


def test_identity_and_nothing_else_is_missing() -> None:
    """Every passive operator that moves itself has a kernel, Identity too."""
    same_bits(MOVERS["Identity"]({}, X), X, "Identity")
    moving = {
        op
        for op, spec in OPERATORS.items()
        if spec.lower is not None and spec.lower.__name__ in ("lower_move", "lower_concat", "lower_scatter")
    }
    assert moving == set(MOVERS)
