"""ptqlab.compile and ptqlab.load."""
import _thread
import threading

import pytest
from fake_pipeline import install

import ptqlab
from ptqlab.errors import Interrupted, Problem, PtqError
from ptqlab.events import Watch
from ptqlab.result.progress import Lines


@pytest.fixture
def fake(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    return install(monkeypatch, tmp_path / "out")


def test_three_forms(fake):
    """A YAML path, a mapping, keywords: each reaches the configuration as it is, unset keywords are left out."""
    ptqlab.compile("config.yaml")
    assert (fake.source, fake.keywords) == ("config.yaml", {})
    ptqlab.compile({"model_parameters": {}}, march="nash-m")
    assert (fake.source, fake.keywords) == ({"model_parameters": {}}, {"march": "nash-m"})
    ptqlab.compile(model="net.onnx", march="nash-e", calibration_data={"input": []}, quant_config={}, working_dir="w",
                   input_shape={"input": (1, 3, 8, 8)}, prefix="net", optimize_level="O1")
    assert fake.source is None
    assert fake.keywords == {"model": "net.onnx", "march": "nash-e", "calibration_data": {"input": []},
                             "quant_config": {}, "working_dir": "w",
                             "input_shape": {"input": (1, 3, 8, 8)}, "prefix": "net",
                             "optimize_level": "O1"}


def test_the_result_and_what_it_leaves(fake, tmp_path):
    """Artifacts, record and log are in the working directory; the log tells tables and findings."""
    run = ptqlab.compile("config.yaml")
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == [
        "digits_node_info.csv", "digits_quantized_model.bc", "digits_record.json", "hb_compile.log"]
    log = (tmp_path / "out" / "hb_compile.log").read_text()
    assert "The main quantized node information:\n+---" in log
    assert "The quantized model output:" in log
    assert "NOTE: PTQ299 a note of the configuration" in log
    assert "Start to calibrate the onnx model." in log
    assert ptqlab.load(tmp_path / "out").record.to_json() == run.record.to_json()


def test_skip(fake):
    """skip reaches the pipeline, and its result says partial."""
    run = ptqlab.compile("config.yaml", skip="compile")
    assert (fake.skip, run.complete) == ("compile", False)
    assert "Partial result: the run ended after stage 'quantize'." in str(run)


def test_a_refusal_of_the_pipeline_keeps_earlier_artifacts(fake, tmp_path):
    """PtqError comes through as it is, is logged, and the good files stay."""
    ptqlab.compile("config.yaml")
    before = (tmp_path / "out" / "digits_quantized_model.bc").stat().st_mtime_ns
    fake.refuse = PtqError(Problem("PTQ101", "net.onnx", "no ONNX"), "model")
    with pytest.raises(PtqError) as caught:
        ptqlab.compile("config.yaml")
    assert caught.value is fake.refuse
    assert (tmp_path / "out" / "digits_quantized_model.bc").stat().st_mtime_ns == before
    assert "PTQ101" in (tmp_path / "out" / "hb_compile.log").read_text()


def test_a_stop_keeps_earlier_artifacts(fake, tmp_path):
    """The stop button ends the run at its next step; files and folders are as before."""
    ptqlab.compile("config.yaml")
    names = sorted(p.name for p in (tmp_path / "out").iterdir())
    fake.steps, fake.pause, fake.started = 1000, 0.01, threading.Event()
    threading.Thread(target=lambda: (fake.started.wait(), _thread.interrupt_main()), daemon=True).start()
    with pytest.raises(Interrupted, match="stopped in stage 'calibrate' after"):
        ptqlab.compile("config.yaml")
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == names
    assert "Interrupted: stopped in stage" in (tmp_path / "out" / "hb_compile.log").read_text()


def test_the_callers_watch_hears_the_run_and_is_given_back(fake):
    """A caller's listener hears every event; afterwards the watch has only that listener."""
    heard = []
    listener = heard.append
    watch = Watch(listener)
    ptqlab.compile("config.yaml", watch=watch, progress=False)
    assert {e.stage for e in heard if e.kind == "end"} == {"prepare", "calibrate"}
    assert watch.listeners == [listener]


def test_a_watch_that_is_stopped_already_ends_at_once(fake):
    """stop() before the start is heard at the first stage."""
    watch = Watch()
    watch.stop()
    with pytest.raises(Interrupted, match="stopped in stage 'prepare' after 0"):
        ptqlab.compile("config.yaml", watch=watch)


def test_progress_can_be_given(fake, capsys):
    """A Progress of the caller's choice, or True for lines also where nobody watches."""
    ptqlab.compile("config.yaml", progress=Lines())
    assert "calibrate: done in" in capsys.readouterr().err
    ptqlab.compile("config.yaml")
    assert capsys.readouterr().err == ""
    ptqlab.compile("config.yaml", progress=True)
    assert "calibrate: done in" in capsys.readouterr().err
