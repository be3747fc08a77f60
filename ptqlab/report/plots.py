"""Figures of a record. Plotly is imported on use; every name that reaches it is escaped, since plotly reads
its texts as html."""
from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING

from ptqlab.artifacts.tables import explain_nan, number, printable
from ptqlab.errors import shorten
from ptqlab.report.chart import CALIBRATED_COLOUR, QUANTIZED_COLOUR
from ptqlab.report.scale import nines, span, ticks
from ptqlab.report.words import say, spoken
from ptqlab.stages.record import NodeRow, Record

if TYPE_CHECKING:
    import plotly.graph_objects as go

#: Grey that holds 4:1 against white and against JupyterLab's dark background.
INK = "#7d8288"
RULE = "rgba(128,128,128,0.28)"
MOST_LABELS = 60
LABEL_CHARACTERS = 28
REASON_CHARACTERS = 110


def cosine_figure(record: Record) -> go.Figure:
    """Both cosines of every node in graph order, on an axis that tells 0.99 from 0.999.

    Hovering names the node, its type, place, types asked and granted, and the reason. Nodes on the CPU are ringed; a
    cosine that is NaN is a cross at the bottom with its reason; a node that was not compared is a gap.
    """
    import plotly.graph_objects as go

    rows = record.nodes
    positions = list(range(len(rows)))
    hover = [_hover(row) for row in rows]
    shown = [nines(c) for row in rows for c in (row.calibrated_cosine, row.quantized_cosine)
             if c is not None and not math.isnan(c)]
    low, high = span(shown)
    figure = go.Figure()
    # the two curves often coincide: the first is drawn larger, so that it shows around the second
    for field, colour, symbol, size, dash in (("calibrated_cosine", CALIBRATED_COLOUR, "circle", 10, "solid"),
                                              ("quantized_cosine", QUANTIZED_COLOUR, "square", 5, "dash")):
        values = [getattr(row, field) for row in rows]
        figure.add_trace(go.Scatter(
            x=positions, y=[None if v is None or math.isnan(v) else nines(v) for v in values],
            name=say(field.removesuffix("_cosine")), mode="lines+markers", text=hover, hoverinfo="text",
            line={"color": colour, "width": 1.6, "dash": dash},
            marker={"color": colour, "symbol": symbol, "size": size},
        ))
    _mark_cpu(figure, rows, hover, low)
    _mark_nan(figure, record, low)
    if not shown:
        figure.add_annotation(text=say("nothing_to_plot"), xref="paper", yref="paper", x=0.5, y=0.5, showarrow=False)
    at, labels = zip(*ticks(low, high), strict=True)
    longest = max((min(len(row.node), LABEL_CHARACTERS) for row in rows), default=0) if len(rows) <= MOST_LABELS else 0
    axis = {"gridcolor": RULE, "linecolor": RULE, "zeroline": False}
    figure.update_layout(
        title={"text": escape(printable(f"{record.model}, {record.march}: {say('chart')}")), "font": {"size": 14}},
        paper_bgcolor="rgba(0,0,0,0)", plot_bgcolor="rgba(0,0,0,0)", font={"color": INK, "size": 12},
        legend={"orientation": "h", "y": 1.02, "x": 0, "yanchor": "bottom"}, hovermode="closest",
        height=400 + 5 * longest, margin={"l": 70, "r": 20, "t": 80, "b": 40},
        xaxis=axis | {"title": {"text": say("node_axis")}, "range": [-0.6, max(len(rows), 1) - 0.4],
                      "automargin": True},
        yaxis=axis | {"title": {"text": say("cosine_axis")}, "range": [low, high], "tickvals": list(at),
                      "ticktext": list(labels)},
    )
    if len(rows) <= MOST_LABELS:
        figure.update_xaxes(tickvals=positions, ticktext=[_label(row) for row in rows], tickangle=-60)
    return figure


def _mark_cpu(figure: go.Figure, rows: tuple[NodeRow, ...], hover: list[str], low: float) -> None:
    at = [i for i, row in enumerate(rows) if row.on == "CPU"]
    if at:
        heights = [nines(c) if (c := _known(rows[i])) is not None else low + 0.1 for i in at]
        figure.add_scatter(x=at, y=heights, mode="markers", name=say("on_cpu"), text=[hover[i] for i in at],
                           hoverinfo="text",
                           marker={"symbol": "circle-open", "size": 15, "color": INK, "line": {"width": 2}})


def _mark_nan(figure: go.Figure, record: Record, low: float) -> None:
    at = [(i, row) for i, row in enumerate(record.nodes)
          if any(c is not None and math.isnan(c) for c in (row.calibrated_cosine, row.quantized_cosine))]
    if at:
        text = [f"{_hover(row)}<br>nan: {_wrap(spoken(explain_nan(record, row)))}" for _, row in at]
        figure.add_scatter(x=[i for i, _ in at], y=[low + 0.1] * len(at), mode="markers", name=say("nan"), text=text,
                           hoverinfo="text", marker={"symbol": "x", "size": 10, "color": INK})


def _known(row: NodeRow) -> float | None:
    """A finite cosine of the row to draw a mark at, the quantized one first."""
    return next((c for c in (row.quantized_cosine, row.calibrated_cosine) if c is not None and not math.isnan(c)), None)


def _hover(row: NodeRow) -> str:
    lines = [f"<b>{_wrap(row.node)}</b>", _wrap(f"{row.node_type}, {row.on} {row.subgraph}"),
             _wrap(say("asked_granted", asked=row.asked or "--", granted=row.granted or "--")),
             _wrap(f"{say('calibrated')}: {number(row.calibrated_cosine)}"),
             _wrap(f"{say('quantized')}: {number(row.quantized_cosine)}"), _wrap(spoken(row.reason))]
    return "<br>".join(line for line in lines if line)


def _wrap(text: str) -> str:
    """Escaped text, cut, in lines of about 70 characters."""
    clean = shorten(text, 3 * REASON_CHARACTERS)
    return "<br>".join(escape(clean[at:at + 70]) for at in range(0, len(clean), 70))


def _label(row: NodeRow) -> str:
    """The node's name for the axis; of a long one the end, which tells more."""
    name = printable(row.node)
    return escape(name if len(name) <= LABEL_CHARACTERS else "\u2026" + name[1 - LABEL_CHARACTERS:])
