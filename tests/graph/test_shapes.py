"""Shapes by the standard's rules, by computing what is constant, and by a run."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from models import IMAGE, MODELS, init, ints, model, node, random, value
from onnx import TensorProto

from ptqlab.errors import PtqError
from ptqlab.graph import FloatGraph, ShapeInferenceError, execution, load, save


def failing(proto: onnx.ModelProto, **keywords: object) -> ShapeInferenceError:
    with pytest.raises(ShapeInferenceError) as caught:
        load(proto, **keywords)  # type: ignore[arg-type]
    return caught.value


def test_a_misfit_names_node_and_shapes_and_gives_the_model(tmp_path: object) -> None:
    """All nodes that do not fit, none that only stands behind one; the model can be saved and opened."""
    nodes = [
        node("Conv", ["x", "w"], "c", "conv"),
        node("Add", ["c", "x"], "s", "add_bad"),
        node("Relu", ["s"], "r", "behind"),
        node("MatMul", ["x", "m"], "y", "mm_bad"),
    ]
    inits = [init("w", random(4, 3, 1, 1)), init("m", random(600, 4))]
    error = failing(model(nodes, [value("x", IMAGE)], [value("r", None), value("y", None)], inits))
    assert str(error) == (
        "Shape inference: 2 problems\n"
        "PTQ116  node 'add_bad' (Add)\n"
        "    found     inputs 'c' float [1,4,8,8], 'x' float [1,3,8,8]: Incompatible dimensions\n"
        "    expected  inputs whose types and shapes fit together\n"
        "    do        look at the node in shape_inference_fail.onnx\n"
        "PTQ116  node 'mm_bad' (MatMul)\n"
        "    found     inputs 'x' float [1,3,8,8], 'm' float [600,4]: "
        "Incompatible dimensions for matrix multiplication\n"
        "    expected  inputs whose types and shapes fit together\n"
        "    do        look at the node in shape_inference_fail.onnx"
    )
    path = save(error.model, tmp_path / "shape_inference_fail.onnx")  # type: ignore[operator]
    assert [n.name for n in onnx.load(path).graph.node] == ["conv", "add_bad", "behind", "mm_bad"]


def test_element_types_that_do_not_fit_are_named() -> None:
    """Float and integer in one Add; an integer where only floats may be."""
    inputs = [value("x", IMAGE), value("i", IMAGE, TensorProto.INT64)]
    text = str(failing(model([node("Add", ["x", "i"], "y", "add")], inputs, [value("y", None)])))
    assert "inputs 'x' float [1,3,8,8], 'i' int64 [1,3,8,8]: these inputs must have one element type" in text
    text = str(
        failing(model([node("Sigmoid", ["i"], "y", "sig"), node("Relu", ["x"], "z")], inputs, [value("y", None)]))
    )
    assert (
        "PTQ116  node 'sig' (Sigmoid)\n    found     inputs 'i' int64 [1,3,8,8]: input 0 is int64, but may be " in text
    )


def test_an_input_that_is_too_small_for_the_network_is_told() -> None:
    """Where the size runs out, not an abort further on (a Slice behind would abort the whole process)."""
    nodes = [
        node("Conv", ["x", "w"], "c", "conv"),
        node("Slice", ["c", "s", "e", "a", "st"], "t", "slice"),
        node("Relu", ["t"], "y", "relu"),
    ]
    inits = [init("w", random(4, 3, 5, 5)), ints("s", -1), ints("e", -9), ints("a", 2), ints("st", -1)]
    proto = model(nodes, [value("x", [1, 3, "H", "W"])], [value("y", None)], inits)
    load(proto, {"x": (1, 3, 8, 8)})
    assert "gives 'c' [1,4,-2,-2]: the input is too small for it" in str(
        failing(proto, input_shapes={"x": (1, 3, 2, 2)})
    )


def static(graph: FloatGraph) -> dict[str, tuple[int, ...]]:
    return {n: graph.shape(n) for n in graph.values if n not in graph.initializers}


def test_shapes_that_follow_from_constants_are_computed() -> None:
    """Range, arithmetic and Where on constants that end in Reshape and Expand; no run of the model is needed."""
    nodes = [
        node("Shape", ["x"], "s", "shape", start=1, end=3),
        node("ReduceProd", ["s"], "p", "prod"),
        node("Concat", ["one", "p", "minus"], "t", "concat", axis=0),
        node("Equal", ["t", "minus"], "eq", "equal"),
        node("Where", ["eq", "eight", "t"], "u", "where"),
        node("Reshape", ["x", "u"], "r", "reshape"),
        node("Size", ["x"], "n", "size"),
        node("Range", ["zero", "n", "fourty"], "g", "range"),
        node("Unsqueeze", ["g", "ax"], "h", "unsqueeze"),
        node("Expand", ["h", "sh"], "y", "expand"),
    ]
    inits = [
        ints("one", 1),
        ints("minus", -1),
        ints("eight", 8),
        init("zero", 0, np.int64),
        init("fourty", 40, np.int64),
    ]
    inits += [ints("ax", 1), ints("sh", 1, 3)]
    proto = model(nodes, [value("x", IMAGE)], [value("r", None), value("y", None, TensorProto.INT64)], inits)
    graph = load(proto)
    assert graph.shape("r") == (1, 24, 8)
    assert graph.shape("y") == (5, 3)
    assert not graph.findings


def test_shapes_that_depend_on_data_are_taken_from_a_run_and_told() -> None:
    """NonZero: the number of hits is that of the run with zeros; nodes behind are inferred from it."""
    nodes = [
        node("Cos", ["x"], "c", "cos"),
        node("NonZero", ["c"], "i", "hits"),
        node("Transpose", ["i"], "t", "turn"),
        node("GatherND", ["x", "t"], "y", "gather"),
    ]
    graph = load(model(nodes, [value("x", [2, 3])], [value("y", None)]))
    assert static(graph) == {"x": (2, 3), "c": (2, 3), "i": (2, 6), "t": (6, 2), "y": (6,)}
    assert [(f.code, f.nodes) for f in graph.findings] == [("PTQ135", ("hits",))]


def test_a_run_that_does_not_end_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Loop without end whose result has no known shape."""
    monkeypatch.setattr(execution, "RUN_SECONDS", 0.2)
    body = onnx.helper.make_graph(
        [node("Identity", ["going"], "still", "id"), node("Relu", ["state"], "next", "relu")],
        "body",
        [value("step", [], TensorProto.INT64), value("going", [], TensorProto.BOOL), value("state", None)],
        [value("still", [], TensorProto.BOOL), value("next", None)],
    )
    proto = model(
        [
            node("NonZero", ["x"], "n", "nz"),
            node("Cast", ["n"], "f", "cast", to=1),
            node("Loop", ["", "yes", "f"], "y", "loop", body=body),
        ],
        [value("x", [2, 3])],
        [value("y", None)],
        [init("yes", True)],
    )
    assert "no result after 0.2 seconds" in str(failing(proto))


