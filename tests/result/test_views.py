"""The views of a real run: the digits network, compiled once."""
import _thread
import os
import threading
import time

import numpy as np
import pytest
from records import digits_record

import ptqlab
from ptqlab.cli.main import main
from ptqlab.debug import accumulate
from ptqlab.errors import Interrupted, PtqError
from ptqlab.examples import digits
from ptqlab.report import words
from ptqlab.result.compiled import CompileResult

NODE = "/block3/project/conv/Conv"


@pytest.fixture(autouse=True)
def english(monkeypatch):
    monkeypatch.setitem(words._state, "language", "en")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("views")


@pytest.fixture(scope="module")
def run(folder):
    return ptqlab.compile(digits.write_config(folder / "example"), working_dir=folder / "int8")


def test_the_heatmap_is_computed_once(run, monkeypatch):
    """The second figure, another metric and another limit ask for no further sensitivities."""
    figure = run.plot_sensitivity(parts=["node"])
    assert NODE in figure.layout.yaxis.ticktext and list(figure.data[0].x) == ["node int8", "node int16"]
    assert "BPU" in figure.data[0].hovertext[0][0]
    monkeypatch.setattr("ptqlab.result.sensitivity.sensitivity", lambda *a, **k: pytest.fail("computed again"))
    assert len(run.plot_sensitivity("cosine-similarity", limit=3).data[0].z) == 3
    with pytest.raises(PtqError, match="cosine-similarity, sqnr"):
        run.plot_sensitivity("psnr")


def test_sensitivities_show_their_heatmap(run):
    """In a cell the page has the drawing, in a terminal the table; a measure of the user's own is a metric too."""
    found = run.sensitivity(parts=["node"])
    assert "<rect" in found.page().html() and "<svg" not in str(found)

    def first(outputs, sample):
        return float(outputs["probabilities"][0, 0])

    own = run.plot_sensitivity(metrics=first, parts=["node"], types=["int8"], data_num=1)
    assert own.layout.title.text == "Sensitivity per node, first"


def test_distribution_and_channels_of_a_node(run):
    """What the node reads and gives; the ends of the codes of its input are the threshold's."""
    panels = run.panels(NODE)
    assert [p.values.kind for p in panels] == ["activation", "weight", "node"]
    low, high = panels[0].bounds
    threshold = run.nodes.set_index("Node").loc[NODE, "Threshold"]
    assert high == pytest.approx(threshold) and low == pytest.approx(-threshold * 128 / 127)
    assert panels[2].bounds is None
    assert len(run.plot_distribution(NODE).data) == 6
    assert len(run.plot_channels(NODE, limit=4).data[0].x) == 4
    assert len(run.plot_distribution(panels[1].values.name).data) == 2
    with pytest.raises(PtqError, match="nearest names: /block3/project/conv/Conv"):
        run.plot_distribution("/block3/project/conv/Conf")


def test_accumulated_error(run):
    """Three curves over the nodes of the graph; the last value of the whole is that of the calibrated output."""
    curves = run.accumulated(samples=None)
    assert list(curves) == ["everything quantized", "weights only", "activations only"]
    whole = curves["everything quantized"]
    assert list(whole)[-1] == "/softmax/Softmax"
    assert whole["/softmax/Softmax"] == pytest.approx(run.outputs["Calibrated Cosine"][0], abs=1e-4)
    assert len(run.plot_error(samples=None, at=NODE).layout.shapes) == 1


def test_stop_is_heard_between_samples(run, monkeypatch):
    """The stop button ends a figure that is computed at its next sample; the next call computes it."""
    started, measured = threading.Event(), accumulate.agreement

    def slow(a, b):
        started.set()
        time.sleep(0.002)
        return measured(a, b)

    with monkeypatch.context() as patched:
        patched.setattr(accumulate, "agreement", slow)
        threading.Thread(target=lambda: (started.wait(), _thread.interrupt_main()), daemon=True).start()
        with pytest.raises(Interrupted, match="stopped in stage 'accumulated error'"):
            run.plot_error(metric="mre", samples=None)
    assert len(run.plot_error(metric="mre", samples=1).data) == 3


def test_timeline(run):
    """Bars of the estimate; none after the end of the run."""
    bars = [(base, x) for t in run.plot_timeline().data for base, x in zip(t.base, t.x, strict=True)]
    assert bars and max(base + x for base, x in bars) <= run.perf["latency_us"] + 1e-3


