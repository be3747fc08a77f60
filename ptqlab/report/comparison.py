"""Two runs side by side: page and figure, functions of the two records."""
from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from ptqlab.artifacts.tables import MISSING, number, printable
from ptqlab.report.look import PALETTE, cosine_axis, label, style
from ptqlab.report.page import Page
from ptqlab.report.plots import INK, MOST_LABELS
from ptqlab.report.scale import nines
from ptqlab.report.settings import portable
from ptqlab.report.speed import FIGURES
from ptqlab.report.words import say
from ptqlab.stages.record import NodeRow, Record

if TYPE_CHECKING:
    import plotly.graph_objects as go

CHANGED = 20


@dataclass(frozen=True)
class Pair:
    """A node in both runs; None where one of them has no node of that name."""

    node: str
    a: NodeRow | None
    b: NodeRow | None

    @property
    def change(self) -> float:
        """Quantized cosine of b minus that of a; NaN where one is missing."""
        cosines = [math.nan if r is None or r.quantized_cosine is None else r.quantized_cosine
                   for r in (self.a, self.b)]
        return cosines[1] - cosines[0]

    @property
    def granted(self) -> tuple[str, str]:
        """Types granted in a and in b."""
        words = [MISSING if r is None else r.granted or MISSING for r in (self.a, self.b)]
        return words[0], words[1]


def pairs(a: Record, b: Record) -> tuple[Pair, ...]:
    """Every node of either run, in the order of `a`, then those of `b` only."""
    rows_a, rows_b = ({row.node: row for row in record.nodes} for record in (a, b))
    return tuple(Pair(name, rows_a.get(name), rows_b.get(name)) for name in dict.fromkeys([*rows_a, *rows_b]))


def settings_that_differ(a: Record, b: Record) -> list[tuple[str, str, str]]:
    """(key, value in a, value in b) of every setting of the two runs that is not the same; paths of folders aside."""
    left, right = _flat({"quant_config": a.quant_config}), _flat({"quant_config": b.quant_config})
    left |= {"march": a.march, "samples": str(a.samples)} | _flat(portable(a.settings))
    right |= {"march": b.march, "samples": str(b.samples)} | _flat(portable(b.settings))
    keys = [k for k in dict.fromkeys([*left, *right]) if not k.startswith(("calibration_parameters.quant_config",
                                                                          "model_parameters.working_dir"))]
    return [(k, left.get(k, MISSING), right.get(k, MISSING)) for k in keys if left.get(k) != right.get(k)]


def _flat(value: object, key: str = "") -> dict[str, str]:
    """{dotted key: value as text} of nested mappings."""
    if isinstance(value, Mapping):
        parts = [_flat(v, f"{key}.{k}" if key else str(k)) for k, v in value.items()]
        return {k: v for part in parts for k, v in part.items()}
    return {key: str(value)} if key else {}


def comparison_page(a: Record, b: Record, names: tuple[str, str]) -> Page:
    """What differs: settings, outputs, speed, nodes by their change. `names` tell the two runs apart."""
    page = Page(f"{names[0]} {say('against')} {names[1]}")
    page.heading(say("outputs"))
    outputs = output_rows(a, b)
    if all(row[1] == row[2] == MISSING for row in outputs):
        page.line(say("not_compared"))
    else:
        page.table(("TensorName", *names, say("change")), outputs, (*names, say("change")))
    speed = [(say(words), *(f"{r.perf[key]:.{digits}f}{unit}" for r in (a, b)),
              f"{round(b.perf[key] - a.perf[key], digits) or 0:+.{digits}f}{unit}")
             for key, (words, digits, unit) in FIGURES.items()
             if all(isinstance(r.perf.get(key), int | float) for r in (a, b))]
    if speed:
        page.heading(say("speed"))
        page.table((say("figure"), *names, say("change")), speed, (*names, say("change")))
    settings = settings_that_differ(a, b)
    page.heading(say("settings_differ"))
    page.table((say("setting"), *names), settings[:CHANGED])
    if len(settings) > CHANGED:
        page.line(say("more", n=len(settings) - CHANGED))
    rows = changed_rows(pairs(a, b))
    page.heading(say("nodes_changed", n=len(rows)))
    columns = ("Node", "NodeType", "Granted", *(f"Quantized Cosine {n}" for n in names), say("change"))
    page.table(columns, rows[:CHANGED], columns[3:])
    if len(rows) > CHANGED:
        page.line(say("more", n=len(rows) - CHANGED))
    return page


