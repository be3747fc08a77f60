"""Drawings of a run as inline SVG: a timeline of the engines, and utilization and bandwidth over time."""
from __future__ import annotations

from collections.abc import Sequence
from html import escape

from ptqlab.perf.estimate import Interval
from ptqlab.perf.vendor import ENGINES, Intervals
from ptqlab.perf.words import say

WIDTH, LEFT, ROW, BAR = 960, 62, 22, 14
MOST_BARS = 4000


def timeline_svg(timeline: Sequence[Interval], latency_us: float, title: str) -> str:
    """One row for each engine that works, one bar for each layer; the bar's title tells layer and times.

    title  of the drawing, for readers that hear it
    """
    engines = [e for e in ENGINES if any(b.engine == e for b in timeline)]
    scale = (WIDTH - LEFT - 8) / (latency_us or 1)
    height = len(engines) * ROW + 26
    parts = [f"<svg class='perf' viewBox='0 0 {WIDTH} {height}' role='img' "
             f"aria-label='{escape(title)}'>"]
    for index, engine in enumerate(engines):
        top = index * ROW + 4
        parts.append(f"<text x='0' y='{top + BAR - 2}'>{engine}</text>"
                     f"<line x1='{LEFT}' y1='{top + BAR}' x2='{WIDTH - 8}' y2='{top + BAR}' class='axis'/>")
        bars = [b for b in timeline if b.engine == engine]
        # the longest ones, should there be more bars than anybody could see
        for bar in sorted(bars, key=lambda b: -b.working_us)[:MOST_BARS]:
            title = f"{bar.layer}: {bar.start_us:.1f} us + {bar.working_us:.1f} us"
            parts.append(f"<rect class='e{index % 7}' x='{LEFT + bar.start_us * scale:.2f}' y='{top}' "
                         f"width='{max(bar.working_us * scale, 0.4):.2f}' height='{BAR}'>"
                         f"<title>{escape(title)}</title></rect>")
    base = len(engines) * ROW + 8
    for step in range(6):
        us = latency_us * step / 5
        anchor = "end" if step == 5 else "start" if step == 0 else "middle"
        parts.append(f"<text x='{LEFT + us * scale:.1f}' y='{base + 12}' text-anchor='{anchor}'>{us:.0f} us</text>")
    return "".join((*parts, "</svg>"))


def bandwidth_svg(cut: Intervals, lang: str) -> str:
    """Three small step charts over the run: share of computing time, DDR loading, DDR storing."""
    rows = [(say("utilization", lang), cut.utilization, 1.0, "100 %"),
            *((say(key, lang), values, max([*values, 1.0]), f"{max([*values, 0.0]) / 1e3:.1f} GB/s")
              for key, values in (("loading", cut.loading), ("storing", cut.storing)))]
    height, parts = 46, []
    for index, (label, values, top, most) in enumerate(rows):
        step = (WIDTH - LEFT - 8) / max(len(values), 1)
        base = (index + 1) * height - 4
        points = " ".join(f"{LEFT + i * step + d * step:.1f},{base - v / top * (height - 18):.1f}"
                          for i, v in enumerate(values) for d in (0, 1))
        parts.append(f"<text x='{LEFT}' y='{base - height + 16}'>{escape(label)} ({escape(most)})</text>"
                     f"<polyline class='step s{index}' points='{LEFT},{base} {points} {WIDTH - 8},{base}'/>")
    return f"<svg class='perf' viewBox='0 0 {WIDTH} {len(rows) * height}' role='img'>{''.join(parts)}</svg>"
