"""The text form of a result."""
from dataclasses import replace
from pathlib import Path

import pytest
from records import digits_record

from ptqlab.report import words
from ptqlab.report.choose import artifacts_in
from ptqlab.report.text import summary


@pytest.fixture(autouse=True)
def english(monkeypatch):
    monkeypatch.setitem(words._state, "language", "en")


def test_the_whole_text():
    """A reader sees counts, outputs, worst nodes, findings with what to do, and the files."""
    assert summary(digits_record(), Path("out"), worst=2) == """\
digits on nash-e: 24 nodes: 21 BPU, 3 CPU; 50 calibration samples

The quantized model output:
+------------+-------------------+------------------+
| TensorName | Calibrated Cosine | Quantized Cosine |
+------------+-------------------+------------------+
| prob       | 0.997500          | 0.996900         |
| label      | --                | --               |
+------------+-------------------+------------------+

Nodes with the lowest quantized cosine:
+---------------------------+----------+-----+---------+-------------------+------------------+
| Node                      | NodeType | ON  | Granted | Calibrated Cosine | Quantized Cosine |
+---------------------------+----------+-----+---------+-------------------+------------------+
| mask_where                | Where    | BPU | int8    | nan               | nan              |
| <script>alert(1)</script> | Mul      | BPU | int16   | 0.970000          | 0.942000         |
+---------------------------+----------+-----+---------+-------------------+------------------+

Findings:
  warning  PTQ503  all values of mask_where are zero in every sample
      Do: check the mask that feeds it
  note  PTQ401  quant_config asks int16 of ../../evil, which moves data only
      Do: ask it of the operators around it

Artifacts in out:
  node_info  digits_node_info.csv
  quantized  digits_quantized_model.bc"""


def test_partial_and_empty_results_say_so():
    """A stopped run is told as such, and one that compared nothing does not show an empty table."""
    record = replace(digits_record(), complete=False, nodes=(), findings=(), artifacts={})
    text = summary(record, Path("out"))
    assert "Partial result: the run ended after stage 'quantize'." in text
    assert "No node was compared with the float model." in text
    assert "Findings" not in text and "Artifacts" not in text


def test_chinese(monkeypatch):
    """The same in Chinese; columns and keys stay the vendor's."""
    monkeypatch.setitem(words._state, "language", "zh")
    text = summary(digits_record(), Path("out"))
    assert "校准样本 50 个" in text
    assert "量化余弦最低的节点" in text
    assert "| TensorName | Calibrated Cosine | Quantized Cosine |" in text


def test_artifacts_are_told_from_where_one_stands(tmp_path, monkeypatch):
    """A folder below the current one is told as seen from there, any other one in full."""
    monkeypatch.chdir(tmp_path)
    assert artifacts_in(tmp_path / "runs" / "a") == "Artifacts in runs/a"
    assert artifacts_in(tmp_path.parent / "b") == f"Artifacts in {tmp_path.parent / 'b'}"
