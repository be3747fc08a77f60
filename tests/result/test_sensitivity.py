"""Sensitivity per node, part and type; two runs side by side."""
from __future__ import annotations

import json
import pickle
from concurrent.futures import Executor, ThreadPoolExecutor
from itertools import pairwise

import pytest
from debug_nets import network

import ptqlab
from ptqlab import debug
from ptqlab.arith.metrics import METRICS
from ptqlab.debug.cuts import Effects, agreement
from ptqlab.debug.network import partial_model
from ptqlab.debug.ranking import LEAST_GROUPS, choices_of, halving, score
from ptqlab.debug.source import open_source
from ptqlab.errors import PtqError
from ptqlab.events import Watch
from ptqlab.examples import digits
from ptqlab.graph import session
from ptqlab.workers import MemoryStore


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


def test_quick_leaves_out_who_hurts_little():
    """The worse half goes on to more samples; its figures are those of the full look, and it says what it is."""
    apart, samples = network({"activation": {"calibration_type": "max"}})
    asked = {"types": ["int8"], "progress": False}
    full = debug.sensitivity(apart, samples, **asked).frame.set_index(["Node", "Part"])
    found = debug.sensitivity(apart, samples, quick=True, **asked)
    frame = found.frame.set_index(["Node", "Part"])
    assert set(frame["Samples"]) == {1, 4} and "quick: fewer samples" in str(found) and set(frame.index) == set(
        full.index)
    whole = frame[frame["Samples"] == 4]
    assert len({n for n, _ in whole.index}) == LEAST_GROUPS < len(apart.nodes)
    assert whole["sqnr"].to_dict() == full.loc[whole.index]["sqnr"].to_dict()
    assert [list(r) for r in halving(10)] == [[0], [1], [2, 3], [4, 5, 6, 7], [8, 9]]


def forget(monkeypatch):
    """What this session remembers."""
    monkeypatch.setattr("ptqlab.workers.stores._session", MemoryStore())


def test_results_are_found_again(tmp_path, monkeypatch):
    """What a stopped run left in the folder is taken over; the whole equals one that was never stopped."""
    apart, samples = network({"activation": {"calibration_type": "max"}})
    asked = {"types": ["int8"], "metrics": ["mse"], "progress": False, "cache": tmp_path, "data_num": 2}
    watch = Watch()
    watch.listeners.append(lambda e: watch.stop() if e.kind == "step" and e.done == 5 else None)
    forget(monkeypatch)
    assert not debug.sensitivity(apart, samples, watch=watch, **asked).complete
    [file] = tmp_path.iterdir()
    kept = len(json.loads(file.read_text()))
    assert kept >= 4
    forget(monkeypatch)
    again = debug.sensitivity(network({"activation": {"calibration_type": "max"}})[0], samples, **asked)
    assert len(json.loads(file.read_text())) > kept and again.complete
    forget(monkeypatch)
    fresh = debug.sensitivity(apart, samples, **{**asked, "cache": None})
    assert fresh.frame.equals(again.frame)
    file.write_text("[1")
    assert debug.sensitivity(apart, samples, **asked).frame.equals(fresh.frame)


class AwayOnly(Executor):
    """Threads to which everything is pickled, as to other processes."""

    def __init__(self):
        self.pool, self._max_workers = ThreadPoolExecutor(2), 2

    def submit(self, work, /, *items):
        return self.pool.submit(pickle.loads(pickle.dumps(work)), *pickle.loads(pickle.dumps(items)))


def test_whoever_does_the_work_the_figures_are_the_same():
    """Here and now, two threads, and workers to which everything travels."""
    apart, samples = network()
    choices = choices_of(apart, "activation")
    tables = []
    for pool in (None, ThreadPoolExecutor(2), AwayOnly()):
        found = score(Effects(apart), choices, samples, [METRICS["mse"], METRICS["sqnr"]], Watch(), executor=pool)
        tables.append(found.values)
    assert tables[0] == tables[1] == tables[2] and list(tables[0]) == list(choices)


def test_the_user_measures():
    """Accuracy on labelled data ranks, beside the metrics that are built in; two of one name are refused."""
    apart, samples = network()
    output = str(apart.graph.outputs[0].name)
    labels = [int(session(apart.graph.model).run(None, s)[0].argmax()) for s in samples]

    def accuracy(outputs, number):
        return float(outputs[output].argmax() == labels[number])

    found = debug.sensitivity(apart, samples, metrics=[accuracy, "mse"], types=["int8"], progress=False)
    assert list(found.frame.columns)[5:7] == ["accuracy", "mse"] and found.frame["accuracy"].is_monotonic_increasing
    one = debug.get_sensitivity_of_nodes(apart, samples, accuracy)
    assert all(row == {"accuracy": "1.0"} or row == {"accuracy": "0.0"} for row in one.values())
    with pytest.raises(PtqError, match="two metrics named 'accuracy'"):
        debug.sensitivity(apart, samples, metrics=[accuracy, accuracy])
    pool = AwayOnly()
    with pytest.raises(PtqError, match="a function of a module"):
        debug.sensitivity(apart, samples, metrics=[accuracy], executor=pool, progress=False)


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
    """A compile result brings its folders along, and its sensitivities equal one whole run per node, in value and in
    order; the frame of a comparison holds both runs and the change."""
    monkeypatch.chdir(tmp_path)
    config = digits.write_config(tmp_path / "example")
    a = ptqlab.compile(config, working_dir="a", progress=False)
    found = debug.get_sensitivity_of_nodes(a)
    assert set(found) <= set(a.nodes["Node"]) and len(found) >= 5
    apart, samples = open_source(a)
    truth = session(apart.graph.model).run(None, samples[0])[0]
    wanted = {}
    for name in apart.nodes:
        whole = session(partial_model(apart, {q: apart.quantizers[q] for q in apart.of_node(name)}))
        wanted[name] = agreement(truth, whole.run(None, samples[0])[0]).cosine
    assert {n: float(row["cosine-similarity"]) for n, row in found.items()} == pytest.approx(wanted, abs=1e-5)
    ordered = [wanted[n] for n in found]
    assert all(b - a > -1e-7 for a, b in pairwise(ordered))
    wide = {"model_config": {"all_node_type": "int16"}}
    b = ptqlab.compile(config, working_dir="b", quant_config=wide, progress=False)
    frame = debug.compare_runs(a, b)
    assert list(frame["Node"])[: len(a.nodes)] == list(a.nodes["Node"])
    assert (frame["Granted a"] != frame["Granted b"]).any()
    wanted = frame["Quantized Cosine b"] - frame["Quantized Cosine a"]
    assert frame["Change"].equals(wanted) or (frame["Change"] - wanted).abs().max() == 0
