"""The real Netron from the installed `netron` wheel, as data: its page, the modules it needs, the operator metadata.

Netron's own way to be shown asks for consent, sends telemetry, refuses old builds and needs a port. Here its files are
read and rewritten in a few places so that they run inside one sandboxed frame without an origin: imports become bare
names that an import map resolves to blob URLs, and our boot script takes the place of `index.js`. The files are private
to Netron, so every rewrite must hit; where one does not, `PtqError` says which version fits.
"""
from __future__ import annotations

import gzip
import json
import re
from dataclasses import dataclass
from functools import cache
from importlib import metadata, resources
from typing import Any

from ptqlab.errors import Problem, PtqError

MODULES = ("base", "view", "grapher", "browser", "zip", "tar", "text", "json", "xml", "protobuf",
           "flatbuffers", "message", "onnx", "onnx-proto", "onnx-schema")
METADATA = "onnx-metadata.json"
FITS = "netron>=9.3,<10"
#: Nothing is fetched from anywhere, whatever a model file says; scripts are our own and blobs made by them.
POLICY = ("default-src 'none'; script-src 'nonce-{nonce}' blob:; worker-src blob:; style-src 'unsafe-inline'; "
          "img-src data: blob:; font-src data:; form-action 'none'; base-uri 'none'")
NONCE = "{nonce}"
#: Long documentation of operators, which the side bar could show: 5 MB.
LEFT_OUT = frozenset({"description", "examples", "type_constraints"})


@dataclass(frozen=True)
class Rewrite:
    """One change of a file of Netron: `pattern` (regular expression) becomes `text`, in at least one place."""

    file: str
    pattern: str
    text: str


#: Changes of the page; {css} and {boot} are filled in.
PAGE_REWRITES = (
    Rewrite("index.html", r'<meta http-equiv="Content-Security-Policy"[^>]*>',
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'),
    Rewrite("index.html", r'<link rel="[^"]*icon[^"]*"[^>]*>\s*', ""),
    Rewrite("index.html", r'<link rel="stylesheet"[^>]*href="grapher\.css">', "<style>{css}</style>"),
    Rewrite("index.html", r'<script[^>]*src="index\.js"></script>', f'<script nonce="{NONCE}">{{boot}}</script>'),
)
#: The layout becomes a classic worker: a module worker cannot import one blob from another without an origin.
WORKER_REWRITE = Rewrite("dagre.js", r"(?m)^export const .*$", """
self.onmessage = ({data}) => {
    try {
        dagre.layout(data.nodes, data.edges, data.layout, data.state);
        self.postMessage(data);
    } catch (error) {
        self.postMessage({type: 'error', message: error.message});
    }
};""")
IMPORT = Rewrite("*.js", r"""(from |import\()'\./([\w-]+)\.js'""", r"\1'@netron/\2'")


@cache
def version() -> str:
    """Version of the installed Netron. PtqError when there is none."""
    try:
        return metadata.version("netron")
    except metadata.PackageNotFoundError:
        raise PtqError(Problem("PTQ660", "netron", "it is not installed", FITS, f"pip install '{FITS}'"),
                       "graph") from None


@cache
def viewer() -> dict[str, Any]:
    """{"html": page, "modules": {name: source}, "worker": source, "json": {name: text}}; in the page {nonce} stands for
    the nonce of its scripts.

    Raises PtqError when the installed Netron lacks what is rewritten.
    """
    problems: list[Problem] = []
    html = _read("index.html", problems)
    for rewrite in PAGE_REWRITES:
        html = _apply(rewrite, html, problems)
    # the files go in by plain replacement: backslashes in them are no references to groups
    html = html.replace("{css}", _read("grapher.css", problems)).replace("{boot}", boot())
    modules = {name: _read(f"{name}.js", problems) for name in MODULES}
    worker = _apply(WORKER_REWRITE, _read(WORKER_REWRITE.file, problems), problems)
    modules = {name: re.sub(IMPORT.pattern, IMPORT.text, source) for name, source in modules.items()}
    if not any("@netron/" in source for source in modules.values()):
        problems.append(_misfit(IMPORT))
    known = _read(METADATA, problems)
    if problems:
        raise PtqError(problems, "graph")
    slim = json.dumps(_slim(json.loads(known)), separators=(",", ":"))
    return {"html": html, "modules": modules, "worker": worker, "json": {METADATA: slim}}


@cache
def packed() -> bytes:
    """`viewer()` as gzipped JSON, about 200 kB."""
    return gzip.compress(json.dumps(viewer()).encode("utf-8"), 9, mtime=0)


def boot() -> str:
    """The script that runs Netron in the frame."""
    return resources.files("ptqlab.report").joinpath("netron_boot.js").read_text(encoding="utf-8")


def _read(name: str, problems: list[Problem]) -> str:
    """A file of the wheel; "" and a problem when it is not there."""
    version()
    try:
        return resources.files("netron").joinpath(name).read_text(encoding="utf-8")
    except FileNotFoundError:
        problems.append(Problem("PTQ660", f"netron {version()}: {name}", "no such file", FITS,
                                f"pip install '{FITS}'"))
        return ""


def _apply(rewrite: Rewrite, source: str, problems: list[Problem]) -> str:
    changed, hits = re.subn(rewrite.pattern, rewrite.text, source)
    if not hits:
        problems.append(_misfit(rewrite))
    return changed


def _misfit(rewrite: Rewrite) -> Problem:
    return Problem("PTQ660", f"netron {version()}: {rewrite.file}", f"nothing like {rewrite.pattern}", FITS,
                   f"pip install '{FITS}'")


def _slim(value: Any) -> Any:
    """Operator metadata without documentation."""
    if isinstance(value, dict):
        return {k: _slim(v) for k, v in value.items() if k not in LEFT_OUT}
    return [_slim(v) for v in value] if isinstance(value, list) else value
