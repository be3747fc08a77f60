"""Each node's error alone and what has added up by then, side by side."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ptqlab.arith.metrics import Metric
from ptqlab.debug.accumulate import accumulated_error
from ptqlab.debug.cuts import Effects
from ptqlab.debug.ranking import choices_of, score
from ptqlab.debug.source import first_samples, metrics_of, open_source
from ptqlab.events import Watch
from ptqlab.report.debug_plots import accumulated_figure
from ptqlab.report.page import Page
from ptqlab.result.api import watched
from ptqlab.result.shown import Shown
from ptqlab.workers import session_store

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

    from ptqlab.result.progress import Progress


class LayerErrors(Shown):
    """Errors of the quantized nodes in graph order. `alone`, `accumulated`: node -> metric."""

    def __init__(self, metric: Metric, types: dict[str, str], alone: dict[str, float],
                 accumulated: dict[str, float]) -> None:
        self.metric, self.types, self.alone, self.accumulated = metric, types, alone, accumulated

    @property
    def frame(self) -> pd.DataFrame:
        """One row per quantized node: Node, NodeType; Alone: the model's outputs when it alone is quantized;
        Accumulated: its own output when everything is."""
        import pandas as pd

        return pd.DataFrame([{"Node": n, "NodeType": self.types[n], "Alone": self.alone[n],
                              "Accumulated": self.accumulated[n]} for n in self.alone])

    def plot(self) -> go.Figure:
        """Both curves over the nodes in graph order."""
        return accumulated_figure({"alone": self.alone, "accumulated": self.accumulated}, self.metric.name)

    def page(self) -> Page:
        page = Page(f"{self.metric.name} of {len(self.alone)} nodes, alone and accumulated")
        columns = ("Node", "NodeType", "Alone", "Accumulated")
        page.table(columns, [(n, self.types[n], f"{self.alone[n]:.6f}", f"{self.accumulated[n]:.6f}")
                             for n in self.alone], columns[2:])
        return page

    def __repr__(self) -> str:
        return f"LayerErrors({len(self.alone)} nodes, {self.metric.name})"


def layer_errors(model_or_file: Any, data: Any = None, *, metric: str = "cosine-similarity", data_num: int | None = 4,
                 progress: bool | Progress | None = None, watch: Watch | None = None) -> LayerErrors:
    """The error that every node causes alone at the outputs, beside what has accumulated at its own output.

    A node where the second falls although the first is good suffers from those before it. Arguments as for
    `get_sensitivity_of_nodes`. Raises PtqError with every problem.
    """
    chosen = metrics_of(metric, "metric")[0]
    network, samples = open_source(model_or_file, data)
    samples, watch = first_samples(samples, data_num), watch or Watch()

    def work() -> LayerErrors:
        scores = score(Effects(network), choices_of(network, "node"), samples, [chosen], watch, store=session_store())
        whole = accumulated_error(network, {"all": network.quantizers}, samples, chosen, watch)["all"]
        alone = {n: scores.mean(n)[0] for n in network.nodes if n in scores.values}
        return LayerErrors(chosen, {n: network.graph.node(n).op_type for n in alone}, alone,
                           {n: whole[n] for n in alone})

    return watched(work, watch, progress)
