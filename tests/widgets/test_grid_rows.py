"""Rows of the grid: shares of the latency, figures that JSON has not, columns."""
from __future__ import annotations

import json
from dataclasses import replace

from records import digits_record

from ptqlab.config import QuantConfig
from ptqlab.widgets.grid_rows import Book, columns, facts, level_rows, node_rows, shares


def test_shares_are_percent_of_the_time_on_the_bpu():
    """Layers on the CPU do not count; without any time there are no shares."""
    layers = [{"name": "a", "start_us": 0.0, "end_us": 3.0, "device": "BPU"},
              {"name": "b", "start_us": 3.0, "end_us": 4.0, "device": "BPU"},
              {"name": "c", "start_us": 4.0, "end_us": 9.0, "device": "CPU"}]
    assert shares(layers) == {"a": 75.0, "b": 25.0}
    assert shares([]) == {}


def test_a_record_alone_gives_rows_that_cannot_be_edited():
    """Before the model is open the rows of the record stand there, as JSON, NaN and infinity as words."""
    record = digits_record()
    broken = replace(record.nodes[0], quantized_cosine=float("nan"), threshold=float("inf"))
    record = replace(record, nodes=(broken, *record.nodes[1:]))
    rows = node_rows(facts(record, {}), QuantConfig(), record.march, Book(), [], None, None)
    assert [row["Node"] for row in rows] == [row.node for row in record.nodes]
    assert (rows[0]["Quantized Cosine"], rows[0]["Threshold"]) == ("NaN", "inf")
    assert all(row["edit"] == {} and row["changed"] == [] for row in rows)
    json.dumps(rows, allow_nan=False)


def test_candidates_of_a_search_are_words():
    """A list of methods is shown as its words, of the model as of an operator type."""
    quant = QuantConfig.parse({"model_config": {"activation": {"calibration_type": ["max", "kl"],
                                                               "asymmetric": [True, False]}}})
    record = digits_record()
    row, = level_rows("model", facts(record, {}), quant, record.march, Book(), [])
    assert (row["calibration_type"], row["asymmetric"]) == ("max, kl", "true, false")
    conv = next(r for r in level_rows("op", facts(record, {}), quant, record.march, Book(), []) if r["id"] == "Conv")
    assert (conv["calibration_type"], conv["origin"]["calibration_type"], conv["own"]) == ("max, kl", "model", [])


def test_lists_of_values_are_kept_once():
    """Rows name lists by number."""
    book = Book()
    assert [book.number(("a",)), book.number(("b",)), book.number(("a",))] == [0, 1, 0]
    assert book.lists == [("a",), ("b",)]


def test_columns_of_the_levels():
    """Inputs as far as there are any, sensitivity where it is known, no device for the whole model."""
    assert columns("node", 2, True)[5:11] == [
        "Calibrated Cosine", "Quantized Cosine", "Latency %", "Sensitivity", "input0", "input1"]
    assert "Sensitivity" not in columns("node", 1, False)
    assert "ON" in columns("op", 0, False)
    assert "ON" not in columns("model", 0, False)
