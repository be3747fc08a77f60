"""Sensitivity per node, part and type, as a frame and a heatmap; two runs node by node."""
from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ptqlab.arith.formats import QType
from ptqlab.debug.cuts import Choice, Effects
from ptqlab.debug.network import Network
from ptqlab.debug.ranking import Scores, score
from ptqlab.debug.source import first_samples, metrics_of, open_source
from ptqlab.errors import Problem, PtqError
from ptqlab.events import Watch
from ptqlab.report.debug_plots import heatmap_figure
from ptqlab.report.page import Page
from ptqlab.result.api import watched
from ptqlab.result.shown import Shown

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

    from ptqlab.result.compiled import CompileResult
    from ptqlab.result.progress import Progress

TYPES = ("int8", "int16")
PARTS = ("node", "weight", "activation")
Key = tuple[str, str, str]


class SensitivityResult(Shown):
    """Scores by node, part and type, worst node first. `quick`: one sample only; `complete`: not stopped."""

    def __init__(self, network: Network, scores: Scores, keys: dict[str, Key], quick: bool) -> None:
        self.scores, self.keys, self.quick, self.complete = scores, keys, quick, scores.complete
        self.metrics = [m.name for m in scores.metrics]
        self.types = {str(n.name): n.op_type for n in network.graph.nodes}

    @property
    def frame(self) -> pd.DataFrame:
        """One row per node, part and type: Node, NodeType, Part, Type, one column per metric, Samples."""
        import pandas as pd

        rows = []
        for label in self.scores.ranked():
            node, part, qtype = self.keys[label]
            numbers = dict(zip(self.metrics, self.scores.mean(label), strict=True))
            rows.append({"Node": node, "NodeType": self.types[node], "Part": part, "Type": qtype, **numbers,
                         "Samples": len(self.scores.values[label])})
        return pd.DataFrame(rows)

    def heatmap(self, metric: str | None = None) -> go.Figure:
        """Node x (part, type) by colour, for one of the metrics (default: the first)."""
        name = metric or self.metrics[0]
        if name not in self.metrics:
            raise PtqError(Problem("PTQ554", "metric", repr(name), ", ".join(self.metrics)), "heatmap")
        index = self.metrics.index(name)
        cells = {self.keys[label]: self.scores.mean(label)[index] for label in self.scores.values}
        nodes = list(dict.fromkeys(key[0] for key in cells))
        columns = list(dict.fromkeys(key[1:] for key in cells))
        values = [[cells.get((node, *column)) for column in columns] for node in nodes]
        return heatmap_figure(nodes, [" ".join(c) for c in columns], values, name,
                              higher=self.scores.metrics[index].higher)

    def page(self) -> Page:
        labels = [label for label in self.scores.ranked() if self.keys[label][1] == "node"] or self.scores.ranked()
        page = Page(f"Sensitivity of {len({k[0] for k in self.keys.values()})} nodes"
                    + (", quick: one sample" if self.quick else "") + ("" if self.complete else ", stopped"))
        columns = ["Node", "Part", "Type", *self.metrics]
        page.table(columns, [[*self.keys[label], *(f"{v:.6f}" for v in self.scores.mean(label))]
                             for label in labels[:20]], self.metrics)
        return page

    def __repr__(self) -> str:
        return f"SensitivityResult({len(self.scores.values)} of {len(self.keys)} measured)"


def sensitivity(
    run: Any, data: Any = None, *, types: Sequence[str] = TYPES, parts: Sequence[str] = PARTS,
    metrics: str | Sequence[str] = ("cosine-similarity", "sqnr"), data_num: int | None = 4, quick: bool = False,
    progress: bool | Progress | None = None, watch: Watch | None = None,
) -> SensitivityResult:
    """How far the outputs move when each node alone is quantized, per type, all of it or weights or activations alone.

    run, data  CompileResult or calibrated model file, and its samples
    types      "int8", "int16": of a node "int16" means int16 activations and int8 weights, as in quant_config
    quick      one sample: a first look

    Exact for the samples that are used. Stopping keeps what is done. Raises PtqError with every problem.
    """
    wrong = [Problem("PTQ554", "types", repr(t), ", ".join(TYPES)) for t in types if t not in TYPES]
    wrong += [Problem("PTQ554", "parts", repr(p), ", ".join(PARTS)) for p in parts if p not in PARTS]
    if wrong:
        raise PtqError(wrong, "sensitivity")
    chosen = metrics_of(metrics)
    network, samples = open_source(run, data)
    samples = first_samples(samples, 1 if quick else data_num)
    choices: dict[str, Choice] = {}
    keys: dict[str, Key] = {}
    for node in network.nodes:
        for part in parts:
            for qtype in types:
                choice = _choice(network, node, part, QType(qtype))
                if choice:
                    label = f"{node} {part} {qtype}"
                    choices[label], keys[label] = choice, (node, part, qtype)
    watch = watch or Watch()
    scores = watched(lambda: score(Effects(network), choices, samples, chosen, watch), watch, progress)
    return SensitivityResult(network, scores, keys, quick)


def _choice(network: Network, node: str, part: str, qtype: QType) -> Choice:
    """The quantizers of a part of a node in a type."""
    choice = {}
    for name in network.of_node(node):
        quantizer = network.quantizers[name]
        kind = "activation" if quantizer.kind == "activation" else "weight"
        if part in ("node", kind):
            asked = QType.INT8 if part == "node" and kind == "weight" else qtype
            choice[name] = quantizer.as_type(asked)
    return choice


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
