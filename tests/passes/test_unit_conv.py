"""Unit convs: the same numbers in float, and nodes at head and tail that run on the BPU then."""
from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from core_models import EDGES, net, weights
from models import ints, model, node, random, value
from small import all_engines_agree, compiled

import ptqlab
from ptqlab.errors import PtqError
from ptqlab.graph import load, session
from ptqlab.passes import optimize
from ptqlab.passes.unit_conv import with_unit_convs


def outputs(path: Path, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    return session(path).run(None, feeds)


def test_head_and_tail_run_on_the_bpu(tmp_path: Path) -> None:
    """In front of the first mover, behind the last: the float model stays equal in every bit, all movers between run
    on the BPU, and every engine agrees; only reshapes of the unit convs' own stay on the CPU."""
    made, feeds = EDGES["movers_at_both_ends"]()
    onnx.save(made, tmp_path / "net.onnx")
    path = ptqlab.insert_unit_conv(tmp_path / "net.onnx", ["head", "join"], output=tmp_path / "units.onnx")
    for a, b in zip(outputs(tmp_path / "net.onnx", feeds), outputs(path, feeds), strict=True):
        assert np.array_equal(a, b)
    run = compiled(onnx.load(path), feeds, tmp_path)
    all_engines_agree(run, feeds)
    on = {row.node: row.on for row in run.record.nodes}
    assert {n for n, where in on.items() if where == "CPU"} == {"UNIT_CONV_FOR_head_in", "UNIT_CONV_FOR_join_out"}
    types = {row.node: row.output_data_type for row in run.record.nodes}
    assert (types["conv2"], types["UNIT_CONV_FOR_join"]) == ("si8", "si32")


@pytest.mark.parametrize("rank", [1, 2, 3, 4, 5, 6])
def test_every_rank(rank: int) -> None:
    """Tensors that have channels keep their shape, others pass through one channel; outputs keep name and shape."""
    sizes = [1, 2, 3, 2, 2, 2][:rank] if rank > 1 else [6]
    axes = list(range(rank))[::-1]
    made, feeds = net([node("Transpose", ["x"], "y", "turn", perm=axes)], ["y"], [], {"x": random(*sizes)})
    graph = optimize(load(made))
    units, placed = with_unit_convs(graph, ["turn"])
    assert placed == {"turn": "in front of"}
    (got,), (wanted,) = (session(g.model).run(["y"], feeds) for g in (units, graph))
    assert np.array_equal(got, wanted)
    assert [n.op_type for n in units.nodes].count("Reshape") == (0 if rank in (3, 4, 5) else 2)


def test_every_output_in_use_gets_one() -> None:
    """A Split behind a convolution: one for each part that is read or an output, under names of their own."""
    nodes = [
        node("Conv", ["x", "w"], "c", "conv"),
        node("Split", ["c", "sizes"], ["a", "b", "left_over"], "split", axis=1),
        node("Identity", ["a"], "a2", "again"),
    ]
    made = [*weights(w=(4, 3, 1, 1)), ints("sizes", 1, 2, 1)]
    built, feeds = net(nodes, ["a", "b", "a2"], made)
    graph = optimize(load(built))
    units, placed = with_unit_convs(graph, ["split"])
    assert placed == {"split": "behind"}
    made_names = {str(n.name) for n in units.nodes if n.op_type == "Conv"} - {"conv"}
    assert made_names == {"UNIT_CONV_FOR_split", "UNIT_CONV_FOR_split_1"}
    assert [str(v.name) for v in units.outputs] == ["a", "b", "a2"]
    for a, b in zip(session(graph.model).run(None, feeds), session(units.model).run(None, feeds), strict=True):
        assert np.array_equal(a, b)


def test_every_problem_of_a_call_is_told(tmp_path: Path) -> None:
    """An unknown node, integers, the model's own path: in one refusal, and nothing is written."""
    nodes = [node("Cast", ["x"], "i", "whole", to=onnx.TensorProto.INT64), node("Relu", ["x"], "y", "relu")]
    built = model(nodes, [value("x", [1, 3, 8, 8])], [value("i", None, onnx.TensorProto.INT64), value("y", None)])
    path = tmp_path / "net.onnx"
    onnx.save(built, path)
    before = path.read_bytes()
    with pytest.raises(PtqError) as caught:
        ptqlab.insert_unit_conv(path, ["whle", "relu"], output=path)
    assert str(caught.value) == (
        "Inserting unit convs: 2 problems\n"
        "PTQ121  nodes\n"
        "    found     unknown node 'whle'\n"
        "    expected  a node of the model\n"
        "    do        did you mean whole?\n"
        f"PTQ121  output\n    found     {path}\n    expected  another path than that of the model"
    )
    assert path.read_bytes() == before
    with pytest.raises(PtqError, match="no name"):
        ptqlab.insert_unit_conv(path, [], output=tmp_path / "o.onnx")
    ids, _ = net([node("Transpose", ["k"], "t", "turn"), node("Cast", ["t"], "y", "c", to=1)], ["y"], [],
                 {"k": np.arange(6, dtype=np.int32).reshape(2, 3)})  # fmt: skip
    onnx.save(ids, path)
    with pytest.raises(PtqError, match="tensor k is int32"):
        ptqlab.insert_unit_conv(path, ["turn"], output=tmp_path / "o.onnx")
    assert not (tmp_path / "o.onnx").exists()
