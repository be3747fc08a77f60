"""Sensitivity per node, part and type, as a frame and a heatmap; two runs node by node."""
from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ptqlab.debug.cuts import Effects
from ptqlab.debug.network import Choice, Network
from ptqlab.debug.ranking import Scores, score
from ptqlab.debug.source import MetricNames, all_metrics_of, first_samples, folder_of, march_of, open_source
from ptqlab.debug.variants import PARTS, type_problems, types_of, variant
from ptqlab.errors import Problem, PtqError, raise_if, shorten
from ptqlab.events import Watch
from ptqlab.report.debug_plots import heatmap_figure
from ptqlab.report.heatmap import heatmap_svg
from ptqlab.report.page import Page
from ptqlab.result.api import watched
from ptqlab.result.shown import Shown
from ptqlab.result.views import heat_of_result
from ptqlab.workers import opened, session_store

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

    from ptqlab.result.compiled import CompileResult
    from ptqlab.result.progress import Progress

Key = tuple[str, str, str, str]


class SensitivityResult(Shown):
    """Scores by node, part and type, worst node first.

    quick     a first look: of nodes that hurt little few samples were used;  complete  it was not stopped
    """

    def __init__(self, network: Network, scores: Scores, keys: dict[str, Key], quick: bool) -> None:
        self.scores, self.keys, self.quick, self.complete = scores, keys, quick, scores.complete
        self.metrics = [m.name for m in scores.metrics]
        self.types = {str(n.name): n.op_type for n in network.graph.nodes}

    @property
    def frame(self) -> pd.DataFrame:
        """One row per node, part and type, worst first; what could not be measured has no row.

        Node, NodeType
        Part     "node": the whole node; "weight", "activation": these alone
        Type     that was asked for: "int8", "int16", "dual-int16", "float16" (of whole nodes only)
        Granted  what the platform gives for it, such as "int16" where an operator has no float16
        one column per metric, by its name: mean over the samples of how near the outputs stay to the float model
        Samples  how many samples the figures are of
        """
        import pandas as pd

        rows = []
        for label in self.scores.ranked():
            node, part, qtype, granted = self.keys[label]
            numbers = dict(zip(self.metrics, self.scores.mean(label), strict=True))
            rows.append({"Node": node, "NodeType": self.types[node], "Part": part, "Type": qtype,
                         "Granted": granted, **numbers,
                         "Samples": len(self.scores.values[label])})
        return pd.DataFrame(rows)

    def whole_nodes(self, qtype: str = "int8") -> dict[str, float]:
        """Node -> first metric with the whole of it in a type, where that was measured."""
        return {key[0]: self.scores.mean(label)[0] for label in self.scores.values
                if (key := self.keys[label])[1:3] == ("node", qtype)}

    def heatmap(self, metric: str | None = None) -> go.Figure:
        """Node x (part, type) by colour, for one of the metrics (default: the first)."""
        name = metric or self.metrics[0]
        if name not in self.metrics:
            raise PtqError(Problem("PTQ554", "metric", repr(name), ", ".join(self.metrics)), "heatmap")
        index = self.metrics.index(name)
        cells = {self.keys[label][:3]: self.scores.mean(label)[index] for label in self.scores.values}
        nodes = list(dict.fromkeys(key[0] for key in cells))
        columns = list(dict.fromkeys(key[1:3] for key in cells))
        values = [[cells.get((node, *column)) for column in columns] for node in nodes]
        return heatmap_figure(nodes, [" ".join(c) for c in columns], values, name,
                              higher=self.scores.metrics[index].higher)

    def page(self) -> Page:
        labels = [label for label in self.scores.ranked() if self.keys[label][1] == "node"] or self.scores.ranked()
        title = f"Sensitivity of {len({k[0] for k in self.keys.values()})} nodes"
        if self.quick:
            title += ", quick: fewer samples for nodes that hurt little"
        page = Page(title + ("" if self.complete else ", stopped"))
        page.drawing(heatmap_svg(heat_of_result(self)))
        columns = ["Node", "Part", "Type", *self.metrics]
        page.table(columns, [[*self.keys[label][:3], *(f"{v:.6f}" for v in self.scores.mean(label))]
                             for label in labels[:20]], self.metrics)
        return page

    def __repr__(self) -> str:
        return f"SensitivityResult({len(self.scores.values)} of {len(self.keys)} measured)"


