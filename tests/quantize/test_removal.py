"""Removing nodes at the ends of a quantized model: which, in what order, and why not."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from models import init, ints, model, node, random, value

import ptqlab
from ptqlab.arith.rounding import quantize
from ptqlab.artifacts.models import read_quantized
from ptqlab.quantize.removal import REMOVABLE_TYPES, removable_nodes, remove_nodes
from ptqlab.simulate import FastExecutor

MAX = {"model_config": {"activation": {"calibration_type": "max"}, "model_output_type": "int8"}}


@pytest.fixture(scope="module")
def quantized(tmp_path_factory):
    """Reshape, Conv, Transpose, Reshape; a second branch whose output is used inside as well."""
    folder = tmp_path_factory.mktemp("removal")
    nodes = [
        node("Conv", ["x", "w"], "c", "conv"),
        node("Transpose", ["c"], "t", "to_nhwc", perm=[0, 2, 3, 1]),
        node("Reshape", ["t", "s"], "y", "flat"),
        node("Relu", ["c"], "z", "relu"),
        node("Conv", ["z", "w2"], "u", "conv2"),
    ]
    made = model(nodes, [value("x", [1, 3, 4, 4])], [value("y", None), value("z", None), value("u", None)],
                 [init("w", random(2, 3, 1, 1)), init("w2", random(2, 2, 1, 1)), ints("s", 1, 32)])
    onnx.save(made, folder / "net.onnx")
    run = ptqlab.compile(model=folder / "net.onnx", march="nash-e", working_dir=folder / "out", quant_config=MAX,
                         calibration_data=[random(1, 3, 4, 4, seed=i) for i in range(3)])
    return read_quantized(run.artifacts["quantized"]).quantized


X = random(1, 3, 4, 4, seed=7)


def codes_of(quantized, name: str, tensor: str) -> np.ndarray:
    stored = quantized.integers[tensor].name
    return FastExecutor(quantized, keep=[stored]).run({name: X})[stored]


def test_what_touches_an_end_can_go(quantized):
    """Quantize at the input, a Dequantize or the last mover at each output; what is before them is not at the end."""
    assert sorted((n.op_type, side) for n, side in removable_nodes(quantized.model)) == [
        ("Dequantize", "output"), ("Dequantize", "output"), ("Quantize", "input"), ("Reshape", "output")]


def test_types_are_taken_in_order_until_none_is_left(quantized):
    """Reshape, Transpose, then every Dequantize: the output is the tensor before them, as integers."""
    changed, removed, missed = remove_nodes(quantized, ["Reshape", "Transpose", "Dequantize"])
    assert missed == []
    assert [r.op_type for r in removed] == ["Reshape", "Transpose", "Dequantize", "Dequantize", "Dequantize"]
    outputs = FastExecutor(changed).run({"x": X})
    first = str(changed.model.graph.outputs[0].name)
    assert outputs[first].dtype == np.int8 and outputs[first].shape == (1, 2, 4, 4)
    assert np.array_equal(outputs[first], codes_of(quantized, "x", "c"))


def test_order_matters(quantized):
    """The Transpose is not at the end while the Reshape stands: missed, with the reason; the rest is done."""
    changed, removed, missed = remove_nodes(quantized, ["Transpose", "Reshape"])
    assert [r.op_type for r in removed] == ["Reshape"]
    assert len(missed) == 1 and "does not stand alone at an input or output" in missed[0]
    assert changed is not quantized


def test_the_quantizer_is_the_hosts_work(quantized):
    """Fed with the codes that the quantizer would have made, every output is the same in every bit."""
    changed, (removed,), _ = remove_nodes(quantized, ["Quantize"])
    assert (removed.side, removed.before, removed.after) == ("input", "x", str(changed.model.graph.inputs[0].name))
    held = quantized.integers["x"]
    codes = quantize(X, held.scale, held.zero_point, -128, 127).astype(np.int8)
    before, after = FastExecutor(quantized).run({"x": X}), FastExecutor(changed).run({removed.after: codes})
    assert list(before) == list(after) and all(np.array_equal(before[n], after[n]) for n in before)


def test_names_win_over_types_and_are_exact(quantized):
    """With names given, types do nothing; a name that is not there says so."""
    changed, removed, missed = remove_nodes(quantized, ["Dequantize"], ["x_quantize", "nothing"])
    assert [r.name for r in removed] == ["x_quantize"]
    assert missed == ["nothing: no such node in the quantized model"]
    assert len(changed.model.graph.outputs) == 3


def test_nothing_to_remove_is_the_same_model(quantized):
    """The given model comes back, every wish answered."""
    same, removed, missed = remove_nodes(quantized, ["Softmax", "Cast"])
    assert same is quantized and removed == [] and len(missed) == 2


def test_the_given_model_stays_as_it_was(quantized):
    """Removal works on a copy."""
    before = [str(n.name) for n in quantized.model.graph]
    remove_nodes(quantized, REMOVABLE_TYPES)
    assert [str(n.name) for n in quantized.model.graph] == before
