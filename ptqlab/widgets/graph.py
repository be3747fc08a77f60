"""The graph of a run in the real Netron: what is shown, coloured and selected is decided and known here."""
from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import traitlets

from ptqlab.errors import Problem, PtqError, nearest, shorten, told
from ptqlab.report import netron_assets
from ptqlab.report.netron import HEIGHT, WAIT_MS, Graph, graph_of, static_html
from ptqlab.report.netron_choices import COLORS, STAGES
from ptqlab.report.netron_paint import painting
from ptqlab.report.words import say
from ptqlab.stages.record import Record
from ptqlab.widgets.assets import our
from ptqlab.widgets.selection import SelectingView

#: What a page may ask for.
ASKED = ("stage", "around", "hops", "color")
WORDS = ("stage", "color", "hops", "cut", "whole", "loading", "slow")


class GraphView(SelectingView):
    """The graph of one stage, in Netron.

    `show(...)` and `color` change what is shown, `focus(node)` selects a node, `selected` is what is selected,
    `on_select(callback)` hears of it. A saved notebook shows `static_html()` in its place.
    """

    _esm = our("assets.js", "graph.js")
    _css = our("graph.css")
    sets = ("netron",)
    height = traitlets.Int(HEIGHT).tag(sync=True)

    def __init__(self, record: Record, directory: str | Path, *, stage: str = "optimized", around: str | None = None,
                 hops: int = 2, color: str = "cosine", height: int = HEIGHT) -> None:
        """Arguments as of `graph_of`, height in pixels. PtqError for what cannot be shown, a Netron that does not
        fit included."""
        netron_assets.viewer()
        self._record, self._directory = record, Path(directory)
        self._asked: dict[str, Any] = {"stage": stage, "around": around, "hops": hops, "color": color}
        self._graph = graph_of(record, directory, **self._asked)
        self.status = ""
        super().__init__(height=height)
        self._selected = list(self._graph.focus)

    @property
    def graph(self) -> Graph:
        """What is shown now."""
        return self._graph

    @property
    def stage(self) -> str:
        return str(self._asked["stage"])

    @property
    def color(self) -> str:
        """The measure by colour; setting it repaints."""
        return str(self._asked["color"])

    @color.setter
    def color(self, color: str) -> None:
        self.show(color=color)

    def show(self, **what: Any) -> None:
        """Show another `stage`, `color`, or cut: `around` a node (None: the whole graph), `hops` edges away.

        Raises PtqError, and shows what it showed, for what cannot be shown.
        """
        unknown = [Problem("PTQ664", "show", repr(shorten(k)), ", ".join(ASKED)) for k in what if k not in ASKED]
        if unknown:
            raise PtqError(unknown, "graph")
        asked = self._asked | what
        if set(what) <= {"color"}:
            self._graph = replace(self._graph,
                                  painting=painting(self._record, asked["color"], self._graph.outline.nodes))
            self._asked = asked
            self.send({"kind": "paint", "painting": self._graph.painting.to_dict(), **self._bar()})
            return
        self._graph = graph_of(self._record, self._directory, **asked)
        self._asked = asked
        self._select(list(self._graph.focus))
        self._draw("")

    def focus(self, *nodes: str) -> None:
        """Select these nodes and scroll to them. In a graph cut around another node the cut moves to the first one.

        Raises PtqError with the nearest names for a node that the stage does not have.
        """
        drawn = set(self._graph.outline.nodes)
        missing = [n for n in nodes if n not in drawn]
        if missing and self._asked["around"] is not None:
            self.show(around=missing[0])
            missing = [n for n in nodes if n not in self._graph.outline.nodes and n != missing[0]]
        if missing:
            near = nearest(missing[0], drawn)
            hint = f"did you mean {', '.join(map(repr, near))}?" if near else ""
            raise PtqError([Problem("PTQ661", "focus", f"no node {shorten(n)!r} in this stage", "the name of a node",
                                    hint) for n in missing], "graph")
        self.send({"kind": "focus", "names": list(nodes)})
        self._select(list(nodes))

    def has(self, node: str) -> bool:
        """Whether `focus` can show the node: it is drawn, or the cut can move to it."""
        return node in self._graph.outline.nodes or (
            self._asked["around"] is not None and node in {row.node for row in self._record.nodes}
            and self.stage == "optimized")

    def heard(self, message: Mapping[str, Any], buffers: list[memoryview]) -> None:
        kind = message.get("kind")
        if kind == "draw":
            self._draw(str(message.get("to", "")))
        elif kind == "selected" and isinstance(names := message.get("names"), list):
            drawn = set(self._graph.outline.nodes)
            self._select([n for n in names if isinstance(n, str) and n in drawn])
        elif kind == "ask":
            try:
                self.show(**{k: v for k, v in message.items() if k in ASKED})
            except PtqError as error:
                self.send({"kind": "status", "level": "error", "text": told(error)})
        elif kind == "ready":
            self.status = "ready"
        elif kind == "failed":
            self.status = f"failed: {shorten(message.get('text'))}"

    def send_assets(self, name: str) -> None:
        self.send({"kind": "assets", "set": name, "names": ["viewer.json"]}, [netron_assets.packed()])

    def _bar(self) -> dict[str, Any]:
        """What stands above the graph; texts that page and kernel agree on."""
        there = [s for s, key in STAGES.items() if key in self._record.artifacts]
        return {
            "words": {w: say(f"graph_bar_{w}") for w in WORDS}, "legend": self._graph.legend(),
            "stages": [[s, say(f"stage_{s}")] for s in there], "colors": [[c, say(f"color_{c}")] for c in COLORS],
            **self._asked, "model_id": self.model_id,
        }

    def _draw(self, to: str) -> None:
        """Send everything to the view `to`, or to all for ""."""
        graph = self._graph
        shown = {"title": graph.title, "painting": graph.painting.to_dict(), "attachment": graph.attachment,
                 "focus": self._selected}
        packed = gzip.compress(json.dumps(shown).encode("utf-8"), 6)
        self.send({"kind": "draw", "to": to, **self._bar()}, [packed, graph.outline.data])

    def static_html(self) -> str:
        return static_html(self._graph, self.height, wait=WAIT_MS)

    def __repr__(self) -> str:
        return f"GraphView({self._graph.title!r})"
