"""Figures as still drawings."""
from __future__ import annotations

import io
import math
import re
import struct
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from skimage.io import imread

from ptqlab.debug.distribution import Values
from ptqlab.report.debug_plots import (
    accumulated_figure,
    analysis_figure,
    channel_figure,
    distribution_figure,
    heatmap_figure,
)
from ptqlab.report.pareto import pareto_figure
from ptqlab.report.still import figure_png, figure_svg

NS = "{http://www.w3.org/2000/svg}"
VALUES = Values("w<1>", "weight", np.linspace(-1, 1, 60, dtype=np.float32).reshape(3, 20),
                np.linspace(-1, 1, 60, dtype=np.float32).reshape(3, 20), 1.2, 0)
STEPS = pd.DataFrame([
    {"Step": i, "What": "int16 for a<b>", "Cosine": 0.9, "SQNR": 10.0 + i, "Latency (us)": 100.0 + i, "Kept": i != 1,
     "Pareto": i != 1} for i in range(3)])


def drawn(figure):
    """The drawing as a tree; it is well-formed or this fails."""
    return ElementTree.fromstring(figure_svg(figure))


def texts(tree):
    return [t.text for t in tree.iter(f"{NS}text")]


@pytest.mark.parametrize(("figure", "marks"), [
    (accumulated_figure({"a": {"n0": 1.0, "n1": 0.5}, "b": {"n0": 1.0, "n1": math.nan}}, "mse"), "polyline"),
    (analysis_figure({"n0": {"y": 0.9}, "n1": {"y": 0.99}}, "mse"), "circle"),
    (distribution_figure(VALUES), "rect"), (channel_figure(VALUES), "path"),
    (heatmap_figure(["n<0>", "n1"], ["int8", "int16"], [[0.5, None], [0.9, 1.0]], "sqnr", higher=True), "rect"),
    (pareto_figure(STEPS), "polyline"),
])
def test_every_figure_can_be_drawn(figure, marks):
    """What a figure consists of is there, inside of the picture."""
    tree = drawn(figure)
    width, height = (float(tree.get(k)) for k in ("width", "height"))
    assert next(tree.iter(f"{NS}{marks}"), None) is not None
    for mark in tree.iter(f"{NS}circle"):
        assert 0 < float(mark.get("cx")) < width and 0 < float(mark.get("cy")) < height
    for mark in tree.iter(f"{NS}rect"):
        assert 0 <= float(mark.get("x", 0)) <= width and 0 <= float(mark.get("y", 0)) <= height


def test_points_lie_where_their_values_are():
    """Higher values are drawn higher, and the gap of a NaN is none of the line's points."""
    tree = drawn(accumulated_figure({"a": {"n0": 0.1, "n1": 0.9, "n2": math.nan, "n3": 0.5}}, "mse"))
    at = [(float(c.get("cx")), float(c.get("cy"))) for c in tree.iter(f"{NS}circle")]
    assert len(at) == 3 and at[0][0] < at[1][0] < at[2][0] and at[1][1] < at[2][1] < at[0][1]
    lines = [line.get("points").split() for line in tree.iter(f"{NS}polyline")]
    assert [len(points) for points in lines] == [2]


def test_names_stay_text():
    """Hostile names are text, once escaped; heatmaps carry their numbers."""
    tree = drawn(heatmap_figure(["n<script>", "b"], ["int8"], [[0.25], [1.0]], "mse", higher=False))
    assert "n<script>" in texts(tree) and "0.25" in texts(tree)
    assert "w<1>: weight" in texts(drawn(distribution_figure(VALUES)))


def test_the_png_is_the_drawing():
    """A png of twice the drawing's size, in whose cells the two colours of a heatmap of two values stand."""
    figure = heatmap_figure(["a", "b"], ["int8"], [[0.25], [1.0]], "mse", higher=False)
    tree, data = drawn(figure), figure_png(figure)
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", data[16:24]) == tuple(2 * int(tree.get(k)) for k in ("width", "height"))
    pixels = imread(io.BytesIO(data))[..., :3]
    fills = {c.get("fill") for c in tree.iter(f"{NS}rect") if c.get("fill", "").startswith("rgb")}
    colours = [tuple(int(n) for n in re.findall(r"\d+", fill)) for fill in fills]
    assert len(colours) == 2 and all((pixels == colour).all(axis=-1).sum() > 1000 for colour in colours)
