"""The node table and the output table: what each column says of small models."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from core_models import EDGES
from models import init, model, node, random, value
from small import compiled


def rows(name: str, folder: Path, **keywords: object) -> dict:
    run = compiled(*EDGES[name](), folder, **keywords)
    return {row.node: row for row in run.record.nodes}


def test_columns_of_a_residual_network(tmp_path: Path) -> None:
    """Device, segment, type, group and threshold of fused nodes, main nodes and a tail."""
    found = rows("two_inputs", tmp_path, calibration_type="max")
    assert list(found) == ["conv", "conv2", "add", "relu", "conv3", "add2", "conv4"]
    assert {r.on for r in found.values()} == {"BPU"} and {r.subgraph for r in found.values()} == {"id(0)"}
    assert [found[n].fused_into for n in ("conv", "conv2", "add", "relu")] == ["", "", "conv2", "conv2"]
    assert [found[n].output_data_type for n in ("conv", "relu", "conv4")] == ["si8", "si8", "si32"]
    a, b = (np.abs(EDGES["two_inputs"]()[1][k]).max() for k in "ab")
    assert found["conv"].threshold == pytest.approx(float(a)) and found["conv2"].threshold == pytest.approx(float(b))
    assert found["relu"].quantized_cosine == found["conv2"].quantized_cosine, "computed together, compared together"


@pytest.mark.parametrize(
    ("march", "word"), [("nash-e", "si32"), ("nash-m", "si32"), ("nash-p", "f32"), ("nash-b", "f32")]
)
def test_a_tail_has_the_type_of_its_platform(march: str, word: str, tmp_path: Path) -> None:
    """int32 on nash-e and nash-m, float32 elsewhere."""
    assert rows("diamonds", tmp_path, march=march)["conv2"].output_data_type == word


def test_nodes_of_the_cpu(tmp_path: Path) -> None:
    """No segment, no threshold, float32, the ONNX type of what is no number of the BPU, and a reason."""
    found = rows("integers_and_bools", tmp_path)
    greater, cast = found["greater"], found["cast"]
    assert (cast.on, cast.subgraph, cast.threshold, cast.granted) == ("CPU", "--", None, "float32")
    assert (greater.output_data_type, cast.output_data_type) == ("bool", "int32")
    assert all(r.reason.strip() for r in found.values())


def test_nodes_of_the_bpu_that_read_no_activation(tmp_path: Path) -> None:
    """Indices, bools and integers of the model have types of their own; a bool as numbers has that of its readers."""
    nodes = [node("MatMul", ["x", "w"], "l", "mm"), node("ArgMax", ["l"], "i", "am", axis=1),
             node("Cast", ["i"], "c", "cast", to=5), node("Mul", ["k", "k"], "q", "square"),
             node("Greater", ["x", "x"], "g", "greater"), node("Not", ["g"], "n", "not"),
             node("Cast", ["n"], "m", "numbers", to=1), node("MatMul", ["m", "w"], "y", "mm2")]
    net = model(nodes, [value("x", [2, 3]), value("k", [2], 6)],
                [value("c", None, 5), value("q", [2], 6), value("y", None)], [init("w", random(3, 4))])
    feeds = {"x": random(2, 3), "k": np.array([3, -4], np.int32)}
    run = compiled(net, feeds, tmp_path, quant_config={"op_config": {"MatMul": {"qtype": "int16"}}})
    found = {row.node: row for row in run.record.nodes}
    assert {n: (found[n].granted, found[n].output_data_type) for n in ("am", "cast", "square", "not", "numbers")} == {
        "am": ("int8", "si16"), "cast": ("int16", "si16"), "square": ("int32", "si32"), "not": ("bool", "bool"),
        "numbers": ("int16", "si16")}


def test_a_passive_node_shows_the_type_it_moves(tmp_path: Path) -> None:
    """Granted is what is really moved, whatever was the default for its kind."""
    found = rows("passive_chain", tmp_path, quant_config={"op_config": {"MatMul": {"qtype": "int16"}}})
    assert {found[n].granted for n in found if found[n].node_type in ("Transpose", "Reshape")} == {"int16"}


def test_a_node_without_its_first_output_is_told_by_the_one_it_has(tmp_path: Path) -> None:
    """An LSTM whose first output is left out: the row tells the second."""
    assert rows("first_output_left_out", tmp_path)["lstm"].output == "yh"


def test_output_rows_hold_the_figures_of_the_outputs(tmp_path: Path) -> None:
    """One row per output in the order of the model, with all distances."""
    run = compiled(*EDGES["outputs_that_are_read"](), tmp_path)
    assert [row.tensor for row in run.record.outputs] == ["c", "r", "y"]
    for row in run.record.outputs:
        assert row.quantized_cosine is not None and row.quantized_cosine > 0.999
        assert None not in (row.sqnr, row.l1, row.l2, row.chebyshev) and row.sqnr > 25


def test_inputs_and_outputs_are_told_with_type_and_shape(tmp_path: Path) -> None:
    """bool and int64 inputs stay what they are."""
    run = compiled(*EDGES["unused_inputs"](), tmp_path)
    assert [(i.name, i.dtype, i.shape) for i in run.record.inputs] == [
        ("x", "float32", (1, 3, 8, 8)),
        ("u", "int64", (2, 3)),
        ("v", "float32", (1,)),
    ]
    assert [(i.name, i.shape) for i in run.record.output_infos] == [("c", (1, 4, 8, 8))]
