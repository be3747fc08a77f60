"""Figures as still drawings (svg and png): what plotly needs a browser for, in one file that any viewer opens.

Draws what the figures of the debugger and of tuning are made of: lines, marks, bars, boxes with given quantiles,
heatmaps, vertical lines. Text in a figure is escaped for plotly; here it is taken back and escaped for svg.
"""
from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape, unescape
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from ptqlab.report.look import PALETTE

if TYPE_CHECKING:
    import plotly.graph_objects as go

WIDTH, LEFT, RIGHT, TOP, BOTTOM = 860, 86, 18, 58, 52
INK, RULE, PAPER = "#333333", "#dddddd", "#ffffff"
MOST_LABELS, LABEL = 40, 26
DASHES = {"dash": " stroke-dasharray='6 4'", "dot": " stroke-dasharray='2 3'"}


@dataclass
class _Axis:
    """Values or names along one side: where they lie in pixels, and what is written beside it."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False
    names: Sequence[str] = ()

    def __call__(self, value: Any) -> float:
        number = self.index(value)
        if self.log:
            number = math.log10(max(number, 10.0**self.low))
        return round(self.start + (number - self.low) / (self.high - self.low) * (self.end - self.start), 2)

    def index(self, value: Any) -> float:
        return float(self.names.index(str(value))) if self.names else float(value)

    def ticks(self) -> list[tuple[float, str]]:
        """(pixel, label), about six of them; of names, as many as can be read."""
        if self.names:
            step = max(1, math.ceil(len(self.names) / MOST_LABELS))
            return [(self(n), n if len(n) <= LABEL else "…" + n[1 - LABEL:]) for n in self.names[::step]]
        if self.log:
            return [(self(10.0**p), f"1e{p}") for p in range(math.ceil(self.low), math.floor(self.high) + 1)]
        raw = (self.high - self.low) / 5
        size = 10.0 ** math.floor(math.log10(raw))
        unit = next(size * m for m in (1, 2, 5, 10) if size * m >= raw * 0.999)
        first, last = math.ceil(self.low / unit - 1e-9), math.floor(self.high / unit + 1e-9)
        return [(self(i * unit), f"{i * unit:.10g}") for i in range(first, last + 1)]


def figure_png(figure: go.Figure) -> bytes:
    """The same drawing as a png of twice the size in pixels; letters are drawn in the fonts of the system."""
    import resvg_py

    return bytes(resvg_py.svg_to_bytes(svg_string=figure_svg(figure), zoom=2.0))


def figure_svg(figure: go.Figure) -> str:
    """The figure as one svg document with white background, of its own height and WIDTH pixels."""
    layout = figure.layout
    height = int(layout.height or 420)
    traces = [t for t in figure.data if t.visible is not False]
    y = _axis([_up(t) for t in traces], layout.yaxis, height - BOTTOM, TOP)
    left = max(LEFT, 14 + 6.4 * max((len(words) for _, words in y.ticks()), default=0))
    x = _axis([_across(t) for t in traces], layout.xaxis, left, WIDTH - RIGHT)
    if layout.yaxis.autorange == "reversed":
        y.start, y.end = y.end, y.start
    parts = [f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {height}' width='{WIDTH}' "
             f"height='{height}' font-family='sans-serif' font-size='11' fill='{INK}' role='img'>"
             f"<rect width='{WIDTH}' height='{height}' fill='{PAPER}'/>"
             f"<text x='{left}' y='20' font-size='14'>{_text(layout.title.text)}</text>"]
    parts += _frame(x, y, height, layout)
    for number, trace in enumerate(traces):
        colour = _colour(trace, PALETTE[number % len(PALETTE)])
        parts += {"scatter": _scatter, "bar": _bars, "box": _boxes, "heatmap": _cells}[trace.type](
            trace, x, y, colour)
    for shape in layout.shapes:
        if shape.x0 is not None and shape.x0 == shape.x1:
            parts.append(_line([(x(shape.x0), TOP), (x(shape.x0), height - BOTTOM)], shape.line.color or INK,
                               DASHES.get(shape.line.dash, "")))
    parts += _legend([t for t in traces if t.name and t.type != "heatmap"], traces)
    return "".join((*parts, "</svg>\n"))


def _across(trace: Any) -> list[Any]:
    values = list(trace.x)
    if trace.type in ("bar", "box") and values and not isinstance(values[0], str):
        half = np.asarray(trace.width if trace.type == "bar" and trace.width is not None else 1.0) / 2
        return [*(np.asarray(values) - half), *(np.asarray(values) + half)]
    return values


def _up(trace: Any) -> list[Any]:
    if trace.type == "box":
        return [*trace.lowerfence, *trace.upperfence]
    return [*trace.y, 0] if trace.type == "bar" else list(trace.y)


def _axis(values: Sequence[Sequence[Any]], layout: Any, start: float, end: float) -> _Axis:
    flat = [v for some in values for v in some if v is not None]
    if any(isinstance(v, str) for v in flat):
        names = list(dict.fromkeys(str(v) for v in flat))
        return _Axis(-0.5, len(names) - 0.5, start, end, names=names)
    log = layout.type == "log"
    numbers = [float(v) for v in flat if math.isfinite(v) and (not log or v > 0)]
    numbers = [math.log10(v) for v in numbers] if log else numbers
    low, high = layout.range or (min(numbers, default=0.0), max(numbers, default=1.0))
    if log and layout.range is None:
        low -= 0.3
    room = (high - low) * 0.03 or abs(high) * 0.05 or 0.5
    return _Axis(low - room, high + room, start, end, log)


def _frame(x: _Axis, y: _Axis, height: int, layout: Any) -> list[str]:
    """Grid, labels and titles of both axes."""
    parts = []
    foot = height - BOTTOM
    for at, words in x.ticks():
        parts.append(f"<line x1='{at}' x2='{at}' y1='{TOP}' y2='{foot}' stroke='{RULE}'/>"
                     f"<text x='{at}' y='{foot + 15}' text-anchor='middle'>{_text(words)}</text>")
    for at, words in y.ticks():
        parts.append(f"<line x1='{x.start}' x2='{x.end}' y1='{at}' y2='{at}' stroke='{RULE}'/>"
                     f"<text x='{x.start - 6}' y='{at + 4}' text-anchor='end'>{_text(words)}</text>")
    middle = (TOP + foot) / 2
    parts.append(f"<text x='{(x.start + x.end) / 2}' y='{height - 12}' text-anchor='middle'>"
                 f"{_text(layout.xaxis.title.text)}</text>"
                 f"<text x='14' y='{middle}' text-anchor='middle' transform='rotate(-90 14 {middle})'>"
                 f"{_text(layout.yaxis.title.text)}</text>")
    return parts


def _scatter(trace: Any, x: _Axis, y: _Axis, colour: str) -> list[str]:
    points = [(x(a), y(b)) if b is not None and math.isfinite(float(b)) else None
              for a, b in zip(trace.x, trace.y, strict=True)]
    mode = trace.mode or "lines+markers"
    parts = []
    if "lines" in mode:
        run: list[tuple[float, float]] = []
        for point in [*points, None]:
            if point is not None:
                if run and trace.line.shape == "hv":
                    run.append((point[0], run[-1][1]))
                run.append(point)
                continue
            if len(run) > 1:
                parts.append(_line(run, colour, DASHES.get(trace.line.dash, "")))
            run = []
    if "markers" in mode:
        tips = trace.hovertext if trace.hovertext is not None else trace.text
        for index, point in enumerate(p for p in points):
            if point is not None:
                tip = tips[index] if tips is not None and not isinstance(tips, str) else ""
                parts.append(_mark(point, trace.marker.symbol, colour, str(tip)))
    return parts


def _mark(point: tuple[float, float], symbol: Any, colour: str, tip: str) -> str:
    a, b = point
    title = f"<title>{_text(tip)}</title>" if tip else ""
    if symbol == "x":
        return f"<path d='M{a - 4} {b - 4}l8 8m0 -8l-8 8' stroke='{colour}' stroke-width='1.6'>{title}</path>"
    if symbol == "triangle-up":
        return f"<path d='M{a - 6} {b}h12l-6 -11z' fill='{colour}'>{title}</path>"
    return f"<circle cx='{a}' cy='{b}' r='3' fill='{colour}'>{title}</circle>"


def _line(points: Sequence[tuple[float, float]], colour: str, dash: str) -> str:
    path = " ".join(f"{a},{b}" for a, b in points)
    return f"<polyline points='{path}' fill='none' stroke='{colour}' stroke-width='1.5'{dash}/>"


def _bars(trace: Any, x: _Axis, y: _Axis, colour: str) -> list[str]:
    widths = trace.width if trace.width is not None else np.full(len(trace.x), 0.8)
    base = y.start
    parts = []
    for at, value, width in zip(trace.x, trace.y, widths, strict=True):
        if value and value > 0:
            left, right, top = x(at - width / 2), x(at + width / 2), y(value)
            parts.append(f"<rect x='{left}' y='{top}' width='{max(right - left, 0.5):.2f}' "
                         f"height='{max(base - top, 0.0):.2f}' fill='{colour}' fill-opacity='.55'/>")
    return parts


def _boxes(trace: Any, x: _Axis, y: _Axis, colour: str) -> list[str]:
    parts = []
    rows = zip(trace.x, trace.lowerfence, trace.q1, trace.median, trace.q3, trace.upperfence, strict=True)
    for at, low, first, median, third, high in rows:
        left, right, middle = x(at - 0.35), x(at + 0.35), x(at)
        parts.append(
            f"<path d='M{middle} {y(low)}V{y(first)}M{middle} {y(third)}V{y(high)}M{left} {y(median)}H{right}' "
            f"stroke='{colour}' fill='none'/><rect x='{left}' y='{y(third)}' width='{max(right - left, 0.5):.2f}' "
            f"height='{max(y(first) - y(third), 0.5):.2f}' stroke='{colour}' fill='none'/>")
    return parts


def _cells(trace: Any, x: _Axis, y: _Axis, colour: str) -> list[str]:
    """Cells of a heatmap with their numbers, coloured by the figure's own scale."""
    values = np.array([[np.nan if v is None else float(v) for v in row] for row in trace.z])
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    width, height = abs(x(trace.x[0]) - x.start) * 2, abs(y(trace.y[0]) - y.start) * 2
    parts = []
    for name, row in zip(trace.y, values, strict=True):
        for column, value in zip(trace.x, row, strict=True):
            if not np.isfinite(value):
                continue
            share = (value - low) / (high - low or 1.0)
            shade = _ramp(trace.colorscale, 1.0 - share if trace.reversescale else share)
            ink = "#000" if sum(shade) > 380 else "#fff"
            left, top = x(column) - width / 2, y(name) - height / 2
            parts.append(f"<rect x='{left:.2f}' y='{top:.2f}' width='{width:.2f}' height='{height:.2f}' "
                         f"fill='rgb{shade}'/><text x='{x(column)}' y='{y(name) + 4}' text-anchor='middle' "
                         f"fill='{ink}' font-size='10'>{value:.4g}</text>")
    return parts


