"""Small static drawings of one node: histogram, boxes per channel, error along the graph. They take the page's text
colour, so that they are read on light and on dark; what a colour means stands beside it in words."""
from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from ptqlab.artifacts.tables import number
from ptqlab.report.html import text
from ptqlab.report.look import PALETTE
from ptqlab.report.scale import nines, span, ticks
from ptqlab.report.tensors import Panel
from ptqlab.report.words import say

WIDTH, HEIGHT = 400, 170
LEFT, RIGHT, TOP, BOTTOM = 54, 20, 20, 24
BINS = 72
MOST_CHANNELS = 128
FAINT = "stroke='currentColor' stroke-opacity='.25'"


def distribution_svg(panel: Panel) -> str:
    """Counts of raw and quantized values on a logarithmic axis; the ends of the codes dashed."""
    before, after = (a[np.isfinite(a)].reshape(-1) for a in (panel.values.before, panel.values.after))
    low = min(float(before.min(initial=0.0)), float(after.min(initial=0.0)), *(panel.bounds or ()))
    high = max(float(before.max(initial=0.0)), float(after.max(initial=0.0)), *(panel.bounds or ()))
    edges = np.linspace(low, high if high > low else low + 1.0, BINS + 1)
    counts = [np.histogram(a, bins=edges)[0] for a in (before, after)]
    top = math.log10(max(int(c.max(initial=1)) for c in counts) + 1)

    def x(value: float) -> float:
        return LEFT + (value - edges[0]) / (edges[-1] - edges[0]) * (WIDTH - LEFT - RIGHT)

    def y(count: float) -> float:
        return HEIGHT - BOTTOM - math.log10(count + 1) / top * (HEIGHT - TOP - BOTTOM)

    bars = "".join(f"<rect x='{x(edges[i]):.1f}' y='{y(int(c)):.1f}' width='{x(edges[1]) - x(edges[0]):.2f}' "
                   f"height='{HEIGHT - BOTTOM - y(int(c)):.1f}'/>" for i, c in enumerate(counts[0]) if c)
    steps = " ".join(f"{x(edges[i]):.1f},{y(int(c)):.1f} {x(edges[i + 1]):.1f},{y(int(c)):.1f}"
                     for i, c in enumerate(counts[1]))
    marks = "".join(f"<line x1='{x(b):.1f}' x2='{x(b):.1f}' y1='{TOP}' y2='{HEIGHT - BOTTOM}' stroke='currentColor' "
                    "stroke-dasharray='4 3'/>" for b in panel.bounds or ())
    labels = _across([(x(v), f"{v:.3g}") for v in _distinct(edges[0], 0.0, edges[-1])]) + _up(
        [(y(10 ** p - 1 if p else 0), f"1e{p}" if p else "0") for p in range(int(top) + 1)])
    key = _key([(PALETTE[0], say("raw")), (PALETTE[1], say("quantized_values"))],
               say("detail_codes") if panel.bounds else "")
    return _svg(f"{key}{labels}<g fill='{PALETTE[0]}' fill-opacity='.6'>{bars}</g>"
                f"<polyline points='{steps}' fill='none' stroke='{PALETTE[1]}' stroke-width='1.4'/>{marks}",
                say("detail_distribution"))


def channel_svg(panel: Panel) -> str:
    """Per channel: thin from the smallest to the largest value, thick the middle half, a tick at the median."""
    channels = panel.values.channels().astype(np.float64)
    channels[~np.isfinite(channels)] = np.nan
    some = np.flatnonzero(np.isfinite(channels).any(axis=1))
    if not some.size:
        return _svg(f"<text x='{LEFT}' y='{HEIGHT / 2}'>{text(say('nothing_measured'))}</text>", say("detail_channels"))
    reach = np.nanmax(np.abs(channels[some]), axis=1)
    shown = np.sort(some[np.argsort(-reach)[:MOST_CHANNELS]])
    low, first, median, third, high = np.nanquantile(channels[shown], [0, 0.25, 0.5, 0.75, 1], axis=1)
    bottom, top = (float(np.nanmin(low, initial=0.0)), float(np.nanmax(high, initial=0.0)))
    bottom, top = (bottom, top) if top > bottom else (bottom - 1, top + 1)
    room = (WIDTH - LEFT - RIGHT) / len(shown)

    def y(value: float) -> float:
        return HEIGHT - BOTTOM - (value - bottom) / (top - bottom) * (HEIGHT - TOP - BOTTOM)

    parts = []
    for i, channel in enumerate(shown):
        at = LEFT + (i + 0.5) * room
        parts.append(
            f"<g><title>{channel}: {low[i]:.4g} … {high[i]:.4g}</title>"
            f"<line x1='{at:.1f}' x2='{at:.1f}' y1='{y(low[i]):.1f}' y2='{y(high[i]):.1f}' stroke='{PALETTE[0]}'/>"
            f"<rect x='{at - room * .35:.1f}' width='{room * .7:.1f}' y='{y(third[i]):.1f}' "
            f"height='{max(y(first[i]) - y(third[i]), 1):.1f}' fill='{PALETTE[0]}'/>"
            f"<line x1='{at - room * .35:.1f}' x2='{at + room * .35:.1f}' y1='{y(median[i]):.1f}' "
            f"y2='{y(median[i]):.1f}' stroke='{PALETTE[1]}' stroke-width='2'/></g>")
    bounds = "".join(f"<line x1='{LEFT}' x2='{WIDTH - RIGHT}' y1='{y(b):.1f}' y2='{y(b):.1f}' stroke='currentColor' "
                     "stroke-dasharray='4 3'/>" for b in panel.bounds or () if bottom <= b <= top)
    part = len(shown) < len(channels)
    told = say("farthest_of", n=len(shown), of=len(channels)) if part else f"{len(channels)}"
    labels = _up([(y(v), f"{v:.3g}") for v in _distinct(bottom, 0.0, top)])
    foot = f"<text x='{LEFT}' y='{HEIGHT - 6}'>{text(say('channel'))}: {text(told)}</text>"
    key = _key([(PALETTE[0], say("detail_boxes")), (PALETTE[1], say("detail_median"))], "")
    return _svg(f"{key}{labels}{foot}{''.join(parts)}{bounds}", say("detail_channels"))


