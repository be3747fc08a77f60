"""unit_conv in a configuration: what was asked is granted or refused, and told."""
from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest
from core_models import EDGES, net, weights
from models import ints, node, random
from small import all_engines_agree, compiled

import ptqlab
from ptqlab.errors import PtqError


def answers(run: Any) -> list[str]:
    return [f.message for f in run.record.findings if f.code == "PTQ446"]


def test_granted_where_a_threshold_is_what_lacks(tmp_path: Path) -> None:
    """The mover runs on the BPU and the finding says so; the exported model and every engine have the unit conv."""
    model, feeds = EDGES["movers_at_both_ends"]()
    run = compiled(model, feeds, tmp_path, unit_conv=["join", "head"])
    assert answers(run) == [
        "unit_conv for join: UNIT_CONV_FOR_join stands behind it; it runs on the BPU now",
        "unit_conv for head: UNIT_CONV_FOR_head stands in front of it; it runs on the BPU now",
    ]
    assert {r.node: r.on for r in run.record.nodes}["join"] == "BPU"
    all_engines_agree(run, feeds)
    again = ptqlab.load(tmp_path / "out").record.settings["calibration_parameters"]
    assert again["unit_conv"] == "join;head"


def test_refused_where_it_would_only_cost(tmp_path: Path) -> None:
    """A node on the BPU, and one that a threshold does not bring there: none is put beside them, with the reason."""
    model, feeds = EDGES["movers_at_both_ends"]()
    run = compiled(model, feeds, tmp_path, unit_conv="relu;relu2")
    assert answers(run) == [
        "unit_conv for relu: none was put there, as it runs on the BPU without one",
        "unit_conv for relu2: UNIT_CONV_FOR_relu2 stands behind it; it runs on the BPU now",
    ]
    model.graph.node.append(node("TopK", ["y", "k"], ["best", "at"], "sort", axis=1))
    model.graph.initializer.append(ints("k", 3))
    model.graph.output.append(onnx.helper.make_tensor_value_info("best", 1, None))
    [told] = answers(compiled(model, feeds, tmp_path, unit_conv="sort"))
    assert told.startswith("unit_conv for sort: none was put there, as it would not bring the node to the BPU. TopK")


def test_a_batch_has_it_too(tmp_path: Path) -> None:
    """input_batch rebuilds the graph for the batch: the unit conv is in it."""
    nodes = [node("Transpose", ["x"], "t", "turn", perm=[0, 3, 1, 2]), node("Conv", ["t", "w"], "y", "conv")]
    model, feeds = net(nodes, ["y"], weights(w=(2, 3, 1, 1)), {"x": random(1, 4, 4, 3)})
    run = compiled(model, feeds, tmp_path, unit_conv="turn", input_batch=3)
    assert answers(run) == ["unit_conv for turn: UNIT_CONV_FOR_turn stands in front of it; it runs on the BPU now"]
    every = all_engines_agree(run, {"x": random(3, 4, 4, 3)})
    assert every["y"].shape == (3, 2, 4, 4)


def test_unknown_names_are_refused(tmp_path: Path) -> None:
    """All of them at once, each with the nearest name."""
    model, feeds = EDGES["movers_at_both_ends"]()
    with pytest.raises(PtqError) as caught:
        compiled(model, feeds, tmp_path, unit_conv="joint;tern")
    assert [(p.where, p.found, p.hint) for p in caught.value.problems] == [
        ("calibration_parameters.unit_conv", "unknown node 'joint'", "did you mean join?"),
        ("calibration_parameters.unit_conv", "unknown node 'tern'", "did you mean turn?"),
    ]


def test_check_tells_the_same(tmp_path: Path) -> None:
    """`check` shows the placement with the unit conv."""
    model, _ = EDGES["movers_at_both_ends"]()
    onnx.save(model, tmp_path / "net.onnx")
    found = ptqlab.check(model=tmp_path / "net.onnx", march="nash-p", unit_conv="join", progress=False,
                         working_dir=tmp_path)  # fmt: skip
    assert {r.node: r.on for r in found.record.nodes}["join"] == "BPU"
    assert [f.code for f in found.record.findings].count("PTQ446") == 1
