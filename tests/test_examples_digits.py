"""The built-in digits example: what its network is, how well it reads, and what it writes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import yaml
from onnx import numpy_helper

from ptqlab.examples import digits


@pytest.fixture(scope="module")
def model() -> onnx.ModelProto:
    return onnx.load(digits.model_path())


def probabilities(images: np.ndarray) -> np.ndarray:
    """Run the float network one image at a time: float32 [N, 1, 8, 8] to [N, 10]."""
    session = onnxruntime.InferenceSession(str(digits.model_path()), providers=["CPUExecutionProvider"])
    return np.concatenate([session.run(None, {"image": image[np.newaxis]})[0] for image in images])


def test_float_network_reads_the_heldout_digits() -> None:
    """The committed network is right on at least 98 % of the images that were kept out of training."""
    images, labels = digits.heldout()
    outputs = probabilities(images)
    assert np.allclose(outputs.sum(axis=1), 1, atol=1e-5)
    assert (outputs.argmax(axis=1) == labels).mean() >= 0.98


def test_parameter_count(model: onnx.ModelProto) -> None:
    """The network is of the promised size, 20 to 32 thousand trained numbers, and its file about 100 kB."""
    untrained = ("relu6.min", "relu6.max", "running_mean", "running_var")
    trained = [t for t in model.graph.initializer if not t.name.endswith(untrained)]
    assert 20_000 <= sum(numpy_helper.to_array(tensor).size for tensor in trained) <= 32_000
    assert digits.model_path().stat().st_size < 150_000


def test_format_and_interface(model: onnx.ModelProto) -> None:
    """The file is a valid opset 17, IR version 8 network with the fixed shapes and names that configs use."""
    onnx.checker.check_model(model, full_check=True)
    assert [(entry.domain, entry.version) for entry in model.opset_import] == [("", 17)]
    assert model.ir_version == 8
    shapes = {
        value.name: [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        for value in [*model.graph.input, *model.graph.output]
    }
    assert shapes == {"image": [1, 1, 8, 8], "probabilities": [1, 10]}


def test_graph_has_something_to_fuse_and_to_quantize(model: onnx.ModelProto) -> None:
    """Each Conv feeds a BatchNormalization; depthwise, strided, ReLU6 and residual parts exist."""
    nodes = {node.name: node for node in model.graph.node}
    kinds = Counter(node.op_type for node in model.graph.node)
    weights = {tensor.name: tuple(tensor.dims) for tensor in model.graph.initializer}
    readers: dict[str, list[str]] = {}
    for node in model.graph.node:
        for name in node.input:
            readers.setdefault(name, []).append(node.op_type)
    convs = [node for node in model.graph.node if node.op_type == "Conv"]
    assert all(readers[conv.output[0]] == ["BatchNormalization"] for conv in convs)
    assert kinds["BatchNormalization"] == kinds["Conv"] == 12
    assert kinds["Clip"] == 6
    assert kinds["Add"] == 3

    attributes = [{a.name: onnx.helper.get_attribute_value(a) for a in conv.attribute} for conv in convs]
    channels = [weights[conv.input[1]][0] for conv in convs]
    depthwise = [a for a, count in zip(attributes, channels, strict=True) if a["group"] == count]
    assert [a["kernel_shape"] for a in depthwise] == [[3, 3]] * 3
    assert [a["strides"] for a in depthwise] == [[1, 1], [2, 2], [1, 1]]

    assert "/stem/conv/Conv" in nodes
    tail = [node.op_type for node in model.graph.node[-4:]]
    assert tail == ["GlobalAveragePool", "Flatten", "Gemm", "Softmax"]
    assert len(nodes) == len(model.graph.node)


def test_calibration_and_heldout_share_no_image() -> None:
    """Calibration images are not among those that accuracy is measured on, and both are as documented."""
    calibration = digits.calibration_samples()
    images, labels = digits.heldout()
    assert calibration.shape == (64, 1, 8, 8)
    assert images.shape == (450, 1, 8, 8)
    assert calibration.dtype == images.dtype == np.float32
    assert labels.dtype == np.int64
    assert min(calibration.min(), images.min()) == -1
    assert max(calibration.max(), images.max()) == 1
    assert not {image.tobytes() for image in calibration} & {image.tobytes() for image in images}


def test_calibration_is_balanced() -> None:
    """The ten digits occur six or seven times each in the calibration set, as the network itself reads it."""
    counts = Counter(probabilities(digits.calibration_samples()).argmax(axis=1).tolist())
    assert sorted(counts) == list(range(10))
    assert set(counts.values()) <= {6, 7}


def test_calibration_folder(tmp_path: Path) -> None:
    """The folder holds one loadable .npy of the network's input shape per calibration image, in order."""
    folder = digits.write_calibration_folder(tmp_path / "deep" / "calibration")
    files = sorted(folder.iterdir())
    assert [path.name for path in files] == [f"{index:04d}.npy" for index in range(64)]
    loaded = [np.load(path, allow_pickle=False) for path in files]
    assert {(array.shape, array.dtype.name) for array in loaded} == {((1, 1, 8, 8), "float32")}
    assert np.array_equal(np.concatenate(loaded), digits.calibration_samples())


def test_write_config(tmp_path: Path) -> None:
    """The written config is YAML with all four groups, and its relative paths lead to the written files."""
    path = digits.write_config(tmp_path, march="nash-m")
    config = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert path == tmp_path / "config.yaml"
    assert config == {
        "model_parameters": {
            "onnx_model": "./digits.onnx",
            "march": "nash-m",
            "working_dir": "./model_output",
            "output_model_file_prefix": "digits",
        },
        "input_parameters": {
            "input_name": "image",
            "input_type_rt": "featuremap",
            "input_type_train": "featuremap",
        },
        "calibration_parameters": {
            "cal_data_dir": "./calibration",
            "quant_config": {"model_config": {"activation": {"calibration_type": "max"}}},
        },
        "compiler_parameters": {"compile_mode": "latency", "optimize_level": "O2", "core_num": 1},
    }
    network = tmp_path / config["model_parameters"]["onnx_model"]
    assert network.read_bytes() == digits.model_path().read_bytes()
    samples = tmp_path / config["calibration_parameters"]["cal_data_dir"]
    assert len(list(samples.glob("*.npy"))) == 64


def test_march_cannot_break_the_yaml(tmp_path: Path) -> None:
    """A march that is no plain name is refused before anything is written."""
    with pytest.raises(ValueError, match="plain name"):
        digits.write_config(tmp_path / "new", march='x"\nother: 1')
    assert not (tmp_path / "new").exists()
