"""Means of what kernels read: the mean of an operator's output follows from them, whatever its geometry."""
from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from models import random
from onnx import helper, numpy_helper, shape_inference

from ptqlab.graph import session
from ptqlab.quantize.means import Reach, input_mean, mean_output_error

QUICK = settings(derandomize=True, max_examples=40, deadline=None, database=None)


def one_node(op: str, x: np.ndarray, w: np.ndarray, **attributes: object) -> tuple[ir.Node, np.ndarray]:
    """The node in a model of its own with shapes, and what it gives."""
    made = helper.make_graph(
        [helper.make_node(op, ["x", "w"], ["y"], **attributes)], "one",
        [helper.make_tensor_value_info("x", 1, x.shape)], [helper.make_tensor_value_info("y", 1, None)],
        [numpy_helper.from_array(w, "w")])
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 19)], ir_version=8)
    parsed = ir.from_proto(shape_inference.infer_shapes(model))
    return parsed.graph.node(0), session(parsed).run(None, {"x": x})[0]


@QUICK
@given(st.sampled_from(["Conv", "ConvTranspose"]), st.integers(0, 2**32 - 1))
def test_means_of_convolutions(op: str, seed: int) -> None:
    """Groups, strides, dilations, uneven pads, one or two axes, two in a batch: equal to averaging the output."""
    rng = np.random.default_rng(seed)
    rank, group = int(rng.integers(1, 3)), int(rng.integers(1, 3))
    kernel, strides, dilations = (rng.integers(1, 4, rank).tolist() for _ in range(3))
    pads = rng.integers(0, 2 if op == "ConvTranspose" else 3, 2 * rank).tolist()
    x = random(2, 2 * group, *rng.integers(8, 12, rank), seed=seed)
    shape = (3 * group, 2, *kernel) if op == "Conv" else (2 * group, 3, *kernel)
    w = random(*shape, seed=seed + 1)
    node, y = one_node(op, x, w, strides=strides, dilations=dilations, pads=pads, group=group)
    if not y.size:
        return
    got = mean_output_error(node, w, input_mean(Reach.of(node), x))
    np.testing.assert_allclose(got, y.mean(axis=(0, *range(2, y.ndim))), atol=1e-5)


@pytest.mark.parametrize(("op", "shape", "attributes"), [
    ("MatMul", (7, 5), {}), ("Gemm", (7, 5), {}), ("Gemm", (5, 7), {"transB": 1}),
])
def test_means_of_matrix_products(op: str, shape: tuple[int, int], attributes: dict[str, int]) -> None:
    """The mean runs over all rows, of any number of axes for MatMul."""
    x = random(2, 3, 7) if op == "MatMul" else random(6, 7)
    node, y = one_node(op, x, random(*shape, seed=1), **attributes)
    got = mean_output_error(node, random(*shape, seed=1), input_mean(Reach.of(node), x))
    np.testing.assert_allclose(got, y.reshape(-1, 5).mean(axis=0), atol=1e-5)


def test_golden_mean() -> None:
    """1-D, kernel 2, pads 1 and 0 over [1, 2, 3]: tap 0 reads 0, 1, 2 and tap 1 reads 1, 2, 3."""
    node, _ = one_node("Conv", np.array([[[1, 2, 3]]], np.float32), np.ones((1, 1, 2), np.float32), pads=[1, 0])
    assert input_mean(Reach.of(node), np.array([[[1, 2, 3]]], np.float32)).tolist() == [[1.0, 2.0]]


def test_a_tap_that_never_meets_the_input() -> None:
    """A kernel wider than the padded input on one side: such a tap has the mean 0."""
    x = random(1, 1, 2)
    node, y = one_node("Conv", x, random(1, 1, 5, seed=3), pads=[4, 4])
    got = mean_output_error(node, random(1, 1, 5, seed=3), input_mean(Reach.of(node), x))
    np.testing.assert_allclose(got, y.mean(axis=(0, 2)), atol=1e-6)
