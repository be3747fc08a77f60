"""Sensitivity: each node, weight or activation quantized alone, and how far the outputs move."""
from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ptqlab.arith.metrics import Agreement, Metric
from ptqlab.debug.arguments import Nested, flat, listed
from ptqlab.debug.cuts import Effects
from ptqlab.debug.network import Choice, Network
from ptqlab.errors import Interrupted, Problem, PtqError, raise_if, shorten
from ptqlab.events import Watch
from ptqlab.quantize.parallel import SampleSet

NODE_TYPES = ("node", "weight", "activation")


@dataclass
class Scores:
    """Scores per choice, sample after sample: the metric of each sample (mean over the outputs), then the mean.

    complete  False when the work was stopped: choices then have fewer samples, or none
    """

    metrics: Sequence[Metric]
    values: dict[str, list[list[float]]] = field(default_factory=dict)
    complete: bool = True

    def add(self, label: str, found: Sequence[Agreement]) -> None:
        self.values.setdefault(label, []).append([m.score(found) for m in self.metrics])

    def mean(self, label: str) -> list[float]:
        """One number per metric."""
        return [float(v) for v in np.mean(self.values[label], axis=0)]

    def ranked(self) -> list[str]:
        """Choices by the first metric, worst first; what is NaN is worst."""
        sign = 1.0 if self.metrics[0].higher else -1.0

        def order(label: str) -> float:
            value = self.mean(label)[0]
            return -math.inf if math.isnan(value) else sign * value

        return sorted(self.values, key=order)


def score(effects: Effects, choices: Mapping[str, Choice], samples: SampleSet, metrics: Sequence[Metric],
          watch: Watch) -> Scores:
    """Scores of all choices. A stop of the watch keeps what is done; one before anything is done is raised."""
    scores = Scores(metrics)
    try:
        for label, _, found in effects.run(choices, samples, watch):
            scores.add(label, found)
    except Interrupted:
        if not scores.values:
            raise
        scores.complete = False
    return scores


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
