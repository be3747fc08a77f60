"""get_sensitivity_of_nodes: form, order, choices, files, refusals."""
from __future__ import annotations

import math

import pytest
from debug_nets import network, written

from ptqlab import debug
from ptqlab.arith.metrics import METRICS, Agreement
from ptqlab.debug.cuts import Effects
from ptqlab.debug.ranking import Scores, choices_of, score
from ptqlab.errors import Interrupted, PtqError
from ptqlab.events import Watch


def test_from_files_with_several_metrics(tmp_path, capsys):
    """{node: {metric: text}} in order of the first metric; the table goes to the terminal and into the file."""
    model, data = written(tmp_path)
    found = debug.get_sensitivity_of_nodes(model, data, ["cosine-similarity", "mse"], verbose=True, save_dir=tmp_path)
    assert list(next(iter(found.values()))) == ["cosine-similarity", "mse"]
    assert all(isinstance(v, str) for row in found.values() for v in row.values())
    cosines = [float(row["cosine-similarity"]) for row in found.values()]
    assert cosines == sorted(cosines) and set(found) >= {"conv0", "conv1", "conv2", "add", "fc"}
    by_mse = debug.get_sensitivity_of_nodes(model, data, "mse")
    errors = [float(row["mse"]) for row in by_mse.values()]
    assert errors == sorted(errors, reverse=True)
    lines = (tmp_path / "node_sensitivity.log").read_text().splitlines()
    assert capsys.readouterr().out.splitlines() == lines
    assert lines[0].strip("=") == "node sensitivity" and lines[1].split() == ["node", "cosine-similarity", "mse"]
    assert lines[3].split()[0] == next(iter(found))


def test_activations_show_threshold_and_bits(tmp_path):
    """node_type activation ranks quantizers, with two columns more."""
    model, data = written(tmp_path)
    found = debug.get_sensitivity_of_nodes(model, data, node_type="activation", save_dir=tmp_path)
    assert all(name.endswith("_HzCalibration") for name in found)
    text = (tmp_path / "activation_sensitivity.log").read_text().splitlines()
    assert text[1].split() == ["node", "cosine-similarity", "threshold", "bit"] and text[3].split()[-1] == "8"


def test_nodes_of_interest_are_single_or_together():
    """A flat list is one choice each, a list inside is one choice; text works as on the command line."""
    apart, _ = network()
    assert list(choices_of(apart, "weight", "['conv0', fc]")) == ["conv0", "fc"]
    together = choices_of(apart, "node", "[[conv0,conv1],[fc]]")
    assert list(together) == ["conv0,conv1", "fc"]
    assert set(together["conv0,conv1"]) == {*apart.of_node("conv0"), *apart.of_node("conv1")}


def test_refusals_name_what_is_wrong(tmp_path):
    """Unknown metrics, types, nodes and numbers of samples, and a float node of interest."""
    model, data = written(tmp_path)
    cases = [
        ({"metrics": "cosine"}, "did you mean 'cosine-similarity'"), ({"node_type": "nodes"}, "node, weight"),
        ({"interested_nodes": ["conv9"]}, "nearest names: conv"), ({"data_num": 0}, "a whole number from 1"),
        ({"interested_nodes": "[conv0"}, "a bracket that does not close"), ({"output_node": "nowhere"}, "no node"),
    ]
    for keywords, words in cases:
        with pytest.raises(PtqError, match=words):
            debug.get_sensitivity_of_nodes(model, data, **keywords)


def test_a_stop_keeps_what_is_done():
    """Stopped after five choices: those are there; stopped before the first: the stop is raised."""
    apart, samples = network()
    choices = choices_of(apart, "node")
    watch = Watch()
    watch.listeners.append(lambda e: watch.stop() if e.kind == "step" and e.done == 5 else None)
    scores = score(Effects(apart), choices, samples, [METRICS["mse"]], watch)
    assert not scores.complete and list(scores.values) == list(choices)[:5]
    with pytest.raises(Interrupted):
        score(Effects(apart), choices, samples, [METRICS["mse"]], watch)


def test_broken_nodes_come_first():
    """A node that makes NaN is the worst, whichever way the metric points."""
    good, bad = Agreement(), Agreement()
    good.add([1.0, 2.0], [1.0, 2.1], distances=True)
    bad.add([1.0, 2.0], [1.0, math.nan], distances=True)
    for name in ("cosine-similarity", "mse"):
        scores = Scores([METRICS[name]])
        scores.add("good", [good])
        scores.add("bad", [bad])
        assert scores.ranked() == ["bad", "good"]


def test_the_worst_samples_are_found(tmp_path):
    """The sample with the outlier is not among the two that suffer least; each is returned as it was."""
    model, data = written(tmp_path)
    order = debug.select_sensitive_samples(model, data, "sqnr", 4)
    least = debug.select_sensitive_samples(model, data, "sqnr", 1)
    assert len(order) == 4 and len(least) == 1 and (least[0]["x"] == order[0]["x"]).all()
