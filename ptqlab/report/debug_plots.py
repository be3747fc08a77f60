"""Figures of the debugger: pure functions of numbers. Plotly is imported on use; names are escaped."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from ptqlab.artifacts.tables import printable
from ptqlab.debug.distribution import Values
from ptqlab.report.look import RAMP
from ptqlab.report.plots import INK, RULE

if TYPE_CHECKING:
    import plotly.graph_objects as go

BINS = 200


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


def distribution_figure(values: Values) -> go.Figure:
    """Histograms before and after quantization and, of a node, of the error; max |x| and the threshold are marked."""
    import plotly.graph_objects as go

    figure = go.Figure()
    series = {"float": values.before, "quantized": values.after}
    if values.kind == "node":
        series["error"] = values.after.astype(np.float64) - values.before
    for label, array in series.items():
        finite = array[np.isfinite(array)]
        counts, edges = np.histogram(finite, bins=BINS)
        figure.add_trace(go.Bar(x=(edges[:-1] + edges[1:]) / 2, y=counts, width=np.diff(edges), name=label,
                                opacity=0.6, marker={"line": {"width": 0}}))
    largest = float(np.abs(values.before[np.isfinite(values.before)]).max(initial=0.0))
    figure.add_trace(go.Scatter(x=[largest], y=[0], mode="markers", name="max |x|",
                                marker={"symbol": "triangle-up", "size": 12, "color": "blue"}))
    if values.threshold is not None:
        for side in (-values.threshold, values.threshold):
            figure.add_vline(x=side, line={"color": "red", "dash": "dash", "width": 1})
    styled(figure, f"{values.name}: {values.kind}", "value", "count")
    return figure.update_layout(barmode="overlay", yaxis={"type": "log"})


def channel_figure(values: Values, axis: int | None = None) -> go.Figure:
    """A box per channel: median red, mean blue and dashed, whiskers to the smallest and largest value."""
    import plotly.graph_objects as go

    channels = values.channels(axis).astype(np.float64)
    low, first, median, third, high = np.nanquantile(channels, [0, 0.25, 0.5, 0.75, 1], axis=1)
    at = list(range(len(channels)))
    figure = go.Figure()
    figure.add_trace(go.Box(x=at, q1=first, median=median, q3=third, lowerfence=low, upperfence=high, name="channel",
                            line={"color": INK, "width": 1}))
    figure.add_trace(go.Scatter(x=at, y=median, mode="markers", name="median", marker={"color": "red", "size": 4}))
    figure.add_trace(go.Scatter(x=at, y=np.nanmean(channels, axis=1), mode="lines", name="mean",
                                line={"color": "blue", "dash": "dash", "width": 1}))
    return styled(figure, f"{values.name}: {values.kind}, per channel", "channel", "value")


def analysis_figure(scores: Mapping[str, Mapping[str, float]], metric: str) -> go.Figure:
    """Score of the model after each node that was raised, one curve per output."""
    import plotly.graph_objects as go

    figure = go.Figure()
    names = [escape(printable(n)) for n in scores]
    for output in next(iter(scores.values()), {}):
        figure.add_trace(go.Scatter(x=list(range(len(names))), y=[row[output] for row in scores.values()], text=names,
                                    mode="lines+markers", name=escape(printable(output)),
                                    hovertemplate="%{text}<br>%{y:.6f}<extra></extra>"))
    return styled(figure, f"Sensitivity analysis: {metric}", "nodes raised so far", metric)


def heatmap_figure(nodes: Sequence[str], columns: Sequence[str], values: Sequence[Sequence[float | None]], metric: str,
                   *, higher: bool) -> go.Figure:
    """Node x (part, type): sensitivity by colour, the brightest is worst. None: not measured."""
    import plotly.graph_objects as go

    figure = go.Figure(go.Heatmap(
        x=list(columns), y=[escape(printable(n)) for n in nodes], z=[list(row) for row in values],
        colorscale=[list(stop) for stop in RAMP], reversescale=higher,
        hovertemplate="%{y}<br>%{x}<br>%{z:.6g}<extra></extra>",
        colorbar={"title": {"text": metric}},
    ))
    styled(figure, f"Sensitivity: {metric}", "", "")
    return figure.update_layout(height=200 + 18 * len(nodes), yaxis={"autorange": "reversed", "automargin": True})
