"""A configuration in each of its forms: what is given arrives, typed, and what was decided is told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ptqlab import config
from ptqlab.config.values import Config, InputParameters
from ptqlab.errors import PtqError

from .conftest import Loader

FULL = """
model_parameters:
  onnx_model: ./net.onnx
  march: nash-p
  working_dir: ./out_int8
  output_model_file_prefix: net_224_nv12
  output_nodes: "Conv_9;Conv_10"
  remove_node_type: "Dequantize;Transpose"
  remove_node_name: "/head/Reshape"
  debug_mode: dump_calibration_data
  enable_vpu: false
  enable_spu: false
input_parameters:
  input_name: "img;state"
  input_type_rt: "nv12;featuremap;"
  input_type_train: "rgb;featuremap"
  input_layout_train: "NCHW;NCHW"
  input_space_and_range: "bt601_video;regular"
  input_shape: "1x3x224x224;1x64"
  input_batch: 4
  separate_name: img
  mean_value: "123.675, 116.28 103.53;None"
  std_value: "58.395 57.12 57.375;None"
calibration_parameters:
  cal_data_dir: "./calib/img;./calib/state"
  calibration_type: kl
  per_channel: true
  max_percentile: 0.9999
  run_on_cpu: "Softmax_1"
  run_on_bpu: "Conv_2;Conv_3"
  optimization: set_model_output_int16
  quant_config: {op_config: {softmax: {qtype: int32}}}
compiler_parameters:
  compile_mode: balance
  balance_factor: 30
  optimize_level: O1
  core_num: 4
  max_time_per_fc: 1000
  jobs: 8
  advice: 1
  debug: false
  input_source: {img: resizer, state: ddr}
  cache_mode: enable
  cache_path: ./calib
  max_l2m_size: none
  extra_params: {input_no_padding: True, output_no_padding: True}
  ability_entry: x
"""


def codes(cfg: Config, severity: str = "warning") -> list[str]:
    return [f.code for f in cfg.findings if f.severity == severity]


def test_every_key(load: Loader, folder: Path) -> None:
    """One file with every open key: each value arrives in its typed place, and nothing is warned of."""
    cfg = load(FULL, head=False)
    assert cfg.model == config.ModelParameters(
        folder / "net.onnx",
        "nash-p",
        folder / "out_int8",
        "net_224_nv12",
        ("Conv_9", "Conv_10"),
        ("Dequantize", "Transpose"),
        ("/head/Reshape",),
        ("dump_calibration_data",),
        False,
        False,
    )
    img, state = cfg.inputs
    assert img == InputParameters(
        "img",
        "nv12",
        "rgb",
        "NCHW",
        "bt601_video",
        (1, 3, 224, 224),
        (123.675, 116.28, 103.53),
        (1 / 58.395, 1 / 57.12, 1 / 57.375),
        True,
        "resizer",
    )
    assert state == InputParameters("state", shape=(1, 64))
    assert (cfg.input_batch, cfg.separate_batch, cfg.separate_name) == (4, False, ("img",))
    calibration = cfg.calibration
    assert calibration.data == {"img": folder / "calib/img", "state": folder / "calib/state"} == calibration.folders
    assert (calibration.calibration_type, calibration.per_channel, calibration.max_percentile) == ("kl", True, 0.9999)
    assert (calibration.run_on_cpu, calibration.run_on_bpu) == (("Softmax_1",), ("Conv_2", "Conv_3"))
    assert calibration.optimization == "set_model_output_int16"
    assert calibration.quant.for_node("s", "Softmax").qtype == "int32"
    compiler = cfg.compiler
    assert replace(compiler, extra_params={}, input_source={}) == config.CompilerParameters(
        "balance", 30, "O1", 4, 1000, 8, 1.0, False, {}, "enable", folder / "calib", None, {}, "x"
    )
    assert compiler.extra_params == {"input_no_padding": True, "output_no_padding": True}
    assert compiler.input_source == {"img": "resizer", "state": "ddr"}
    assert codes(cfg) == []


def test_yaml_round_trip(load: Loader) -> None:
    """to_yaml of the fullest configuration loads again to an equal one, and to_dict too."""
    cfg = load(FULL, head=False)
    assert load(cfg.to_yaml(), head=False) == cfg
    assert config.load(cfg.to_dict()) == cfg


def test_defaults(load: Loader, folder: Path) -> None:
    """A model and a march are enough; calibration becomes skip, which is told."""
    cfg = load("")
    assert cfg.model == config.ModelParameters(folder / "net.onnx", "nash-e", folder / "model_output")
    assert (cfg.inputs, cfg.types_given) == ((), False)
    assert (cfg.calibration.data, cfg.calibration.calibration_type) == (None, "skip")
    compiler = cfg.compiler
    assert (compiler.compile_mode, compiler.balance_factor, compiler.optimize_level) == ("latency", 100, "O2")
    assert codes(cfg) == ["PTQ255"]
    assert "PTQ255" in codes(cfg, "note")


def test_s100_style_file(load: Loader) -> None:
    """The pattern of published S100 configurations loads, with one warning per key that is out of use."""
    cfg = load(
        """