def error_svg(curves: Mapping[str, Mapping[str, float]], node: str) -> str:
    """Cosine of every node in graph order, one line per choice of what is quantized; `node` marked with its figures."""
    names = list(next(iter(curves.values())))
    above = TOP + 12 * (len(curves) - 1)  # a line of the key per curve
    low, high = span([nines(v) for curve in curves.values() for v in curve.values() if math.isfinite(v)])

    def x(index: float) -> float:
        return LEFT + index / max(len(names) - 1, 1) * (WIDTH - LEFT - RIGHT)

    def y(cosine: float) -> float:
        return HEIGHT - BOTTOM - (nines(cosine) - low) / (high - low) * (HEIGHT - above - BOTTOM)

    lines = ""
    for k, curve in enumerate(curves.values()):
        points = " ".join(f"{x(i):.1f},{y(v):.1f}" for i, v in enumerate(curve.values()) if math.isfinite(v))
        lines += (f"<polyline points='{points}' fill='none' stroke='{PALETTE[k % len(PALETTE)]}' stroke-width='1.4'/>")
    here = ""
    if node in names:
        at = x(names.index(node))
        here = (f"<line x1='{at:.1f}' x2='{at:.1f}' y1='{above}' y2='{HEIGHT - BOTTOM}' stroke='currentColor' "
                "stroke-dasharray='4 3'/>")
    figures = [(PALETTE[k % len(PALETTE)], f"{title} {number(curve[node])}" if node in curve else title)
               for k, (title, curve) in enumerate(curves.items())]
    labels = _up([(HEIGHT - BOTTOM - (at - low) / (high - low) * (HEIGHT - above - BOTTOM), words)
                  for at, words in ticks(low, high)])
    foot = f"<text x='{LEFT}' y='{HEIGHT - 6}'>{text(say('node_axis'))}</text>"
    key = "".join(_key([one], "", 12 + 12 * k) for k, one in enumerate(figures))
    return _svg(labels + foot + lines + here + key, say("detail_error"), above)


def _svg(inner: str, title: str, top: float = TOP) -> str:
    return (f"<svg viewBox='0 0 {WIDTH} {HEIGHT}' role='img' aria-label='{text(title)}' font-size='10' "
            f"fill='currentColor'>{inner}<path d='M{LEFT} {top}V{HEIGHT - BOTTOM}H{WIDTH - RIGHT}' fill='none' "
            "stroke='currentColor' stroke-opacity='.6'/></svg>")


def _distinct(*values: float) -> list[float]:
    """Values that are far enough apart for their labels."""
    width = max(values) - min(values)
    kept: list[float] = []
    for value in (values[0], values[-1], *values[1:-1]):
        if all(abs(value - other) > 0.12 * width for other in kept):
            kept.append(float(value))
    return sorted(kept)


def _across(labels: Sequence[tuple[float, str]]) -> str:
    return "".join(f"<text x='{at:.1f}' y='{HEIGHT - 8}' text-anchor='middle'>{words}</text>" for at, words in labels)


def _up(labels: Sequence[tuple[float, str]]) -> str:
    return "".join(f"<text x='{LEFT - 4}' y='{at + 3:.1f}' text-anchor='end'>{words}</text>"
                   f"<line x1='{LEFT}' x2='{WIDTH - RIGHT}' y1='{at:.1f}' y2='{at:.1f}' {FAINT}/>"
                   for at, words in labels)


def _key(entries: Sequence[tuple[str, str]], dashed: str, top: float = 12, left: float = LEFT) -> str:
    parts = []
    for colour, words in entries:
        parts.append(f"<rect x='{left}' y='{top - 8}' width='9' height='9' fill='{colour}'/>"
                     f"<text x='{left + 13}' y='{top}'>{text(words)}</text>")
        left += 24 + sum(10 if ord(c) > 255 else 5.6 for c in words)
    if dashed:
        parts.append(f"<path d='M{left} {top - 3.5}h14' stroke='currentColor' stroke-dasharray='4 3'/>"
                     f"<text x='{left + 18}' y='{top}'>{text(dashed)}</text>")
    return "".join(parts)
