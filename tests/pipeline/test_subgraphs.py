"""Which nodes a subgraph_config entry means."""

from pathlib import Path

import numpy as np
import pytest
from models import init, model, node, random, value

import ptqlab
from ptqlab.config import QuantConfig
from ptqlab.graph import FloatGraph, load, save
from ptqlab.pipeline.subgraphs import memberships


@pytest.fixture
def graph() -> FloatGraph:
    """x -> a -> b -> c -> y, and a side branch a -> d -> y2."""
    weights = [init(f"w{n}", random(3, 3, 1, 1)) for n in "abcd"]
    nodes = [
        node("Conv", ["x", "wa"], ["ta"], "a"),
        node("Conv", ["ta", "wb"], ["tb"], "b"),
        node("Conv", ["tb", "wc"], ["y"], "c"),
        node("Conv", ["ta", "wd"], ["y2"], "d"),
    ]
    shape = [1, 3, 4, 4]
    return load(model(nodes, [value("x", shape)], [value("y", shape), value("y2", shape)], weights))


def held(graph: FloatGraph, **entry: object) -> set[str]:
    quant = QuantConfig.parse({"subgraph_config": {"part": {"qtype": "int16", **entry}}})
    return {name for name, keys in memberships(graph, quant).items() if "part" in keys}


@pytest.mark.parametrize(
    ("inputs", "outputs", "expected"),
    [
        (["a"], ["c"], {"a", "b", "c"}),  # the side branch leads to no output of the part
        (["b"], ["b"], {"b"}),
        (["ta"], ["y"], {"b", "c"}),  # tensors: the readers of one, the producer of the other
    ],
)
def test_the_nodes_between_inputs_and_outputs(
    graph: FloatGraph, inputs: list[str], outputs: list[str], expected: set[str]
) -> None:
    """A part holds the nodes on a way from its inputs to its outputs, ends included."""
    assert held(graph, inputs=inputs, outputs=outputs) == expected


def test_a_part_in_int16_changes_exactly_its_nodes(graph: FloatGraph, tmp_path: Path) -> None:
    """In a compiled run the nodes of the part are granted int16 and all others stay int8."""
    save(graph.model, tmp_path / "net.onnx")
    run = ptqlab.compile(
        model=tmp_path / "net.onnx",
        march="nash-e",
        working_dir=tmp_path,
        progress=False,
        calibration_data={"x": [np.ones((1, 3, 4, 4), np.float32) * k for k in (1, -1)]},
        quant_config={"subgraph_config": {"part": {"inputs": ["b"], "outputs": ["c"], "qtype": "int16"}}},
    )
    granted = dict(zip(run.nodes["Node"], run.nodes["Granted"], strict=True))
    assert granted == {"a": "int8", "b": "int16", "c": "int16", "d": "int8"}
