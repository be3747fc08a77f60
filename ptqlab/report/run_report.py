"""The report of a run: one html file that opens offline, in English and Chinese, on light and dark, without a script.

Sections with the same words in both languages stand in it once; which language is seen is switched at the top.
"""
from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from html import escape

from ptqlab.artifacts.tables import explain_nan, has_nan, number, printable
from ptqlab.report import html
from ptqlab.report.bilingual import SWITCH_STYLE, both, switch
from ptqlab.report.choose import headline
from ptqlab.report.heatmap import Heat, heatmap_svg, title_of
from ptqlab.report.page import Page
from ptqlab.report.placement import BESIDE_THE_POINT
from ptqlab.report.settings import portable
from ptqlab.report.speed import run_speed_page
from ptqlab.report.words import language, say, spoken
from ptqlab.stages.record import Record

STYLE = """
:root{color-scheme:light dark}
body{margin:0 auto;padding:1.2rem;max-width:72rem;font:14px/1.5 system-ui,sans-serif;background:#fff;color:#1b1f24}
@media (prefers-color-scheme:dark){body{background:#0d1117;color:#e6edf3}}
h1{font-size:1.35rem;margin:.2em 0}h2{font-size:1.1rem;margin:1.6em 0 .3em;border-bottom:1px solid #7d828866}
nav{margin:.6em 0}nav a{color:inherit;margin-right:1em}pre{overflow-x:auto;font-size:12px;max-height:24rem}
.quiet{opacity:.75}summary{cursor:pointer}
@media print{nav,.ptqlab-lang+label{display:none}}
"""
# as wide as the page, not as a notebook cell
WIDER = "div.ptqlab.ptqlab.ptqlab{max-width:none}"


@dataclass(frozen=True)
class Extras:
    """What a report shows beyond the record; each is left out where it is None or "".

    heat        sensitivities;  health  gives the doctor's page in the language spoken
    comparison  (name of the other run, gives the page);  graph  html of the graph, escaped, without a script
    """

    heat: Heat | None = None
    health: Callable[[], Page] | None = None
    comparison: tuple[str, Callable[[], Page]] | None = None
    graph: str = ""
    settings: Mapping[str, object] = field(default_factory=dict)


def report_html(record: Record, extras: Extras) -> str:
    """The whole file."""
    told = replace(record, findings=tuple(f for f in record.findings if f.code not in BESIDE_THE_POINT))
    sections: list[tuple[str, str]] = [("result", both(lambda: _inner(html.summary_html(told))))]
    if extras.comparison is not None:
        name, compared = extras.comparison
        sections.append(("compared_with", both(lambda: _inner(compared().html()))))
    else:
        name = ""
    if extras.heat is not None:
        heat = extras.heat
        sections.append(("sensitivity", both(lambda: f"<p>{html.text(title_of(heat))}. "
                                                     f"{html.text(say('sensitivity_how'))}</p>") + heatmap_svg(heat)))
    if extras.health is not None:
        health = extras.health
        sections.append(("causes", both(lambda: _inner(health().html()))))
    if record.perf:
        sections.append(("speed", both(lambda: _inner(run_speed_page(record).html())) + _basis(record)))
    if extras.graph:
        sections.append(("graph", extras.graph))
    sections += [("all_nodes", _all_nodes(record)), ("calibration", _calibration(record)),
                 ("settings", _settings(record, extras.settings))]

    def title(key: str) -> str:
        return both(lambda: html.text(say(key, model=record.model, march=record.march, name=name)), "span")

    body = "".join(f"<h2 id='{key}'>{title(key)}</h2>{content}" for key, content in sections)
    links = "".join(f"<a href='#{key}'>{title(key)}</a>" for key, _ in sections)
    versions = ", ".join(f"{k} {v}" for k, v in record.versions.items())
    name_of_page = escape(printable(say("report_title", model=record.model, march=record.march)))
    return (
        f"<!doctype html><html lang='{language()}'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width,initial-scale=1'>"
        f"<title>{name_of_page}</title><style>{STYLE}{SWITCH_STYLE}{html.STYLE}{WIDER}</style></head><body>"
        f"<div>{switch(language())}</div><h1>{title('report_title')}</h1>"
        f"<p>{both(lambda: html.text(headline(record)), 'span')}</p>"
        f"<nav aria-label='{escape(say('contents'))}'>{links}</nav>"
        f"<main class='ptqlab-report'><div class='ptqlab'>{body}</div></main>"
        f"<p class='quiet'>{both(lambda: html.text(say('made_with', versions=versions)), 'span')}</p>"
        "</body></html>\n")


