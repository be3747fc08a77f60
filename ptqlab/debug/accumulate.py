"""Accumulated error: some nodes quantized together, and how far every node of the graph is from its float self."""
from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ptqlab.arith.metrics import Metric
from ptqlab.debug.arguments import Nested, grouped
from ptqlab.debug.cuts import agreement
from ptqlab.debug.network import Choice, Network, partial_model
from ptqlab.errors import Problem, PtqError, raise_if
from ptqlab.events import Watch
from ptqlab.graph import session
from ptqlab.quantize.parallel import SampleSet

KINDS = ("weight", "activation")


class WrongChoice(PtqError, ValueError):
    """A choice of nodes that has no meaning; a ValueError, as documented."""


def partial_choices(
    network: Network, quantize: str | Sequence[Nested] | None, keep: str | Sequence[Nested] | None
) -> dict[str, Choice]:
    """label -> quantizers that are on: those of `quantize`, or all but those of `keep`.

    "weight" and "activation" stand for all quantizers of their kind, in `quantize` only (WrongChoice else).
    """
    if (quantize is None) == (keep is None):
        raise WrongChoice(Problem("PTQ554", "plot_acc_error", "both or neither of quantize_node, non_quantize_node",
                                  "one of them"), "debug")
    if quantize is not None:
        groups = grouped(quantize, "quantize_node")
        found = {label: _names(network, names) for label, names in groups.items()}
    else:
        groups = grouped(keep, "non_quantize_node")
        raise_wrong = [n for names in groups.values() for n in names if n in KINDS]
        if raise_wrong:
            raise WrongChoice(Problem("PTQ554", "non_quantize_node", repr(raise_wrong[0]), "names of nodes",
                                      "give quantize_node the other kind"), "debug")
        found = {label: [q for q in network.quantizers if q not in set(network.resolve(names, "non_quantize_node"))]
                 for label, names in groups.items()}
    raise_if([Problem("PTQ554", "plot_acc_error", "an empty list", "at least one node")] if not found else [], "debug")
    return {label: {q: network.quantizers[q] for q in names} for label, names in found.items()}


def _names(network: Network, names: Sequence[str]) -> list[str]:
    quantizers: dict[str, None] = {}
    for name in names:
        kind = network.of_kind(name) if name in KINDS else network.resolve([name], "quantize_node")
        quantizers |= dict.fromkeys(kind)
    return list(quantizers)


def accumulated_error(
    network: Network, choices: Mapping[str, Choice], samples: SampleSet, metric: Metric, watch: Watch,
    average: bool = False,
) -> dict[str, dict[str, float]]:
    """label -> node -> metric of its first output against the float model (mean over samples), in graph order.

    average  running mean along the graph: [1.0, 0.9, 0.9, 0.8] -> [1.0, 0.95, 0.933, 0.9]
    """
    tensors = {str(n.name): str(n.outputs[0].name) for n in network.graph.nodes if n.outputs and n.outputs[0].name}
    names = list(tensors.values())
    reference = session(network.graph.model, outputs=names)
    partial = {label: session(partial_model(network, choice, outputs=names)) for label, choice in choices.items()}
    sums = {label: np.zeros(len(names)) for label in choices}
    with watch.stage("accumulated error", len(samples)) as stage:
        for sample in samples:
            truth = reference.run(names, sample)
            for label, runner in partial.items():
                got = runner.run(None, sample)
                sums[label] += [metric.of(agreement(a, b)) for a, b in zip(truth, got, strict=True)]
            stage.step()
    curves = {}
    for label, total in sums.items():
        values = total / len(samples)
        if average:
            values = np.cumsum(values) / np.arange(1, len(values) + 1)
        curves[label] = dict(zip(tensors, map(float, values), strict=True))
    return curves
