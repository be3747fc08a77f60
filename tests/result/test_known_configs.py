"""Configurations as users of the vendor's tool have them: they load and compile with paths and names changed only."""
from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
import yaml
from models import init, model, node, random, value

import ptqlab
from ptqlab import config
from ptqlab.examples import digits

# every key that the public guide's template names, with lists as search dimensions; its two searches stand at the top
GUIDE = {
    "model_config": {"all_node_type": "int8", "model_output_type": "int8"},
    "activation": {
        "calibration_type": ["max", "kl"], "num_bin": [1024, 2048], "max_num_bin": 16384,
        "max_percentile": [0.99995, 1.0], "per_channel": [True, False], "asymmetric": [True, False],
    },
    "weight": {"bias_correction": {"num_sample": 1, "metric": "cosine-similarity"}},
    "modelwise_search": {"metric": "cosine-similarity"},
    "op_config": {"Softmax": {"qtype": "int16"}},
    "subgraph_config": {"head": {"inputs": ["/head/conv/Conv"], "outputs": ["/classifier/Gemm"], "qtype": "int16"}},
    "node_config": {"/classifier/Gemm": {"input0": "int16", "input1": "int8"},
                    "/stem/conv/Conv": {"qtype": "int16", "activation": {"calibration_type": "kl"}}},
}  # fmt: skip

S100 = """\
model_parameters:
  onnx_model: ./net.onnx
  march: nash-e
  layer_out_dump: False
  working_dir: ./out
  output_model_file_prefix: net_nv12
input_parameters:
  input_name: ''
  input_type_rt: 'nv12'
  input_type_train: 'rgb'
  input_layout_train: 'NCHW'
  norm_type: 'data_scale'
  scale_value: 0.003921568627451
calibration_parameters:
  cal_data_dir: './calibration'
  cal_data_type: 'float32'
  calibration_type: 'default'
compiler_parameters:
  extra_params: {'input_no_padding': True, 'output_no_padding': True}
  compile_mode: 'latency'
  debug: True
  advice: 1
  optimize_level: 'O2'
"""


@pytest.fixture(autouse=True)
def here(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)


def write_data(images: list[np.ndarray]) -> None:
    Path("calibration").mkdir()
    for index, image in enumerate(images):
        np.save(f"calibration/{index}.npy", image)


def test_the_guides_template():
    """Lists, a search, bias correction and all four levels in one file: the finest level holds for every node."""
    Path("quant_config.json").write_text(json.dumps(GUIDE))
    write_data([image[None] for image in digits.calibration_samples()[:4]])
    run = ptqlab.compile(model=digits.model_path(), march="nash-e", calibration_data="calibration",
                         quant_config="quant_config.json", skip="compile")
    rows = run.nodes.set_index("Node")
    assert rows.loc["/stem/conv/Conv", "Granted"] == "int16"
    assert rows.loc["/head/conv/Conv", "Granted"] == "int16"
    assert rows.loc["/softmax/Softmax", ["ON", "Granted"]].tolist() == ["BPU", "int16"]
    assert rows.loc["/block3/project/conv/Conv", "Granted"] == "int8"
    assert run.outputs["Quantized Cosine"].min() > 0.999
    assert run.record.calibration["method"] != "max"  # a choice was made, and said


def test_a_yaml_of_the_s100_model_zoo():
    """nv12 from rgb with a scale, keys of older tools: every deprecated key gets its warning, the model two inputs."""
    nodes = [node("Conv", ["images", "w"], "c", "conv"), node("Relu", ["c"], "r", "relu"),
             node("Conv", ["r", "w2"], "y", "conv2")]
    onnx.save(model(nodes, [value("images", [1, 3, 8, 8])], [value("y", None)],
                    [init("w", random(4, 3, 3, 3)), init("w2", random(2, 4, 1, 1))]), "net.onnx")
    write_data([np.random.default_rng(i).random((1, 3, 8, 8), np.float32) for i in range(3)])
    Path("config.yaml").write_text(S100)
    run = ptqlab.compile("config.yaml")
    assert [(i.name, i.shape, i.dtype) for i in ptqlab.Runtime(run.artifacts["quantized"]).inputs] == [
        ("images_y", (1, 8, 8, 1), "uint8"), ("images_uv", (1, 4, 4, 2), "uint8")]
    for key in ("norm_type", "cal_data_type", "calibration_type: default"):
        assert [f.code for f in run.warnings if key in f.message and f.severity == "warning"] == ["PTQ250"]
    assert run.outputs["Quantized Cosine"].min() > 0.99


def test_the_same_yaml_on_the_digits_network():
    """Paths, and the one colour that the network has; pixels 0..255 give what the calibrated float values give."""
    images = digits.calibration_samples()[:4]
    write_data([image[None] for image in images])
    text = S100.replace("./net.onnx", str(digits.model_path())).replace("'nv12'", "gray").replace("'rgb'", "gray")
    Path("config.yaml").write_text(text.replace("scale_value: 0.003921568627451", "mean_value: 127.5"
                                                + "\n  scale_value: 0.00784313725490196"))
    run = ptqlab.compile("config.yaml")
    runtime = ptqlab.Runtime(run.artifacts["hbm"])
    assert [(i.name, i.dtype) for i in runtime.inputs] == [("image", "uint8")]
    pixels = np.round(images[0][None] * 127.5 + 127.5).astype(np.uint8)
    (got,) = runtime.run(None, {"image": pixels})
    (expected,) = ptqlab.Runtime(run.artifacts["calibrated"]).run(None, {"image": images[0][None]})
    assert np.argmax(got) == np.argmax(expected) and np.abs(got - expected).max() < 0.1


@pytest.mark.parametrize("march", ["nash-e", "nash-p"])
def test_an_exported_configuration_gives_the_same_plan(march):
    """The YAML and the quant_config of a run, loaded again: the same placement, types, thresholds and outputs."""
    write_data([image[None] for image in digits.calibration_samples()[:4]])
    quant = {**GUIDE, "activation": {"calibration_type": "max"}}
    quant.pop("modelwise_search")
    quant.pop("weight")
    first = ptqlab.compile(model=digits.model_path(), march=march, calibration_data="calibration", quant_config=quant,
                           working_dir="first", prefix="digits", run_on_cpu="/block3/add/Add")
    assert first.explain("/block3/add/Add").row.on == "CPU"
    settings = config.load(first.record.settings, quant_config=first.quant_config)
    Path("again.yaml").write_text(settings.to_yaml())
    Path("again.json").write_text(json.dumps(first.quant_config))
    again = ptqlab.compile("again.yaml", quant_config="again.json", working_dir="again")
    assert again.record.nodes == first.record.nodes
    assert again.record.outputs == first.record.outputs
    assert again.quant_config == first.quant_config
    held = yaml.safe_load(Path("again.yaml").read_text())
    assert held["model_parameters"]["march"] == march