def _inner(page: str) -> str:
    """A piece without the style that the whole file holds once."""
    return page.replace(f"<style>{html.STYLE}</style>", "")


def _basis(record: Record) -> str:
    told = record.perf.get("basis", ())
    if not told:
        return ""
    return both(lambda: html.heading(say("estimate_rests"))
                + f"<ul>{''.join(f'<li>{html.text(spoken(sentence))}</li>' for sentence in told)}</ul>")


def _all_nodes(record: Record) -> str:
    """The node table; its columns are the vendor's in both languages."""
    columns = ("Node", "NodeType", "ON", "Subgraph", "Threshold", "Calibrated Cosine", "Quantized Cosine",
               "Output Data Type", "Asked", "Granted", "Reason")
    rows = [(r.node, r.node_type, r.on, r.subgraph, number(r.threshold), number(r.calibrated_cosine),
             number(r.quantized_cosine), r.output_data_type, r.asked, r.granted,
             f"nan: {explain_nan(record, r)}" if has_nan(r) else r.reason) for r in record.nodes]
    table = html.table(columns, [(*cells, _message(reason)) for *cells, reason in rows],
                       ("Threshold", "Calibrated Cosine", "Quantized Cosine"))
    summary = both(lambda: f"{html.text(say('all_nodes'))} ({len(rows)})", "span")
    return f"<details><summary>{summary}</summary>{table}</details>"


def _calibration(record: Record) -> str:
    """What calibration was asked and gave, tensor by tensor."""
    tensors = record.calibration.get("tensors")
    method = record.calibration.get("method", "--")
    words = both(lambda: f"<p>{html.text(method)}, "
                         f"{html.text(say('samples', n=record.samples) if record.samples else say('no_samples'))}</p>")
    if not isinstance(tensors, Mapping) or not tensors:
        return words
    columns = ("Tensor", "Threshold", "Range", "Asked", "Granted", "Clipped", "Reason")
    rows = [(name, _figure(t.get("threshold")), _range(t.get("range")),
             str(t.get("asked", "")), str(t.get("granted", "")), _figure(t.get("clipped")),
             str(t.get("reason", ""))) for name, t in tensors.items() if isinstance(t, Mapping)]
    table = html.table(columns, [(*cells, _message(reason)) for *cells, reason in rows],
                       ("Threshold", "Range", "Clipped"))
    return f"{words}<details><summary>{len(rows)}</summary>{table}</details>"


def _message(made: str) -> html.Markup:
    """A message in both languages, as the cell of a table that stands there once."""
    return html.Markup(both(lambda: html.text(spoken(made)), "span"))


def _range(value: object) -> str:
    return " … ".join(map(_figure, value)) if isinstance(value, list | tuple) else "--"


def _figure(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, int | float) else "--"


def _settings(record: Record, more: Mapping[str, object]) -> str:
    """quant_config and the configuration; of folders of this machine only the last part, as reports are handed on."""
    pieces = [("quant_config.json", record.quant_config), ("config", portable(record.settings)), *more.items()]
    return "".join(f"<details><summary>{html.text(name)}</summary>"
                   f"<pre>{escape(json.dumps(held, indent=1, ensure_ascii=False, default=str))}</pre></details>"
                   for name, held in pieces if held)
