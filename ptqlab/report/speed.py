"""The pages of fast-perf and of the performance estimate."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ptqlab.report.choose import artifacts_in
from ptqlab.report.page import Page
from ptqlab.report.placement import BESIDE_THE_POINT, check_headline
from ptqlab.report.timeline import busy, layers_of, timeline_drawing
from ptqlab.report.words import say, spoken, spoken_word
from ptqlab.stages.record import Record

NOT_REMOVED = "PTQ420"  # fast-perf tries every removable type
#: key of an estimate -> (words, number of decimals, unit)
FIGURES = {"latency_us": ("latency", 1, " us"), "board_latency_us": ("board_latency", 1, " us"),
           "fps_1_thread": ("fps_1", 1, ""), "fps_2_threads": ("fps_2", 1, "")}


def figure_rows(perf: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(figure, value) of the estimate that a record holds."""
    return [(say(words), f"{perf[key]:.{digits}f}{unit}") for key, (words, digits, unit) in FIGURES.items()
            if isinstance(perf.get(key), int | float)]


def fast_perf_page(record: Record, removed: Sequence[str], config: Path, folder: Path) -> Page:
    """Speed, what was removed, findings, files. `removed`: one line per removed node."""
    page = Page(check_headline(record))
    page.line(say("fast_perf_note"))
    page.heading(say("speed"))
    page.table((say("figure"), say("value")), figure_rows(record.perf), (say("value"),))
    page.heading(say("removed"))
    for line in removed or (say("none"),):
        page.line(spoken(line))
    told = [f for f in record.findings if f.code not in (*BESIDE_THE_POINT, NOT_REMOVED)]
    if told:
        page.heading(say("findings"))
        page.findings(told)
    page.heading(say("written"))
    page.line(say("next_config", path=config))
    page.heading(artifacts_in(folder))
    page.table((say("artifact"), say("file")), sorted(record.artifacts.items()))
    return page


def run_speed_page(record: Record) -> Page:
    """The estimate of a run."""
    page = Page(say("result", model=record.model, march=record.march))
    if not record.perf:
        page.line(say("perf_none"))
        return page
    page.heading(say("speed"))
    page.table((say("figure"), say("value")), figure_rows(record.perf), (say("value"),))
    slowest = slowest_layers(record.perf)
    if slowest:
        page.heading(say("slowest"))
        columns = (say("layer"), say("operator"), say("type"), "us", say("share"), say("bound"))
        page.table(columns, slowest, columns[3:5])
    drawn = timeline_drawing(record)
    if drawn:
        page.heading(say("timeline"))
        page.drawing(drawn, ", ".join(f"{engine} {us:.1f} us" for engine, us in busy(record.perf).items()))
    return page


def slowest_layers(perf: Mapping[str, Any], limit: int = 8) -> list[tuple[str, ...]]:
    """(layer, operator, type, us, share of the BPU part, what decides) of the layers that take longest."""
    whole = sum(bar.us for bar in layers_of(perf))
    longest = sorted(layers_of(perf), key=lambda layer: -layer.us)[:limit]
    return [(layer.name, layer.op, layer.qtype, f"{layer.us:.1f}", f"{100 * layer.us / whole:.1f} %",
             spoken_word(layer.bound))
            for layer in longest if whole]


def speeds_page(rows: Sequence[Mapping[str, Any]], march: str) -> Page:
    """One row per layer table, with the figures of its estimate."""
    page = Page(f"{say('speed')}: {march}")
    columns = ["model", *FIGURES]
    page.table(columns, [[str(r["model"]), *(f"{r[k]:.1f}" for k in FIGURES)] for r in rows], columns[1:])
    return page
