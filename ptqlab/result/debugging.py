"""The debugger's functions under the names and with the defaults of hmct-debugger; files as it writes them.

Figures are html pages that open offline, `plotly.min.js` beside them once, and still drawings (svg).
"""
from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ptqlab.artifacts.files import atomic_write
from ptqlab.debug.accumulate import accumulated_error, partial_choices
from ptqlab.debug.arguments import Nested
from ptqlab.debug.cuts import Effects
from ptqlab.debug.network import unknown_node
from ptqlab.debug.ranking import as_strings, choices_of, score, table
from ptqlab.debug.source import MetricNames, all_metrics_of, first_samples, folder_of, metrics_of, open_source
from ptqlab.errors import Finding, PtqError
from ptqlab.events import Watch
from ptqlab.report.debug_plots import accumulated_figure
from ptqlab.report.still import figure_png, figure_svg
from ptqlab.result.shown import Text
from ptqlab.workers import session_store

if TYPE_CHECKING:
    import plotly.graph_objects as go

RESULT_DIR = "./debug_result/"


def get_sensitivity_of_nodes(
    model_or_file: Any, calibrated_data: Any = None, metrics: MetricNames = "cosine-similarity",
    output_node: str | None = None, node_type: str = "node", data_num: int | None = 1, verbose: bool = False,
    interested_nodes: str | Sequence[Nested] | None = None, save_dir: str | Path | None = None, *,
    cache: str | Path | None = None, watch: Watch | None = None,
) -> dict[str, dict[str, str]]:
    """{node: {metric: "<number>"}}, worst first: each node alone quantized in the float model.

    model_or_file     calibrated model file or CompileResult;  calibrated_data: folder(s) or arrays of samples
    metrics           one or several of cosine-similarity, mse, mre, sqnr, chebyshev, or functions (outputs by name,
                      number of the sample) -> number, more is better; the first one sorts
    output_node       compare at this node's output instead of the model's outputs
    node_type         "node": all quantizers a node reads through; "weight", "activation": each quantizer alone
    data_num          number of samples, None: all
    verbose           print the table
    interested_nodes  only these nodes; a list inside of the list is quantized as one
    save_dir          folder for `<node_type>_sensitivity.log`
    cache             folder that keeps results for later sessions; this one remembers them anyway

    Exact: equal to one full run per node. Stopping keeps the nodes that are done, and the next call goes on.
    Raises PtqError with all problems.
    """
    found = sensitivity_table(
        model_or_file, calibrated_data, metrics=metrics, output_node=output_node, node_type=node_type,
        data_num=data_num, interested_nodes=interested_nodes, save_dir=save_dir, cache=cache, watch=watch)
    if verbose:
        print(found)
    return found.scores


class SensitivityTable(Text):
    """The scores of get_sensitivity_of_nodes, printed as their table."""

    def __init__(self, scores: dict[str, dict[str, str]], text: str) -> None:
        super().__init__(text)
        self.scores = scores


def sensitivity_table(
    model_or_file: Any, calibrated_data: Any = None, *, metrics: MetricNames = "cosine-similarity",
    output_node: str | None = None, node_type: str = "node", data_num: int | None = 1,
    interested_nodes: str | Sequence[Nested] | None = None, save_dir: str | Path | None = None,
    cache: str | Path | None = None, watch: Watch | None = None,
) -> SensitivityTable:
    """`get_sensitivity_of_nodes` with its table."""
    chosen = all_metrics_of(metrics)
    network, samples = open_source(model_or_file, calibrated_data)
    samples = first_samples(samples, data_num)
    if output_node is not None and output_node not in network.graph:
        raise PtqError(unknown_node(output_node, network, "output_node"), "debug")
    kind = "node" if interested_nodes is not None else node_type
    watch = watch or Watch()
    scores = score(Effects(network, output_node), choices_of(network, node_type, interested_nodes), samples, chosen,
                   watch, store=session_store(folder_of(cache) if cache is not None else None))
    if not scores.complete:
        watch.finding(Finding("PTQ556", f"stopped: {len(scores.values)} nodes were measured, not all on every sample"))
    found = as_strings(scores)
    text = table(found, network, kind)
    if save_dir is not None:
        atomic_write(folder_of(save_dir) / f"{kind}_sensitivity.log", text + "\n")
    return SensitivityTable(found, text)


def plot_acc_error(
    model_or_file: Any, calibrated_data: Any = None, quantize_node: str | Sequence[Nested] | None = None,
    non_quantize_node: str | Sequence[Nested] | None = None, metric: str = "cosine-similarity",
    average_mode: bool = False, save_dir: str | Path | None = RESULT_DIR, *, data_num: int | None = None,
    name: str = "accumulated_error", watch: Watch | None = None,
) -> go.Figure:
    """A figure of the accumulated error: metric of every node, in graph order, in a partly quantized model.

    quantize_node      only these are quantized; "weight" and "activation" stand for all of their kind
    non_quantize_node  all but these are quantized; exactly one of the two is given
    metric             cosine-similarity, mse, mre, sqnr or chebyshev
    average_mode       running mean along the graph
    save_dir           folder for `accumulated_error.html`, `.svg` and `.png`, None: no files
    data_num           number of samples, None: all

    A flat list gives one curve per entry; a list of lists one per inner list, named partial_qmodel_0, ...
    Raises PtqError; where the choice of nodes has no meaning it is a ValueError too.
    """
    chosen = metrics_of(metric, "metric")[0]
    network, samples = open_source(model_or_file, calibrated_data)
    choices = partial_choices(network, quantize_node, non_quantize_node)
    curves = accumulated_error(network, choices, first_samples(samples, data_num), chosen, watch or Watch(),
                               average_mode)
    figure = accumulated_figure(curves, chosen.name)
    if save_dir is not None:
        write_figure(figure, folder_of(save_dir) / f"{name}.html")
    return figure


def write_figure(figure: go.Figure, path: Path) -> Path:
    """A figure as an html page that needs no network, and as still drawings beside it, svg and png."""
    from plotly.offline import get_plotlyjs

    script = path.with_name("plotly.min.js")
    if not script.exists():
        atomic_write(script, get_plotlyjs())
    atomic_write(path, figure.to_html(include_plotlyjs="directory", full_html=True))
    stem = path.name.removesuffix(".html")
    atomic_write(path.with_name(f"{stem}.svg"), figure_svg(figure))
    atomic_write(path.with_name(f"{stem}.png"), figure_png(figure))
    return path
