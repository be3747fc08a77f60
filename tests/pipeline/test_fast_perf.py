"""fast-perf: the speed ceiling, its configuration, and what was removed."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from models import init, model, node, random, value

import ptqlab
from ptqlab.cli.main import main
from ptqlab.errors import PtqError
from ptqlab.examples import digits


@pytest.fixture(autouse=True)
def here(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)


def image_net(path: str = "image.onnx") -> None:
    """A convolution of an even image with 3 channels, and a Reshape and a Transpose at the end."""
    nodes = [
        node("Conv", ["x", "w"], "c", "conv"),
        node("Transpose", ["c"], "y", "to_nhwc", perm=[0, 2, 3, 1]),
    ]
    onnx.save(model(nodes, [value("x", ["N", 3, 8, 8])], [value("y", None)], [init("w", random(4, 3, 3, 3))]), path)


def test_everything_is_int8_on_the_bpu_and_timed():
    """No node stays on the CPU, Quantize and Dequantize are gone, the estimate is there, nothing is compared."""
    run = ptqlab.fast_perf(model=digits.model_path(), march="nash-e")
    assert set(run.nodes["ON"]) == {"BPU"}
    assert run.nodes["Quantized Cosine"].isna().all()
    assert [line.split()[0] for line in run.removed] == ["Quantize", "Dequantize"]
    assert 0 < run.perf["latency_us"] < run.perf["board_latency_us"]
    assert run.perf["fps_2_threads"] >= run.perf["fps_1_thread"] > 0
    runtime = ptqlab.Runtime(run.artifacts["hbm"])
    assert [i.dtype for i in (*runtime.inputs, *runtime.outputs)] == ["int8", "int8"]
    assert "digits.hbm" in str(run) and "latency, BPU part" in str(run)
    assert "<table>" in run._repr_mimebundle_()["text/html"]


def test_an_image_is_fed_as_nv12():
    """Even height and width with 3 channels: bgr trained, nv12 fed; the Transpose at the end is removed."""
    image_net()
    run = ptqlab.fast_perf(model="image.onnx", march="nash-e")
    assert [i.name for i in ptqlab.Runtime(run.artifacts["hbm"]).inputs] == ["x_y", "x_uv"]
    assert any(line.startswith("Transpose to_nhwc") for line in run.removed)
    text = run.config.read_text()
    assert "input_type_rt: nv12" in text and "optimization: run_fast" in text


def test_its_configuration_compiles_to_the_same_numbers():
    """The configuration that fast-perf writes gives the same model when it is compiled."""
    run = ptqlab.fast_perf(model=digits.model_path(), march="nash-e")
    again = ptqlab.compile(run.config, working_dir="again")
    assert again.artifacts["hbm"].read_bytes() and list(again.nodes["ON"]) == list(run.nodes["ON"])
    assert again.perf["latency_us"] == run.perf["latency_us"]


def test_names_and_places_that_do_not_fit():
    """A hidden model file gives its artifacts a plain name; a place that cannot be written is a refusal, not a bug."""
    image_net(".hid:den.onnx")
    run = ptqlab.fast_perf(model=".hid:den.onnx", march="nash-e")
    assert run.artifacts["hbm"].name == "hid_den.hbm"
    Path(".check").write_text("")
    with pytest.raises(PtqError, match=r"PTQ604  \.check"):
        ptqlab.check(model=".hid:den.onnx", march="nash-e")


def test_calibration_data_is_refused_and_the_shell_agrees(capsys):
    """Data mean accuracy, which fast-perf does not measure; both lines of the shell end well."""
    with pytest.raises(PtqError, match="PTQ440"):
        ptqlab.fast_perf(model=digits.model_path(), march="nash-e",
                         calibration_data=[digits.calibration_samples()[:1]])
    image_net()
    assert main(["fast-perf", "image.onnx", "--march", "nash-p", "--core-num", "2"]) == 0
    first = capsys.readouterr().out
    assert main(["compile", "--fast-perf", "-m", "image.onnx", "--march", "nash-p", "--core-num", "2"]) == 0
    assert capsys.readouterr().out.split("Written:")[0] == first.split("Written:")[0]
    assert main(["fast-perf", "image.onnx", "--march", "nash-e", "--core-num", "2"]) == 1
    assert "core_num" in capsys.readouterr().err