model_parameters:
  onnx_model: net.onnx
  march: "nash-e"
  layer_out_dump: False
  working_dir: 'out'
  output_model_file_prefix: 'net_640x640_nv12'
input_parameters:
  input_name: ""
  input_type_rt: 'nv12'
  input_type_train: 'rgb'
  input_layout_train: 'NCHW'
  norm_type: 'data_scale'
  scale_value: 0.003921568627451
calibration_parameters:
  cal_data_dir: './calib/img'
  cal_data_type: 'float32'
  calibration_type: 'default'
compiler_parameters:
  extra_params: {'input_no_padding': True, 'output_no_padding': True}
  jobs: 16
  compile_mode: 'latency'
  debug: true
  advice: 1
  optimize_level: 'O2'
""",
        head=False,
    )
    assert cfg.inputs[0].scale == (0.003921568627451,)
    assert cfg.calibration.calibration_type == ""
    assert codes(cfg) == ["PTQ250"] * 3
    warned = " ".join(f.message for f in cfg.findings)
    assert all(word in warned for word in ("norm_type", "cal_data_type", "calibration_type: default"))


@pytest.mark.parametrize(
    ("group", "line", "key"),
    [
        ("model_parameters", "log_level: 1", "log_level"),
        ("model_parameters", "set_node_data_type: 'a:int16'", "set_node_data_type"),
        ("input_parameters", "input_layout_rt: NHWC", "input_layout_rt"),
        ("input_parameters", "norm_type: data_mean", "norm_type"),
        ("calibration_parameters", "preprocess_on: False", "preprocess_on"),
        ("compiler_parameters", "hbdk3_compatible_mode: false", "hbdk3_compatible_mode"),
        ("custom_op", "op_register_files: a.py", "op_register_files"),
        ("custom_op", "custom_op_method: register", "custom_op_method"),
        ("custom_op", "custom_op_dir: ./ops", "custom_op_dir"),
    ],
)
def test_deprecated_key(load: Loader, group: str, line: str, key: str) -> None:
    """A key out of use is accepted with exactly one warning that names it, its line, and says it has no effect."""
    own_group = "" if group == "model_parameters" else f"{group}:"
    text = f"model_parameters:\n  onnx_model: net.onnx\n  march: nash-e\n{own_group}\n  {line}\n"
    cfg = load(text, head=False)
    (finding,) = [f for f in cfg.findings if f.code == "PTQ250"]
    assert finding.message.startswith(f"config.yaml:5  {group}.{key}: {key}")
    assert "no effect" in finding.message


def test_extras_of_the_calibration_group(load: Loader) -> None:
    """Unknown keys pass in calibration_parameters, as in the vendor's tool, with one warning for all of them."""
    cfg = load("calibration_parameters: {cal_data_dirs: a, my_note: b, optimize_level: O1}\n")
    (finding,) = [f for f in cfg.findings if f.code == "PTQ254"]
    assert "cal_data_dirs, my_note, optimize_level" in finding.message
    assert "cal_data_dirs: did you mean cal_data_dir" in finding.hint
    assert "optimize_level belongs to compiler_parameters" in finding.hint
    assert cfg.compiler.optimize_level == "O2"


