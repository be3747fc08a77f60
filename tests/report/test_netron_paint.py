"""Colours, numbers on nodes, legend and side bar of a graph, from a record."""
import math
from dataclasses import replace

import pytest
from records import HOSTILE, NAN_NODE, digits_record

from ptqlab.errors import PtqError
from ptqlab.report import words
from ptqlab.report.netron_paint import (
    LONGEST,
    MEASURES,
    attachment,
    cosine_words,
    latency_shares,
    painting,
)

PERF = {"layers": [
    {"name": "/block1/conv/Conv", "nodes": ["/block1/conv/Conv", "/block1/relu/Relu"], "device": "BPU",
     "start_us": 0.0, "end_us": 50.0},
    {"name": "/block2/conv/Conv", "nodes": ["/block2/conv/Conv"], "device": "BPU", "start_us": 50.0, "end_us": 50.1},
    {"name": "head/softmax", "nodes": ["head/softmax"], "device": "CPU", "start_us": 60.0, "end_us": 90.0}]}


@pytest.fixture(autouse=True)
def english(monkeypatch):
    monkeypatch.setitem(words._state, "language", "en")


def luminance(colour):
    parts = [int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5)] if len(colour) == 7 else [
        int(c * 2, 16) / 255 for c in colour[1:]]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("color", MEASURES)
def test_the_number_on_a_node_can_be_read(color):
    """Ink on fill has a contrast of 3:1 or better, values fit the room of 7 characters, every node is in a class."""
    record = replace(digits_record(), perf=PERF)
    found = painting(record, color)
    assert set(found.nodes) == {row.node for row in record.nodes}
    for entry in found.classes:
        light, dark = sorted((luminance(entry.fill), luminance(entry.ink)), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 3, entry
    assert all(0 < len(value) <= LONGEST and 0 <= index < len(found.classes) for index, value in found.nodes.values())
    assert sum(entry.count for entry in found.classes) == len(record.nodes)


def test_classes_of_cosines():
    """Limits belong to the better class; NaN and what was not compared have classes of their own."""
    base = digits_record().nodes[0]
    cosines = [0.5, 0.9, 0.99, 0.9989999, 0.999, 0.9999, 1.0, math.nan, None]
    rows = tuple(replace(base, node=str(i), quantized_cosine=c, calibrated_cosine=None)
                 for i, c in enumerate(cosines))
    found = painting(replace(digits_record(), nodes=rows), "cosine")
    assert [index for index, _ in found.nodes.values()] == [0, 1, 2, 2, 3, 4, 4, 5, 6]
    assert [value for _, value in found.nodes.values()] == [
        "0.5000", "0.9000", "0.9900", "0.9989", "0.9990", "0.99990", "1", "nan", "--"]
    assert [(c.label, c.count) for c in found.classes] == [
        ("< 0.9", 1), ("0.9 – 0.99", 1), ("0.99 – 0.999", 2), ("0.999 – 0.9999", 1), ("≥ 0.9999", 2), ("nan", 1),
        ("not compared", 1)]


def test_a_cosine_is_never_rounded_up_to_one():
    """0.999999 is not 1, and the digits that are shown put a node in the class of its colour."""
    assert cosine_words(0.999999) == "0.99999"
    assert cosine_words(0.99989999) == "0.9998"
    assert cosine_words(-0.25) == "-0.2500"


def test_types_and_devices_come_in_a_fixed_order():
    """The classes do not change with the order of the nodes."""
    found = painting(digits_record(), "qtype")
    assert [c.label for c in found.classes] == ["int8", "int16", "float32", "int64"]
    assert found.nodes[HOSTILE] == (1, "int16")
    assert [(c.label, c.count) for c in painting(digits_record(), "on").classes] == [("BPU", 21), ("CPU", 3)]


def test_latency_is_the_share_of_the_layer_that_computes_a_node():
    """50 of 50.1 us are 99.8 %, for the fused node too; what has no layer on the BPU has no share."""
    record = replace(digits_record(), perf=PERF)
    assert latency_shares(record) == {"/block1/conv/Conv": pytest.approx(0.998, abs=1e-4),
                                      "/block1/relu/Relu": pytest.approx(0.998, abs=1e-4),
                                      "/block2/conv/Conv": pytest.approx(0.002, abs=1e-4)}
    found = painting(record, "latency")
    assert found.nodes["/block1/relu/Relu"] == (0, "100%")
    assert found.nodes["/block2/conv/Conv"] == (3, "0.2%")
    assert found.nodes["head/softmax"] == (5, "--")
    assert latency_shares(digits_record()) == {}


def test_only_what_is_drawn_is_painted_and_told():
    """A cut carries neither colours nor side bars of other nodes."""
    assert set(painting(digits_record(), "on", ["pool", "not in the record"]).nodes) == {"pool"}
    told = attachment(digits_record(), ["pool"])
    assert {(e["kind"], e["target"]) for e in (*told["metadata"], *told["metrics"])} == {("node", "pool"),
                                                                                       ("value", "p")}


def test_the_side_bar_tells_what_the_record_knows():
    """Netron's attachment: placement, types, reason as metadata, threshold, cosines and share as metrics."""
    told = attachment(replace(digits_record(), perf=PERF))
    assert told["signature"] == "netron:attachment"
    node = {e["name"]: e["value"] for part in ("metadata", "metrics") for e in told[part]
            if (e["kind"], e["target"]) == ("node", "/block1/relu/Relu")}
    assert node == {"ON": "BPU id(0)", "asked": "int8", "granted": "int8",
                    "reason": "computed in the requantization of /block1/conv/Conv",
                    "fused into": "/block1/conv/Conv", "calibrated cosine": "0.999970",
                    "quantized cosine": "0.999950", "latency share": "99.80 %"}
    broken = {e["name"]: e["value"] for e in told["metrics"] if e["target"] == NAN_NODE}
    assert broken == {"threshold": "0.000000", "calibrated cosine": "nan", "quantized cosine": "nan"}


def test_the_legend_says_what_a_colour_means():
    """Classes with nodes only, each with its count; text is escaped; Chinese where Chinese is chosen."""
    legend = painting(digits_record(), "cosine").legend()
    assert legend.count("<li>") == 6 and "≥ 0.9999" in legend and "&lt; 0.9" not in legend
    hostile = replace(digits_record().nodes[0], granted="<b>int8</b>")
    assert "<b>" not in painting(replace(digits_record(), nodes=(hostile,)), "qtype").legend()
    words.set_language("zh")
    assert "未比较" in painting(digits_record(), "cosine").legend()


def test_an_unknown_measure_is_refused():
    """The message lists the measures and the nearest one."""
    with pytest.raises(PtqError) as told:
        painting(digits_record(), "cosin")
    assert str(told.value.problems[0]) == ("PTQ662  color\n    found     'cosin'\n"
                                           "    expected  cosine, qtype, on, latency\n"
                                           "    do        did you mean 'cosine'?")
