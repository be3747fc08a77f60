"""A float graph and its optimized form give the same; used by the tests of every pass."""

from __future__ import annotations

import numpy as np
import onnx

from ptqlab.events import Event, Watch
from ptqlab.graph import FloatGraph, load, session, to_proto
from ptqlab.passes import optimize


def optimized(
    proto: onnx.ModelProto, feeds: dict[str, np.ndarray], tolerance: float = 1e-5
) -> tuple[FloatGraph, list[str]]:
    """The optimized graph and the log lines; asserts that outputs, inner shapes and the interface are right."""
    before = load(proto)
    lines: list[str] = []

    def listen(event: Event) -> None:
        lines.append(event.text)

    after = optimize(before, Watch(listen))
    same_results(before, after, feeds, tolerance)
    same_interface(before, after)
    true_shapes(after, feeds)
    onnx.checker.check_model(to_proto(after.model), full_check=True)
    assert after.opset == 19
    return after, lines


def same_results(before: FloatGraph, after: FloatGraph, feeds: dict[str, np.ndarray], tolerance: float) -> None:
    expected = session(before.model, optimise=False).run(None, feeds)
    found = session(after.model, optimise=False).run(None, feeds)
    for value, one, other in zip(before.outputs, expected, found, strict=True):
        if one.dtype.kind != "f":
            np.testing.assert_array_equal(other, one, err_msg=str(value.name))
            continue
        largest = np.abs(one[np.isfinite(one)]).max(initial=1e-6)
        np.testing.assert_allclose(other, one, rtol=tolerance, atol=tolerance * largest, err_msg=str(value.name))


def same_interface(before: FloatGraph, after: FloatGraph) -> None:
    for old, new in ((before.inputs, after.inputs), (before.outputs, after.outputs)):
        assert [(v.name, v.dtype, v.shape) for v in old] == [(v.name, v.dtype, v.shape) for v in new]


def true_shapes(graph: FloatGraph, feeds: dict[str, np.ndarray]) -> None:
    """What is noted of every tensor is what comes out."""
    names = [str(o.name) for n in graph.nodes for o in n.outputs if o.name]
    for name, array in zip(names, session(graph.model, outputs=names, optimise=False).run(None, feeds), strict=True):
        assert (array.shape, array.dtype) == (graph.shape(name), graph.dtype(name)), name


def kinds(graph: FloatGraph) -> dict[str, str]:
    """Node name -> operator."""
    return {str(n.name): n.op_type for n in graph.nodes}
