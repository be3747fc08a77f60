"""Accumulated error along the graph: how far every node is from its float self when all, or a part, is quantized."""
from __future__ import annotations

import math
from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING

from ptqlab.report.look import PALETTE, cosine_axis, label, short, style
from ptqlab.report.plots import MOST_LABELS
from ptqlab.report.scale import nines
from ptqlab.report.words import say

if TYPE_CHECKING:
    import plotly.graph_objects as go

COSINE = "cosine-similarity"
DASHES = ("solid", "dash", "dot", "dashdot")


def error_figure(curves: Mapping[str, Mapping[str, float]], metric: str, at: str | None = None) -> go.Figure:
    """One curve per label over the nodes in graph order; `at` marks a node. Cosines stand on an axis of nines."""
    import plotly.graph_objects as go

    figure = go.Figure()
    names = list(next(iter(curves.values()), {}))
    shown: list[float] = []
    for index, (title, curve) in enumerate(curves.items()):
        values = list(curve.values())
        shown += [v for v in values if math.isfinite(v)]
        height = [None if not math.isfinite(v) else nines(v) if metric == COSINE else v for v in values]
        figure.add_trace(go.Scatter(
            x=list(range(len(values))), y=height, mode="lines+markers", name=escape(title),
            text=[f"<b>{escape(short(n, 120))}</b><br>{escape(title)}: {v:.6g}" for n, v in curve.items()],
            hoverinfo="text", line={"color": PALETTE[index % len(PALETTE)], "width": 1.6,
                                    "dash": DASHES[index % len(DASHES)]}, marker={"size": 5}))
    style(figure, say("error_title"), say("node_axis"), escape(metric), height=440,
          legend={"orientation": "h", "y": 1.02, "x": 0, "yanchor": "bottom"})
    if metric == COSINE:
        figure.update_yaxes(**cosine_axis(shown), title_text=say("cosine_axis"))
    elif metric in ("mse", "mre", "chebyshev"):
        figure.update_yaxes(type="log")
    if len(names) <= MOST_LABELS:
        figure.update_xaxes(tickvals=list(range(len(names))), ticktext=[label(n) for n in names], tickangle=-60)
    if at in names:
        figure.add_vline(x=names.index(at), line={"dash": "dash", "width": 1.5, "color": PALETTE[3]})
    return figure
