"""The steps of a tuning run: accuracy against latency, with the curve of those that no other step beats."""
from __future__ import annotations

import math
from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING, Any

from ptqlab.artifacts.tables import printable
from ptqlab.report.look import PALETTE, style
from ptqlab.report.plots import INK
from ptqlab.report.words import say

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go


#: Latencies nearer to each other than this share of them stand on an axis that shows them as one.
LEAST_SPAN = 0.01


def pareto_figure(frame: pd.DataFrame) -> go.Figure:
    """SQNR of the worst output over estimated latency. `frame` has the columns of `TuneResult.frame`.

    The line joins the steps of the Pareto front; crosses were taken back; hovering tells what a step did.
    """
    import plotly.graph_objects as go

    figure = go.Figure()
    rows = [row for row in frame.to_dict("records") if math.isfinite(row["SQNR"])]
    front = sorted((r for r in rows if r["Pareto"]), key=lambda r: r["Latency (us)"])
    figure.add_trace(go.Scatter(
        x=[r["Latency (us)"] for r in front], y=[r["SQNR"] for r in front], mode="lines", name=escape(say("front")),
        line={"color": PALETTE[0], "width": 1.6, "shape": "hv"}, hoverinfo="skip"))
    for key, kept, colour, symbol in (("step_kept", True, PALETTE[1], "circle"), ("step_back", False, INK, "x")):
        mine = [r for r in rows if bool(r["Kept"]) is kept]
        if mine:
            figure.add_trace(go.Scatter(
                x=[r["Latency (us)"] for r in mine], y=[r["SQNR"] for r in mine], mode="markers+text",
                name=escape(say(key)), text=[str(r["Step"]) for r in mine], textposition="top center",
                hovertext=[_hover(r) for r in mine], hoverinfo="text",
                marker={"color": colour, "symbol": symbol, "size": 9}))
    times = [r["Latency (us)"] for r in rows]
    if times and max(times) - min(times) < LEAST_SPAN * max(times):
        # a small network takes the same time in any type: hundredths of a nanosecond are no difference
        middle = (max(times) + min(times)) / 2
        figure.update_xaxes(range=[middle * (1 - LEAST_SPAN), middle * (1 + LEAST_SPAN)])
    return style(figure, say("pareto_title"), say("latency_axis"), "SQNR (dB)", height=440,
                 legend={"orientation": "h", "y": 1.02, "x": 0, "yanchor": "bottom"})


def _hover(row: Mapping[Any, Any]) -> str:
    what = printable(str(row["What"]))
    lines = [f"<b>{row['Step']}: {escape(what[:160])}</b>", f"cosine {row['Cosine']:.6f}, {row['SQNR']:.2f} dB",
             f"{row['Latency (us)']:.1f} us"]
    return "<br>".join(lines)
