"""The quantizers that hurt the outputs most, each with its cause and a remedy."""
from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx_ir as ir

from ptqlab.arith.metrics import Agreement
from ptqlab.debug.causes import Facts, Remedy, cause_of, sqnr_without_mean
from ptqlab.debug.cuts import Effects
from ptqlab.debug.network import Network, partial_model
from ptqlab.debug.source import first_samples, open_source
from ptqlab.errors import Interrupted
from ptqlab.events import Watch
from ptqlab.graph import FloatGraph, session
from ptqlab.ops.spec import Role
from ptqlab.ops.table import spec_of
from ptqlab.quantize.parallel import SampleSet

# nodes between a tensor and the integers that it is made of, or that are made of it
REACH = 3
# 60 dB: what is below hurts nobody
LEAST_NOISE = 1e-6


@dataclass(frozen=True)
class Diagnosis:
    """One quantizer that hurts.

    node      node that reads it first;  cause: name of the cause;  sentence: what the cause means
    found     what was seen here;  noise: squared error at the outputs from it alone, relative to their squares
    distinct, zeros   different values and share of zeros after rounding;  sqnr: of the tensor without its mean, dB
    """

    quantizer: str
    node: str
    cause: str
    sentence: str
    found: str
    remedy: Remedy
    noise: float
    distinct: int
    zeros: float
    sqnr: float
    max_error: float

    def __str__(self) -> str:
        return (f"{self.node} ({self.quantizer}): {self.cause.replace('_', ' ')}. {self.sentence} Here: {self.found}. "
                f"Do: {self.remedy.what}.")


def diagnose(model: Any, data: Any = None, *, worst: int = 5, data_num: int | None = 4,
             watch: Watch | None = None) -> list[Diagnosis]:
    """Cause and remedy of the `worst` quantizers of a calibrated model, worst first.

    model, data  as for `get_sensitivity_of_nodes`. Quantizers that hurt by less than 60 dB are left out.
    Raises PtqError with every problem of the input.
    """
    network, samples = open_source(model, data)
    samples = first_samples(samples, data_num)
    pooled: dict[str, list[Agreement]] = {}
    choices = {n: {n: q} for n, q in network.quantizers.items()}
    try:
        for name, _, found in Effects(network).run(choices, samples, watch or Watch()):
            for total, one in zip(pooled.setdefault(name, [Agreement() for _ in found]), found, strict=True):
                total.merge(one)
    except Interrupted:
        if not pooled:
            raise
    noise = {n: max(_share(a) for a in found) for n, found in pooled.items()}
    order = [n for n in sorted(noise, key=lambda n: -noise[n]) if noise[n] > LEAST_NOISE][:worst]
    values = _values(network, order, samples)
    shifted = {n: mean_share(network, n, samples) for n in order if network.quantizers[n].kind == "weight"}
    return [d for n in order if (d := _one(network, n, values, noise[n], shifted)) is not None]


def causes_at(network: Network, node: str, samples: SampleSet) -> list[Diagnosis]:
    """Cause and remedy of what `node` reads through quantizers, without measuring how much it hurts: noise is NaN."""
    names = network.of_node(node)
    values = _values(network, names, samples)
    shifted = {n: mean_share(network, n, samples) for n in names if network.quantizers[n].kind == "weight"}
    return [d for n in names if (d := _one(network, n, values, float("nan"), shifted)) is not None]


def _share(a: Agreement) -> float:
    """Noise of an output relative to it; what is broken is infinitely bad."""
    if np.isnan(a.squared_error):
        return float("inf")
    if not a.aa:
        return float("inf") if a.squared_error else 0.0
    return a.squared_error / a.aa


def _values(network: Network, names: list[str], samples: Any) -> dict[str, np.ndarray]:
    """Values of the tensors that the quantizers round, of those that share their thresholds, and of their partners."""
    graph = network.graph
    slots = {network.quantizers[n].slot for n in names} - {""}
    wanted = {network.quantizers[n].tensor for n in names}
    wanted |= {q.tensor for q in network.quantizers.values() if q.slot in slots}
    for name in names:
        for reader in network.readers(name):
            if graph.node(reader).op_type in ("Add", "Sub"):
                wanted |= {str(v.name) for v in graph.node(reader).inputs if v is not None}
    constants = {t for t in wanted if t in graph.initializers}
    inputs = {str(v.name) for v in graph.inputs}
    computed = sorted(wanted - constants - inputs)
    runner = session(graph.model, outputs=computed) if computed else None
    seen: dict[str, list[np.ndarray]] = {t: [] for t in wanted - constants}
    for sample in samples:
        for tensor in wanted & inputs:
            seen[tensor].append(np.asarray(sample[tensor]))
        for tensor, array in zip(computed, runner.run(computed, sample) if runner else (), strict=True):
            seen[tensor].append(array)
    return {t: np.concatenate([np.atleast_1d(a) for a in arrays]) for t, arrays in seen.items()} | {
        t: graph.array(t) for t in constants}


