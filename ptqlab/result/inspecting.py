"""More of the debugger under the names of hmct-debugger: distributions, tables of tensors, analysis, all at once."""
from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ptqlab.artifacts.files import atomic_write, safe_name
from ptqlab.debug.arguments import Nested, flat, listed
from ptqlab.debug.cuts import Effects
from ptqlab.debug.distribution import values_of
from ptqlab.debug.raising import raised_scores
from ptqlab.debug.ranking import choices_of, score
from ptqlab.debug.source import MetricNames, first_samples, folder_of, metrics_of, open_source
from ptqlab.errors import Problem, PtqError
from ptqlab.events import Watch
from ptqlab.report.debug_plots import analysis_figure, channel_figure, distribution_figure
from ptqlab.result.debugging import RESULT_DIR, plot_acc_error, sensitivity_table, write_figure

TOP = 5


def _names(nodes_list: str | Sequence[Nested]) -> list[str]:
    names = flat(listed(nodes_list), "nodes_list")
    if not names:
        problem = Problem("PTQ554", "nodes_list", "an empty list", "names of nodes or HzCalibration nodes")
        raise PtqError(problem, "debug")
    return names


def plot_distribution(
    model_or_file: Any, calibrated_data: Any = None, nodes_list: str | Sequence[Nested] = (),
    save_dir: str | Path | None = RESULT_DIR, *, data_num: int | None = 1,
) -> dict[str, Any]:
    """{name: figure}: histograms of weights, activations (HzCalibration nodes) or of a node's output and its error.

    Of a node "quantized" is its output in the whole calibrated model. save_dir: a page and a drawing per name, None:
    no files.
    """
    network, samples = open_source(model_or_file, calibrated_data)
    found = values_of(network, _names(nodes_list), first_samples(samples, data_num))
    return _written({v.name: distribution_figure(v) for v in found}, save_dir)


def get_channelwise_data_distribution(
    model_or_file: Any, calibrated_data: Any = None, nodes_list: str | Sequence[Nested] = (), axis: int | None = None,
    save_dir: str | Path | None = RESULT_DIR, *, data_num: int | None = 1,
) -> dict[str, Any]:
    """{name: figure}: a box per channel. axis None: that of the weights' scales, 1 for activations."""
    network, samples = open_source(model_or_file, calibrated_data)
    found = values_of(network, _names(nodes_list), first_samples(samples, data_num))
    return _written({v.name: channel_figure(v, axis) for v in found}, save_dir)


def _written(figures: dict[str, Any], save_dir: str | Path | None) -> dict[str, Any]:
    if save_dir is not None:
        folder = folder_of(save_dir)
        for name, figure in figures.items():
            write_figure(figure, folder / f"{safe_name(name)}.html")
    return figures


def tensor_analysis(
    model_or_file: Any, calibrated_data: Any = None, nodes_list: str | Sequence[Nested] = (),
    save_dir: str | Path | None = RESULT_DIR, *, data_num: int | None = 1,
) -> dict[str, dict[str, float]]:
    """{name: {figure: value}} of weights, activations and outputs of nodes: range, threshold, all metrics, SQNR of the
    signal without its mean, distinct values, share of zeros; also `tensor_analysis.csv`. One process does it."""
    network, samples = open_source(model_or_file, calibrated_data)
    found = values_of(network, _names(nodes_list), first_samples(samples, data_num))
    rows = {v.name: v.statistics for v in found}
    if save_dir is not None:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["name", "kind", *next(iter(rows.values()))])
        writer.writerows([v.name, v.kind, *rows[v.name].values()] for v in found)
        atomic_write(folder_of(save_dir) / "tensor_analysis.csv", text.getvalue())
    return rows


