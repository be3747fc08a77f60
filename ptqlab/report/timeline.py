"""The estimate of a record over time: which engine works for which layer, as a figure and as a static drawing."""
from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, TypeVar

from ptqlab.artifacts.tables import printable
from ptqlab.errors import Problem, PtqError, shorten
from ptqlab.perf.estimate import Interval
from ptqlab.perf.svg import timeline_svg
from ptqlab.perf.vendor import ENGINES
from ptqlab.report.look import PALETTE, short, style
from ptqlab.report.words import say, spoken_word
from ptqlab.stages.record import Record

if TYPE_CHECKING:
    import plotly.graph_objects as go

T = TypeVar("T")
#: Bars that a figure draws; of more only the longest, as nobody sees the others.
MOST_BARS = 4000


@dataclass(frozen=True)
class Layer:
    """A layer on the BPU as a record tells of it: when it is active, and what decides how long."""

    name: str
    op: str
    qtype: str
    bound: str
    start_us: float
    end_us: float

    @property
    def us(self) -> float:
        return self.end_us - self.start_us


def bars_of(perf: Mapping[str, Any]) -> list[Interval]:
    """The bars of an estimate as a record holds it; empty for a record without. PtqError for bars that are none."""
    return _read(perf, "timeline", lambda b: Interval(str(b["engine"]), str(b["layer"]), _time(b["start_us"]),
                                                      _time(b["working_us"])))


def layers_of(perf: Mapping[str, Any]) -> list[Layer]:
    """The layers on the BPU of an estimate; else as `bars_of`."""
    found = _read(perf, "layers", lambda r: None if r["device"] != "BPU" else Layer(
        str(r["name"]), str(r["op"]), str(r["qtype"]), str(r["bound"]), _time(r["start_us"]), _time(r["end_us"])))
    return [layer for layer in found if layer is not None]


def _read(perf: Mapping[str, Any], key: str, make: Callable[[Any], T]) -> list[T]:
    """The rows under a key of an estimate. PtqError for one that cannot be read: records come from files."""
    found = []
    rows = perf.get(key) or ()
    for index, row in enumerate(rows if isinstance(rows, list | tuple) else [rows]):
        try:
            found.append(make(row))
        except (KeyError, TypeError, ValueError) as error:
            raise PtqError(Problem("PTQ601", f"perf.{key}[{index}]", f"cannot be read: {shorten(error)}",
                                   "an estimate that ptqlab wrote", "compile again"), "record") from None
    return found


def _time(value: object) -> float:
    """A time in us."""
    if not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{shorten(value)} is no time")
    return float(value)


def busy(perf: Mapping[str, Any]) -> dict[str, float]:
    """Engine -> us that it works, of those that work."""
    bars = bars_of(perf)
    return {e: sum(b.working_us for b in bars if b.engine == e) for e in ENGINES if any(b.engine == e for b in bars)}


def timeline_figure(record: Record) -> go.Figure:
    """One row per engine, one bar per layer, in us from the start of the run. PtqError where no estimate was made."""
    import plotly.graph_objects as go

    bars = _bars_or_refuse(record)
    engines = [e for e in ENGINES if any(b.engine == e for b in bars)]
    layers = {layer.name: layer for layer in layers_of(record.perf)}
    figure = go.Figure()
    for index, engine in enumerate(engines):
        mine = sorted((b for b in bars if b.engine == engine), key=lambda b: -b.working_us)[:MOST_BARS]
        figure.add_trace(go.Bar(
            x=[max(b.working_us, 1e-6) for b in mine], base=[b.start_us for b in mine], y=[engine] * len(mine),
            orientation="h", name=engine, marker={"color": PALETTE[index % len(PALETTE)], "line": {"width": 0}},
            hovertext=[_hover(b, layers.get(b.layer)) for b in mine], hoverinfo="text", showlegend=False))
    style(figure, say("timeline_title", model=record.model, march=record.march, us=f"{record.perf['latency_us']:.1f}"),
          say("time_axis"), "", height=130 + 46 * max(len(engines), 1), barmode="overlay", bargap=0.25)
    figure.update_yaxes(autorange="reversed", showgrid=False)
    return figure


def _hover(bar: Interval, layer: Layer | None) -> str:
    lines = [f"<b>{escape(short(bar.layer, 120))}</b>",
             escape(printable(f"{bar.engine}: {bar.start_us:.1f} us + {bar.working_us:.2f} us"))]
    if layer is not None:
        lines.append(escape(printable(f"{layer.op}, {layer.qtype}; {say('bound')}: {spoken_word(layer.bound)}")))
    return "<br>".join(lines)


def _bars_or_refuse(record: Record) -> list[Interval]:
    bars = bars_of(record.perf)
    if not bars or not isinstance(record.perf.get("latency_us"), int | float):
        raise PtqError(Problem("PTQ650", "plot_timeline", "a run without an estimate", "a run that was compiled",
                               "compile without skip"), "timeline")
    return bars


def timeline_drawing(record: Record) -> str:
    """The same as static svg; "" for a record without an estimate."""
    bars = bars_of(record.perf)
    latency = record.perf.get("latency_us")
    return timeline_svg(bars, float(latency), say("timeline")) if bars and isinstance(latency, int | float) else ""
