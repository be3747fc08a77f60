"""Older keys of the YAML that speak of precision end in the one QuantConfig, with their place."""

from __future__ import annotations

import pytest

from ptqlab.config import QuantConfig

from .conftest import Loader

MODEL = "model_parameters:\n  onnx_model: net.onnx\n  march: nash-e\n  node_info: {}\n"


def quant(load: Loader, node_info: str, more: str = "") -> QuantConfig:
    return load(MODEL.format(node_info) + more, head=False).calibration.quant


def test_text_form(load: Loader) -> None:
    """`node:type` pairs; a node's name may hold colons; the origin is the line of node_info."""
    found = quant(load, '"Conv_0:int16;ns::Conv_1:float16;"')
    assert found.for_node("Conv_0", "Conv").qtype == "int16"
    request = found.for_node("ns::Conv_1", "Conv")
    assert request.qtype == "float16"
    assert str(request.origin) == "node (model_parameters.node_info, config.yaml:4)"


@pytest.mark.parametrize(
    ("block", "qtype", "inputs", "on"),
    [
        ("{ON: CPU}", "int8", ("int8", "int8"), "CPU"),
        ("{ON: bpu, OutputType: int16}", "int16", ("int16", "int16"), "BPU"),
        ("{InputType: int16}", "int16", ("int16", "int16"), None),
        ("{InputType0: int16}", "int8", ("int16", "int8"), None),
        ("{InputType: int16, InputType1: int8}", "int16", ("int16", "int8"), None),
        ("{InputType: int16, OutputType: int8}", "int8", ("int16", "int16"), None),
        ("{}", "int8", ("int8", "int8"), None),
    ],
)
def test_mapping_form(load: Loader, block: str, qtype: str, inputs: tuple[str, ...], on: str | None) -> None:
    """ON, InputType, InputTypeN and OutputType, alone and together."""
    request = quant(load, f"{{n: {block}}}").for_node("n", "Add", n_inputs=2)
    assert (request.qtype, request.inputs, request.on) == (qtype, inputs, on)


def test_what_wins(load: Loader) -> None:
    """node_info wins over run_on_cpu and run_on_bpu, node_config over both, key by key."""
    found = quant(
        load,
        '"{a: {ON: BPU, OutputType: int16}, b: {OutputType: int16}}"'.strip('"'),
        "calibration_parameters:\n  run_on_cpu: 'a;b;c'\n  run_on_bpu: d\n"
        "  quant_config: {node_config: {b: {qtype: float16}, d: {ON: CPU}, e: {qtype: int16}}}\n",
    )
    asked = {n: (r.qtype, r.on) for n in "abcde" if (r := found.for_node(n, "Add"))}
    assert asked == {
        "a": ("int16", "BPU"),
        "b": ("float16", "CPU"),
        "c": ("int8", "CPU"),
        "d": ("int8", "CPU"),
        "e": ("int16", None),
    }


def test_calibration_keys_are_the_models_defaults(load: Loader) -> None:
    """calibration_type, max_percentile, per_channel stand at the model level; quant_config wins, and that is told."""
    text = """calibration_parameters:
  cal_data_dir: calib
  calibration_type: kl
  max_percentile: 0.9
  per_channel: true
"""
    request = load(text).calibration.quant.for_node("n", "Add")
    asked = request.activation
    assert (asked.calibration_type, asked.max_percentile, asked.per_channel) == (("kl",), (0.9,), (True,))
    assert str(request.origins["max_percentile"]) == "model (calibration_parameters.max_percentile, config.yaml:5)"

    cfg = load(text + "  quant_config: {model_config: {activation: {calibration_type: max}}}\n")
    assert cfg.calibration.quant.for_node("n", "Add").activation.calibration_type == ("max",)
    (finding,) = [f for f in cfg.findings if f.code == "PTQ253"]
    assert "calibration_type is overruled by quant_config" in finding.message


@pytest.mark.parametrize(("word", "qtype"), [("set_model_output_int8", "int8"), ("set_model_output_int16", "int16")])
def test_optimization(load: Loader, word: str, qtype: str) -> None:
    """set_model_output_* is the model's output type, unless quant_config says another, which is told."""
    text = f"calibration_parameters:\n  optimization: {word}\n"
    setting = load(text).calibration.quant.model_output_type
    assert setting is not None
    assert setting.value == qtype
    cfg = load(text + "  quant_config: {model_config: {model_output_type: float32}}\n")
    assert cfg.calibration.quant.model_output_type is not None
    assert cfg.calibration.quant.model_output_type.value == "float32"
    assert [f.code for f in cfg.findings if "optimization is overruled" in f.message] == ["PTQ253"]


def test_run_fast_asks_for_no_output_type(load: Loader) -> None:
    """run_fast, the word of fast-perf, is kept and asks for no output type."""
    calibration = load("calibration_parameters: {optimization: run_fast}\n").calibration
    assert (calibration.optimization, calibration.quant.model_output_type) == ("run_fast", None)


def test_round_trip(load: Loader) -> None:
    """node_info goes on as node_config: to_yaml loads again to an equal configuration."""
    cfg = load(MODEL.format("{n: {ON: CPU, InputType0: int16}}"), head=False)
    assert load(cfg.to_yaml(), head=False) == cfg
    assert "node_info" not in cfg.to_yaml()