def test_carried_keys_are_noted(load: Loader) -> None:
    """A key that only the vendor's tool uses is kept, and a note says that it has no effect here."""
    cfg = load("compiler_parameters: {jobs: 4}\n")
    assert cfg.compiler.jobs == 4
    assert [f.message for f in cfg.findings if f.code == "PTQ257"] == [
        "config.yaml:2  compiler_parameters.jobs: jobs is kept for the vendor's tool; "
        "neither the numbers nor the estimate of ptqlab depend on it"
    ]


def test_layer_out_dump(load: Loader) -> None:
    """The older key means the newer debug mode."""
    text = "model_parameters:\n  onnx_model: net.onnx\n  march: nash-e\n  layer_out_dump: true\n"
    cfg = load(text, head=False)
    assert cfg.model.debug_mode == ("dump_all_layers_output",)
    assert "PTQ251" in codes(cfg)


def test_balance_factor_is_forced(load: Loader) -> None:
    """latency and bandwidth bring their own factor; another one is told to be ignored."""
    cfg = load("compiler_parameters: {compile_mode: bandwidth, balance_factor: 70}\n")
    assert cfg.compiler.balance_factor == 0
    assert "balance_factor 70 is ignored: compile_mode: bandwidth takes 0" in str(cfg.findings)


def test_cache_path_switches_the_cache_on(load: Loader) -> None:
    """cache_path with cache_mode disable becomes enable, with a warning."""
    cfg = load("compiler_parameters: {cache_path: calib}\n")
    assert cfg.compiler.cache_mode == "enable"
    assert "becomes enable" in str([f for f in cfg.findings if f.code == "PTQ253"])


def test_calibration_type_without_data(load: Loader) -> None:
    """A method without data becomes skip, with a warning and not silently."""
    cfg = load("calibration_parameters: {calibration_type: kl}\n")
    assert cfg.calibration.calibration_type == "skip"
    assert "calibration_type: kl without cal_data_dir becomes skip" in str(cfg.findings)


def test_raw_types(load: Loader, folder: Path) -> None:
    """The type of raw samples comes from cal_data_type, else from the folder's name."""
    (folder / "cal_f32").mkdir()
    (folder / "cal_f32/0.bin").touch()
    assert load("calibration_parameters: {cal_data_dir: cal_f32}\n").calibration.raw_types == {"": "float32"}
    cfg = load("calibration_parameters: {cal_data_dir: cal_f32, cal_data_type: uint8}\n")
    assert cfg.calibration.raw_types == {"": "uint8"}
    assert load("calibration_parameters: {cal_data_dir: calib/img}\n").calibration.raw_types == {}


def test_one_folder_with_a_folder_per_input(load: Loader, folder: Path) -> None:
    """The folder form of the Python tools works in the YAML as well, with a note."""
    cfg = load("input_parameters: {input_name: 'img;state'}\ncalibration_parameters: {cal_data_dir: calib}\n")
    assert cfg.calibration.folders == {"img": folder / "calib/img", "state": folder / "calib/state"}


# ------------------------------------------------------------------ paths
def test_paths_from_the_folder_of_the_yaml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the current directory does not have is looked up beside the YAML, and a note gives the absolute path."""
    home, project = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    (project / "calib").mkdir(parents=True)
    (project / "calib/0.npy").touch()
    (project / "net.onnx").touch()
    (project / "q.json").write_text('{"model_config": {"all_node_type": "int16"}}')
    text = "model_parameters: {onnx_model: net.onnx, march: nash-e, working_dir: out}\n"
    (project / "c.yaml").write_text(text + "calibration_parameters: {cal_data_dir: calib, quant_config: q.json}\n")
    monkeypatch.chdir(home)
    cfg = config.load(project / "c.yaml")
    assert cfg.model.onnx_model == project / "net.onnx"
    assert cfg.calibration.folders == {"": project / "calib"}
    assert cfg.calibration.quant.for_node("a", "Add").qtype == "int16"
    assert cfg.model.working_dir == home / "out"  # nothing exists yet: the current directory
    notes = [f.message for f in cfg.findings if f.code == "PTQ252"]
    assert f"net.onnx is {project / 'net.onnx'} (from the folder of the YAML)" in notes[0]


def test_current_directory_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path that exists in both places is taken from the current directory, with a warning."""
    for name in ("home", "project"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "net.onnx").touch()
    (tmp_path / "project/c.yaml").write_text("model_parameters: {onnx_model: net.onnx, march: nash-e}\n")
    monkeypatch.chdir(tmp_path / "home")
    cfg = config.load("../project/c.yaml")
    assert cfg.model.onnx_model == tmp_path / "home/net.onnx"
    assert any(f.code == "PTQ252" and f.severity == "warning" for f in cfg.findings)


