"""The whole way on the built-in digits network: what a user types, with the real pipeline."""
import _thread
import csv
import json
import threading
import time

import numpy as np
import pytest

import ptqlab
from ptqlab.cli.main import main
from ptqlab.errors import Interrupted, PtqError
from ptqlab.events import Watch
from ptqlab.examples import digits

MAX = {"model_config": {"activation": {"calibration_type": "max"}}}


@pytest.fixture
def config(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return digits.write_config(tmp_path / "example")


def test_three_forms_give_the_same_numbers(config):
    """YAML, mapping and keywords with the same content: the same tables."""
    import yaml

    by_file = ptqlab.compile(config, working_dir="a")
    mapping = yaml.safe_load(config.read_text())
    mapping["model_parameters"]["onnx_model"] = str(config.parent / "digits.onnx")
    mapping["calibration_parameters"]["cal_data_dir"] = str(config.parent / "calibration")
    by_mapping = ptqlab.compile(mapping, working_dir="b")
    samples = [image[None] for image in digits.calibration_samples()]
    by_keywords = ptqlab.compile(model=digits.model_path(), march="nash-e", calibration_data={"image": samples},
                                 quant_config=MAX, working_dir="c", prefix="digits")
    assert by_file.record.nodes == by_mapping.record.nodes == by_keywords.record.nodes
    assert by_file.record.outputs == by_mapping.record.outputs == by_keywords.record.outputs
    assert by_file.outputs["Quantized Cosine"].min() > 0.999


def test_artifacts_agree_with_the_result(config):
    """The csv holds the frame's rows, the record loads to the same result, the log its tables, the .bc runs."""
    run = ptqlab.compile(config, working_dir="out")
    with run.artifacts["node_info"].open(newline="", encoding="utf-8") as handle:
        rows = list(csv.DictReader(handle))
    assert [row["Node"] for row in rows] == list(run.nodes["Node"])
    assert [row["Reason"] for row in rows] == list(run.nodes["Reason"])
    assert ptqlab.load("out").record.to_json() == run.record.to_json()
    assert "| /stem/conv/Conv" in run.artifacts["log"].read_text()
    assert {"original_float", "optimized_float", "calibrated", "ptq", "quantized", "hbm", "node_info", "record",
            "log"} <= set(run.artifacts)
    image = digits.heldout()[0][:1]
    (scores,) = ptqlab.Runtime(run.artifacts["quantized"]).run(None, {"image": image})
    (exact,) = ptqlab.Runtime(run.artifacts["original_float"]).run(None, {"image": image})
    assert np.abs(scores - exact).max() < 0.1


def test_one_node_in_16_bits(config):
    """A keyword quant_config changes that node, and explain says by which entry."""
    run = ptqlab.compile(config, working_dir="out",
                         quant_config=MAX | {"node_config": {"/head/conv/Conv": {"qtype": "int16"}}})
    story = run.explain("/head/conv/Conv")
    assert story.granted == "int16"
    assert "node_config[/head/conv/Conv]" in story.origin
    assert json.loads(json.dumps(run.quant_config))["node_config"]["/head/conv/Conv"]["qtype"] == "int16"


def test_a_stop_leaves_the_earlier_artifacts(config, tmp_path):
    """Stopped in the middle of calibration: every file but the log is bit for bit the one of the run before."""
    ptqlab.compile(config, working_dir="out")
    before = {p.name: p.read_bytes() for p in (tmp_path / "out").iterdir() if p.suffix != ".log"}
    started = threading.Event()
    watch = Watch(lambda event: started.set() if event.kind == "step" and event.stage == "calibrate" else None)
    threading.Thread(target=lambda: (started.wait(60), _thread.interrupt_main()), daemon=True).start()
    samples = [np.random.default_rng(0).random((1, 1, 8, 8), dtype=np.float32)] * 4000
    with pytest.raises(Interrupted, match="stopped in stage 'calibrate' after"):
        ptqlab.compile(config, working_dir="out", calibration_data={"image": samples}, watch=watch)
    assert {p.name: p.read_bytes() for p in (tmp_path / "out").iterdir() if p.suffix != ".log"} == before


def test_skip_compile_is_partial_and_has_no_hbm(config):
    """The accuracy loop: integers and cosines are there, the .hbm is not, the result says so."""
    run = ptqlab.compile(config, working_dir="out", skip="compile")
    assert not run.complete
    assert "quantized" in run.artifacts and "hbm" not in run.artifacts
    assert "Partial result" in str(run)
    assert run.outputs["Quantized Cosine"].notna().all()


def test_all_problems_in_one_refusal(config):
    """Wrong keywords of several kinds are told together, before anything is computed."""
    with pytest.raises(PtqError) as caught:
        ptqlab.compile(config, march="nash-z", skip="compil", optimise_level="O2")
    text = str(caught.value)
    assert len(caught.value.problems) >= 3
    assert "nash-z" in text and "compil" in text and "optimize_level" in text


def test_the_command_line(config, capsys, monkeypatch, tmp_path):
    """compile by flags, then explain and cosine on what it left; a missing model is exit code 1."""
    folder = config.parent
    assert main(["compile", "-m", str(folder / "digits.onnx"), "--march", "nash-e", "--calibration-data",
                 str(folder / "calibration"), "--prefix", "net"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("The main quantized node information:") and "net.hbm" in out
    assert main(["explain", "/stem/conv/Conv"]) == 0
    assert "/stem/conv/Conv (Conv)" in capsys.readouterr().out
    assert main(["compile", "-m", "missing.onnx", "--march", "nash-e"]) == 1
    err = capsys.readouterr().err
    assert "missing.onnx" in err and "Traceback" not in err


def test_demo(capsys, tmp_path, monkeypatch):
    """`ptqlab demo` in an empty folder: tables, artifacts, and what to do next, in a few seconds."""
    monkeypatch.chdir(tmp_path)
    started = time.monotonic()
    assert main(["demo"]) == 0
    assert time.monotonic() - started < 30
    assert "make lab" in capsys.readouterr().out
    assert (tmp_path / "demo_output" / "model_output" / "digits.hbm").is_file()
