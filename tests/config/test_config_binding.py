"""A configuration meets its model: gaps are filled, what does not fit is refused (whole texts in bad_configs.txt)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ptqlab import config
from ptqlab.config.values import InputParameters
from ptqlab.errors import PtqError

from .conftest import Loader

ONE = {"x": ((1, 3, 8, 8), "float32")}
TWO = {"img": ((1, 3, 224, 224), "float32"), "state": ((1, 64), "float32")}
IMAGE = "input_parameters: {input_type_rt: nv12, input_type_train: rgb, input_layout_train: NCHW}\n"


def test_nothing_said_means_featuremaps(load: Loader) -> None:
    """March and model alone: every input becomes a featuremap of the model's shape, and the YAML of it is complete."""
    cfg = config.bind(load(""), TWO)
    assert cfg.inputs == (InputParameters("img", shape=(1, 3, 224, 224)), InputParameters("state", shape=(1, 64)))
    assert "input_type_rt: featuremap;featuremap" in cfg.to_yaml()
    assert load(cfg.to_yaml(), head=False) == cfg


def test_single_input_gets_its_name(load: Loader, folder: Path) -> None:
    """The one input without a name takes the model's, and its data, type of raw samples and source follow."""
    text = IMAGE + "calibration_parameters: {cal_data_dir: calib/img, cal_data_type: uint8}\n"
    cfg = config.bind(load(text + "compiler_parameters: {input_source: {x: resizer}}\n"), ONE)
    assert cfg.inputs == (InputParameters("x", "nv12", "rgb", "NCHW", shape=(1, 3, 8, 8), source="resizer"),)
    assert cfg.calibration.data == {"x": folder / "calib/img"}
    assert cfg.calibration.raw_types == {"x": "uint8"}


def test_order_of_the_configuration_is_kept(load: Loader) -> None:
    """Inputs are bound by name; the order is that of input_name, not of the model."""
    text = """input_parameters:
  input_name: state;img
  input_type_rt: featuremap;rgb
  input_type_train: featuremap;bgr
  input_layout_train: NCHW;NCHW
"""
    cfg = config.bind(load(text), TWO)
    assert [(i.name, i.type_train, i.shape) for i in cfg.inputs] == [
        ("state", "featuremap", (1, 64)),
        ("img", "bgr", (1, 3, 224, 224)),
    ]


def test_shape_for_a_dynamic_model(load: Loader) -> None:
    """A configured shape settles dynamic dimensions; a shape by name leaves other inputs as they are."""
    cfg = config.bind(load("", input_shape={"x": (1, 3, 8, 8)}), {"x": (("N", 3, None, -1), "float32"), **TWO})
    assert [i.shape for i in cfg.inputs] == [(1, 3, 8, 8), (1, 3, 224, 224), (1, 64)]


def test_separate(load: Loader) -> None:
    """separate_name reaches inputs that only the model names; a batch of one is told to have nothing to split."""
    graph = {"a": ((4, 8), "float32"), "b": ((1, 8), "float32")}
    cfg = config.bind(load("input_parameters: {separate_name: 'a;b'}\n"), graph)
    assert [i.separate for i in cfg.inputs] == [True, True]
    assert [f.message for f in cfg.findings if f.code == "PTQ253"] == [
        "config.yaml:2  input_parameters.separate_name: input b has a batch of 1: there is nothing to split"
    ]


def problems(cfg: config.Config, graph: dict[str, tuple[tuple[int, ...], str]], **options: bool) -> list[str]:
    with pytest.raises(PtqError) as refusal:
        config.bind(cfg, graph, **options)
    return [f"{p.code} {p.found}" for p in refusal.value.problems]


def test_batch_rules_of_the_model(load: Loader) -> None:
    """input_batch needs a first dimension of 1 and a model that can run a batch."""
    cfg = load("input_parameters: {input_batch: 4}\n")
    assert config.bind(cfg, ONE, batchable=True).input_batch == 4
    assert problems(cfg, {"x": ((2, 8), "float32")}) == ["PTQ217 input_batch, and input x is 2x8"]
    assert problems(cfg, ONE, batchable=False) == ["PTQ217 input_batch 4, and the model cannot run a batch"]


def test_image_rules_of_the_model(load: Loader) -> None:
    """The model's own shape and dtype are held against the image type."""
    cfg = load(IMAGE)
    assert problems(cfg, {"x": ((1, 8, 8, 3), "float32")}) == [
        "PTQ215 input x has 8 channels in 1x8x8x3 (NCHW) and the type rgb"
    ]
    assert problems(cfg, {"x": ((1, 3, 7, 8), "float32")}) == ["PTQ215 input x is 7 high and 8 wide in 1x3x7x8 (NCHW)"]
    assert problems(cfg, {"x": ((1, 3, 8, 8), "uint8")}) == ["PTQ215 rgb for input x, which is uint8"]


@pytest.mark.parametrize(
    ("data", "found"),
    [
        ({"imgg": [1], "state": [1]}, ["data for imgg, which is no input", "no data for input img"]),
        ([np.zeros(3)], ["one list of samples for 2 inputs (img, state)"]),
        ("calib/img", ["{} holds no folder img", "{} holds no folder state"]),
    ],
)
def test_data_is_bound_by_name(folder: Path, data: object, found: list[str]) -> None:
    """Data that does not name the model's inputs is refused with every name."""
    cfg = config.load(model="net.onnx", march="nash-e", calibration_data=data)
    expected = [f"PTQ308 {f.format(folder / 'calib/img')}" for f in found]
    assert problems(cfg, TWO) == expected


def test_folder_of_folders(folder: Path) -> None:
    """One folder that holds a folder per input name is enough, for several inputs and for one."""
    cfg = config.load(model="net.onnx", march="nash-e", calibration_data="calib")
    assert config.bind(cfg, TWO).calibration.data == {"img": folder / "calib/img", "state": folder / "calib/state"}
    assert config.bind(cfg, {"img": ((1, 4), "float32")}).calibration.data == {"img": folder / "calib/img"}
    assert config.bind(cfg, ONE).calibration.data == {"x": folder / "calib"}


def test_names_from_a_model_stay_inside_the_folder(folder: Path) -> None:
    """An input name such as ../img, which comes from a file, never leads out of the folder given."""
    cfg = config.load(model="net.onnx", march="nash-e", calibration_data="calib/state")
    assert config.bind(cfg, {"../img": ((1, 4), "float32")}).calibration.data == {"../img": folder / "calib/state"}