def _ramp(scale: Any, at: float) -> tuple[int, int, int]:
    """Colour of a plotly scale at 0..1."""
    stops = [(float(p), _rgb(c)) for p, c in scale]
    for (p, a), (q, b) in pairwise(stops):
        if at <= q:
            share = (at - p) / (q - p or 1.0)
            return tuple(round(m + (n - m) * share) for m, n in zip(a, b, strict=True))  # type: ignore[return-value]
    return stops[-1][1]


def _rgb(colour: str) -> tuple[int, int, int]:
    if colour.startswith("#"):
        return tuple(int(colour[i:i + 2], 16) for i in (1, 3, 5))  # type: ignore[return-value]
    return tuple(int(float(n)) for n in re.findall(r"[\d.]+", colour)[:3])  # type: ignore[return-value]


def _colour(trace: Any, default: str) -> str:
    for part in ("line", "marker"):
        held = getattr(trace, part, None) if trace.type != "heatmap" else None
        if held is not None and isinstance(held.color, str):
            return INK if held.color.startswith("rgba(") else held.color
    return default


def _legend(named: Sequence[Any], traces: Sequence[Any]) -> list[str]:
    parts, left = [], float(LEFT)
    for trace in named:
        words = unescape(_plain(trace.name))
        colour = _colour(trace, PALETTE[traces.index(trace) % len(PALETTE)])
        parts.append(f"<rect x='{left}' y='36' width='10' height='10' fill='{colour}'/>"
                     f"<text x='{left + 15}' y='45'>{escape(words)}</text>")
        left += 34 + 6.4 * len(words)
    return parts


def _plain(text: Any) -> str:
    return re.sub(r"<[^>]*>", " ", str(text or ""))


def _text(text: Any) -> str:
    """Text of a figure, escaped once."""
    return escape(unescape(_plain(text)))
