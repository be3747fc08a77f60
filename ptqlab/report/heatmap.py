"""Sensitivity as a heatmap, node x what-if: a plotly figure, and a static drawing for reports.

A cell prints its number, so that colour never speaks alone. Nodes are sorted by their worst cell.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from ptqlab.report.look import RAMP, ink_on, label, ramp, short, style
from ptqlab.report.words import say

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

WORST = 50
COSINE = "cosine-similarity"
#: The order of the columns: whole nodes first, fewer bits first.
PARTS, TYPES = ("node", "activation", "weight"), ("int8", "int16", "dual-int16", "float16")
#: 1 - cosine, and an error, below which nothing can be told apart: float32 does not hold more.
LEAST_LOSS, LEAST_ERROR = 1e-9, 1e-30
#: Rows whose numbers can be read in the cell; of more rows they are told on hovering.
MOST_NUMBERS = 150
#: Share of the cells, the best ones, that share the dark end of the colours.
BEST = 0.1
ROW, TALLEST = 20, 6000
LEFT, CELL, BAR = 260, 92, 18
NAME_CHARACTERS = 38


@dataclass(frozen=True)
class Heat:
    """Scores of a metric: one row per node, one column per what-if, None where not measured.

    of      number of nodes there are; the rows may be the worst of them
    higher  whether more of the metric is better
    """

    metric: str
    higher: bool
    nodes: tuple[str, ...]
    columns: tuple[str, ...]
    values: tuple[tuple[float | None, ...], ...]
    of: int

    def badness(self, value: float | None) -> float:
        """Where a score stands, larger is worse: decades of 1 - cosine, dB of an SQNR, decades of an error."""
        if value is None:
            return -math.inf
        if math.isnan(value):
            return math.inf
        if self.metric == COSINE:
            return math.log10(max(1.0 - value, LEAST_LOSS))
        if self.higher:
            return -value
        return math.log10(max(value, LEAST_ERROR))

    def score(self, mark: float) -> float:
        """The score that stands at a mark of `badness`."""
        if self.metric == COSINE:
            return 1.0 - 10.0 ** mark
        return -mark if self.higher else 10.0 ** mark

    def ends(self) -> tuple[float, float]:
        """Marks of `badness` at the dark and the bright end of the colours; the bright end is the worst score.

        The dark end leaves a tenth of the cells below it: a few that lose nothing would take the colours of all others.
        """
        marks = [m for row in self.values for v in row if math.isfinite(m := self.badness(v))]
        if not marks:
            return 0.0, 1.0
        low, high = float(np.quantile(marks, BEST)), max(marks)
        return (low, high) if high > low else (high - 1.0, high)

    def shades(self) -> list[list[float | None]]:
        """0 (among the best shown) to 1 (the worst) per cell; None where not measured."""
        low, high = self.ends()

        def shade(mark: float) -> float | None:
            return None if mark == -math.inf else min(max((mark - low) / (high - low), 0.0), 1.0)

        return [[shade(self.badness(v)) for v in row] for row in self.values]

    def words(self, value: float | None) -> str:
        """A score as the cell prints it."""
        if value is None:
            return ""
        if math.isnan(value):
            return "nan"
        if self.metric == COSINE:
            # of a cosine near 1 the distance to 1 is what can be told apart
            return f"{value:.4f}" if value <= 0.9999 else "1" if value >= 1.0 - LEAST_LOSS else f"1-{1.0 - value:.0e}"
        return f"{value:.1f}" if self.metric == "sqnr" else f"{value:.3g}"


def heat_of(frame: pd.DataFrame, metric: str, *, higher: bool, limit: int | None = WORST) -> Heat:
    """The scores of `metric` in a sensitivity frame (columns Node, Part, Type and one per metric).

    limit  number of nodes, the worst first; None: all of them
    """
    cells: dict[str, dict[str, float]] = {}
    columns: dict[str, None] = {}
    for node, part, qtype, value in frame[["Node", "Part", "Type", metric]].itertuples(index=False):
        column = f"{part} {qtype}"
        columns[column] = None
        cells.setdefault(str(node), {})[column] = float(value)
    order = tuple(sorted(columns, key=_column_order))
    whole = Heat(metric, higher, tuple(cells), order, (), len(cells))
    worst = sorted(cells, key=lambda n: -max(whole.badness(v) for v in cells[n].values()))[:limit]
    values = tuple(tuple(cells[node].get(column) for column in order) for node in worst)
    return Heat(metric, higher, tuple(worst), order, values, len(cells))


def _column_order(column: str) -> tuple[int, int, str]:
    part, _, qtype = column.partition(" ")
    return (PARTS.index(part) if part in PARTS else len(PARTS), TYPES.index(qtype) if qtype in TYPES else len(TYPES),
            column)


def title_of(heat: Heat) -> str:
    """What the heatmap shows, in words."""
    told = say("sensitivity_title", metric=heat.metric)
    return told if heat.of == len(heat.nodes) else f"{told} ({say('worst_of', n=len(heat.nodes), of=heat.of)})"


def sensitivity_figure(heat: Heat, told: Sequence[str] = ()) -> go.Figure:
    """The heatmap as a plotly figure; `told` is a further line per node for hovering."""
    import plotly.graph_objects as go

    shades, rows = heat.shades(), len(heat.nodes)
    hover = [[f"<b>{escape(short(node, 200))}</b><br>{escape(column)}: "
              + escape(heat.words(value) or say("not_measured"))
              + (f"<br>{escape(told[i])}" if told else "") for column, value in zip(heat.columns, values, strict=True)]
             for i, (node, values) in enumerate(zip(heat.nodes, heat.values, strict=True))]
    numbers: dict[str, Any] = {}
    if rows <= MOST_NUMBERS:
        numbers = {"text": [[heat.words(v) for v in row] for row in heat.values], "texttemplate": "%{text}",
                   "textfont": {"size": 11}}
    figure = go.Figure(go.Heatmap(
        x=[escape(c) for c in heat.columns], y=list(range(rows)), z=shades, zmin=0, zmax=1, xgap=2,
        ygap=2 if rows <= MOST_NUMBERS else 0, colorscale=[list(stop) for stop in RAMP], hovertext=hover,
        hoverinfo="text", colorbar=_bar(heat), **numbers))
    height = min(TALLEST, 150 + (ROW if rows <= MOST_NUMBERS else 3) * max(rows, 1))
    style(figure, title_of(heat), "", "", height=height)
    figure.update_xaxes(side="top", showgrid=False)
    figure.update_yaxes(autorange="reversed", showgrid=False)
    if rows <= MOST_NUMBERS:
        figure.update_yaxes(tickvals=list(range(rows)), ticktext=[label(n, NAME_CHARACTERS) for n in heat.nodes])
    figure.update_layout(margin={"t": 90, "b": 20})
    if not rows:
        figure.add_annotation(text=escape(say("nothing_measured")), xref="paper", yref="paper", x=0.5, y=0.5,
                              showarrow=False)
    return figure


def _bar(heat: Heat) -> dict[str, Any]:
    """The colour bar, labelled with scores."""
    low, high = heat.ends()
    width = high - low
    at = [(low + i * width / 4, heat.words(heat.score(low + i * width / 4))) for i in range(5)]
    return {"title": {"text": escape(heat.metric), "side": "right"}, "thickness": 14, "outlinewidth": 0,
            "tickvals": [(m - low) / width for m, _ in at], "ticktext": [text for _, text in at]}


def heatmap_svg(heat: Heat) -> str:
    """The heatmap as a static drawing: no script, the number in each cell, the whole name in a tooltip."""
    shades = heat.shades()
    width, height = LEFT + CELL * len(heat.columns), 26 + BAR * len(heat.nodes)
    parts = [f"<svg viewBox='0 0 {width} {height}' width='{width}' style='max-width:100%;height:auto;display:block' "
             f"role='img' aria-label='{escape(title_of(heat), quote=True)}' font-size='11'>"]
    for j, column in enumerate(heat.columns):
        parts.append(f"<text x='{LEFT + CELL * j + CELL / 2}' y='14' text-anchor='middle' fill='currentColor'>"
                     f"{escape(column)}</text>")
    for i, node in enumerate(heat.nodes):
        top = 22 + BAR * i
        parts.append(f"<text x='{LEFT - 8}' y='{top + 12}' text-anchor='end' fill='currentColor'>"
                     f"{label(node, NAME_CHARACTERS)}<title>{escape(short(node, 400))}</title></text>")
        for j, (shade, value) in enumerate(zip(shades[i], heat.values[i], strict=True)):
            if shade is None:
                continue
            colour, x = ramp(shade), LEFT + CELL * j
            parts.append(f"<rect x='{x}' y='{top}' width='{CELL - 2}' height='{BAR - 2}' fill='{colour}'/>"
                         f"<text x='{x + CELL / 2 - 1}' y='{top + 12}' text-anchor='middle' fill='{ink_on(colour)}'>"
                         f"{escape(heat.words(value))}</text>")
    return "".join([*parts, "</svg>"])
