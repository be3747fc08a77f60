"""The recipe log-spectrum: what stays in float around a logarithm, and what a network gains by it."""
from __future__ import annotations

from pathlib import Path

from core_models import EDGES, net
from models import node
from small import all_engines_agree, compiled

from ptqlab.graph import load
from ptqlab.passes import optimize
from ptqlab.pipeline.log_spectrum import around_logarithms


def test_what_stays_in_float() -> None:
    """From the filter bank, which feeds them, to the next convolution; movers are not named."""
    graph = optimize(load(EDGES["log_spectrum"]()[0]))
    floats, feeding = around_logarithms(graph)
    assert [n.name for n in floats] == ["square", "power", "lift", "log", "lowest", "above"]
    assert [n.name for n in feeding] == ["bank"]


def test_a_network_without_logarithms() -> None:
    """Nothing to keep, nothing to feed."""
    graph = optimize(load(net([node("Relu", ["x"], "y", "r")], ["y"], [])[0]))
    assert around_logarithms(graph) == ([], [])


def test_what_it_gains(tmp_path: Path) -> None:
    """The finding names the logarithm and the recipe; with the recipe the finding is gone and the noise a tenth."""
    model, feeds = EDGES["log_spectrum"]()
    plain = compiled(model, feeds, tmp_path / "plain", samples=1)
    better = compiled(model, feeds, tmp_path / "better", samples=1, recipe="log-spectrum")
    [told] = [f for f in plain.record.findings if f.code == "PTQ516"]
    assert told.nodes == ("log",) and "recipe log-spectrum" in told.hint
    assert not [f for f in better.record.findings if f.code == "PTQ516"]
    assert {r.node: r.on for r in better.record.nodes}["log"] == "CPU"
    assert {r.node: r.granted for r in better.record.nodes}["bank"] == "dual-int16"
    before, after = (run.record.outputs[0].sqnr for run in (plain, better))
    assert after > before + 10
    all_engines_agree(better, feeds)


def test_the_vector_unit_where_there_is_one(tmp_path: Path) -> None:
    """nash-p computes the logarithm in float32 on the BPU."""
    model, feeds = EDGES["log_spectrum"]()
    run = compiled(model, feeds, tmp_path, samples=1, march="nash-p", recipe="log-spectrum")
    found = {r.node: (r.on, r.granted) for r in run.record.nodes}
    assert found["log"] == ("BPU", "float32")
