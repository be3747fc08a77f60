"""check: placement with reasons, advice, and the configuration to go on with; in Python, shell and notebook."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
import yaml
from IPython.core.interactiveshell import InteractiveShell
from models import init, model, node, random, value

import ptqlab
from ptqlab.cli.main import main
from ptqlab.errors import PtqError
from ptqlab.examples import digits
from ptqlab.report import words


@pytest.fixture(autouse=True)
def here(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(words._state, "language", "en")


def islands(batch: int | str = 1):
    """Conv, Det (no BPU kernel) and a scalar product, Conv: one CPU island; Relu and Softmax behind the tail."""
    nodes = [
        node("Conv", ["x", "w1"], "a", "conv1"),
        node("TopK", ["a", "k"], "t", "island", axis=1),
        node("Conv", ["t", "w2"], "b", "conv2"),
        node("Relu", ["b"], "r", "relu"),
        node("Softmax", ["r"], "y", "softmax", axis=1),
    ]
    nodes[1].output.append("indices")
    weights = [init("w1", random(4, 3, 1, 1)), init("w2", random(5, 2, 1, 1)), init("k", np.array([2]), np.int64)]
    return model(nodes, [value("x", [batch, 3, 6, 6])], [value("y", None)], weights)


def test_check_says_where_why_and_what_helps():
    """The summary counts devices, the CPU nodes stand under their reasons with the island first, advice names nodes."""
    onnx.save(islands(), "net.onnx")
    found = ptqlab.check(model="net.onnx", march="nash-e")
    on = dict(zip(found.nodes["Node"], found.nodes["ON"], strict=True))
    assert on == {"conv1": "BPU", "island": "CPU", "conv2": "BPU", "relu": "CPU", "softmax": "CPU"}
    assert found.segments == 2
    text = str(found)
    assert "net on nash-e: 5 nodes: 2 BPU, 3 CPU; BPU segments: 2" in text
    assert text.index("splits the model") < text.index("it follows conv2")
    assert {f.code for f in found.warnings} >= {"PTQ430", "PTQ433"}
    assert found.explain("island").row.on == "CPU" and "TopK" in found.explain("island").reason
    data = found._repr_mimebundle_()
    assert "island" in data["text/html"] and "<h4>" in data["text/html"]
    words.set_language("zh")
    assert "节点运行位置" in str(found)


def test_the_configuration_it_writes_loads_and_compiles():
    """`.check/<model>_config.yaml` is a full configuration of the model; with its data folder taken out it compiles."""
    path = ptqlab.check(model=digits.model_path(), march="nash-m").config
    assert path.as_posix() == ".check/digits_config.yaml"
    held = yaml.safe_load(path.read_text())
    assert held["model_parameters"]["march"] == "nash-m" and held["input_parameters"]["input_name"] == "image"
    held["calibration_parameters"].pop("cal_data_dir")
    run = ptqlab.compile(held, skip="compile", working_dir="out")
    assert run.record.march == "nash-m" and not run.outputs.empty


def test_an_open_batch_is_one_and_told():
    """A dynamic first dimension alone needs no input_shape; other open sizes are refused with the option to give."""
    onnx.save(islands("N"), "net.onnx")
    found = ptqlab.check(model="net.onnx", march="nash-e")
    assert found.record.inputs[0].shape == (1, 3, 6, 6)
    assert any(f.code == "PTQ434" and "x" in f.message for f in found.warnings)
    pair = ptqlab.check(model="net.onnx", march="nash-e", input_shape={"x": (2, 3, 6, 6)})
    assert pair.record.inputs[0].shape[0] == 2
    wide = islands()
    wide.graph.input[0].type.tensor_type.shape.dim[3].dim_param = "W"
    onnx.save(wide, "wide.onnx")
    with pytest.raises(PtqError, match=r"-i x 1x3x6x1"):
        ptqlab.check(model="wide.onnx", march="nash-e")


@pytest.mark.parametrize("line", ["check net.onnx --march nash-e", "check -m net.onnx --march nash-e",
                                  "compile -m net.onnx --march nash-e"])
def test_shell_and_notebook(line, capsys):
    """The same report on standard output with exit code 0, and as the value of the magic."""
    onnx.save(islands(), "net.onnx")
    assert main(line.split()) == 0
    out = capsys.readouterr().out
    assert "BPU segments: 2" in out and "What would help:" in out
    shell = InteractiveShell()
    shell.run_line_magic("load_ext", "ptqlab")
    try:
        result = shell.run_cell(f"%ptq {line}").result
        assert isinstance(result, ptqlab.CheckResult) and str(result) == out.rstrip("\n")
        assert "ptq_result" not in shell.user_ns
    finally:
        shell.run_line_magic("unload_ext", "ptqlab")


def test_quant_config_changes_the_placement():
    """Requests of a quant_config are part of a check, and unknown nodes are refused as in a compile."""
    onnx.save(islands(), "net.onnx")
    held = {"node_config": {"softmax": {"qtype": "int16"}}}
    found = ptqlab.check(model="net.onnx", march="nash-e", quant_config=held)
    assert found.explain("softmax").row.on == "BPU" and found.explain("softmax").asked == "int16"
    with pytest.raises(PtqError, match="softmax"):
        ptqlab.check(model="net.onnx", march="nash-e", quant_config={"node_config": {"sofmax": {"qtype": "int16"}}})
