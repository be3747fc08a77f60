"""A small static drawing (svg) of the cosines, for the rich repr of a result: no script, no library."""
from __future__ import annotations

import math
from html import escape

from ptqlab.artifacts.tables import number, printable
from ptqlab.report.scale import nines, span, ticks
from ptqlab.report.words import say
from ptqlab.stages.record import NodeRow, Record

#: Okabe and Ito's blue and orange, shifted to hold against white and against black (both above 3:1).
CALIBRATED_COLOUR = "#3a87c8"
QUANTIZED_COLOUR = "#cf6a1a"
WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 760, 150, 58, 18, 8
MOST_MARKS = 400


def strip_chart(record: Record) -> str:
    """Calibrated (line, circles) and quantized (dashes, squares) cosine of every node, each with a tooltip.

    Nodes on the CPU have a tick below the axis; a cosine that is NaN is a cross at the bottom.
    """
    rows = record.nodes
    shown = [c for r in rows for c in (r.calibrated_cosine, r.quantized_cosine) if c is not None and not math.isnan(c)]
    low, high = span([nines(c) for c in shown])
    step = (WIDTH - LEFT - 10) / max(1, len(rows) - 1)

    def x(at: int) -> float:
        return round(LEFT + at * step, 1)

    def height(at: float) -> float:
        return round(TOP + (high - at) / (high - low) * (HEIGHT - TOP - BOTTOM), 1)

    def y(cosine: float) -> float:
        return HEIGHT - BOTTOM if math.isnan(cosine) else height(nines(cosine))

    parts = [f"<line x1='{LEFT}' x2='{WIDTH}' y1='{height(at)}' y2='{height(at)}' stroke='currentColor' "
             f"stroke-opacity='.18'/><text x='{LEFT - 8}' y='{height(at) + 3.5}' text-anchor='end' font-size='10' "
             f"fill='currentColor'>{label}</text>" for at, label in ticks(low, high)]
    series = [("calibrated_cosine", CALIBRATED_COLOUR, "", "circle"),
              ("quantized_cosine", QUANTIZED_COLOUR, "5 3", "square")]
    for name, colour, dash, shape in series:
        parts += _lines([None if (c := getattr(r, name)) is None or math.isnan(c) else (x(i), y(c))
                         for i, r in enumerate(rows)], colour, dash)
        if len(rows) <= MOST_MARKS:
            parts += [_mark(x(i), y(c), colour, "cross" if math.isnan(c) else shape, r)
                      for i, r in enumerate(rows) if (c := getattr(r, name)) is not None]
    parts += [f"<path d='M{x(i)} {HEIGHT - 14}v8' stroke='currentColor' stroke-width='2'>{_tip(r)}</path>"
              for i, r in enumerate(rows) if r.on == "CPU"]
    legend = (f"<span style='color:{CALIBRATED_COLOUR}'>&#9679;</span> {escape(say('calibrated'))} &nbsp; "
              f"<span style='color:{QUANTIZED_COLOUR}'>&#9632;</span> {escape(say('quantized'))}")
    if any(r.on == "CPU" for r in rows):
        legend += f" &nbsp; | {escape(say('on_cpu'))}"
    return (f"<svg viewBox='0 0 {WIDTH + 6} {HEIGHT}' width='{WIDTH + 6}' "
            f"style='max-width:100%;height:auto;display:block' role='img' "
            f"aria-label='{escape(say('chart'))}'>{''.join(parts)}</svg><div>{legend}</div>")


def _lines(points: list[tuple[float, float] | None], colour: str, dash: str) -> list[str]:
    """One polyline per stretch without a gap."""
    out, stretch = [], []
    for point in [*points, None]:
        if point is not None:
            stretch.append(f"{point[0]},{point[1]}")
        elif stretch:
            style = f" stroke-dasharray='{dash}'" if dash else ""
            out.append(f"<polyline points='{' '.join(stretch)}' fill='none' stroke='{colour}' stroke-width='1.5'"
                       f"{style}/>")
            stretch = []
    return out


def _mark(x: float, y: float, colour: str, shape: str, row: NodeRow) -> str:
    y = round(y, 1)
    if shape == "circle":
        return f"<circle cx='{x}' cy='{y}' r='4' fill='{colour}'>{_tip(row)}</circle>"
    if shape == "square":
        left, top = round(x - 2, 1), round(y - 2, 1)
        return f"<rect x='{left}' y='{top}' width='4' height='4' fill='{colour}'>{_tip(row)}</rect>"
    return f"<path d='M{x - 4} {y - 8}l8 8m0 -8l-8 8' stroke='{colour}' stroke-width='2'>{_tip(row)}</path>"


def _tip(row: NodeRow) -> str:
    words = (f"{row.node} ({row.node_type}, {row.on}, {row.granted}): {number(row.calibrated_cosine)} / "
             f"{number(row.quantized_cosine)}")
    return f"<title>{escape(printable(words))}</title>"
