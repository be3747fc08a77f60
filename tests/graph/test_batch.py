"""The same model with another batch size; a look at its inputs."""

from pathlib import Path

import onnx
import pytest
from models import init, ints, model, node, random, value

from ptqlab.errors import PtqError
from ptqlab.examples import digits
from ptqlab.graph import load
from ptqlab.graph.batch import runs_a_batch, with_batch
from ptqlab.graph.peek import input_dims


def test_a_batch_of_four_gives_what_four_single_runs_give() -> None:
    """The digits network runs a batch: every shape follows, every result is that of its sample."""
    single = load(digits.model_path())
    batched = with_batch(single, 4)
    assert batched.shape("image") == (4, 1, 8, 8)
    assert batched.shape("probabilities") == (4, 10)
    assert runs_a_batch(single, batched, 4)


def test_a_model_that_holds_its_batch_in_a_reshape_is_found_out() -> None:
    """A Reshape to a fixed [1, 12] cannot take a batch: either its shapes do not fit or its results differ."""
    nodes = [node("Reshape", ["x", "s"], ["f"]), node("MatMul", ["f", "w"], ["y"])]
    single = load(
        model(nodes, [value("x", [1, 3, 4])], [value("y", [1, 2])], [ints("s", 1, 12), init("w", random(12, 2))])
    )
    try:
        fits = runs_a_batch(single, with_batch(single, 2), 2)
    except PtqError:
        fits = False
    assert not fits


def test_a_model_that_mixes_samples_is_found_out() -> None:
    """Softmax over the batch axis gives every sample a share of the others: no batch."""
    single = load(model([node("Softmax", ["x"], ["y"], axis=0)], [value("x", [1, 5])], [value("y", [1, 5])]))
    assert not runs_a_batch(single, with_batch(single, 2), 2)


def test_input_dims_are_what_the_file_states(tmp_path: Path) -> None:
    """Numbers, symbols, and no initializer that an old exporter lists as an input."""
    weight = init("w", random(3, 3, 1, 1))
    shape = ["N", 3, 4, 4]
    made = model(
        [node("Conv", ["x", "w"], ["y"])], [value("x", shape), value("w", [3, 3, 1, 1])], [value("y", shape)], [weight]
    )
    onnx.save(made, tmp_path / "net.onnx")
    assert input_dims(tmp_path / "net.onnx") == {"x": ("N", 3, 4, 4)}
    with pytest.raises(PtqError):
        input_dims(tmp_path / "none.onnx")
