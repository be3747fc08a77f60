"""Figures of the debugger: pure functions of numbers. Plotly is imported on use; names are escaped."""
from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING

from ptqlab.artifacts.tables import printable
from ptqlab.report.plots import INK, RULE

if TYPE_CHECKING:
    import plotly.graph_objects as go


def accumulated_figure(curves: Mapping[str, Mapping[str, float]], metric: str) -> go.Figure:
    """One curve per choice over the nodes in graph order; the part near the output is what counts."""
    import plotly.graph_objects as go

    figure = go.Figure()
    for label, curve in curves.items():
        names = [escape(printable(n)) for n in curve]
        figure.add_trace(go.Scatter(x=list(range(len(names))), y=list(curve.values()), text=names, mode="lines+markers",
                                    name=escape(printable(label)), hovertemplate="%{text}<br>%{y:.6f}<extra></extra>"))
    return styled(figure, f"Accumulated error: {metric}", "node, in graph order", metric)


def styled(figure: go.Figure, title: str, across: str, up: str) -> go.Figure:
    """The look that all figures of the debugger share."""
    axis = {"gridcolor": RULE, "linecolor": RULE, "zeroline": False}
    figure.update_layout(
        title={"text": escape(printable(title)), "font": {"size": 14}}, paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)", font={"color": INK, "size": 12}, height=420,
        margin={"l": 70, "r": 20, "t": 60, "b": 50}, showlegend=True,
        xaxis=axis | {"title": {"text": across}, "automargin": True}, yaxis=axis | {"title": {"text": up}},
    )
    return figure