# ------------------------------------------------------------------ Python forms
def test_keywords(folder: Path) -> None:
    """The keywords of ptqlab.compile, and any YAML key by its plain name."""
    cfg = config.load(
        model=folder / "net.onnx",
        march="nash-h",
        prefix="p",
        working_dir="out",
        calibration_data={"x": [np.zeros((1, 3), np.float32)]},
        quant_config={"model_config": {"all_node_type": "float16"}},
        input_shape={"x": (1, 3)},
        calibration_type="max",
        core_num=np.int64(2),
        output_nodes=["a", "b"],
        skip="compile",
    )
    assert (cfg.model.march, cfg.model.output_model_file_prefix, cfg.model.output_nodes) == ("nash-h", "p", ("a", "b"))
    assert (cfg.skip, cfg.compiler.core_num, cfg.calibration.calibration_type) == ("compile", 2, "max")
    assert cfg.inputs == (InputParameters("x", shape=(1, 3)),)
    assert cfg.input_shapes == {"x": (1, 3)}
    request = cfg.calibration.quant.for_node("a", "Add")
    assert (request.qtype, request.origin.place) == ("float16", "keyword")
    assert isinstance(cfg.calibration.data, dict)
    assert cfg.calibration.data["x"][0].shape == (1, 3)


def test_keywords_win_over_the_file(load: Loader) -> None:
    """A keyword replaces the file's value, and a problem with it is said to be one of the keyword."""
    assert load("", march="nash-p").model.march == "nash-p"
    with pytest.raises(PtqError) as refusal:
        load("", march="nash-x", core_num=True)
    assert [p.where for p in refusal.value.problems] == [
        "keyword  model_parameters.march",
        "keyword  compiler_parameters.core_num",
    ]


def test_input_shape_keyword_for_named_inputs(load: Loader) -> None:
    """Shapes by name go to the inputs of the file; an unknown name is refused with the nearest."""
    text = """input_parameters:
  input_name: img;state
  input_type_rt: rgb;featuremap
  input_type_train: rgb;featuremap
  input_layout_train: NCHW;NCHW
"""
    assert load(text, input_shape={"state": [1, 64]}).input_shapes == {"state": (1, 64)}
    with pytest.raises(PtqError, match="did you mean state"):
        load(text, input_shape={"stat": (1, 64)})


@pytest.mark.parametrize(
    ("keywords", "code", "words"),
    [
        ({"modell": "net.onnx"}, "PTQ204", "did you mean model"),
        ({"skip": "complie"}, "PTQ202", "did you mean compile"),
        ({"calibration_data": {}}, "PTQ308", "an empty mapping"),
        ({"calibration_data": 3}, "PTQ308", "the number 3"),
        ({"calibration_data": {"a": "x", "b": [1.0]}}, "PTQ308", "use one form"),
        ({"calibration_data": {"a": 7}}, "PTQ308", "the number 7"),
        ({"calibration_data": [{"a": 1, "b": 1}, {"b": 1}]}, "PTQ308", "sample 1 has no a"),
        ({"calibration_data": {"a": [[[1], [1, 2]]]}}, "PTQ305", "dtype object"),
        ({"calibration_data": {"a": ["text"]}}, "PTQ305", "dtype <U4"),
        ({"input_shape": {"x": (1, -1)}}, "PTQ212", "whole number"),
        ({"model": 7}, "PTQ203", "the number 7"),
        ({"quant_config": 7}, "PTQ203", "the number 7"),
        ({"quant_config": "{broken"}, "PTQ201", "double quotes"),
    ],
)
def test_bad_keywords(folder: Path, keywords: dict[str, object], code: str, words: str) -> None:
    """Each wrong keyword is one problem that says what is wrong."""
    good: dict[str, object] = {"model": "net.onnx", "march": "nash-e"}
    with pytest.raises(PtqError) as refusal:
        config.load(**(good | keywords))
    (problem,) = refusal.value.problems
    assert problem.code == code
    assert words in str(problem)


