"""search.layer: the nodes whose inputs hurt the outputs most become int16."""
from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from calibration_nets import mobile, recipe
from models import MODELS

import ptqlab
from ptqlab.config.quant import QuantConfig
from ptqlab.events import Watch
from ptqlab.pipeline.layer_search import raised
from ptqlab.quantize.calibrate import calibrate
from ptqlab.quantize.effects import slot_effects
from ptqlab.quantize.encode import encode_slots


def quant(topk: int, metric: str = "sqnr", **levels: Any) -> QuantConfig:
    block = {"search": {"layer": {"topk": topk, "qtype": "int16", "metric": metric}}}
    return QuantConfig.parse({"model_config": block, **levels})


@pytest.mark.parametrize("metric", ["sqnr", "mse"])
def test_the_worst_are_raised(metric: str) -> None:
    """The readers of the tensors with the worst effect, worst first, up to topk nodes; the ranking is told."""
    graph, plan, samples = mobile(3)
    found = calibrate(graph, plan, samples, 3, Watch(), recipe(graph, plan))
    effects = slot_effects(graph, plan, encode_slots(plan, found), samples, 3, Watch())
    worst = sorted(effects, key=lambda slot: effects[slot][0].sqnr)
    first = [str(n.name) for n in graph.consumers(worst[0])]
    result, answer = raised(quant(len(first), metric), graph, plan, found, samples, Watch())
    assert set(result.nodes) == set(first) == set(answer["nodes"])
    assert {e.qtype.value for e in result.nodes.values() if e.qtype} == {"int16"}
    assert list(answer["ranking"]) == worst
    assert result.layer_search is None


def test_nodes_with_an_entry_keep_it() -> None:
    """A node the user gave a type is passed over; its other settings stay with a raised one."""
    graph, plan, samples = mobile(3)
    found = calibrate(graph, plan, samples, 3, Watch(), recipe(graph, plan))
    own = {"conv1": {"qtype": "int8"}, "conv2": {"activation": {"calibration_type": "max"}}}
    result, answer = raised(quant(99, node_config=own), graph, plan, found, samples, Watch())
    assert "conv1" not in answer["nodes"]
    assert result.nodes["conv1"].qtype is not None and result.nodes["conv1"].qtype.value == "int8"
    assert result.nodes["conv2"].qtype is not None and result.nodes["conv2"].qtype.value == "int16"
    assert result.nodes["conv2"].activation["calibration_type"].value == ("max",)


def test_in_a_compile(tmp_path: Path) -> None:
    """The outputs come nearer, the nodes are int16, and the record holds ranking and quant_config."""
    model, feeds = MODELS["mobile_block"]()
    onnx.save(model, tmp_path / "net.onnx")
    data = {name: [np.float32(0.1) * x, np.float32(0.05) * x] for name, x in feeds.items()}
    given = {"model": str(tmp_path / "net.onnx"), "march": "nash-e", "calibration_data": data, "progress": False,
             "output_nodes": "fc"}
    plain = ptqlab.compile(**given, working_dir=tmp_path / "a")
    run = ptqlab.compile(**given, working_dir=tmp_path / "b", quant_config=quant(3).to_dict())
    answer = run.record.calibration["layer_search"]
    assert len(answer["nodes"]) == 3
    table = run.nodes.set_index("Node")
    assert set(table.loc[answer["nodes"], "Granted"]) == {"int16"}
    assert run.outputs["SQNR"][0] > plain.outputs["SQNR"][0]
    assert set(run.record.quant_config["node_config"]) == set(answer["nodes"])
