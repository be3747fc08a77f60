"""The dashboard of a run: heatmap, Netron, grid and details of one node, linked by one object. Each works alone."""
from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Protocol

import ipywidgets

from ptqlab.events import Event, Watch
from ptqlab.report.words import say
from ptqlab.widgets.assets import display_both
from ptqlab.widgets.dashboard_detail import DetailView, Run
from ptqlab.widgets.dashboard_heat import Heats, HeatView
from ptqlab.widgets.graph import GraphView
from ptqlab.widgets.grid_page import in_words
from ptqlab.widgets.latest import Latest
from ptqlab.widgets.selection import Listeners

Compute = Callable[[Watch], Heats]


class Grid(Protocol):
    """What a dashboard knows of the grid."""

    def focus(self, *nodes: str) -> None: ...
    def on_select(self, callback: Callable[[list[str]], object], *, remove: bool = False) -> None: ...
    def static_html(self) -> str: ...


class Dashboard(ipywidgets.VBox):
    """One node, shown by every part: `heat`, `graph`, `grid` and `detail` are widgets of their own.

    A click in any of them, or `select(node)`, selects the node in all; `on_select(callback)` hears of it.
    `compute()` fills the heatmap with the sensitivity of every node, which the button does beside, to be stopped.
    """

    def __init__(self, run: Run, heats: Heats, graph: GraphView, grid: Grid, compute: Compute,
                 data: Any = None) -> None:
        """heats: what is known; compute: gives the sensitivities, told of by the watch and stopped by it; data: as of
        `DetailView`."""
        self._run, self._compute = run, compute
        self._node: str | None = None
        self._selecting = False
        self._listeners: Listeners[str] = Listeners()
        self._lock = threading.RLock()
        self.heat, self.graph, self.grid, self.detail = HeatView(heats), graph, grid, DetailView(run, data)
        for part in (self.heat, self.graph, self.grid):
            part.on_select(self._selected)
        self._beside = Latest(self._failed)
        self._button = ipywidgets.Button(description=say("dash_compute"), layout={"width": "auto"})
        self._stop = ipywidgets.Button(description=say("dash_stop"), disabled=True, layout={"width": "auto"})
        self._told = ipywidgets.Label("")
        self._button.on_click(lambda _: self.start())
        self._stop.on_click(lambda _: self.stop())
        known = ipywidgets.HBox([self._button, self._stop, self._told])
        known.layout.display = "none" if heats.whatif else "flex"
        self._known = known
        top = ipywidgets.Box([self.heat, self.graph])
        top.add_class("ptqlab-top")
        super().__init__([known, top, self.detail, self.grid])
        self.add_class("ptqlab-dashboard")

    @property
    def node(self) -> str | None:
        """The node that is shown; None before one was selected."""
        return self._node

    @property
    def status(self) -> str:
        """What is told beside the buttons."""
        return str(self._told.value)

    def on_select(self, callback: Callable[[str], object], *, remove: bool = False) -> None:
        """Call `callback(node)` whenever another node is selected; `remove`: no longer."""
        self._listeners.change(callback, remove)

    def select(self, node: str) -> None:
        """Show a node in every part that has it. PtqError with the nearest names for one that the run does not have."""
        with self._lock:
            if node == self._node:
                return
            self._run.explain(node)  # refuses unknown names before anything moves
            self._node, self._selecting = node, True
            try:
                self._focus_heat(node)
                if self.graph.has(node):
                    self.graph.focus(node)
                self.grid.focus(node)
                self.detail.focus(node)
            finally:
                self._selecting = False
        self._listeners.tell(node)

    def _focus_heat(self, node: str) -> None:
        """The node's row, or that of the node it is computed in; none where the heatmap has neither."""
        within = next(row.fused_into for row in self._run.record.nodes if row.node == node)
        rows = [name for name in (node, within) if name and self.heat.knows(name)]
        self.heat.focus(*rows[:1])

    def _selected(self, names: list[str]) -> None:
        """A part's selection; nodes that only its model has, such as quantizers, concern nobody else. What a part is
        told while a node is being selected is no wish of the user."""
        known = {row.node for row in self._run.record.nodes}
        if names and names[0] in known and not self._selecting:
            self.select(names[0])

    def compute(self, watch: Watch | None = None) -> None:
        """Fill the heatmap with the sensitivity of every node. Raises what computing it raises."""
        self.heat.heats = self._compute(watch or Watch())
        self._known.layout.display = "none"
        if self._node is not None:
            self._focus_heat(self._node)

    def start(self) -> None:
        """Compute beside, as the button does."""
        self._button.disabled, self._stop.disabled = True, False
        self._told.value = say("dash_computing", done=0, total="--")
        self._beside.ask(self._work)

    def stop(self) -> None:
        """Stop what `start` began; what is measured so far is shown."""
        self._beside.ask(lambda watch: None)

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for the sensitivity that `start` began and the details of the node; False when it took longer."""
        return self._beside.wait(seconds) and self.detail.wait(seconds)

    def _work(self, watch: Watch) -> None:
        watch.listeners.append(self._tell)
        try:
            self.compute(watch)
            self._told.value = say("dash_stopped" if watch.stopped else "dash_computed")
        finally:
            self._button.disabled, self._stop.disabled = False, True

    def _tell(self, event: Event) -> None:
        if event.kind == "step" and event.total and (event.done % max(event.total // 100, 1) == 0):
            self._told.value = say("dash_computing", done=event.done, total=event.total)

    def _failed(self, error: BaseException) -> None:
        said = in_words(error)
        self._told.value = say("detail_failed", why=said)

    def static_html(self) -> str:
        """The parts as a saved notebook shows them."""
        return "".join(part.static_html() for part in (self.heat, self.graph, self.detail, self.grid))

    def _ipython_display_(self, **_: Any) -> None:
        display_both(self, self.heat.model_id, self.static_html())

    def __repr__(self) -> str:
        return f"Dashboard({self.graph.graph.record.model!r}, node={self._node!r})"
