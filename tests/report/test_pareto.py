"""The Pareto figure."""
import math

import pandas as pd
import pytest

from ptqlab.report import words
from ptqlab.report.pareto import pareto_figure

COLUMNS = ["Step", "What", "Cosine", "SQNR", "Latency (us)", "int16 Tensors", "Kept", "Pareto"]


def test_front_kept_and_taken_back(monkeypatch):
    """The line joins the front by latency; crosses were taken back; a step that is NaN is no point."""
    monkeypatch.setitem(words._state, "language", "en")
    figure = pareto_figure(pd.DataFrame([
        (0, "as configured", 0.99, 20.0, 100.0, 0, True, True), (1, "<b>x</b>", 0.999, 30.0, 120.0, 1, True, True),
        (2, "worse", 0.98, 15.0, 130.0, 2, False, False), (3, "broken", math.nan, math.nan, 90.0, 2, False, False),
    ], columns=COLUMNS))
    front, kept, back = figure.data
    assert (list(front.x), list(front.y)) == ([100.0, 120.0], [20.0, 30.0])
    assert (list(kept.x), list(back.x)) == ([100.0, 120.0], [130.0])
    assert "<b>x</b>" not in figure.to_json() and "&lt;b&gt;x" in kept.hovertext[1]
    assert kept.hovertext[0].endswith("cosine 0.990000, 20.00 dB<br>100.0 us")


def test_without_steps():
    """No step is no error."""
    assert pytest.approx(0) == len(pareto_figure(pd.DataFrame([], columns=COLUMNS)).data[0].x)