def output_rows(a: Record, b: Record) -> list[tuple[str, str, str, str]]:
    """(output, cosine in a, in b, change) of every output of either run."""
    left, right = ({o.tensor: o.quantized_cosine for o in record.outputs} for record in (a, b))
    return [(name, number(left.get(name)), number(right.get(name)), signed(left.get(name), right.get(name)))
            for name in dict.fromkeys([*left, *right])]


def signed(a: float | None, b: float | None) -> str:
    """b - a with its sign; -- where one is missing."""
    if a is None or b is None or math.isnan(a) or math.isnan(b):
        return MISSING
    return f"{b - a:+.6f}"


def changed_rows(found: Sequence[Pair]) -> list[tuple[str, ...]]:
    """Nodes whose cosine or type changed, the largest change first; nodes of one run only come last, those that are
    computed inside another one, which has the same output, are left out."""
    def size(pair: Pair) -> float:
        return 0.0 if math.isnan(pair.change) else abs(pair.change)

    rows = []
    for pair in sorted(found, key=size, reverse=True):
        row = pair.a or pair.b
        assert row is not None, "a pair has at least one row"
        if row.fused_into or not (size(pair) or pair.granted[0] != pair.granted[1]):
            continue
        types = pair.granted[0] if pair.granted[0] == pair.granted[1] else " → ".join(pair.granted)
        cosines = [None if r is None else r.quantized_cosine for r in (pair.a, pair.b)]
        rows.append((pair.node, row.node_type, types, *map(number, cosines), signed(*cosines)))
    return rows


def comparison_figure(a: Record, b: Record, names: tuple[str, str]) -> go.Figure:
    """Quantized cosine of every node in both runs, and rings where the type changed."""
    import plotly.graph_objects as go

    found = pairs(a, b)
    hover = [_hover(pair, names) for pair in found]
    figure = go.Figure()
    shown: list[float] = []
    for index, (name, colour, symbol) in enumerate(zip(names, PALETTE, ("circle", "square"), strict=False)):
        rows = [(p.a, p.b)[index] for p in found]
        cosines = [None if r is None or r.quantized_cosine is None or math.isnan(r.quantized_cosine)
                   else r.quantized_cosine for r in rows]
        shown += [c for c in cosines if c is not None]
        figure.add_trace(go.Scatter(
            x=list(range(len(found))), y=[None if c is None else nines(c) for c in cosines], mode="lines+markers",
            name=escape(printable(name)), text=hover, hoverinfo="text",
            line={"color": colour, "width": 1.6, "dash": "dash" if index else "solid"},
            marker={"color": colour, "symbol": symbol, "size": 5 if index else 9}))
    changed = [(i, p.b.quantized_cosine) for i, p in enumerate(found)
               if p.a is not None and p.b is not None and p.granted[0] != p.granted[1]]
    at = [(i, cosine) for i, cosine in changed if cosine is not None and not math.isnan(cosine)]
    if at:
        figure.add_trace(go.Scatter(
            x=[i for i, _ in at], y=[nines(c) for _, c in at], mode="markers", name=escape(say("type_changed")),
            text=[hover[i] for i, _ in at], hoverinfo="text",
            marker={"symbol": "circle-open", "size": 16, "color": INK, "line": {"width": 2}}))
    style(figure, f"{names[0]} {say('against')} {names[1]}", say("node_axis"), say("cosine_axis"), height=440,
          legend={"orientation": "h", "y": 1.02, "x": 0, "yanchor": "bottom"})
    figure.update_yaxes(**cosine_axis(shown))
    if len(found) <= MOST_LABELS:
        figure.update_xaxes(tickvals=list(range(len(found))), ticktext=[label(p.node) for p in found], tickangle=-60)
    return figure


def _hover(pair: Pair, names: tuple[str, str]) -> str:
    row = pair.a or pair.b
    assert row is not None, "a pair has at least one row"
    lines = [f"<b>{escape(printable(pair.node))}</b>", escape(printable(row.node_type))]
    for name, one in zip(names, (pair.a, pair.b), strict=True):
        told = say("none") if one is None else f"{one.granted or MISSING}, {number(one.quantized_cosine)}"
        lines.append(escape(printable(f"{name}: {told}")))
    return "<br>".join([*lines, escape(signed(*(None if r is None else r.quantized_cosine for r in (pair.a, pair.b))))])
