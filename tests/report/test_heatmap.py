"""The sensitivity heatmap."""
import math

import pandas as pd
import pytest
from records import HOSTILE

from ptqlab.report import words
from ptqlab.report.heatmap import heat_of, heatmap_svg, sensitivity_figure
from ptqlab.report.look import RAMP


@pytest.fixture(autouse=True)
def english(monkeypatch):
    monkeypatch.setitem(words._state, "language", "en")


def frame(rows):
    return pd.DataFrame(rows, columns=["Node", "Part", "Type", "cosine-similarity", "sqnr", "mse"])


ROWS = [("good", "node", "int8", 0.99999, 60.0, 1e-6), ("good", "node", "int16", 1.0, 90.0, 1e-9),
        (HOSTILE, "node", "int8", 0.97, 12.0, 0.1), (HOSTILE, "weight", "int8", 0.999, 30.0, 1e-3),
        ("broken", "node", "int8", math.nan, math.nan, math.nan)]


def test_worst_first_and_whole_nodes_first():
    """NaN is the worst, then the lowest score of any cell; columns go from whole nodes with few bits on."""
    heat = heat_of(frame(ROWS), "sqnr", higher=True)
    assert heat.nodes == ("broken", HOSTILE, "good")
    assert heat.columns == ("node int8", "node int16", "weight int8")
    assert heat.values[1:] == ((12.0, None, 30.0), (60.0, 90.0, None))
    shades = heat.shades()
    assert shades[0][0] == shades[1][0] == 1.0 and shades[2][1] == 0.0 and shades[1][1] is None
    assert shades[2][0] == pytest.approx((81 - 60) / (81 - 12))


def test_a_few_perfect_cells_do_not_take_the_colours():
    """The best tenth is dark alike, so that the rest can be told apart; equal scores are all the worst there is."""
    rows = [(f"n{i}", "node", "int8", 0.9, 20.0 + i, 0.1) for i in range(20)]
    heat = heat_of(frame([*rows, ("free", "node", "int8", 1.0, 500.0, 0.0)]), "sqnr", higher=True)
    shades = [row[0] for row in heat.shades()]
    assert shades[0] == 1.0 and shades[-1] == 0.0 and shades[0] - shades[10] > 0.5
    assert heat_of(frame(rows[:1]), "sqnr", higher=True).shades() == [[1.0]]


def test_of_errors_the_large_ones_are_bad():
    """An error is compared by decades, a cosine by its distance to 1."""
    assert heat_of(frame(ROWS), "mse", higher=False).nodes == ("broken", HOSTILE, "good")
    heat = heat_of(frame(ROWS[:4]), "cosine-similarity", higher=True)
    assert heat.nodes == (HOSTILE, "good")
    assert [heat.words(v) for v in heat.values[1]] == ["1-1e-05", "1", ""]
    for value in (0.5, 0.97, 0.99999):
        assert heat.score(heat.badness(value)) == pytest.approx(value)


def test_the_limit_and_what_it_leaves_out():
    """The worst are kept, and the title says of how many."""
    many = frame([(f"n{i}", "node", "int8", 0.9, float(i), 0.1) for i in range(2000)])
    heat = heat_of(many, "sqnr", higher=True)
    assert len(heat.nodes) == 50 and heat.nodes[0] == "n0"
    assert sensitivity_figure(heat).layout.title.text == "Sensitivity per node, sqnr (the 50 worst of 2000)"
    whole = sensitivity_figure(heat_of(many, "sqnr", higher=True, limit=None))
    assert len(whole.data[0].z) == 2000 and whole.data[0].text is None
    assert whole.layout.title.text == "Sensitivity per node, sqnr"


def test_numbers_stand_in_the_cells_and_names_are_escaped():
    """Colour never alone; a hostile name is text in axis, hover and drawing."""
    heat = heat_of(frame(ROWS), "sqnr", higher=True)
    figure = sensitivity_figure(heat, ["", "int8, BPU: <b>why</b>", ""])
    assert [list(row) for row in figure.data[0].text] == [["nan", "", ""], ["12.0", "", "30.0"], ["60.0", "90.0", ""]]
    assert "int8, BPU: &lt;b&gt;why" in figure.data[0].hovertext[1][0]
    drawn = heatmap_svg(heat)
    for text in (figure.to_json(), drawn):
        assert HOSTILE not in text and "alert(1)" in text
    assert drawn.count("<rect") == 5 and ">12.0</text>" in drawn


def test_the_ramp_gets_steadily_lighter():
    """Readers who see no colour see the order: brightness rises along the ramp."""
    def light(colour):
        return sum(weight * int(colour[i:i + 2], 16) for weight, i in ((0.2126, 1), (0.7152, 3), (0.0722, 5)))

    lights = [light(colour) for _, colour in RAMP]
    assert lights == sorted(lights) and lights[-1] - lights[0] > 150


def test_nothing_measured():
    """An empty frame gives a figure that says so."""
    figure = sensitivity_figure(heat_of(frame([]), "sqnr", higher=True))
    assert figure.layout.annotations[0].text == "nothing was measured"