def test_other_forms_of_a_source(folder: Path) -> None:
    """YAML text with line breaks is read as text; anything else that is no configuration is refused."""
    text = "model_parameters:\n  onnx_model: net.onnx\n  march: nash-e\n"
    mapping = {"model_parameters": {"onnx_model": "net.onnx", "march": "nash-e"}}
    assert config.load(text) == config.load_text(text) == config.load(mapping)
    with pytest.raises(PtqError, match="PTQ203"):
        config.load(7)  # type: ignore[arg-type]
    cycle: dict[str, object] = {}
    cycle["model_parameters"] = cycle
    with pytest.raises(PtqError, match="PTQ206"):
        config.load(cycle)


@pytest.mark.parametrize("raw", [b"\xff\xfe\x00", "型号".encode("gbk")])
def test_files_that_are_no_text(folder: Path, raw: bytes) -> None:
    """A file in another encoding is named, with the encoding it should have."""
    Path("c.yaml").write_bytes(raw)
    with pytest.raises(PtqError, match="is not UTF-8"):
        config.load("c.yaml")


def test_missing_file(folder: Path) -> None:
    """A path that does not exist names the path and the current directory."""
    with pytest.raises(PtqError, match="no such file") as refusal:
        config.load("nowhere.yaml")
    assert str(folder) in str(refusal.value)


def test_four_cores_on_nash_h_are_a_warning(folder: Path) -> None:
    """The manual allows 1 to 4, the compiler's march table 3: taken, with a warning; five are refused."""
    given = {"onnx_model": "net.onnx", "march": "nash-h"}
    cfg = config.load({"model_parameters": given, "compiler_parameters": {"core_num": 4}})
    assert cfg.compiler.core_num == 4
    assert [f.severity for f in cfg.findings if f.code == "PTQ258"] == ["warning"]
    three = config.load({"model_parameters": given, "compiler_parameters": {"core_num": 3}})
    assert not [f for f in three.findings if f.code == "PTQ258"]
    with pytest.raises(PtqError, match="1 to 4"):
        config.load({"model_parameters": given, "compiler_parameters": {"core_num": 5}})


@pytest.mark.parametrize(("key", "value"), [
    ("max_time_per_fc", 2000), ("compile_mode", "bandwidth"), ("optimize_level", "O0"),
    ("max_l2m_size", 1024), ("jobs", 3), ("debug", False)])
def test_what_nothing_here_depends_on_is_told(folder: Path, key: str, value: object) -> None:
    """A compiler key that is only carried along says so in a note, and only where it is not the default."""
    given = {"onnx_model": "net.onnx", "march": "nash-p"}
    cfg = config.load({"model_parameters": given, "compiler_parameters": {key: value}})
    assert [f.code for f in cfg.findings if key in f.message] == ["PTQ257"]
    assert getattr(cfg.compiler, key) == value
    assert not [f for f in config.load({"model_parameters": given}).findings if f.code == "PTQ257"]


def test_threshold_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """calibration_parameters.thresholds is a file that exists, and survives the way to YAML and back."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.onnx").write_bytes(b"")
    (tmp_path / "t.json").write_text("{}")
    given = {"model": "net.onnx", "march": "nash-e", "thresholds": "t.json"}
    loaded = config.load(**given)
    assert loaded.calibration.thresholds == tmp_path / "t.json"
    (tmp_path / "c.yaml").write_text(loaded.to_yaml())
    assert config.load(tmp_path / "c.yaml").calibration.thresholds == tmp_path / "t.json"
    with pytest.raises(PtqError) as refused:
        config.load(**given | {"thresholds": "s.json"})
    assert "t.json" in str(refused.value)
