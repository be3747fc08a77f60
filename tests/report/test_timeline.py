"""The timeline of a record."""
from dataclasses import replace

import pytest
from records import HOSTILE, digits_record

from ptqlab.errors import PtqError
from ptqlab.report import words
from ptqlab.report.speed import run_speed_page
from ptqlab.report.timeline import bars_of, busy, timeline_drawing, timeline_figure

LAYER = {"name": HOSTILE, "op": "Conv", "qtype": "int8", "bound": "TAE", "device": "BPU", "start_us": 0.0,
         "end_us": 4.0}
PERF = {"latency_us": 5.0, "layers": [LAYER, LAYER | {"name": "soft", "device": "CPU"}], "timeline": [
    {"engine": "LOAD", "layer": "input", "start_us": 0.0, "working_us": 1.0},
    {"engine": "TAE", "layer": HOSTILE, "start_us": 1.0, "working_us": 3.0},
    {"engine": "TAE", "layer": "b", "start_us": 4.0, "working_us": 0.5}]}


@pytest.fixture(autouse=True)
def english(monkeypatch):
    monkeypatch.setitem(words._state, "language", "en")


def test_a_row_per_engine_in_the_order_of_the_work():
    """Bars start where the layer does and are as long as the engine works."""
    figure = timeline_figure(replace(digits_record(), perf=PERF))
    assert [t.name for t in figure.data] == ["LOAD", "TAE"]
    assert (list(figure.data[1].base), list(figure.data[1].x)) == ([1.0, 4.0], [3.0, 0.5])
    assert figure.layout.title.text == "digits on nash-e: 5.0 us on the BPU, by engine"
    assert "Conv, int8; decided by: TAE" in figure.data[1].hovertext[0]
    assert HOSTILE not in figure.to_json()
    assert busy(PERF) == {"LOAD": 1.0, "TAE": 3.5}


def test_the_page_shows_layers_and_drawing():
    """In html the drawing, in a terminal how long each engine works; the CPU layer is no BPU layer."""
    page = run_speed_page(replace(digits_record(), perf=PERF))
    assert "Timeline by engine:\n  LOAD 1.0 us, TAE 3.5 us" in page.text()
    assert page.html().count("<rect") == 3 and HOSTILE not in page.html()
    assert "soft" not in page.text()
    assert "4.0 | 100.0 %" in page.text()


def test_without_an_estimate():
    """A refusal that says what to do; the drawing is nothing."""
    with pytest.raises(PtqError, match="PTQ650"):
        timeline_figure(digits_record())
    assert timeline_drawing(digits_record()) == ""


@pytest.mark.parametrize("bar", [{}, "x", {"engine": "TAE", "layer": "a", "start_us": "soon", "working_us": 1},
                                 {"engine": "TAE", "layer": "a", "start_us": float("inf"), "working_us": 1}])
def test_a_damaged_record_is_refused(bar):
    """Bars come from files: what is none is named."""
    with pytest.raises(PtqError, match=r"perf\.timeline\[0\]"):
        bars_of({"timeline": [bar]})
