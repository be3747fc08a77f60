"""The detail pane of a dashboard: what a node was granted and why, its values, the error up to it, cause and remedy.

What the record knows is shown at once; what has to be computed follows from a thread, the newest node first.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from ptqlab.events import Watch
from ptqlab.report import html
from ptqlab.report.explain import Explanation
from ptqlab.report.tensors import Panel
from ptqlab.report.words import say, spoken, spoken_word
from ptqlab.stages.record import Record
from ptqlab.widgets.assets import View, our
from ptqlab.widgets.dashboard_draw import channel_svg, distribution_svg, error_svg
from ptqlab.widgets.grid_page import in_words
from ptqlab.widgets.latest import Latest

if TYPE_CHECKING:
    from ptqlab.debug.diagnosis import Diagnosis

SAMPLES = 4


class Run(Protocol):
    """What a dashboard knows of a compile run."""

    @property
    def record(self) -> Record: ...
    def explain(self, node: str) -> Explanation: ...
    def source(self, data: Any = None) -> Any: ...
    def panels(self, node: str, *, data: Any = None, samples: int | None = SAMPLES,
               progress: Any = None) -> list[Panel]: ...
    def accumulated(self, metric: str = "cosine-similarity", *, data: Any = None, samples: int | None = SAMPLES,
                    progress: Any = None) -> dict[str, dict[str, float]]: ...


@dataclass
class Detail:
    """What is known of a node so far; None: not yet, or not of this node."""

    explanation: Explanation
    panels: Sequence[Panel] | None = None
    causes: Sequence[Diagnosis] | None = None
    curves: Mapping[str, Mapping[str, float]] | None = None

    def html(self) -> str:
        """The pane, every text escaped."""
        row = self.explanation.row
        lines = "".join(f"<dt>{html.text(what)}</dt><dd>{html.text(words)}</dd>"
                        for what, words in [*self.explanation.lines(), *self._remedies()])
        draws = [_figure(panel.title, distribution_svg(panel)) for panel in self.panels or ()]
        # the channels of what is quantized are what its one threshold has to fit
        draws += [_figure(f"{html.text(say('detail_channels'))}: {panel.title}", channel_svg(panel))
                  for panel in self.panels or () if panel.bounds is not None and panel.values.before.ndim > 1]
        if self.curves:
            draws.append(_figure(html.text(say("error_title")), error_svg(self.curves, row.node)))
        return (f"<div class='ptqlab-head'><code>{html.text(row.node)}</code> ({html.text(row.node_type)})</div>"
                f"<dl>{lines}</dl><div class='ptqlab-draws'>{''.join(draws)}</div>")

    def _remedies(self) -> list[tuple[str, str]]:
        if self.causes is None:
            return []
        if not self.causes:
            return [(say("detail_cause"), say("detail_no_cause"))]
        lines = []
        for one in self.causes:
            lines.append((say("detail_cause"), f"{one.quantizer.removesuffix('_HzCalibration')}: "
                          f"{spoken_word(one.cause.replace('_', ' '))}. {spoken(one.found)}"))
            lines.append((say("detail_remedy"), spoken(one.remedy.what)))
        return lines


def _figure(caption: str, drawing: str) -> str:
    return f"<figure><figcaption>{caption}</figcaption>{drawing}</figure>"


class DetailView(View):
    """The pane. `focus(node)` shows a node, `node` is the one shown, `wait()` until everything is computed."""

    _esm = our("assets.js", "dashboard_detail.js")
    _css = our("dashboard.css")

    def __init__(self, run: Run, data: Any = None) -> None:
        """data: calibration data that the figures are computed with, None for that of the run."""
        self._run, self._data = run, data
        self._detail: Detail | None = None
        self._status = ("", "")
        self._failures: list[BaseException] = []
        self._latest = Latest(self._failed)
        super().__init__()

    @property
    def node(self) -> str | None:
        """The node that is shown; None before."""
        return None if self._detail is None else self._detail.explanation.row.node

    @property
    def detail(self) -> Detail | None:
        return self._detail

    def focus(self, node: str) -> None:
        """Show a node; its figures are computed in a thread. PtqError with the nearest names for an unknown one."""
        self._detail = detail = Detail(self._run.explain(node))
        self._show("busy", say("detail_busy"))
        self._latest.ask(lambda watch: self._compute(detail, watch))

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until the figures of the node are there; False when that took longer."""
        return self._latest.wait(seconds)

    def _compute(self, detail: Detail, watch: Watch) -> None:
        from ptqlab.debug.diagnosis import causes_at
        from ptqlab.debug.source import first_samples

        node = detail.explanation.row.node
        def panels() -> None:
            detail.panels = self._run.panels(node, data=self._data, samples=SAMPLES, progress=False)

        def causes() -> None:
            network, samples = self._run.source(self._data)
            detail.causes = causes_at(network, node, first_samples(samples, SAMPLES))

        def curves() -> None:
            detail.curves = self._run.accumulated(data=self._data, samples=SAMPLES, progress=False)

        for step in (panels, causes, curves):
            if watch.stopped:  # a newer node is asked for
                return
            step()
            if self._detail is detail:
                busy = step is not curves
                self._show("busy" if busy else "", say("detail_busy") if busy else "")

    def _failed(self, error: BaseException) -> None:
        self._failures.append(error)
        said = in_words(error)
        self._show("error", say("detail_failed", why=said))

    def _show(self, level: str, status: str) -> None:
        self._status = (level, status)
        self.send(self._message())

    def _message(self) -> dict[str, Any]:
        level, text = self._status
        shown = say("detail_hint") if self._detail is None else ""
        return {"kind": "show", "html": self._detail.html() if self._detail else "", "level": level,
                "text": text or shown, "node": self.node, "model_id": self.model_id}

    def heard(self, message: Mapping[str, Any], buffers: list[memoryview]) -> None:
        if message.get("kind") == "open":
            self.send(self._message())

    def static_html(self) -> str:
        return html.frame(self._detail.html() if self._detail else html.text(say("detail_hint")))

    def __repr__(self) -> str:
        return f"DetailView({self.node!r})"
