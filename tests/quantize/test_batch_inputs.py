"""Splitting the batch of an input into inputs of their own."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from models import init, model, node, random, value
from small import same_bits

import ptqlab
from ptqlab.artifacts.models import read_quantized
from ptqlab.graph import session
from ptqlab.quantize.batch_inputs import separated_names, with_separate_batch
from ptqlab.simulate import FastExecutor, ReferenceExecutor

MAX = {"model_config": {"activation": {"calibration_type": "max"}}}


@pytest.fixture(scope="module")
def quantized(tmp_path_factory):
    """Two inputs of batch 3: x is quantized and read in float as well, m is read by the Conv's Add."""
    folder = tmp_path_factory.mktemp("batch")
    nodes = [
        node("Conv", ["x", "w"], "c", "conv"),
        node("Add", ["c", "m"], "a", "add"),
        node("Conv", ["a", "w2"], "y", "conv2"),
        node("Erf", ["x"], "z", "float_reader"),
    ]
    made = model(nodes, [value("x", [3, 2, 4, 4]), value("m", [3, 2, 4, 4])], [value("y", None), value("z", None)],
                 [init("w", random(2, 2, 1, 1)), init("w2", random(2, 2, 1, 1, seed=4))])
    onnx.save(made, folder / "net.onnx")
    feeds = {"x": [random(3, 2, 4, 4)], "m": [random(3, 2, 4, 4, seed=1)]}
    run = ptqlab.compile(model=folder / "net.onnx", march="nash-e", working_dir=folder / "out", quant_config=MAX,
                         calibration_data=feeds)
    return read_quantized(run.artifacts["quantized"]).quantized


X, M = random(3, 2, 4, 4, seed=5), random(3, 2, 4, 4, seed=6)


@pytest.mark.parametrize("names", [["x"], ["m"], ["x", "m"]])
def test_parts_give_what_the_batch_gives(quantized, names):
    """In every form and every bit, and in the place of the input that was split."""
    changed = with_separate_batch(quantized, names)
    whole = {"x": X, "m": M}
    feeds = {n: a for n, a in whole.items() if n not in names}
    feeds |= {part: whole[n][i:i + 1] for n in names for i, part in enumerate(separated_names(n, 3))}
    order = [part for n in ("x", "m") for part in (separated_names(n, 3) if n in names else [n])]
    assert [str(v.name) for v in changed.model.graph.inputs] == order
    wanted = FastExecutor(quantized).run(whole)
    for name in wanted:
        same_bits(FastExecutor(changed).run(feeds)[name], wanted[name], f"fast {name}")
        same_bits(ReferenceExecutor(changed).run(feeds)[name], wanted[name], f"reference {name}")
    functions = session(changed.model, optimise=False).run(None, feeds)
    for name, got in zip(wanted, functions, strict=True):
        same_bits(got, wanted[name], f"functions {name}")


def test_a_batch_of_one_stays(tmp_path):
    """Nothing to split: the input keeps its name."""
    onnx.save(model([node("Conv", ["x", "w"], "y", "conv")], [value("x", [1, 2, 4, 4])], [value("y", None)],
                    [init("w", random(2, 2, 1, 1))]), tmp_path / "net.onnx")
    run = ptqlab.compile(model=tmp_path / "net.onnx", march="nash-e", working_dir=tmp_path / "out", quant_config=MAX,
                         calibration_data=[random(1, 2, 4, 4)])
    held = read_quantized(run.artifacts["quantized"]).quantized
    same = with_separate_batch(held, ["x"])
    assert [str(v.name) for v in same.model.graph.inputs] == ["x"]
    feeds = {"x": random(1, 2, 4, 4, seed=2)}
    assert np.array_equal(FastExecutor(same).run(feeds)["y"], FastExecutor(held).run(feeds)["y"])
