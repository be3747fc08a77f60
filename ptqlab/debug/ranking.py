"""Sensitivity: each node, weight or activation quantized alone, and how far the outputs move."""
from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from ptqlab.arith.metrics import Agreement, Metric
from ptqlab.debug.arguments import Nested, flat, listed
from ptqlab.debug.cuts import Effects
from ptqlab.debug.measured import Judge, measured
from ptqlab.debug.network import Choice, Network
from ptqlab.errors import Interrupted, Problem, PtqError, raise_if, shorten
from ptqlab.events import Watch
from ptqlab.quantize.parallel import SampleSet
from ptqlab.quantize.store import Store

# a quick look does not go on with fewer nodes than these
LEAST_GROUPS = 4
NODE_TYPES = ("node", "weight", "activation")


@dataclass(frozen=True)
class UserMetric:
    """The user's own measure of the outputs of one sample, such as 1.0 where the label is met; more is better.

    judge  (outputs by name, number of the sample) -> number; a figure is the mean over samples
    """

    name: str
    judge: Judge
    higher: bool = True


AnyMetric: TypeAlias = Metric | UserMetric


@dataclass
class Scores:
    """Scores per choice, sample after sample: the metric of each sample (mean over the outputs), then the mean.

    complete  False when the work was stopped: choices then have fewer samples, or none
    """

    metrics: Sequence[AnyMetric]
    values: dict[str, list[list[float]]] = field(default_factory=dict)
    complete: bool = True

    def add(self, label: str, found: Sequence[Agreement], judged: Sequence[float] = ()) -> None:
        """A sample more; `judged` are the figures of the user's metrics, in their order."""
        mine = iter(judged)
        self.values.setdefault(label, []).append(
            [m.score(found) if isinstance(m, Metric) else next(mine) for m in self.metrics])

    def mean(self, label: str) -> list[float]:
        """One number per metric."""
        return [float(v) for v in np.mean(self.values[label], axis=0)]

    def ranked(self) -> list[str]:
        """Choices by the first metric, worst first; what is NaN is worst. Those that a quick look left out because
        others were worse come behind these."""
        sign = 1.0 if self.metrics[0].higher else -1.0

        def order(label: str) -> tuple[int, float]:
            value = self.mean(label)[0]
            return -len(self.values[label]), -math.inf if math.isnan(value) else sign * value

        return sorted(self.values, key=order)


def score(
    effects: Effects, choices: Mapping[str, Choice], samples: SampleSet, metrics: Sequence[AnyMetric], watch: Watch, *,
    executor: Executor | None = None, store: Store | None = None, groups: Mapping[str, str] | None = None,
) -> Scores:
    """Scores of all choices. A stop of the watch keeps what is done; one before anything is done is raised.

    groups  a quick look: choice -> its group. Every group runs on the first sample, the worse half on the next one,
            the worse half of these on the next two, and so on
    """
    scores = Scores(metrics)
    judges = [m.judge for m in metrics if isinstance(m, UserMetric)]
    rounds = [range(len(samples))] if groups is None else list(halving(len(samples)))
    open_ = dict(choices)
    try:
        for numbers in rounds:
            for row in measured(effects, open_, samples, watch, executor=executor, judges=judges, store=store,
                                numbers=numbers):
                scores.add(row.label, row.found, row.judged)
            if groups is not None:
                worst = list(dict.fromkeys(groups[label] for label in scores.ranked() if label in open_))
                kept = set(worst[:max(LEAST_GROUPS, (len(worst) + 1) // 2)])
                open_ = {label: choice for label, choice in open_.items() if groups[label] in kept}
    except Interrupted:
        if not scores.values:
            raise
        scores.complete = False
    # what was in the store came first
    scores.values = {label: scores.values[label] for label in choices if label in scores.values}
    return scores


def halving(samples: int) -> Iterator[range]:
    """Numbers of the samples of each round of a quick look: 0, 1, 2-3, 4-7, ..."""
    start, end = 0, 1
    while start < samples:
        yield range(start, min(end, samples))
        start, end = end, 2 * end


def choices_of(network: Network, node_type: str, interested: str | Sequence[Nested] | None = None) -> dict[str, Choice]:
    """label -> quantizers. Names of interest make it a matter of nodes (documented); a list of them is one choice."""
    if node_type not in NODE_TYPES:
        raise PtqError(Problem("PTQ554", "node_type", repr(shorten(node_type)), ", ".join(NODE_TYPES)), "debug")
    groups: dict[str, list[str]]
    if interested is not None:
        groups = {}
        for item in listed(interested):
            names = flat(item, "interested_nodes")
            groups[",".join(names)] = names
        passive = [n for names in groups.values() for n in names
                   if n in network.graph and not network.of_node(n)]
        raise_if([Problem("PTQ555", "interested_nodes", f"{n!r} reads nothing through a quantizer", "a quantized node",
                          "the column ON of the node table tells which nodes are") for n in passive], "debug")
    elif node_type == "node":
        groups = {n: [n] for n in network.nodes}
    else:
        groups = {n: [n] for n in network.of_kind(node_type)}
    return {label: _choice(network, names) for label, names in groups.items()}


def _choice(network: Network, names: Iterable[str]) -> Choice:
    return {q: network.quantizers[q] for q in network.resolve(names, "interested_nodes")}


def as_strings(scores: Scores) -> dict[str, dict[str, str]]:
    """{node: {metric: "number"}}, worst first: numbers are texts (documented)."""
    return {label: {m.name: repr(v) for m, v in zip(scores.metrics, scores.mean(label), strict=True)}
            for label in scores.ranked()}


def table(found: Mapping[str, Mapping[str, str]], network: Network, node_type: str) -> str:
    """The table of the log: banner, `node` and one column per metric; `threshold` and `bit` for activations."""
    metrics = list(next(iter(found.values()), {}))
    told = ["threshold", "bit"] if node_type == "activation" else []
    rows = [["node", *metrics, *told]]
    for label, values in found.items():
        quantizer = network.quantizers.get(label)
        more = [f"{quantizer.threshold:g}", str(quantizer.bits)] if told and quantizer else [""] * len(told)
        rows.append([label, *values.values(), *more])
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]
    banner = f"{node_type} sensitivity".center(max(map(len, lines)), "=")
    return "\n".join([banner, lines[0], "-" * len(banner), *lines[1:]])
