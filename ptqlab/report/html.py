"""A record as one static piece of html: no script, nothing fetched, every name escaped.

Colours come from JupyterLab's `--jp-*` variables where they exist and follow the page's text colour where
they do not, so that it reads on light and on dark. The class is named three times in the selectors to outweigh the
lab's own rules for tables. Colour never speaks alone: the words and numbers stand beside.
"""
from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

from ptqlab.artifacts.tables import explain_nan, has_nan, number, printable
from ptqlab.errors import Finding
from ptqlab.report.chart import strip_chart
from ptqlab.report.choose import artifacts_in, headline, partial, worst_nodes
from ptqlab.report.words import hint_of, language, say, spoken
from ptqlab.stages.record import NodeRow, Record

STYLE = """
&{font-family:var(--jp-ui-font-family,system-ui,sans-serif);font-size:13px;line-height:1.45;
color:var(--jp-ui-font-color1,inherit);max-width:62rem}
& h4{margin:.9em 0 .3em;font-size:13px;font-weight:600}
& .ptqlab-head{font-size:14px;font-weight:600;margin:.2em 0}
& .ptqlab-badge{display:inline-block;border:1px solid currentColor;border-radius:3px;padding:0 .4em;
margin-right:.5em;font-size:12px;font-weight:600}
& .ptqlab-wide{overflow-x:auto}
& table{border-collapse:collapse;margin:.2em 0;font-size:12px;color:inherit;background:transparent;
table-layout:auto}
& table th,& table td{border:0;border-bottom:1px solid var(--jp-border-color2,rgba(128,128,128,.4));
padding:.2em .8em .2em .2em;text-align:left;vertical-align:top;color:inherit;max-width:24rem;white-space:nowrap}
& table th{font-weight:600}
& table td:first-child,& table td:last-child{overflow-wrap:anywhere;white-space:normal}
& table td:first-child{min-width:9rem}
& table td.ptqlab-number{font-family:var(--jp-code-font-family,monospace)}
& code{font-family:var(--jp-code-font-family,monospace);font-size:12px;background:transparent;color:inherit;
padding:0;overflow-wrap:anywhere}
& ul{margin:.2em 0;padding-left:1.2em}
& .ptqlab-quiet{color:var(--jp-ui-font-color2,inherit)}
& dl{display:grid;grid-template-columns:max-content 1fr;gap:.15em 1em;margin:.3em 0}
& dl dt{font-weight:600;float:none;width:auto;white-space:nowrap}
& dl dd{margin:0;overflow-wrap:anywhere}
& svg.perf{width:100%;height:auto;display:block}
& svg.perf text{font-size:11px;fill:currentColor}
& svg.perf .axis{stroke:currentColor;stroke-opacity:.2}
& svg.perf .e0{fill:#3a87c8}& svg.perf .e1{fill:#cf6a1a}& svg.perf .e2{fill:#1b9a77}& svg.perf .e3{fill:#a569bd}
& svg.perf .e4{fill:#b8860b}& svg.perf .e5{fill:#7d8288}& svg.perf .e6{fill:#c0508a}
""".replace("&", "div.ptqlab.ptqlab.ptqlab")
SHOWN_FINDINGS = 12


def summary_html(record: Record, folder: Path | None = None, *, worst: int = 5) -> str:
    """The same as `text.summary`, as html with a small drawing of the cosines."""
    why = partial(record)
    parts = [
        f"<div class='ptqlab-head'><span class='ptqlab-badge'>{escape(say('partial' if why else 'complete'))}</span>"
        f"{text(headline(record))}</div>",
    ]
    if why:
        parts.append(f"<div>{text(why)}</div>")
    parts += [heading(say("outputs")), _outputs(record)]
    rows = worst_nodes(record, worst)
    if rows:
        parts += [heading(say("chart")), strip_chart(record), heading(say("worst")), _nodes(record, rows)]
    else:
        parts.append(f"<div>{text(say('not_compared'))}</div>")
    parts += [heading(say("findings")), finding_block(record.findings)]
    if folder is not None and record.artifacts:
        items = "".join(f"<li>{text(key)}: <code>{text(name)}</code></li>" for key, name in record.artifacts.items())
        parts.append(f"<details><summary>{text(artifacts_in(folder))}</summary><ul>{items}</ul></details>")
    return frame("".join(parts))


def frame(inner: str) -> str:
    """`inner`, which must be escaped already, inside the scoped style."""
    return f"<style>{STYLE}</style><div class='ptqlab' lang='{language()}'>{inner}</div>"


def text(value: object) -> str:
    """A value as escaped text on one line."""
    return escape(printable(str(value)))


class Markup(str):
    """A cell that is html already, every text in it escaped."""


def heading(words: str) -> str:
    return f"<h4>{text(words)}</h4>"


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[str] = ()) -> str:
    """A table of escaped cells, but for `Markup`; the columns in `numbers` are set in fixed width."""
    head = "".join(f"<th scope='col'>{text(c)}</th>" for c in columns)
    opening = ["<td class='ptqlab-number'>" if column in numbers else "<td>" for column in columns]
    cells = ([cell if isinstance(cell, Markup) else text(cell) for cell in row] for row in rows)
    body = "".join(f"<tr>{''.join(f'{td}{cell}</td>' for td, cell in zip(opening, row, strict=True))}</tr>"
                   for row in cells)
    return f"<div class='ptqlab-wide'><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"


def _outputs(record: Record) -> str:
    columns = ("TensorName", "Calibrated Cosine", "Quantized Cosine", "SQNR (dB)", "L1", "L2", "Chebyshev")
    rows = [(o.tensor, number(o.calibrated_cosine), number(o.quantized_cosine),
             "--" if o.sqnr is None else f"{o.sqnr:.2f}", number(o.l1), number(o.l2), number(o.chebyshev))
            for o in record.outputs]
    return table(columns, rows, columns[1:])


def _nodes(record: Record, rows: Sequence[NodeRow]) -> str:
    columns = ("Node", "NodeType", "ON", "Asked", "Granted", "Calibrated Cosine", "Quantized Cosine", "Reason")
    cells = [(r.node, r.node_type, r.on, r.asked, r.granted, number(r.calibrated_cosine), number(r.quantized_cosine),
              spoken(f"nan: {explain_nan(record, r)}" if has_nan(r) else r.reason)) for r in rows]
    return table(columns, cells, ("Calibrated Cosine", "Quantized Cosine"))


def finding_block(findings: Sequence[Finding]) -> str:
    """Warnings as a list, notes folded below them."""
    if not findings:
        return f"<div class='ptqlab-quiet'>{text(say('no_findings'))}</div>"
    warnings = [f for f in findings if f.severity == "warning"]
    notes = [f for f in findings if f.severity != "warning"]
    shown = _finding_list(warnings) if warnings else ""
    if notes:
        shown += f"<details><summary>{text(say('notes', n=len(notes)))}</summary>{_finding_list(notes)}</details>"
    return shown


def _finding_list(findings: Sequence[Finding]) -> str:
    items = []
    for finding in findings[:SHOWN_FINDINGS]:
        hint = f"<br><span class='ptqlab-quiet'>{text(hint_of(finding))}</span>" if finding.hint else ""
        items.append(f"<li><b>{text(say(finding.severity))}</b> <code>{text(finding.code)}</code> "
                     f"{text(spoken(finding.message))}{hint}</li>")
    rest = len(findings) - SHOWN_FINDINGS
    if rest > 0:
        items.append(f"<li class='ptqlab-quiet'>{text(say('more', n=rest))} (<code>run.warnings</code>)</li>")
    return f"<ul>{''.join(items)}</ul>"
