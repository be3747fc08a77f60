"""The node and output tables as text and csv."""
import csv
import math
from dataclasses import replace

import pytest
from records import CLIMBER, HOSTILE, NAN_NODE, clean_record, digits_record

from ptqlab.artifacts.tables import (
    CSV_COLUMNS,
    grid,
    node_info_csv,
    node_table,
    number,
    output_table,
    read_node_info,
    width,
)
from ptqlab.errors import PtqError
from ptqlab.stages.record import NodeRow


def test_the_grid_is_the_documented_one():
    """The whole text of a small table, against the published shape."""
    rows = (NodeRow("/stem/Conv", "Conv", "BPU", "id(0)", 2.64, 0.999912, 0.999871, "si8", "int8", "int8", ""),
            NodeRow("/Reshape", "Reshape", "BPU", "id(0)", None, 0.9999, 0.99985, "si8", "int8", "int8", ""))
    assert node_table(replace(clean_record(), nodes=rows)) == """\
The main quantized node information:
+------------+----------+-----+-----------+-------------------+------------------+------------------+
| Node       | NodeType | ON  | Threshold | Calibrated Cosine | Quantized Cosine | Output Data Type |
+------------+----------+-----+-----------+-------------------+------------------+------------------+
| /stem/Conv | Conv     | BPU | 2.640000  | 0.999912          | 0.999871         | si8              |
| /Reshape   | Reshape  | BPU | --        | 0.999900          | 0.999850         | si8              |
+------------+----------+-----+-----------+-------------------+------------------+------------------+"""


def test_the_output_table_is_the_documented_one():
    """Heading, columns, and `--` for an output without a cosine."""
    assert output_table(clean_record()) == """\
The quantized model output:
+------------+-------------------+------------------+
| TensorName | Calibrated Cosine | Quantized Cosine |
+------------+-------------------+------------------+
| prob       | 0.997500          | 0.996900         |
| label      | --                | --               |
+------------+-------------------+------------------+"""


def test_nan_is_never_left_unexplained():
    """Under the table stands why: the finding that names the node, else its tags, else what NaN means."""
    record = digits_record()
    assert node_table(record).endswith(f"nan at {NAN_NODE}: PTQ503 all values of {NAN_NODE} are zero in every sample")
    untold = replace(record, findings=())
    assert node_table(untold).endswith(f"nan at {NAN_NODE}: all-zero")
    (row,) = [r for r in record.nodes if r.node == NAN_NODE]
    bare = replace(untold, nodes=(replace(row, tags=(), threshold=1.0),))
    assert "holds NaN or Inf" in node_table(bare)
    outputs = replace(record, outputs=(replace(record.outputs[0], quantized_cosine=math.nan),))
    assert "nan at prob: its values" in output_table(outputs)
    assert "nan at" not in node_table(clean_record())


def test_wide_characters_keep_the_columns_straight():
    """A Chinese name takes two columns per character, a combining mark none; all lines are equally wide."""
    table = grid(["Node", "x"], [["检测头/fc", "1"], ["e\u0301", "2"], ["plain", "3"]])
    assert len({width(line) for line in table.splitlines()}) == 1
    assert width("检测") == 4
    assert width("e\u0301") == 1


def test_control_characters_cannot_repaint_the_terminal():
    """An escape sequence in a node name is shown as a mark, and a line end does not break the grid."""
    table = grid(["Node"], [["a\x1b[2Jb"], ["c\nd"]])
    assert "\x1b" not in table
    assert len(table.splitlines()) == 6


@pytest.mark.parametrize(("value", "text"), [
    (None, "--"), (0.0, "0.000000"), (1.0, "1.000000"), (0.99999994, "1.000000"), (math.nan, "nan"), (math.inf, "inf"),
    (3.2e-7, "3.20000e-07"), (-0.5, "-0.500000")])
def test_numbers(value, text):
    """Six decimals; a tiny threshold does not read as zero."""
    assert number(value) == text


def test_csv_comes_back(tmp_path):
    """What is written is read again, hostile and Chinese names and commas included."""
    record = digits_record()
    path = tmp_path / "digits_node_info.csv"
    path.write_text(node_info_csv(record), encoding="utf-8")
    with path.open(newline="", encoding="utf-8") as handle:
        assert tuple(next(csv.reader(handle))) == CSV_COLUMNS
    back = read_node_info(path)
    assert [r.node for r in back] == [r.node for r in record.nodes]
    assert {HOSTILE, CLIMBER} <= {r.node for r in back}
    assert [(r.subgraph, r.asked, r.granted, r.reason) for r in back] == [
        (r.subgraph, r.asked, r.granted, r.reason) for r in record.nodes]
    for old, new in zip(record.nodes, back, strict=True):
        assert (old.threshold is None) == (new.threshold is None)
        if old.quantized_cosine is None or math.isnan(old.quantized_cosine):
            assert str(new.quantized_cosine) == str(old.quantized_cosine)
        else:
            assert new.quantized_cosine == pytest.approx(old.quantized_cosine, abs=5e-7)


def test_a_csv_of_the_vendors_columns_is_read(tmp_path):
    """Seven columns and a byte order mark, as other tools write them."""
    path = tmp_path / "v.csv"
    path.write_text("Node,NodeType,ON,Threshold,Calibrated Cosine,Quantized Cosine,Output Data Type\n"
                    "conv,Conv,BPU,1.5,0.99,--,si8\n\n", encoding="utf-8-sig")
    (row,) = read_node_info(path)
    assert (row.node, row.threshold, row.calibrated_cosine, row.quantized_cosine) == ("conv", 1.5, 0.99, None)
    assert row.reason == ""


def test_a_bad_csv_is_refused_with_all_its_places(tmp_path):
    """Missing columns, cells that are no numbers and short lines are named with file and line."""
    path = tmp_path / "bad.csv"
    path.write_text("Node,ON\na,BPU\n")
    with pytest.raises(PtqError, match="also NodeType, Threshold"):
        read_node_info(path)
    path.write_text("Node,NodeType,ON,Threshold,Calibrated Cosine,Quantized Cosine,Output Data Type\n"
                    "a,Conv,BPU,big,0.9,0.9,si8\nb,Conv\n")
    with pytest.raises(PtqError) as caught:
        read_node_info(path)
    assert [p.where for p in caught.value.problems] == [f"{path}:2, column Threshold", f"{path}:3"]
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(PtqError, match="cannot be read"):
        read_node_info(path)
    with pytest.raises(PtqError, match="cannot be read"):
        read_node_info(tmp_path / "none.csv")
