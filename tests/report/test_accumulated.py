"""The figure of the accumulated error."""
import math

import pytest
from records import HOSTILE

from ptqlab.report import words
from ptqlab.report.accumulated import error_figure
from ptqlab.report.scale import nines

CURVES = {"all": {"a": 0.999, HOSTILE: 0.99, "c": math.nan}, "weights": {"a": 1.0, HOSTILE: 0.999, "c": 0.9}}


@pytest.fixture(autouse=True)
def english(monkeypatch):
    monkeypatch.setitem(words._state, "language", "en")


def test_cosines_stand_at_their_nines():
    """A gap where it is no number; the node asked for is marked; names are text."""
    figure = error_figure(CURVES, "cosine-similarity", at="c")
    assert list(figure.data[0].y) == [pytest.approx(nines(0.999)), pytest.approx(nines(0.99)), None]
    assert "0.99" in figure.layout.yaxis.ticktext
    assert [s.x0 for s in figure.layout.shapes] == [2]
    assert HOSTILE not in figure.to_json()


def test_errors_stand_on_a_logarithmic_axis():
    """mse keeps its values; sqnr, in dB already, a plain axis."""
    assert error_figure(CURVES, "mse").layout.yaxis.type == "log"
    assert error_figure(CURVES, "sqnr").layout.yaxis.type is None
    assert list(error_figure(CURVES, "mse").data[1].y) == [1.0, 0.999, 0.9]