def sensitivity_analysis(
    model_or_file: Any, calibrated_data: Any = None, metric: str = "cosine-similarity", pick_threshold: float = 0.999,
    data_num: int | None = 1, sensitive_nodes: str | Sequence[Nested] | None = None, qtype: str = "float32",
    save_dir: str | Path | None = None, output_separated: bool = False, *, watch: Watch | None = None,
) -> dict[str, Any]:
    """{node: score of the model} when sensitive nodes get `qtype` one after the other, worst first, in the calibrated
    model; {node: {output: score}} with `output_separated`, else the mean over the outputs.

    sensitive_nodes  None: those whose sensitivity is worse than pick_threshold by the metric
    qtype            "float32" (not quantized), "int16", "dual-int16" or "float16"
    save_dir         folder for `sensitivity_analysis.html`, `.svg` and `.png`
    """
    chosen = metrics_of(metric, "metric")[0]
    network, samples = open_source(model_or_file, calibrated_data)
    samples, watch = first_samples(samples, data_num), watch or Watch()
    if sensitive_nodes is None:
        scores = score(Effects(network), choices_of(network, "node"), samples, [chosen], watch)
        nodes = [n for n in scores.ranked() if not chosen.better(scores.mean(n)[0], pick_threshold)]
    else:
        nodes = flat(listed(sensitive_nodes), "sensitive_nodes")
    found = raised_scores(network, nodes, qtype, chosen, samples, watch)
    if save_dir is not None:
        write_figure(analysis_figure(found, chosen.name), folder_of(save_dir) / "sensitivity_analysis.html")
    if output_separated:
        return dict(found)
    return {node: sum(row.values()) / len(row) for node, row in found.items()}


def runall(
    model_or_file: Any, calibrated_data: Any = None, save_dir: str | Path = RESULT_DIR,
    ns_metrics: MetricNames = "cosine-similarity", output_node: str | None = None,
    node_type: str | Sequence[Nested] = ("weight", "activation"), data_num: int | None = 1, verbose: bool = False,
    interested_nodes: str | Sequence[Nested] | None = None, dis_nodes_list: str | Sequence[Nested] | None = None,
    cw_nodes_list: str | Sequence[Nested] | None = None, axis: int | None = None,
    quantize_node: str | Sequence[Nested] | None = None, non_quantize_node: str | Sequence[Nested] | None = None,
    ae_metric: str = "cosine-similarity", average_mode: bool = False, pick_threshold: float = 0.999,
    sensitive_nodes: str | Sequence[Nested] | None = None, *, cache: str | Path | None = None,
    watch: Watch | None = None,
) -> dict[str, Mapping[str, Any]]:
    """Everything: sensitivity, distributions and box plots of the five worst, accumulated error, sensitivity analysis.

    Files go to `node_sensitivity`, `data_distribution`, `channelwise_distribution`, `accumulate_error` and
    `sensitivity_analysis` in `save_dir`. Lists that are None follow from the sensitivity. Gives {step: its result}.
    A stop leaves the files of the steps that are done, and the next call finds the sensitivities that were measured:
    those of this session, or in the folder `cache`.
    """
    folder = folder_of(save_dir)
    source = open_source(model_or_file, calibrated_data)
    network, data = source[0], [dict(s) for s in first_samples(source[1], data_num)]
    kinds = flat(listed(node_type), "node_type") if interested_nodes is None else ["node"]
    found: dict[str, Mapping[str, Any]] = {}
    worst: list[str] = []
    for kind in kinds:
        told = sensitivity_table(network, data, metrics=ns_metrics, output_node=output_node, node_type=kind,
                                 data_num=None, interested_nodes=interested_nodes, cache=cache, watch=watch)
        if verbose:
            print(told)
        atomic_write(folder_of(folder / "node_sensitivity") / f"sensitivity_of_{kind}.log", f"{told}\n")
        found[f"sensitivity_of_{kind}"] = told.scores
        top = [n for label in list(told.scores)[:TOP] for n in label.split(",")]
        worst += top + [q for n in top if n in network.graph for q in network.of_node(n)]
    worst = list(dict.fromkeys(worst))
    found["data_distribution"] = plot_distribution(
        network, data, dis_nodes_list or worst, folder / "data_distribution", data_num=None)
    found["channelwise_distribution"] = get_channelwise_data_distribution(
        network, data, cw_nodes_list or worst, axis, folder / "channelwise_distribution", data_num=None)
    if quantize_node is None and non_quantize_node is None:
        quantize_node = ["weight", "activation"]
    error = plot_acc_error(network, data, quantize_node, non_quantize_node, ae_metric, average_mode,
                           folder / "accumulate_error", watch=watch)
    found["accumulate_error"] = {trace.name: trace.y for trace in error.data}
    found["sensitivity_analysis"] = sensitivity_analysis(
        network, data, ae_metric, pick_threshold, None, sensitive_nodes, save_dir=folder / "sensitivity_analysis",
        watch=watch)
    return found
