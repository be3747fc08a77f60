"""Templates load, list the keys they should, and carry both languages."""

from __future__ import annotations

from pathlib import Path

import pytest

from ptqlab import config
from ptqlab.config.fields import GROUPS
from ptqlab.config.templates import infer_input
from ptqlab.config.values import InputParameters
from ptqlab.config.yaml_reader import read_yaml

from .conftest import Loader

SIMPLE = {
    "model_parameters": ["onnx_model", "caffe_model", "prototxt", "march"],
    "input_parameters": ["input_type_rt", "input_type_train", "input_layout_train"],
    "compiler_parameters": ["optimize_level"],
}


def keys(text: str) -> dict[str, list[str]]:
    return {group: list(block) for group, block in read_yaml(text, "t").data.items()}


def test_keys_of_the_simple_template() -> None:
    """The keys of the vendor's simple template, and no others."""
    assert keys(config.template("simple")) == SIMPLE


def test_keys_of_the_full_template() -> None:
    """The full template lists the simple one's keys and more of every group."""
    full = keys(config.template("full"))
    assert list(full) == ["model_parameters", "input_parameters", "calibration_parameters", "compiler_parameters"]
    assert all(set(SIMPLE.get(group, [])) < set(listed) for group, listed in full.items())
    assert {"cal_data_dir", "quant_config"} == set(full["calibration_parameters"])


@pytest.mark.parametrize("kind", ["simple", "full"])
def test_template_of_a_model_loads(kind: str, load: Loader, folder: Path) -> None:
    """Filled from a model, with its calibration folders made, a template is a configuration that loads and binds."""
    inputs = {"img": (1, 3, 224, 224), "state": (1, 64)}
    for name in inputs:
        (folder / "calibration_data_dir" / name).mkdir(parents=True)
        (folder / "calibration_data_dir" / name / "0.npy").touch()
    cfg = load(config.template(kind, "net.onnx", "nash-p", inputs), head=False)
    assert (cfg.model.onnx_model, cfg.model.march) == (folder / "net.onnx", "nash-p")
    bound = config.bind(cfg, {name: (shape, "float32") for name, shape in inputs.items()})
    assert bound.inputs == tuple(infer_input(name, shape) for name, shape in inputs.items())
    assert len(bound.calibration.folders) == (2 if kind == "full" else 0)
    assert [f for f in cfg.findings if f.severity == "warning"] == []


def test_every_key_is_commented_in_both_languages() -> None:
    """Above each key stand its English rule and its Chinese twin."""
    lines = config.template("full").splitlines()
    rows = {f.key: f for fields in GROUPS.values() for f in fields}
    for index, line in enumerate(lines):
        key = line.strip().split(":")[0]
        if line.startswith("  ") and key in rows:
            assert rows[key].rule in lines[index - 2]
            assert rows[key].zh in lines[index - 1]


@pytest.mark.parametrize("path", ["a b.onnx", "模型: 1.onnx", 'quote".onnx', "#x.onnx", "no", "1e3"])
def test_hostile_paths_survive(path: str) -> None:
    """A path with blanks, colons, quotes or the look of another type is written so that it reads back."""
    data = read_yaml(config.template("simple", path, "nash-e"), "t").data
    assert data["model_parameters"]["onnx_model"] == path


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((1, 3, 224, 224), ("nv12", "bgr", "NCHW")),
        ((1, 224, 224, 3), ("nv12", "bgr", "NHWC")),
        ((1, 3, 225, 224), ("featuremap", "featuremap", "")),
        ((1, 4, 224, 224), ("featuremap", "featuremap", "")),
        ((1, 64), ("featuremap", "featuremap", "")),
    ],
)
def test_inference_of_types(shape: tuple[int, ...], expected: tuple[str, str, str]) -> None:
    """4 dimensions, 3 channels, even height and width: bgr fed as nv12; anything else a featuremap."""
    found = infer_input("x", shape)
    assert (found.type_rt, found.type_train, found.layout_train) == expected
    assert isinstance(found, InputParameters)
