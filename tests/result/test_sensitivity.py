"""Sensitivity per node, part and type; two runs side by side."""
from __future__ import annotations

import pytest
from debug_nets import network

import ptqlab
from ptqlab import debug
from ptqlab.errors import PtqError
from ptqlab.events import Watch
from ptqlab.examples import digits


def test_public_names():
    """The functions are found under ptqlab.debug without importing it first."""
    assert ptqlab.debug is debug and ptqlab.sensitivity is debug.sensitivity
    assert all(callable(getattr(ptqlab.debug, name)) for name in debug.__all__)
    with pytest.raises(AttributeError, match=r"ptqlab\.debug has no 'plot'; it has compare_runs"):
        _ = debug.plot


def test_frame_and_heatmap():
    """Every node with every part and type; int16 activations hurt far less than int8 ones."""
    apart, samples = network({"activation": {"calibration_type": "max"}})  # it clips nothing, in either type
    found = debug.sensitivity(apart, samples, metrics=["mse", "sqnr"], progress=False)
    frame = found.frame
    assert list(frame.columns) == ["Node", "NodeType", "Part", "Type", "Granted", "mse", "sqnr", "Samples"]
    assert set(frame["Node"]) == set(apart.nodes) and set(frame["Samples"]) == {4}
    table = frame.set_index(["Node", "Part", "Type"])["mse"]
    for node in ("conv0", "conv1", "fc"):
        assert table[node, "activation", "int16"] < table[node, "activation", "int8"] / 100
        assert table[node, "weight", "int16"] < table[node, "weight", "int8"] / 100
    figure = found.heatmap("sqnr")
    assert len(figure.data[0].y) == len(apart.nodes) and list(figure.data[0].x) == [
        "node int8", "node int16", "weight int8", "weight int16", "activation int8", "activation int16"]
    assert "Sensitivity of" in str(found)
    halves = debug.sensitivity(apart, samples, march="nash-p", parts=["node"], progress=False).frame
    assert set(halves["Type"]) == {"int8", "int16", "float16"} and len(halves) == 3 * len(apart.nodes)
    with pytest.raises(PtqError, match="mse, sqnr"):
        found.heatmap("chebyshev")


def test_quick_is_one_sample_and_says_so():
    """The label is in the page."""
    apart, samples = network()
    found = debug.sensitivity(apart, samples, quick=True, types=["int8"], parts=["node"], progress=False)
    assert set(found.frame["Samples"]) == {1} and "quick: one sample" in str(found)


def test_a_stop_keeps_what_is_done():
    """Stopped after seven: seven rows, and the page says so."""
    apart, samples = network()
    watch = Watch()
    watch.listeners.append(lambda e: watch.stop() if e.kind == "step" and e.done == 7 else None)
    found = debug.sensitivity(apart, samples, watch=watch, progress=False)
    assert not found.complete and len(found.frame) == 7 and "stopped" in str(found)


def test_types_and_parts_are_checked():
    """Both wrong words are told at once."""
    apart, samples = network()
    with pytest.raises(PtqError) as error:
        debug.sensitivity(apart, samples, types=["int4"], parts=["bias"], progress=False)
    assert len(error.value.problems) == 2


def test_a_run_knows_its_data_and_two_runs_are_compared(tmp_path, monkeypatch):
    """A compile result brings its folders along; the frame holds both runs and the change."""
    monkeypatch.chdir(tmp_path)
    config = digits.write_config(tmp_path / "example")
    a = ptqlab.compile(config, working_dir="a", progress=False)
    found = debug.get_sensitivity_of_nodes(a)
    assert set(found) <= set(a.nodes["Node"]) and len(found) >= 5
    wide = {"model_config": {"all_node_type": "int16"}}
    b = ptqlab.compile(config, working_dir="b", quant_config=wide, progress=False)
    frame = debug.compare_runs(a, b)
    assert list(frame["Node"])[: len(a.nodes)] == list(a.nodes["Node"])
    assert (frame["Granted a"] != frame["Granted b"]).any()
    wanted = frame["Quantized Cosine b"] - frame["Quantized Cosine a"]
    assert frame["Change"].equals(wanted) or (frame["Change"] - wanted).abs().max() == 0
