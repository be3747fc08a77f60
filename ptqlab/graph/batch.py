"""The same model with another batch size, where it can run one."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from ptqlab.graph.loading import load
from ptqlab.graph.model import FloatGraph, static_shape
from ptqlab.graph.session import session

TOLERANCE = 1e-4


def with_batch(graph: FloatGraph, batch: int) -> FloatGraph:
    """The float model with `batch` as the first size of every input.

    Raises ShapeInferenceError or PtqError where the model holds the batch in a Reshape or the like.
    """
    model = graph.model.clone()
    shapes = {}
    for value in model.graph.inputs:
        rest = static_shape(value)[1:]
        shapes[str(value.name)] = (batch, *rest)
        value.shape = ir.Shape(["batch", *rest])
    for node in model.graph:
        for out in node.outputs:
            if not out.is_graph_output():
                out.shape = None
            elif out.shape is not None and len(out.shape):
                out.shape = ir.Shape([None] * len(out.shape))
    return load(model, shapes)


def runs_a_batch(single: FloatGraph, batched: FloatGraph, batch: int) -> bool:
    """Whether the batched model gives for each of `batch` random samples what the single one gives."""
    random = np.random.default_rng(0)
    feeds = []
    for _ in range(batch):
        feeds.append(
            {str(v.name): _values(random, single.shape(str(v.name)), single.dtype(str(v.name))) for v in single.inputs}
        )
    one, many = session(single.model), session(batched.model)
    together = many.run(None, {name: np.concatenate([f[name] for f in feeds]) for name in feeds[0]})
    alone = [one.run(None, feed) for feed in feeds]
    for index, array in enumerate(together):
        wanted = np.concatenate([np.atleast_1d(result[index]) for result in alone])
        if array.shape != wanted.shape or not np.allclose(
            array, wanted, rtol=TOLERANCE, atol=TOLERANCE * (1 + np.abs(wanted).max(initial=0))
        ):
            return False
    return True


def _values(random: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Random numbers for a float input; zeros for any other, which index nothing out of range."""
    return random.standard_normal(shape).astype(dtype) if dtype.kind == "f" else np.zeros(shape, dtype)
