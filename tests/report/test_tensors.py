"""Histograms and boxes of the tensors around a node."""
import numpy as np
import pytest
from records import HOSTILE

from ptqlab.debug.distribution import Values
from ptqlab.report import words
from ptqlab.report.tensors import Panel, channel_panels, distribution_panels


@pytest.fixture(autouse=True)
def english(monkeypatch):
    monkeypatch.setitem(words._state, "language", "en")


def panels():
    x = np.linspace(-1, 1, 600, dtype=np.float32).reshape(2, 300, 1)
    read = Values("in_HzCalibration", "activation", x, np.round(x * 4) / 4, 1.0, 1, 8)
    return [Panel(read, (-1.0, 0.75)), Panel(Values(HOSTILE, "node", x, x, None, 1))]


def test_raw_and_quantized_on_the_same_bins_with_the_ends_marked():
    """Nine values are left of 600; both ends of the codes are dashed in the panel they belong to."""
    figure = distribution_panels("n", panels())
    assert [t.name for t in figure.data] == ["float", "quantized", "float", "quantized"]
    assert list(figure.data[0].x) == list(figure.data[1].x)
    assert sum(y is not None for y in figure.data[1].y) == 9
    assert sum(y or 0 for y in figure.data[0].y) == sum(y or 0 for y in figure.data[1].y) == 600
    assert [(s.x0, s.xref) for s in figure.layout.shapes] == [(-1.0, "x"), (0.75, "x")]
    assert figure.layout.annotations[0].text == "input: in, int8, -1 … 0.75"


def test_names_are_escaped():
    """A hostile name is text."""
    for figure in (distribution_panels(HOSTILE, panels()), channel_panels(HOSTILE, panels())):
        assert HOSTILE not in figure.to_json() and "alert(1)" in figure.to_json()


def test_a_box_per_channel_of_those_that_reach_farthest():
    """Quartiles are those of the channel; of many channels the largest are shown, in their order."""
    figure = channel_panels("n", panels(), limit=2)
    assert list(figure.data[0].x) == [0, 299]
    assert figure.data[0].upperfence[0] == pytest.approx(panels()[0].values.channels()[0].max())
    assert figure.layout.xaxis.title.text == "channel (the 2 of 300 that reach farthest)"
    assert len(channel_panels("n", panels(), limit=None).data[0].x) == 300


def test_a_constant_and_a_broken_tensor():
    """One value fills one bin; NaN and Inf are left out of the bins."""
    x = np.array([[np.nan, np.inf, 2.0, 2.0]], np.float32)
    figure = distribution_panels("n", [Panel(Values("c", "node", x, x, None, 1))])
    assert sum(y or 0 for y in figure.data[0].y) == 2
