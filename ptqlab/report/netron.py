"""The graph of a run in the real Netron, as one string of html: nothing around it is needed, no kernel and no network.

The string holds one sandboxed frame with viewer, model and colours in it, for saved notebooks and html reports.
"""
from __future__ import annotations

import base64
import gzip
import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from ptqlab.artifacts.tables import printable
from ptqlab.errors import Problem, PtqError, nearest, shorten
from ptqlab.graph.outline import Outline, outline
from ptqlab.report import html
from ptqlab.report.netron_assets import NONCE, viewer
from ptqlab.report.netron_choices import STAGES
from ptqlab.report.netron_paint import Painting, attachment, painting, title
from ptqlab.report.words import language, say
from ptqlab.stages.record import Record

HEIGHT = 520
STYLE = """
&:has(> iframe){max-width:none}
& .ptqlab-key{display:flex;flex-wrap:wrap;align-items:baseline;gap:0 1em}
& .ptqlab-legend{list-style:none;display:flex;flex-wrap:wrap;gap:.2em 1em;margin:.3em 0;padding:0;font-size:12px}
& .ptqlab-swatch{display:inline-block;min-width:1.6em;padding:0 .3em;border:1px solid rgba(128,128,128,.5);
border-radius:3px;text-align:center;font-family:var(--jp-code-font-family,monospace)}
& iframe{display:block;width:100%;border:1px solid var(--jp-border-color2,rgba(128,128,128,.5));box-sizing:border-box;
background:transparent}
""".replace("&", "div.ptqlab.ptqlab.ptqlab")
# The frame follows the theme of the page around: of JupyterLab, of VS Code, else of the system. In a notebook it waits
# for a widget that may take its place, so that not two viewers are started.
SCRIPT = """(() => {
    const frame = document.getElementById('%(name)s');
    const tell = () => {
        const {jpThemeLight} = document.body.dataset, {classList} = document.body;
        const dark = jpThemeLight ? jpThemeLight === 'false' : classList.contains('vscode-dark')
            || !classList.contains('vscode-light') && matchMedia('(prefers-color-scheme: dark)').matches;
        frame.contentWindow?.postMessage({type: 'theme', dark}, '*');
    };
    frame.addEventListener('load', tell);
    new MutationObserver(tell).observe(document.body, {attributes: true});
    setTimeout(() => { if (frame.isConnected) frame.srcdoc = frame.dataset.document; }, %(wait)d);
})()"""
WAIT_MS = 2000


@dataclass(frozen=True)
class Graph:
    """All that is shown of one stage: the model, the measure by colour, the side bar's data, the node in focus."""

    record: Record
    stage: str
    outline: Outline
    painting: Painting
    focus: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """Model and stage in words, one line of plain text."""
        count = len(self.outline.nodes)
        counted = say("graph_part" if count < self.outline.total else "graph_whole", n=count, total=self.outline.total)
        return printable(f"{self.record.model}, {self.record.march}: {say(f'stage_{self.stage}')}, {counted}")

    @property
    def attachment(self) -> dict[str, Any]:
        return attachment(self.record, self.outline.nodes)

    def legend(self) -> str:
        """What the colours mean, as html."""
        return f"<div class='ptqlab-key'>{html.text(title(self.painting.color))} {self.painting.legend()}</div>"


def graph_of(record: Record, folder: str | Path, *, stage: str = "optimized", around: str | None = None, hops: int = 2,
             color: str = "cosine") -> Graph:
    """What `graph_html` and the widget show of a stage; `folder` holds the artifacts that `record` names.

    stage   "original", "optimized", "calibrated", "quantized" (the .bc) or "hbm"
    around  only the nodes that are at most `hops` edges away from this one
    color   "cosine", "qtype", "on" or "latency"
    Raises PtqError for anything that is none of these, a stage that the run did not reach and an unknown node.
    """
    if stage not in tuple(STAGES):  # anything may be asked for
        near = nearest(str(stage), STAGES, 1)
        raise PtqError(Problem("PTQ663", "stage", repr(shorten(stage)), ", ".join(STAGES),
                               f"did you mean {near[0]!r}?" if near else ""), "graph")
    name = record.artifacts.get(STAGES[stage])
    if name is None:
        there = [s for s, key in STAGES.items() if key in record.artifacts]
        raise PtqError(Problem("PTQ663", "stage", f"the run left no {stage} model", ", ".join(there) or "none",
                               "compile without `skip`"), "graph")
    drawn = outline(Path(folder) / name, around, hops)
    return Graph(record, stage, drawn, painting(record, color, drawn.nodes), () if around is None else (around,))


def graph_html(record: Record, folder: str | Path, *, stage: str = "optimized", around: str | None = None,
               hops: int = 2, color: str = "cosine", height: int = HEIGHT) -> str:
    """The graph of a run as one string of html; arguments as of `graph_of`, `height` in pixels.

    Where the installed Netron does not fit, the string says so and what to do. Raises PtqError as `graph_of`.
    """
    return static_html(graph_of(record, folder, stage=stage, around=around, hops=hops, color=color), height)


def static_html(graph: Graph, height: int = HEIGHT, *, wait: int = 0) -> str:
    """`graph` as one string of html; the viewer starts after `wait` ms."""
    name = f"ptqlab-{secrets.token_hex(6)}"
    try:
        document = page(graph)
    except PtqError as error:
        return html.frame(f"<div role='alert'>{html.text(say('graph_misfit'))}</div>{_lines(error.problems)}")
    inner = (
        f"<div class='ptqlab-head'>{html.text(graph.title)}</div>{graph.legend()}"
        f"<iframe id='{name}' title='Netron: {html.text(graph.title)}' sandbox='allow-scripts allow-downloads' "
        f"style='height:{int(height)}px' data-document='{escape(document)}'></iframe>"
        f"<script>{SCRIPT % {'name': name, 'wait': wait}}</script>")
    return f"{html.frame(inner)}<style>{STYLE}</style>"


def graph_page(record: Record, folder: str | Path, *, stage: str = "optimized", around: str | None = None,
               hops: int = 2, color: str = "cosine", height: int = 800) -> str:
    """As `graph_html`, a whole document: one file that a browser opens offline."""
    graph = graph_of(record, folder, stage=stage, around=around, hops=hops, color=color)
    return (f"<!doctype html><html lang='{language()}'><head><meta charset='utf-8'>"
            "<meta name='color-scheme' content='light dark'>"
            f"<title>{html.text(graph.title)}</title></head><body>{static_html(graph, height)}</body></html>\n")


def page(graph: Graph) -> str:
    """The document of the frame: Netron with the model in it. PtqError when the installed Netron does not fit."""
    files = viewer()
    data = {
        "modules": files["modules"], "worker": files["worker"], "json": files["json"], "title": graph.title,
        "model": base64.b64encode(graph.outline.data).decode("ascii"), "painting": graph.painting.to_dict(),
        "attachment": graph.attachment, "focus": graph.focus,
    }
    packed = base64.b64encode(gzip.compress(json.dumps(data).encode("utf-8"), 9, mtime=0)).decode("ascii")
    script = f"<script type='text/plain' id='ptqlab-init'>{packed}</script>"
    return files["html"].replace("</head>", script + "</head>", 1).replace(NONCE, secrets.token_urlsafe(16))


def _lines(problems: Sequence[Problem]) -> str:
    return "".join(f"<pre>{escape(str(problem))}</pre>" for problem in problems)
