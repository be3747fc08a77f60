"""Distributions, box plots, tables of tensors, sensitivity analysis, and all of it at once."""
from __future__ import annotations

import csv
import json

import numpy as np
import pytest
from debug_nets import network, written

import ptqlab
from ptqlab import debug
from ptqlab.artifacts.files import safe_name
from ptqlab.debug.cuts import Prepared
from ptqlab.debug.distribution import values_of
from ptqlab.errors import Interrupted, PtqError
from ptqlab.events import Watch
from ptqlab.examples import digits
from ptqlab.workers import MemoryStore

NAMES = ["w0_conv0_HzCalibration", "x_HzCalibration", "conv1"]


def test_values_before_and_after():
    """Weights and activations through their quantizer; a node in the whole calibrated model."""
    apart, samples = network()
    weight, activation, node = values_of(apart, NAMES, samples)
    assert [v.kind for v in (weight, activation, node)] == ["weight", "activation", "node"]
    assert np.array_equal(activation.before, np.concatenate([s["x"] for s in samples]))
    assert np.array_equal(weight.after, apart.quantizers[NAMES[0]](weight.before))
    assert 0 < np.abs(node.after - node.before).max() < 1 and node.threshold is None
    assert weight.channels().shape == (8, 36) and activation.channels().shape[0] == 4


def test_pages_of_distributions(tmp_path):
    """One page per name; a node shows its error too, quantizers their threshold."""
    model, data = written(tmp_path)
    figures = debug.plot_distribution(model, data, str(NAMES).replace('"', ""), tmp_path / "d")
    assert list(figures) == NAMES
    assert [t.name for t in figures["conv1"].data] == ["float", "quantized", "error", "max |x|"]
    assert len(figures["x_HzCalibration"].layout.shapes) == 2
    assert {p.name for p in (tmp_path / "d").iterdir()} == {
        *(f"{n}.{kind}" for n in NAMES for kind in ("html", "svg", "png")), "plotly.min.js"}
    boxes = debug.get_channelwise_data_distribution(model, data, NAMES[:1], save_dir=None)
    assert len(boxes[NAMES[0]].data[0].median) == 8
    with pytest.raises(PtqError, match="axis of"):
        debug.get_channelwise_data_distribution(model, data, NAMES[:1], axis=9, save_dir=None)


def test_names_are_checked(tmp_path):
    """Unknown names and an empty list are refused."""
    model, data = written(tmp_path)
    with pytest.raises(PtqError, match="no node 'conv7'"):
        debug.plot_distribution(model, data, ["conv7"])
    with pytest.raises(PtqError, match="an empty list"):
        debug.tensor_analysis(model, data, "[]")


def test_table_of_tensors(tmp_path):
    """The csv holds what is returned; distinct values fit the bits."""
    model, data = written(tmp_path)
    rows = debug.tensor_analysis(model, data, NAMES, tmp_path, data_num=None)
    assert rows["x_HzCalibration"]["max"] == pytest.approx(12.0) and rows["x_HzCalibration"]["distinct"] <= 256
    assert rows["x_HzCalibration"]["sqnr"] == pytest.approx(rows["x_HzCalibration"]["sqnr-without-mean"], abs=0.5)
    with (tmp_path / "tensor_analysis.csv").open(newline="", encoding="utf-8") as handle:
        read = {row["name"]: row for row in csv.DictReader(handle)}
    assert float(read["conv1"]["cosine-similarity"]) == rows["conv1"]["cosine-similarity"]


def test_raising_all_nodes_gives_the_float_model(tmp_path):
    """Cumulative: float32 for every node ends at the float model; int16 comes near; few are picked."""
    model, data = written(tmp_path)
    nodes = network()[0].nodes
    scores = debug.sensitivity_analysis(model, data, "mse", sensitive_nodes=nodes, save_dir=tmp_path)
    assert list(scores) == nodes and scores[nodes[-1]] == 0.0 < scores[nodes[0]]
    wide = debug.sensitivity_analysis(model, data, "mse", sensitive_nodes=nodes, qtype="int16", output_separated=True)
    assert 0 < wide[nodes[-1]]["y"] < scores[nodes[0]] / 100
    assert debug.sensitivity_analysis(model, data, pick_threshold=0.0) == {}
    assert (tmp_path / "sensitivity_analysis.html").is_file()
    half = debug.sensitivity_analysis(model, data, "mse", sensitive_nodes=nodes, qtype="float16")
    assert 0 < half[nodes[-1]] < scores[nodes[0]] / 100 and half != wide
    with pytest.raises(PtqError, match="float32, int16"):
        debug.sensitivity_analysis(model, data, qtype="int4", sensitive_nodes=nodes)