def mean_share(network: Network, name: str, samples: SampleSet) -> float:
    """Share of the error that a weight's quantizer causes at its node which is a shift of the channels' means."""
    node = network.graph.node(network.readers(name)[0])
    output = str(node.outputs[0].name)
    runners = [session(partial_model(network, on, outputs=[output]))
               for on in ({}, {name: replace(network.quantizers[name], correction=None)})]
    error = np.concatenate([runners[1].run(None, s)[0] - runners[0].run(None, s)[0] for s in samples])
    axis = 1 if node.op_type in ("Conv", "ConvTranspose") else error.ndim - 1
    means = error.mean(axis=tuple(a for a in range(error.ndim) if a != axis), dtype=np.float64)
    whole = float(np.mean(error.astype(np.float64) ** 2))
    return float(np.mean(means**2)) / whole if whole else 0.0


def is_index(graph: FloatGraph, tensor: str) -> bool:
    """Whether a tensor is made of whole numbers, or whole numbers are made of it, a few nodes away."""
    integers = (ir.DataType.INT32, ir.DataType.INT64)
    back, ahead = [tensor], [tensor]
    for _ in range(REACH):
        back = [str(v.name) for t in back if (p := graph.producer(t)) is not None for v in p.inputs if v is not None
                and v.const_value is None]
        if any(graph.values[t].dtype in integers for t in back):
            return True
        ahead = [str(o.name) for t in ahead for n in graph.consumers(t) for o in n.outputs if o.name]
        if any(graph.values[t].dtype in integers for t in ahead):
            return True
    return False


def _one(network: Network, name: str, values: dict[str, np.ndarray], noise: float,
         shifted: dict[str, float]) -> Diagnosis | None:
    quantizer, graph = network.quantizers[name], network.graph
    x = values[quantizer.tensor]
    readers = active_readers(network, name)
    targets = readers or writers(graph, quantizer.tensor)
    direct = [graph.node(r) for r in network.readers(name)]
    operand = None
    for node in direct:
        if node.op_type in ("Add", "Sub"):
            partners = [str(v.name) for v in node.inputs if v is not None and v.name != quantizer.tensor]
            operand = max((float(np.abs(values[p]).max(initial=0.0)) for p in partners), default=None)
    others = {q.tensor: float(np.abs(values[q.tensor]).max(initial=0.0)) for q in network.quantizers.values()
              if q.slot and q.slot == quantizer.slot and q.name != name and q.tensor in values}
    facts = Facts(
        quantizer, x, tuple(targets), tuple(graph.node(r).op_type for r in readers),
        quantizer.tensor in {str(v.name) for v in graph.inputs}, others, operand,
        any(n.op_type == "Concat" for n in direct), is_index(graph, quantizer.tensor),
        shifted.get(name, 0.0), not readers, tuple(writers(graph, quantizer.tensor)),
    )
    found = cause_of(facts)
    if found is None:
        return None
    cause, seen, remedy = found
    y = quantizer(x)
    sentence = " ".join(str(cause.__doc__).split())
    return Diagnosis(
        name, targets[0] if targets else name, cause.__name__, sentence, seen, remedy, noise,
        len(np.unique(y)), float(np.mean(y == 0)), sqnr_without_mean(facts.unmarked, facts.rounded),
        float(np.abs(facts.unmarked - facts.rounded).max(initial=0.0)),
    )


def active_readers(network: Network, quantizer: str) -> list[str]:
    """The nodes of the BPU that compute with what a quantizer gives: movers behind it are followed."""
    graph = network.graph
    found: dict[str, None] = {}
    waiting = network.readers(quantizer)
    seen = set(waiting)
    while waiting:
        node = graph.node(waiting.pop(0))
        role = spec_of(node).role
        if role is not Role.PASSIVE:
            if role is Role.ACTIVE:
                found[str(node.name)] = None
            continue
        for out in node.outputs:
            for reader in graph.consumers(str(out.name)):
                if reader.name not in seen:
                    seen.add(str(reader.name))
                    waiting.append(str(reader.name))
    return list(found)


def writers(graph: FloatGraph, tensor: str) -> list[str]:
    """The node that computes a tensor, movers passed over; none for inputs and constants."""
    producer = graph.producer(tensor)
    while producer is not None and spec_of(producer).role is Role.PASSIVE and producer.inputs[0] is not None:
        producer = producer.inputs[0].producer()
    return [str(producer.name)] if producer is not None and spec_of(producer).role is Role.ACTIVE else []