def test_a_run_that_would_take_too_much_memory_is_refused() -> None:
    """An input of 8 TB."""
    proto = model([node("NonZero", ["x"], "y", "nz")], [value("x", [2**40])], [value("y", None)])
    assert "inputs of less than" in str(failing(proto))


def test_a_constant_that_onnxruntime_cannot_compute_is_told() -> None:
    """Division by zero of integers, on the way to a shape."""
    nodes = [node("Gather", ["table", "far"], "t", "gather"), node("Reshape", ["x", "t"], "y", "reshape")]
    proto = model(nodes, [value("x", IMAGE)], [value("y", None)], [ints("table", 1, 2), ints("far", 9)])
    with pytest.raises(PtqError, match="gather"):
        load(proto)


@pytest.mark.parametrize("name", MODELS)
def test_inferred_shapes_agree_with_the_librarys_whole_graph_inference(name: str) -> None:
    """Node by node gives at least what onnx gives for the whole model, and the same."""
    proto, _ = MODELS[name]()
    graph = load(proto)
    whole = onnx.shape_inference.infer_shapes(proto, data_prop=True)
    for info in whole.graph.value_info:
        dims = [d.dim_value for d in info.type.tensor_type.shape.dim]
        if info.name in graph.values and all(d.HasField("dim_value") for d in info.type.tensor_type.shape.dim):
            assert list(graph.shape(info.name)) == dims
