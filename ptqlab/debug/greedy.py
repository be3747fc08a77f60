"""What to raise first: what each tensor, weight or node costs in accuracy at the outputs, and what raising it costs
in time.

Errors of single tensors at the output add up well enough to rank them; the outcome is measured, not predicted.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np

from ptqlab.arith.formats import QType
from ptqlab.arith.metrics import Agreement
from ptqlab.debug.cuts import Effects
from ptqlab.debug.measured import measured
from ptqlab.debug.network import Choice, Network
from ptqlab.debug.variants import variant
from ptqlab.events import Watch
from ptqlab.graph import FloatGraph
from ptqlab.ops.spec import Role
from ptqlab.ops.table import spec_of
from ptqlab.placement.capability import grant_type
from ptqlab.platforms import platform
from ptqlab.quantize.parallel import SampleSet
from ptqlab.quantize.recipe import slot_readers
from ptqlab.stages.plan import Plan

# a tensor that costs no time is not worth more than one that costs a hundredth of the whole
FREE = 0.01
#: Types by what they hold; a request is never replaced by a lesser one.
ORDER = ("int8", "int16", "dual-int16")


@dataclass(frozen=True)
class Raise:
    """Something that could be raised.

    kind      "int16": a tensor (slot), by the nodes that read it; "dual-int16": the weights of a node, with its
              tensor; "float16": a node
    name      the slot or node;  types  node -> type to ask for
    noise     error at the outputs that it takes away, relative to their size (mean over outputs and samples)
    added_us  latency that it adds, alone
    """

    kind: str
    name: str
    types: Mapping[str, str]
    noise: float
    added_us: float

    def worth(self, latency_us: float) -> float:
        """Noise taken away per share of latency added."""
        return self.noise / (max(self.added_us, 0.0) / max(latency_us, 1e-9) + FREE)


def noise_of(
    network: Network, choices: Mapping[str, Choice], samples: SampleSet, watch: Watch, executor: Executor | None = None
) -> dict[str, float]:
    """Choice -> squared error at the outputs under it alone, relative to their own squares; inf where it breaks one."""
    pooled: dict[str, list[Agreement]] = {}
    for row in measured(Effects(network), choices, samples, watch, executor=executor):
        for total, one in zip(pooled.setdefault(row.label, [Agreement() for _ in row.found]), row.found, strict=True):
            total.merge(one)
    return {label: float(np.mean([_share(a) for a in totals])) for label, totals in pooled.items()}


def _share(a: Agreement) -> float:
    if np.isnan(a.squared_error):
        return float("inf")
    return a.squared_error / a.aa if a.aa else 0.0


def raises(
    network: Network, graph: FloatGraph, plan: Plan, fixed: Iterable[str], samples: SampleSet,
    added: Callable[[Mapping[str, str]], float], latency_us: float, watch: Watch, executor: Executor | None = None,
) -> list[Raise]:
    """What could be raised in a plan, best first by noise taken away per latency added.

    network  of the plan's calibrated model;  fixed: nodes whose types the user has given, which stay
    added    what latency changes by, for a change of types by node
    """
    kept = set(fixed)
    possible = [*_tensors(graph, plan, network, kept), *_weights(graph, plan, network, kept),
                *_halves(graph, plan, network, kept)]
    choices: dict[str, Choice] = {}
    for kind, name, _, now, then in possible:
        choices[f"{kind} {name}"] = now
        if then:
            choices[f"{kind} {name} then"] = then
    noise = noise_of(network, choices, samples, watch, executor)
    found = []
    for kind, name, types, _, _ in possible:
        gain = noise[f"{kind} {name}"] - noise.get(f"{kind} {name} then", 0.0)
        if gain > 0:  # not of what is broken in either type
            found.append(Raise(kind, name, types, gain, added(types)))
    return sorted(found, key=lambda r: -r.worth(latency_us))


Possible = tuple[str, str, dict[str, str], Choice, Choice]


def _tensors(graph: FloatGraph, plan: Plan, network: Network, kept: set[str]) -> Iterator[Possible]:
    """Tensors that some reader takes in int8: int16 for all of them."""
    for slot, readers in slot_readers(graph, plan).items():
        low = [n for n, qtype in readers.items() if qtype is QType.INT8 and n not in kept]
        types = {n: word for n in low if (word := _word_for(graph, plan, n, slot))}
        if types:
            yield "int16", slot, types, {n: q for n, q in network.quantizers.items()
                                         if q.slot == slot and q.bits == 8}, {}


def _word_for(graph: FloatGraph, plan: Plan, node: str, slot: str) -> str:
    """What to ask of a reader so that it reads the slot in int16; "" where it has no such type."""
    made = graph.node(node)
    spec = spec_of(made)
    features = spec.feature_indices(made)
    if grant_type("int16", spec, platform(plan.march))[0] is not QType.INT16:
        return ""
    if not spec.is_tae or len(features) != 2:
        return "int16"
    # of two tensors the second one stands where weights do
    second = made.inputs[features[1]]
    held = plan.tensors.get(str(second.name)) if second is not None else None
    return "dual-int16" if held is not None and held.slot == slot else "int16"


def _weights(graph: FloatGraph, plan: Plan, network: Network, kept: set[str]) -> Iterator[Possible]:
    """Weights in int8: dual-int16 for their node."""
    for name, decided in plan.nodes.items():
        if decided.weights is QType.INT8 and name not in kept and name in network.graph:
            mine: Choice = {q: network.quantizers[q] for q in network.of_node(name)
                            if network.quantizers[q].kind == "weight"}
            if mine:
                yield "dual-int16", name, {name: "dual-int16"}, mine, {}


def _halves(graph: FloatGraph, plan: Plan, network: Network, kept: set[str]) -> Iterator[Possible]:
    """Nodes of the vector unit in integers: float16, where there is one."""
    march = platform(plan.march)
    if QType.FLOAT16 not in march.float_types:
        return
    for name, decided in plan.nodes.items():
        node = graph.node(name)
        if not decided.in_integers or name in kept or name not in network.graph or spec_of(node).role is Role.PASSIVE:
            continue
        then, granted = variant(network, name, "node", "float16", march)
        now: Choice = {q: network.quantizers[q] for q in network.of_node(name)}
        if granted == "float16" and now:
            yield "float16", name, {name: "float16"}, now, then


def raised(asked: str | None, word: str) -> str:
    """What to ask of a node that is asked for already: the wider one; float16 goes beyond all integers."""
    if asked is None or word == "float16" or asked not in ORDER:
        return word if asked is None or word == "float16" else asked
    return max(asked, word, key=ORDER.index)
