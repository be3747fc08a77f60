"""The heatmap of a dashboard: node x what-if, each cell with its number; a click or the keyboard selects the node."""
from __future__ import annotations

import gzip
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import traitlets

from ptqlab.errors import Problem, PtqError, nearest, shorten
from ptqlab.report import html
from ptqlab.report.heatmap import COSINE, WORST, Heat, heatmap_svg, title_of
from ptqlab.report.look import ink_on, ramp
from ptqlab.report.words import say
from ptqlab.stages.record import Record
from ptqlab.widgets.assets import our
from ptqlab.widgets.selection import SelectingView

HEIGHT = 520
#: Shades that a page is told, from the best to the worst.
SHADES = 33


@dataclass(frozen=True)
class Heats:
    """Where a heatmap comes from: its metrics, and the heatmap of one of them for so many nodes (None: all).

    whatif  scores of what-ifs; else they are those of the run itself
    """

    metrics: tuple[str, ...]
    heat: Callable[[str, int | None], Heat]
    whatif: bool = True


def run_heats(record: Record) -> Heats:
    """Both cosines of every node, as the run measured them: what is known without a further computation. Nodes that
    are computed inside another one are left out, since they have its output."""
    def heat(metric: str, limit: int | None) -> Heat:
        rows = [(r.node, (r.calibrated_cosine, r.quantized_cosine)) for r in record.nodes
                if not r.fused_into and (r.quantized_cosine is not None or r.calibrated_cosine is not None)]
        whole = Heat(COSINE, True, (), (), (), len(rows))
        worst = sorted(rows, key=lambda row: -max(whole.badness(v) for v in row[1]))[:limit]
        return Heat(COSINE, True, tuple(n for n, _ in worst), (say("heat_calibrated"), say("heat_quantized")),
                    tuple(v for _, v in worst), len(rows))

    return Heats((COSINE,), heat, whatif=False)


class HeatView(SelectingView):
    """A heatmap that is clicked. `heats` may be set anew, `metric` and `limit` choose; `selected`, `focus` and
    `on_select` are those of the graph and the grid."""

    _esm = our("assets.js", "dashboard_heat.js")
    _css = our("dashboard.css")
    height = traitlets.Int(HEIGHT).tag(sync=True)

    def __init__(self, heats: Heats, *, limit: int | None = WORST, metric: str | None = None,
                 height: int = HEIGHT) -> None:
        """limit: number of nodes, the worst first, None: all; height in pixels. PtqError for an unknown metric."""
        self._heats, self._limit = heats, limit
        self._metric = heats.metrics[0] if metric is None else metric
        self._heat = self._made()
        super().__init__(height=height)

    def _made(self) -> Heat:
        if self._metric not in self._heats.metrics:
            raise PtqError(Problem("PTQ554", "metric", repr(shorten(self._metric)), ", ".join(self._heats.metrics)),
                           "heatmap")
        return self._heats.heat(self._metric, self._limit)

    @property
    def heat(self) -> Heat:
        """What is shown now."""
        return self._heat

    @property
    def heats(self) -> Heats:
        return self._heats

    @heats.setter
    def heats(self, heats: Heats) -> None:
        if heats.whatif != self._heats.whatif or self._metric not in heats.metrics:
            self._metric = heats.metrics[0]
        self._heats = heats
        self.show()

    def show(self, *, metric: str | None = None, limit: int | None = -1) -> None:
        """Show another metric, or more or fewer nodes (None: all). PtqError for a metric that is none."""
        before = self._metric, self._limit
        self._metric = self._metric if metric is None else metric
        self._limit = self._limit if limit == -1 else limit
        try:
            self._heat = self._made()
        except PtqError:
            self._metric, self._limit = before
            raise
        self._draw()

    def focus(self, *nodes: str) -> None:
        """Select a node; where the worst are shown and it is none of them, all are. PtqError for an unknown one."""
        wanted = nodes[:1]
        if wanted and wanted[0] not in self._heat.nodes:
            every = self._heats.heat(self._metric, None)
            if wanted[0] not in every.nodes:
                near = nearest(wanted[0], every.nodes)
                raise PtqError(Problem("PTQ665", "focus", f"no node {shorten(wanted[0])!r} in the heatmap",
                                       "the name of a node",
                                       f"did you mean {', '.join(map(repr, near))}?" if near else ""), "heatmap")
            self._limit, self._heat = None, every
            self._draw()
        self.send({"kind": "focus", "row": self._heat.nodes.index(wanted[0]) if wanted else -1})
        self._select(list(wanted))

    def knows(self, node: str) -> bool:
        """Whether the heatmap has the node, shown or not."""
        return node in self._heat.nodes or (self._limit is not None
                                            and node in self._heats.heat(self._metric, None).nodes)

    def heard(self, message: Mapping[str, Any], buffers: list[memoryview]) -> None:
        kind, row = message.get("kind"), message.get("row")
        if kind == "open":
            self._draw()
        elif kind == "select" and isinstance(row, int) and 0 <= row < len(self._heat.nodes):
            self._select([self._heat.nodes[row]])
        elif kind == "metric" and message.get("metric") in self._heats.metrics:
            self.show(metric=str(message["metric"]))
        elif kind == "all":
            self.show(limit=None if message.get("all") is True else WORST)

    def _draw(self) -> None:
        heat = self._heat
        fills = [ramp(i / (SHADES - 1)) for i in range(SHADES)]
        rows = [[node, [[heat.words(v) or "--", -1 if s is None or math.isnan(s) else round(s * (SHADES - 1))]
                        for v, s in zip(values, shades, strict=True)]]
                for node, values, shades in zip(heat.nodes, heat.values, heat.shades(), strict=True)]
        chosen = self._selected[0] if self._selected else None
        self.send({
            "kind": "rows", "title": title_of(heat) if self._heats.whatif else say("heat_of_run"),
            "columns": list(heat.columns), "fills": [[f, ink_on(f)] for f in fills],
            "metrics": list(self._heats.metrics), "metric": self._metric, "all": self._limit is None, "of": heat.of,
            "model_id": self.model_id,
            "row": heat.nodes.index(chosen) if chosen in heat.nodes else -1,
            "words": {"node": say("node_column"), "metric": say("heat_metric"), "all": say("heat_all", n=heat.of),
                      "best": say("heat_best"), "worst": say("heat_worst"), "none": say("nothing_measured")},
        }, [gzip.compress(json.dumps(rows).encode("utf-8"), 6)])

    def static_html(self) -> str:
        """The worst nodes only: a drawing of thousands of rows would hold up the page."""
        few = self._heat if len(self._heat.nodes) <= WORST else self._heats.heat(self._metric, WORST)
        title = title_of(few) if self._heats.whatif else say("heat_of_run")
        return html.frame(f"<div class='ptqlab-head'>{html.text(title)}</div>{heatmap_svg(few)}")

    def __repr__(self) -> str:
        return f"HeatView({len(self._heat.nodes)} of {self._heat.of} nodes)"