def test_everything_at_once(tmp_path):
    """runall: the folders and files of hmct-debugger."""
    model, data = written(tmp_path)
    found = debug.runall(model, data, tmp_path / "all", pick_threshold=0.99999)
    folders = {p.name for p in (tmp_path / "all").iterdir()}
    assert folders == {"node_sensitivity", "data_distribution", "channelwise_distribution", "accumulate_error",
                       "sensitivity_analysis"}
    logs = {p.name for p in (tmp_path / "all" / "node_sensitivity").iterdir()}
    assert logs == {"sensitivity_of_weight.log", "sensitivity_of_activation.log"}
    assert set(found["accumulate_error"]) == {"weight", "activation"}
    assert len(found["data_distribution"]) == len(found["channelwise_distribution"]) == 4 + 5
    nodes = debug.runall(model, data, tmp_path / "nodes", node_type=["node"])
    assert "conv0" in nodes["sensitivity_of_node"] and "w0_conv0_HzCalibration" in nodes["data_distribution"]


def test_everything_of_a_saved_run(tmp_path):
    """runall on the files of a saved run and a folder writes the whole tree, drawings beside the pages."""
    config = digits.write_config(tmp_path / "example")
    ptqlab.compile(config, working_dir=tmp_path / "out", skip="compile", progress=False).save(tmp_path / "saved")
    [model] = (tmp_path / "saved").glob("*_calibrated_model.onnx")
    [data] = [p for p in (tmp_path / "example").iterdir() if p.is_dir()]
    found = debug.runall(model, data, tmp_path / "all", data_num=2)
    tree = tmp_path / "all"
    assert {p.stem for p in (tree / "data_distribution").glob("*.svg")} == {
        p.stem for p in (tree / "data_distribution").glob("*.html")} == {safe_name(n) for n in
                                                                       found["data_distribution"]}
    for place in ("accumulate_error/accumulated_error", "sensitivity_analysis/sensitivity_analysis"):
        assert all((tree / f"{place}.{kind}").stat().st_size > 500 for kind in ("html", "svg", "png"))
    assert len((tree / "node_sensitivity" / "sensitivity_of_weight.log").read_text().splitlines()) > 5


def test_runall_goes_on_after_a_stop(tmp_path, monkeypatch):
    """Stopped in the first step, nothing of the later ones is there; called again, it measures the rest."""
    monkeypatch.setattr("ptqlab.workers.stores._session", MemoryStore())
    model, data = written(tmp_path)
    watch, measured = Watch(), []
    watch.listeners.append(lambda e: watch.stop() if e.kind == "step" and e.done == 3 else None)
    with pytest.raises(Interrupted):
        debug.runall(model, data, tmp_path / "all", cache=tmp_path / "kept", watch=watch)
    assert not (tmp_path / "all" / "data_distribution").exists()
    [kept] = (tmp_path / "kept").iterdir()
    done = len(json.loads(kept.read_text()))
    assert done == 3
    monkeypatch.setattr("ptqlab.workers.stores._session", MemoryStore())
    outputs = Prepared.outputs
    monkeypatch.setattr(Prepared, "outputs", lambda self, label, known: measured.append(label) or outputs(
        self, label, known))
    again = debug.runall(model, data, tmp_path / "all", cache=tmp_path / "kept")
    labels = [*again["sensitivity_of_weight"], *again["sensitivity_of_activation"]]
    assert len([m for m in measured if m in labels]) == len(labels) - done
    assert (tmp_path / "all" / "sensitivity_analysis").is_dir()