def test_tuning_and_its_figure(run):
    """Tuned once with the run's own configuration; the figure shows its steps."""
    tuned = run.tune(target=0.5, progress=False)
    assert tuned.reached and run.tune(target=0.5) is tuned
    assert len(run.plot_pareto().data[1].x) == sum(s.kept for s in tuned.steps)
    assert run.plot_pareto(tuned).layout.yaxis.title.text == "SQNR (dB)"


def test_comparison(run, folder):
    """By result or folder; the frame has every node of both runs."""
    better = ptqlab.compile(folder / "example" / "config.yaml", working_dir=folder / "int16",
                            quant_config={"node_config": {NODE: {"qtype": "int16"}}})
    found = run.compare(folder / "int16")
    assert found.names == ("int8", "int16") and repr(found).startswith("Comparison(int8 against int16: ")
    frame = found.frame.set_index("Node")
    assert list(frame.loc[NODE, ["Granted a", "Granted b"]]) == ["int8", "int16"]
    assert list(frame.index) == [row.node for row in run.record.nodes]
    assert f"quant_config.node_config.{NODE}.qtype" in str(run.compare(better))
    assert len(found.plot().data) == 3


def test_the_report(run, folder):
    """Written whole or not at all; it holds heatmap, causes, speed and comparison, and no path of this machine."""
    path = run.report(folder / "run.html", other=run)
    text = path.read_text(encoding="utf-8")
    assert [key for key in ("compared_with", "sensitivity", "causes", "speed") if f"<h2 id='{key}'>" not in text] == []
    assert path.stat().st_size < 1_000_000 and str(folder) not in text
    with pytest.raises(PtqError, match="PTQ604"):
        run.report(folder / "run.html" / "inside.html", sensitivity=False)
    assert [p.name for p in folder.iterdir() if p.name.startswith(".")] == []


def test_a_report_without_the_model(tmp_path):
    """A record alone is enough: what would have to be computed is left out."""
    text = CompileResult(digits_record(), tmp_path).report(tmp_path / "r.html").read_text(encoding="utf-8")
    assert "<h2 id='result'>" in text and "<h2 id='sensitivity'>" not in text


@pytest.mark.parametrize("named", [True, False])
def test_arrays_are_remembered(folder, named):
    """A run of arrays can be looked at as one of folders, as long as the session lasts; a loaded one asks for data."""
    arrays = [image[None] for image in digits.calibration_samples()[:8]]
    made = ptqlab.compile(model=digits.model_path(), march="nash-e", prefix="a", working_dir=folder / f"arrays{named}",
                          calibration_data={"image": arrays} if named else arrays)
    assert len(made.plot_distribution(NODE).data) == 6
    assert made.tune(target=0.5, progress=False).reached
    loaded = ptqlab.load(made.directory)
    with pytest.raises(PtqError, match="PTQ553"):
        loaded.plot_distribution(NODE)
    assert len(loaded.plot_distribution(NODE, data={"image": arrays}).data) == 6


def test_the_verbs(run, folder, monkeypatch, capsys):
    """The shell writes report and comparison, and the doctor speaks of a run and of data."""
    monkeypatch.chdir(folder)
    assert main(["report", "--run", "int8", "-o", "shell.html", "--with", "int8"]) == 0
    assert capsys.readouterr().out == "The report: shell.html\n" and os.path.getsize("shell.html") > 10_000
    assert main(["compare", "int8", "--run", "int8", "-o", "c.html"]) == 0
    assert "Nodes that changed: 0" in capsys.readouterr().out and os.path.getsize("c.html") > 1_000_000
    assert main(["doctor", "--run", "int8"]) == 0
    assert "What is left of each output" in capsys.readouterr().out
    assert main(["doctor", "-c", "example/config.yaml"]) == 0
    assert "Doctor: digits.onnx\n\nCalibration data:\n  None." in capsys.readouterr().out
    assert main(["doctor", "-c", "example/config.yaml", "--run", "int8"]) == 2


def test_the_doctor_on_bad_data(folder):
    """Black pictures and repeated ones are findings; NaN is a problem; nothing has to be compiled."""
    model, black = folder / "example" / "digits.onnx", np.zeros((1, 1, 8, 8), np.float32)
    given = {"model": str(model), "march": "nash-e", "progress": False}
    found = ptqlab.doctor(None, data={"image": [black] * 30}, **given)
    assert not found.healthy and [f.code for f in found.data] == ["PTQ362"]
    broken = black.copy()
    broken[0, 0, 0, 0] = np.nan
    found = ptqlab.doctor(None, data={"image": [black, broken]}, **given)
    assert [p.code for p in found.problems] and "nan" in str(found).lower()
    with pytest.raises(PtqError, match="PTQ553"):
        ptqlab.doctor(None, **given)
