"""Running artifacts: bound by name, checked before they run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from core_models import EDGES
from small import compiled, same_bits

from ptqlab.errors import PtqError
from ptqlab.pipeline.runtime import Runtime


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Path], dict[str, np.ndarray]]:
    model, feeds = EDGES["two_inputs"]()
    run = compiled(model, feeds, tmp_path_factory.mktemp("runtime"), calibration_type="max")
    return {k: Path(v) for k, v in run.artifacts.items()}, feeds


STAGES = ["original_float", "optimized_float", "calibrated", "ptq", "quantized", "hbm"]


@pytest.mark.parametrize("key", STAGES)
def test_every_artifact_has_the_same_interface(key: str, made: tuple[dict[str, Path], dict[str, np.ndarray]]) -> None:
    """Names, types and shapes are those of the float model in each; results are near each other."""
    artifacts, feeds = made
    runtime = Runtime(artifacts[key])
    assert sorted(runtime.input_names) == ["a", "b"] and runtime.output_names == ["y"]
    assert [(o.name, o.dtype, o.shape) for o in runtime.outputs] == [("y", "float32", (1, 2, 8, 8))]
    wanted = Runtime(artifacts["original_float"]).run(None, feeds)[0]
    got = runtime.run(None, feeds)[0]
    assert np.abs(got - wanted).max() < 0.05 * np.abs(wanted).max()
    assert "y float32 [1, 2, 8, 8]" in repr(runtime)


@pytest.mark.parametrize("key", ["quantized", "hbm"])
@pytest.mark.parametrize("engine", ["fast", "reference", "onnxruntime"])
@pytest.mark.parametrize("threads", [1, 2])
def test_engines_and_thread_counts_give_the_same_bits(
    key: str, engine: str, threads: int, made: tuple[dict[str, Path], dict[str, np.ndarray]]
) -> None:
    """Whatever runs it: one result."""
    artifacts, feeds = made
    wanted = Runtime(artifacts["quantized"]).run(None, feeds)[0]
    same_bits(Runtime(artifacts[key], engine=engine, threads=threads).run(["y"], feeds)[0], wanted, engine)


@pytest.mark.parametrize("key", ["optimized_float", "hbm"])
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda f: {"a": f["a"]}, ("b",)),
        (lambda f: f | {"c": f["a"]}, ("c",)),
        (lambda f: f | {"a": f["a"].astype(np.float64)}, ("a", "float64", "float32")),
        (lambda f: f | {"a": f["a"][:, :2]}, ("a", "[1,2,8,8]", "[1,3,8,8]")),
        (lambda f: {}, ("a", "b")),
    ],
)
def test_wrong_feeds_are_refused_before_anything_runs(
    key: str, change: object, words: tuple[str, ...], made: tuple[dict[str, Path], dict[str, np.ndarray]]
) -> None:
    """Missing, unknown, of a wrong type or shape: one refusal that names each input and what it wants."""
    artifacts, feeds = made
    with pytest.raises(PtqError) as caught:
        Runtime(artifacts[key]).run(None, change(feeds))
    assert all(word in str(caught.value) for word in words), str(caught.value)
    assert {p.code for p in caught.value.problems} == {"PTQ120"}


def test_an_unknown_output_is_refused_with_those_there_are(made: tuple[dict[str, Path], dict[str, np.ndarray]]) -> None:
    """The names of all outputs stand in the refusal."""
    artifacts, feeds = made
    with pytest.raises(PtqError) as caught:
        Runtime(artifacts["hbm"]).run(["z"], feeds)
    assert str(caught.value) == (
        "Running the model: 1 problem\nPTQ120  output 'z'\n    found     no such output\n    expected  y"
    )


def test_encodings_tell_what_the_codes_stand_for(made: tuple[dict[str, Path], dict[str, np.ndarray]]) -> None:
    """Type, scale and zero point of each tensor; a float model has none and says so."""
    artifacts, feeds = made
    found = Runtime(artifacts["hbm"]).encodings
    assert found["a"]["type"] == "int8" and found["a"]["zero_point"] == 0
    assert float(found["a"]["scale"]) == pytest.approx(float(np.abs(feeds["a"]).max()) / 127)
    assert found["y"]["type"] == "int32"
    with pytest.raises(PtqError, match="float models have no integer tensors"):
        _ = Runtime(artifacts["ptq"]).encodings


def test_a_missing_file_is_refused() -> None:
    """The path stands in the refusal."""
    with pytest.raises(PtqError, match=r"nowhere\.hbm"):
        Runtime("nowhere.hbm")