def sensitivity(
    run: Any, data: Any = None, *, types: Sequence[str] | None = None, parts: Sequence[str] = PARTS,
    metrics: MetricNames = ("cosine-similarity", "sqnr"), data_num: int | None = 4, quick: bool = False,
    march: str | None = None, executor: Any = None, cache: str | Path | None = None,
    progress: bool | Progress | None = None, watch: Watch | None = None,
) -> SensitivityResult:
    """How far the outputs move when each node alone is quantized, per type, all of it or weights or activations alone.

    run, data  CompileResult or calibrated model file, and its samples
    types      of "int8", "int16", "dual-int16", "float16", as quant_config means them; None: int8 and int16, and
               float16 where the march has it
    parts      of "node", "weight", "activation"
    metrics    cosine-similarity, mse, mre, sqnr, chebyshev, or a function (outputs by name, number of the sample) ->
               number, more is better, such as accuracy on labelled data; the first one ranks
    data_num   number of samples, None: all
    quick      a first look: after each round only the worse half of the nodes goes on, to as many samples as before
               in all; `Samples` of the frame tells how many each figure is of
    march      whose rules say what a node is granted (default: that of the run)
    executor   as in `ptqlab.compile`: None or "threads", "processes", a number of threads, an Executor, a dask Client
    cache      folder in which results are kept for later sessions; within one they are remembered anyway

    Exact for the samples that are used: equal to one full run per choice. Stopping keeps what is done, and the next
    call goes on from there. Raises PtqError with every problem.
    """
    words, where = types_of(march or march_of(run), types)
    wrong = [Problem("PTQ554", "parts", repr(shorten(p)), ", ".join(PARTS)) for p in parts if p not in PARTS]
    raise_if(type_problems(words, where) + wrong, "sensitivity")
    chosen = all_metrics_of(metrics)
    network, samples = open_source(run, data)
    samples = first_samples(samples, data_num)
    choices: dict[str, Choice] = {}
    keys: dict[str, Key] = {}
    for node in network.nodes:
        for part in parts:
            for word in words:
                choice, granted = variant(network, node, part, word, where)
                if choice:
                    label = f"{node} {part} {word}"
                    choices[label], keys[label] = choice, (node, part, word, granted)
    watch = watch or Watch()
    groups = {label: key[0] for label, key in keys.items()} if quick else None
    store = session_store(folder_of(cache) if cache is not None else None)

    def work() -> Scores:
        with opened(executor) as pool:
            return score(Effects(network), choices, samples, chosen, watch, executor=pool, store=store, groups=groups)

    return SensitivityResult(network, watched(work, watch, progress), keys, quick)


def compare_runs(a: CompileResult, b: CompileResult) -> pd.DataFrame:
    """Two runs node by node: Node, NodeType, and Granted, Threshold, Calibrated and Quantized Cosine of both, with the
    change of the quantized cosine (b - a). Nodes of one run only have NaN for the other; order is that of `a`."""
    columns = ["Granted", "Threshold", "Calibrated Cosine", "Quantized Cosine"]
    left, right = (run.nodes[["Node", "NodeType", *columns]] for run in (a, b))
    both = left.merge(right, on="Node", how="outer", suffixes=(" a", " b"), sort=False)
    both["NodeType"] = both.pop("NodeType a").fillna(both.pop("NodeType b"))
    both["Change"] = both["Quantized Cosine b"] - both["Quantized Cosine a"]
    first = {name: i for i, name in enumerate(dict.fromkeys([*left["Node"], *right["Node"]]))}
    both = both.sort_values("Node", key=lambda names: names.map(first)).reset_index(drop=True)
    pairs = [f"{c} {run}" for c in columns for run in ("a", "b")]
    return both[["Node", "NodeType", *pairs, "Change"]]
