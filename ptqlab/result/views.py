"""The views of a compile run: figures, comparison, report. What is computed for one is kept for the next."""
from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ptqlab.errors import Problem, PtqError, shorten
from ptqlab.events import Watch
from ptqlab.report.heatmap import WORST
from ptqlab.report.tensors import MOST_CHANNELS
from ptqlab.report.words import spoken

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from ptqlab.debug.network import Network
    from ptqlab.quantize.samples import Samples
    from ptqlab.report.heatmap import Heat
    from ptqlab.report.tensors import Panel
    from ptqlab.result.comparing import Comparison
    from ptqlab.result.compiled import CompileResult
    from ptqlab.result.doctor import DoctorResult
    from ptqlab.result.progress import Progress
    from ptqlab.result.sensitivity import SensitivityResult
    from ptqlab.result.tuning import TuneResult
    from ptqlab.stages.record import Record
    from ptqlab.widgets.dashboard import Dashboard
    from ptqlab.widgets.graph import GraphView
    from ptqlab.widgets.grid import QuantGrid


class Views:
    """Methods of CompileResult that draw, compare and report.

    `data` is calibration data as in `ptqlab.compile`, None for that of the run; `progress` as there. Work that is long
    can be stopped. Figures are plotly's; names are escaped, colours hold on light and dark.
    """

    record: Record
    #: what was computed once: question -> answer
    _known: dict[Any, Any]

    #: calibration data that were given as arrays, as long as the session lasts; None: folders, which the record names
    data: Any = None

    @property
    def _run(self) -> CompileResult:
        return cast("CompileResult", self)

    def plot_cosine(self) -> go.Figure:
        """Both cosines of every node in graph order."""
        from ptqlab.report.plots import cosine_figure

        return cosine_figure(self.record)

    def sensitivity(self, data: Any = None, *, progress: bool | Progress | None = None,
                    **options: Any) -> SensitivityResult:
        """How far the outputs move when each node alone is quantized; options as in `ptqlab.sensitivity`.

        The answer for the run's own data is kept, so that the heatmap, the report and the dashboard do not compute it
        again. Raises PtqError with every problem.
        """
        from ptqlab.result.sensitivity import sensitivity

        key = ("sensitivity", repr(sorted(options.items())))
        if data is None and key in self._known:
            return self._known[key]
        found = sensitivity(self, data, progress=progress, **options)
        if data is None and found.complete:
            self._known[key] = found
            self._known["last sensitivity"] = found
        return found

    @property
    def known_sensitivity(self) -> SensitivityResult | None:
        """The sensitivities that were computed last for this run; None when none were."""
        return self._known.get("last sensitivity")

    def graph(self, stage: str = "optimized", *, around: str | None = None, hops: int = 2, color: str = "cosine",
              height: int = 520) -> GraphView:
        """The graph in Netron: colours by a measure, side bar with what the run knows, selection both ways.

        stage   "original", "optimized", "calibrated", "quantized" (the .bc) or "hbm"
        around  only the nodes at most `hops` edges away from this one;  height in pixels
        color   "cosine", "qtype", "on" (BPU or CPU) or "latency" (share of the BPU part)
        A saved notebook shows it without a kernel; `graph_html` gives that form. PtqError for what is none of these.
        """
        from ptqlab.widgets.graph import GraphView

        return GraphView(self.record, self._run.directory, stage=stage, around=around, hops=hops, color=color,
                         height=height)

    def graph_html(self, stage: str = "optimized", *, around: str | None = None, hops: int = 2, color: str = "cosine",
                   height: int = 520) -> str:
        """The graph as one string of html that needs no kernel and no network; arguments as of `graph`."""
        from ptqlab.report.netron import graph_html

        return graph_html(self.record, self._run.directory, stage=stage, around=around, hops=hops, color=color,
                          height=height)

    def grid(self, data: Any = None, *, samples: int = 8, height: int = 460) -> QuantGrid:
        """The quant_config as a grid to be changed, with what a change does to outputs and latency; see `QuantGrid`.

        samples  how many calibration samples the effect is measured with;  height in pixels
        The sensitivity of nodes is a column where it was computed before. PtqError for a configuration that cannot be
        read any more.
        """
        from ptqlab.result.api import run
        from ptqlab.widgets.grid import QuantGrid

        found = self.known_sensitivity
        return QuantGrid(self._run, run, data, samples=samples, height=height,
                         sensitivity={} if found is None else found.whole_nodes())

    def dashboard(self, data: Any = None, *, height: int = 460) -> Dashboard:
        """Heatmap, graph, grid and details of one node, linked: a click in one shows the node in all.

        The heatmap is that of the sensitivities where they were computed before, else of the cosines, with a button
        that computes them.  data  calibration data, None for that of the run;  height  of the grid in pixels
        """
        from ptqlab.result.sensitivity import sensitivity
        from ptqlab.widgets.dashboard import Dashboard
        from ptqlab.widgets.dashboard_heat import Heats, run_heats

        def heats(found: SensitivityResult) -> Heats:
            first = "sqnr" if "sqnr" in found.metrics else found.metrics[0]
            order = (first, *(m for m in found.metrics if m != first))
            return Heats(order, lambda metric, limit: heat_of_result(found, metric, limit))

        def compute(watch: Watch) -> Heats:
            found = sensitivity(self, data, progress=False, watch=watch)
            if found.complete and data is None:
                self._known["last sensitivity"] = found
            return heats(found)

        known = self.known_sensitivity
        return Dashboard(self._run, run_heats(self.record) if known is None else heats(known), self.graph(),
                         self.grid(data, height=height), compute, data)

    def plot_sensitivity(self, metric: str | None = None, *, limit: int | None = WORST, data: Any = None,
                         progress: bool | Progress | None = None, **options: Any) -> go.Figure:
        """Heatmap node x what-if, computed by `run.sensitivity(**options)` where it is not known yet.

        metric  of the sensitivity (default: sqnr);  limit  nodes shown, the worst first; None: all
        """
        from ptqlab.report.heatmap import sensitivity_figure

        found = self.known_sensitivity if data is None and not options else None
        found = found or self.sensitivity(data, progress=progress, **options)
        heat = heat_of_result(found, metric, limit)
        rows = {row.node: row for row in self.record.nodes}
        told = [shorten(f"{rows[n].granted}, {rows[n].on}: {spoken(rows[n].reason)}", 160) if n in rows else ""
                for n in heat.nodes]
        return sensitivity_figure(heat, told)

    def plot_distribution(self, node: str, *, data: Any = None, samples: int | None = 4,
                          progress: bool | Progress | None = None) -> go.Figure:
        """Histograms of what `node` reads and gives, raw and quantized; the ends of the codes are dashed.

        node     a node, or the name of one HzCalibration node;  samples  how many are run, None: all
        Raises PtqError with the nearest names for one that is none.
        """
        from ptqlab.report.tensors import distribution_panels

        return distribution_panels(node, self.panels(node, data=data, samples=samples, progress=progress))

    def plot_channels(self, node: str, *, data: Any = None, samples: int | None = 4,
                      limit: int | None = MOST_CHANNELS, progress: bool | Progress | None = None) -> go.Figure:
        """A box per channel of what `node` reads and gives; the ends of the codes are dashed.

        limit  channels per tensor, those that reach farthest; None: all. Else as `plot_distribution`
        """
        from ptqlab.report.tensors import channel_panels

        return channel_panels(node, self.panels(node, data=data, samples=samples, progress=progress), limit=limit)

    def panels(self, node: str, *, data: Any = None, samples: int | None = 4,
               progress: bool | Progress | None = None) -> list[Panel]:
        """The tensors around a node: inputs and weights it reads through quantizers, and its output."""
        from ptqlab.debug.source import first_samples
        from ptqlab.result.api import watched
        from ptqlab.result.around import panels_around

        network, known = self.source(data)
        return watched(lambda: panels_around(network, node, first_samples(known, samples)), Watch(), progress)

    def plot_error(self, *, metric: str = "cosine-similarity", at: str | None = None, data: Any = None,
                   samples: int | None = 4, progress: bool | Progress | None = None) -> go.Figure:
        """How far every node is from its float self with everything quantized, weights only, activations only.

        metric  cosine-similarity, mse, mre, sqnr or chebyshev;  at  a node to mark
        """
        from ptqlab.report.accumulated import error_figure

        return error_figure(self.accumulated(metric, data=data, samples=samples, progress=progress), metric, at)

    def accumulated(self, metric: str = "cosine-similarity", *, data: Any = None,
                    samples: int | None = 4, progress: bool | Progress | None = None,
                    ) -> dict[str, dict[str, float]]:
        """{what is quantized: {node: metric}} in graph order, what `plot_error` shows."""
        from ptqlab.debug.accumulate import accumulated_error
        from ptqlab.debug.source import first_samples, metrics_of
        from ptqlab.report.words import say
        from ptqlab.result.api import watched

        chosen = metrics_of(metric, "metric")[0]
        key = ("accumulated", metric, samples)
        if data is not None or key not in self._known:
            network, known = self.source(data)
            choices = {
                name: {q: network.quantizers[q] for q in names}
                for name, names in (("all_quantized", list(network.quantizers)),
                                    ("weights_only", network.of_kind("weight")),
                                    ("activations_only", network.of_kind("activation"))) if names
            }
            watch = Watch()
            curves = watched(lambda: accumulated_error(network, choices, first_samples(known, samples), chosen, watch),
                             watch, progress)
            if data is not None:
                return {say(name): curve for name, curve in curves.items()}
            self._known[key] = curves
        return {say(name): curve for name, curve in self._known[key].items()}

    def source(self, data: Any = None) -> tuple[Network, Samples]:
        """The network of the calibrated model and the samples; read once for the run's own data."""
        from ptqlab.debug.source import open_source

        if data is not None:
            return open_source(self, data)
        if "source" not in self._known:
            self._known["source"] = open_source(self)
        return self._known["source"]

    def plot_timeline(self) -> go.Figure:
        """The estimate over time: which engine of the BPU works for which layer. PtqError where none was made."""
        from ptqlab.report.timeline import timeline_figure

        return timeline_figure(self.record)

    def tune(self, *, progress: bool | Progress | None = None, **options: Any) -> TuneResult:
        """Mixed precision from this run's configuration on until the target; options as in `ptqlab.tune`."""
        from ptqlab.result.tuning import tune

        key = ("tune", repr(sorted(options.items())))
        if key not in self._known:
            held = {} if self.data is None else {"calibration_data": self.data}
            found = tune(dict(self.record.settings), progress=progress, **held, **options)
            if found.stopped:
                return found
            self._known[key] = self._known["last tune"] = found
        return self._known[key]

    def plot_pareto(self, tuned: TuneResult | None = None, *, progress: bool | Progress | None = None,
                    **options: Any) -> go.Figure:
        """Accuracy against latency of the steps of a tuning: `tuned`, else what `run.tune(**options)` finds."""
        from ptqlab.report.pareto import pareto_figure

        found = tuned or (None if options else self._known.get("last tune")) or self.tune(progress=progress, **options)
        return pareto_figure(found.frame)

    def doctor(self, *, data: Any = None, worst: int = 5, samples: int | None = 4,
               progress: bool | Progress | None = None) -> DoctorResult:
        """What is wrong, why, and what to do: data, NaN and masks, dead outputs, and the quantizers that hurt most."""
        from ptqlab.result.doctor import doctor

        return doctor(self._run, data=data, worst=worst, samples=samples, progress=progress)

    def compare(self, other: CompileResult | str | Path,
                names: tuple[str, str] | None = None) -> Comparison:
        """This run (a) and another one (b; or its folder) side by side: page, `.frame`, `.plot()`."""
        from ptqlab.result.comparing import Comparison
        from ptqlab.result.compiled import load_result

        return Comparison(self._run, load_result(other) if isinstance(other, str | Path) else other, names)

    def report(self, path: str | Path = "report.html", *,
               other: CompileResult | str | Path | None = None, sensitivity: bool = True,
               progress: bool | Progress | None = None) -> Path:
        """Write one html file that opens offline and tells all of this run, in English and Chinese.

        other        a run to compare with, or its folder
        sensitivity  compute the heatmap where it is not known and the run's data are there
        Gives the path. Raises PtqError when the file cannot be written.
        """
        from ptqlab.result.reporting import write_report

        return write_report(self._run, Path(path), other=None if other is None else self.compare(other),
                            sensitivity=sensitivity, progress=progress)


def heat_of_result(found: SensitivityResult, metric: str | None = None, limit: int | None = WORST) -> Heat:
    """The heatmap of a metric of sensitivities. PtqError for a metric that is not among them.

    The default is sqnr where it was measured, since cosines of single nodes are all but 1, else the first metric.
    """
    from ptqlab.report.heatmap import heat_of

    name = metric or ("sqnr" if "sqnr" in found.metrics else found.metrics[0])
    if name not in found.metrics:
        raise PtqError(Problem("PTQ554", "metric", repr(shorten(name)), ", ".join(found.metrics)), "heatmap")
    return heat_of(found.frame, name, higher=found.scores.metrics[found.metrics.index(name)].higher, limit=limit)
