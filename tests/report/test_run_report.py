"""The report of a run as one file."""
import re
from dataclasses import replace

import pandas as pd
import pytest
from records import HOSTILE, digits_record

from ptqlab.errors import PtqError
from ptqlab.report import words
from ptqlab.report.bilingual import both
from ptqlab.report.comparison import comparison_page
from ptqlab.report.health import health_page
from ptqlab.report.heatmap import heat_of
from ptqlab.report.run_report import Extras, report_html
from ptqlab.report.words import say, speaking


@pytest.fixture(autouse=True)
def english(monkeypatch):
    monkeypatch.setitem(words._state, "language", "en")


def full(record):
    frame = pd.DataFrame([(HOSTILE, "node", "int8", 20.0)], columns=["Node", "Part", "Type", "sqnr"])
    return report_html(record, Extras(
        heat=heat_of(frame, "sqnr", higher=True), health=lambda: health_page("net", [], [], record, [], []),
        comparison=("<i>b", lambda: comparison_page(record, record, ("a", "<i>b"))),
        graph="<svg id='graph-drawn'></svg>"))


def test_one_file_that_fetches_nothing_and_runs_nothing():
    """No script of its own, no address, no name that became html."""
    page = full(digits_record())
    assert page.startswith("<!doctype html>") and page.endswith("</body></html>\n")
    assert not re.search(r"<script|https?:|src=|@import|url\(", page)
    assert HOSTILE not in page and "<i>b" not in page and "elementwise <b>" not in page
    assert "graph-drawn" in page


def test_both_languages_are_in_it():
    """Each text stands in both languages, tables with the vendor's words once, and the switch is a radio button."""
    page = full(digits_record())
    assert "Model outputs" in page and "模型输出" in page
    assert page.count("name='ptqlab-lang'") == 2 and "id='ptqlab-en' class='ptqlab-lang' checked" in page
    table = page.split("id='all_nodes'")[1]
    assert table.count("检测头/fc") == 1
    with speaking("zh"):
        assert "id='ptqlab-zh' class='ptqlab-lang' checked" in full(digits_record())
    assert say("none") == "none"


def test_sections_of_what_is_not_there_are_left_out():
    """A record alone gives result, nodes, calibration and settings."""
    page = report_html(digits_record(), Extras())
    assert re.findall(r"<h2 id='(\w+)'", page) == ["result", "all_nodes", "calibration", "settings"]
    assert re.findall(r"href='#(\w+)'", page) == ["result", "all_nodes", "calibration", "settings"]
    assert re.findall(r"<h2 id='(\w+)'", full(digits_record()))[1:4] == ["compared_with", "sensitivity", "causes"]


def test_a_record_of_a_hostile_file():
    """Figures of calibration and estimate that are none are shown as missing or refused, names as text."""
    tensors = {HOSTILE: {"threshold": HOSTILE, "range": 3, "clipped": None, "granted": "<i>max"}, "b": "nothing",
               "c": {"threshold": 1.5, "range": [-1, 1.5], "clipped": 0.25}}
    page = report_html(replace(digits_record(), calibration={"method": "<u>", "tensors": tensors}), Extras())
    assert HOSTILE not in page and "<i>max" not in page and "<u>" not in page
    assert "-1 … 1.5" in page and ">0.25<" in page
    with pytest.raises(PtqError, match=r"perf\.layers\[0\]"):
        report_html(replace(digits_record(), perf={"layers": [HOSTILE]}), Extras())


def test_a_large_model_stays_small():
    """Two thousand nodes: under two megabytes."""
    record = digits_record()
    many = tuple(replace(row, node=f"{row.node}_{i}") for i in range(90) for row in record.nodes)
    assert len(full(replace(record, nodes=many)).encode()) < 2_000_000


def test_both_says_equal_things_once():
    """What is the same in both languages needs no switch."""
    assert both(lambda: "conv1") == "conv1"
    assert both(lambda: say("none"), "b") == (
        "<b data-lang='en' lang='en'>none</b><b data-lang='zh' lang='zh'>无</b>")
