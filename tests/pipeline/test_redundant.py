"""Entries of a quant_config that change nothing are told."""

import pytest
from models import init, model, node, random, value

from ptqlab.config import QuantConfig
from ptqlab.graph import FloatGraph, load
from ptqlab.pipeline.redundant import redundant_entries
from ptqlab.pipeline.subgraphs import memberships


@pytest.fixture
def graph() -> FloatGraph:
    """Two convolutions and a Relu between them."""
    nodes = [
        node("Conv", ["x", "wa"], ["ta"], "a"),
        node("Relu", ["ta"], ["tr"], "r"),
        node("Conv", ["tr", "wb"], ["y"], "b"),
    ]
    weights = [init("wa", random(3, 3, 1, 1)), init("wb", random(3, 3, 1, 1))]
    return load(model(nodes, [value("x", [1, 3, 4, 4])], [value("y", [1, 3, 4, 4])], weights))


def told(graph: FloatGraph, config: dict[str, object]) -> list[tuple[str, str]]:
    quant = QuantConfig.parse(config)
    return [(f.code, f.message) for f in redundant_entries(graph, quant, memberships(graph, quant))]


def test_an_entry_that_says_what_the_node_has_anyway(graph: FloatGraph) -> None:
    """int8 for a node that is int8 by default is told; the same word against an int16 model is not."""
    config: dict[str, object] = {"node_config": {"a": {"qtype": "int8"}}}
    expected = "node_config.a: int8 has no effect: the node it matches would have that type without it"
    assert told(graph, config) == [("PTQ406", expected)]
    assert told(graph, {"model_config": {"all_node_type": "int16"}} | config) == []


def test_an_op_entry_that_finer_entries_overrule_everywhere(graph: FloatGraph) -> None:
    """Both convolutions are named, so op_config.Conv is left with nothing; with one named it still has the other."""
    both = {"a": {"qtype": "int8"}, "b": {"qtype": "int8"}}
    config: dict[str, object] = {"op_config": {"Conv": {"qtype": "int16"}}, "node_config": both}
    finer = "subgraph_config or node_config overrules it at all 2 nodes it matches"
    expected = f"op_config.Conv: int16 has no effect: {finer}"
    assert told(graph, config) == [("PTQ407", expected)]
    assert told(graph, config | {"node_config": {"a": {"qtype": "int8"}}}) == []


def test_a_part_that_node_entries_overrule(graph: FloatGraph) -> None:
    """The one node of the part is named in node_config."""
    config: dict[str, object] = {
        "subgraph_config": {"part": {"inputs": ["b"], "outputs": ["b"], "qtype": "int16"}},
        "node_config": {"b": {"qtype": "int8"}},
    }
    assert [code for code, _ in told(graph, config)] == ["PTQ407"]


def test_entries_about_something_else_are_not_judged(graph: FloatGraph) -> None:
    """A placement or a calibration method is an effect of its own."""
    config: dict[str, object] = {"node_config": {"a": {"qtype": "int8", "activation": {"calibration_type": "kl"}}}}
    assert told(graph, config) == []
