"""insert_transpose: the same numbers from the input fed the other way round."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from models import MODELS, init, model, node, random, value

import ptqlab
from ptqlab.errors import PtqError
from ptqlab.graph import session


def outputs(path: Path, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    return session(path).run(None, feeds)


@pytest.mark.parametrize("name", ["layout_moves", "branches", "shared_constants", "local_functions"])
def test_both_models_give_the_same(tmp_path, name):
    """Every output is equal in every bit; name, type and the sizes of the input stay, in the new order."""
    made, feeds = MODELS[name]()
    onnx.save(made, tmp_path / "net.onnx")
    path = ptqlab.insert_transpose(tmp_path / "net.onnx", "x", output=tmp_path / "nhwc.onnx")
    turned = {**feeds, "x": np.ascontiguousarray(feeds["x"].transpose(0, 2, 3, 1))}
    for a, b in zip(outputs(tmp_path / "net.onnx", feeds), outputs(path, turned), strict=True):
        assert np.array_equal(a, b)
    (fed,) = [v for v in onnx.load(path).graph.input if v.name == "x"]
    assert [d.dim_value for d in fed.type.tensor_type.shape.dim] == [1, 8, 8, 3]
    back = ptqlab.insert_transpose(path, "x", "NCHW", output=tmp_path / "back.onnx")
    for a, b in zip(outputs(tmp_path / "net.onnx", feeds), outputs(back, feeds), strict=True):
        assert np.array_equal(a, b)


def test_dynamic_sizes_and_taken_names(tmp_path):
    """Symbols move with their sizes, and names that are taken are not used again."""
    nodes = [node("Conv", ["x", "w"], "x_transposed", "x_transpose"), node("Relu", ["x_transposed"], "y", "r")]
    made = model(nodes, [value("x", ["N", 3, "H", 7])], [value("y", None)], [init("w", random(2, 3, 1, 1))])
    onnx.save(made, tmp_path / "net.onnx")
    path = ptqlab.insert_transpose(tmp_path / "net.onnx", "x", output=tmp_path / "out.onnx")
    dims = onnx.load(path).graph.input[0].type.tensor_type.shape.dim
    assert [d.dim_param or d.dim_value for d in dims] == ["N", "H", 7, 3]
    x = random(2, 3, 5, 7)
    (a,), (b,) = outputs(tmp_path / "net.onnx", {"x": x}), outputs(path, {"x": x.transpose(0, 2, 3, 1).copy()})
    assert np.array_equal(a, b)


def test_the_result_compiles_as_nhwc(tmp_path):
    """The Transpose is a mover to the quantizer: compiled, the model gives what the original gives."""
    nodes = [node("Conv", ["x", "w"], "c", "conv"), node("Relu", ["c"], "r", "relu"),
             node("Conv", ["r", "w2"], "y", "conv2")]
    onnx.save(model(nodes, [value("x", [1, 3, 8, 8])], [value("y", None)],
                    [init("w", random(4, 3, 3, 3)), init("w2", random(2, 4, 1, 1))]), tmp_path / "net.onnx")
    path = ptqlab.insert_transpose(tmp_path / "net.onnx", "x", output=tmp_path / "nhwc.onnx")
    data = [random(1, 3, 8, 8, seed=i) for i in range(3)]
    turned = [np.ascontiguousarray(a.transpose(0, 2, 3, 1)) for a in data]
    runs = [ptqlab.compile(model=m, march="nash-e", calibration_data=d, working_dir=tmp_path / m.stem, quant_config={
        "model_config": {"activation": {"calibration_type": "max"}}})
        for m, d in ((tmp_path / "net.onnx", data), (path, turned))]
    results = [ptqlab.Runtime(run.artifacts["quantized"]).run(None, {"x": d[0]})[0]
               for run, d in zip(runs, (data, turned), strict=True)]
    assert np.array_equal(*results)


def test_every_problem_of_a_call_is_told(tmp_path):
    """Unknown input, unknown layout, the model's own path: in one refusal; then rank and outputs."""
    made, _ = MODELS["layout_moves"]()
    path = tmp_path / "net.onnx"
    onnx.save(made, path)
    with pytest.raises(PtqError) as caught:
        ptqlab.insert_transpose(path, "X2", "HWC", output=path)
    assert [p.where for p in caught.value.problems] == ["to", "output", "input"]
    flat = model([node("Relu", ["x"], "y", "r")], [value("x", [1, 3])], [value("y", None)])
    onnx.save(flat, tmp_path / "flat.onnx")
    with pytest.raises(PtqError, match="2 dimensions"):
        ptqlab.insert_transpose(tmp_path / "flat.onnx", "x", output=tmp_path / "o.onnx")
    both = model([node("Relu", ["x"], "y", "r")], [value("x", [1, 3, 2, 2])],
                 [value("y", None), value("x", [1, 3, 2, 2])])
    onnx.save(both, tmp_path / "both.onnx")
    with pytest.raises(PtqError, match="an output of the model as well"):
        ptqlab.insert_transpose(tmp_path / "both.onnx", "x", output=tmp_path / "o.onnx")
    assert not (tmp_path / "o.onnx").exists()
