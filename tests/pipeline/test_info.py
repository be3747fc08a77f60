"""info: what every kind of model file says of itself."""

from __future__ import annotations

import json

import pytest

import ptqlab
from ptqlab.artifacts.models import read_quantized, write_quantized
from ptqlab.cli.main import main
from ptqlab.errors import PtqError
from ptqlab.examples import digits


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return ptqlab.compile(model=digits.model_path(), march="nash-e", working_dir=tmp_path_factory.mktemp("out"),
                          prefix="digits", calibration_data=[digits.calibration_samples()[:1]], quant_config={
                              "model_config": {"activation": {"calibration_type": "max"}}})


def test_a_float_model(run):
    """Opset, inputs and outputs, operators; no settings, no removable nodes."""
    model = ptqlab.info(digits.model_path()).model
    assert (model.kind, model.march, model.settings) == ("float onnx", "", {})
    assert [(i.name, i.dtype, i.shape) for i in model.inputs] == [("image", "float32", (1, 1, 8, 8))]
    assert model.operators["Conv"] == 12 and model.versions["opset"] == "17"
    assert ptqlab.info(run.artifacts["calibrated"]).model.kind == "calibrated onnx"


def test_an_artifact_tells_its_configuration(run):
    """Parameters by group, versions, removable nodes, memory, and the encoding of every integer tensor."""
    found = ptqlab.info(run.artifacts["quantized"], encodings=True)
    model = found.model
    assert model.settings["model_parameters"]["march"] == "nash-e" and model.march == "nash-e"
    assert model.removable[0] == ("image_quantize", "Quantize")
    assert model.memory["input"] == 256 and model.memory["static"] > 26_000
    row = run.nodes.set_index("Node").loc["/stem/conv/Conv"]
    assert model.encodings["image"]["scale"] * 127 == pytest.approx(row["Threshold"], rel=1e-6)
    text = str(found)
    for part in ("model_parameters info:", "NAME", "[1, 1, 8, 8]", "FLOAT32", "Removable node info", "Integer tensors"):
        assert part in text
    assert ptqlab.info(run.artifacts["hbm"]).model.segments == run.record.segments


def test_json_and_name_in_the_shell(run, capsys):
    """--json holds everything; -n takes the one model there is and refuses others."""
    path = str(run.artifacts["hbm"])
    assert main(["info", path, "--json", "-n", "digits"]) == 0
    held = json.loads(capsys.readouterr().out)
    assert held["kind"] == "hbm" and held["encodings"]["image"]["type"] == "int8"
    assert main(["info", path, "-n", "other"]) == 1
    assert "digits, the one model" in capsys.readouterr().err


@pytest.mark.parametrize("about", [{}, {"settings": [1], "versions": 3}, {"settings": {"model_parameters": 7}},
                                   {"settings": {"input_parameters": {"input_name": 5}}, "march": ["x"]}])
def test_whatever_a_file_says_of_its_configuration(run, tmp_path, about):
    """Metadata of other forms than ours: shown as far as they go, no traceback."""
    path = tmp_path / "odd.bc"
    write_quantized(read_quantized(run.artifacts["quantized"]).quantized, path, "bc", about)
    found = ptqlab.info(path, encodings=True)
    assert "image" in str(found) and found.to_dict()["kind"] == "bc"
    assert ptqlab.Runtime(path).run(None, {"image": digits.heldout()[0][:1]})[0].shape == (1, 10)


@pytest.mark.parametrize("content", [b"", b"not a model", b"\x00" * 64])
def test_damaged_files_are_refused(tmp_path, content):
    """Whatever stands in the file: one refusal that names it."""
    for suffix in (".onnx", ".bc", ".hbm", ".txt"):
        path = tmp_path / f"bad{suffix}"
        path.write_bytes(content)
        with pytest.raises(PtqError, match="bad"):
            ptqlab.info(path)


def test_scales_of_a_bare_interface(tmp_path, capsys):
    """Ends removed: scale and zero point stand beside input and output, in the table and, per channel, in JSON."""
    from image_nets import compiled

    hbm = str(compiled(tmp_path / "out", remove_node_type="Quantize;Dequantize").artifacts["hbm"])
    text = str(ptqlab.info(hbm, encodings=True))
    assert "| x_quantized | input  | [1, 3, 32, 48] | INT8      | 0.0078125 " in text
    assert "(5 channels)" in text
    assert "x = (q - zero point) * scale;  q = clamp(round(x / scale + zero point))" in text
    assert main(["info", hbm, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["interface"]
    assert told == {**ptqlab.Runtime(hbm).input_info, **ptqlab.Runtime(hbm).output_info}
    assert "SCALE" not in str(ptqlab.info(compiled(tmp_path / "whole").artifacts["hbm"]))
