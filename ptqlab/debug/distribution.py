"""Values of weights and activations before and after quantization, for histograms and box plots."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ptqlab.arith.metrics import METRICS
from ptqlab.debug.causes import sqnr_without_mean
from ptqlab.debug.cuts import agreement
from ptqlab.debug.network import Network, partial_model, unknown_node
from ptqlab.errors import Problem, PtqError, raise_if
from ptqlab.graph import session
from ptqlab.quantize.parallel import SampleSet

KINDS = ("weight", "activation", "node")


@dataclass(frozen=True)
class Values:
    """What one name stands for.

    kind       "weight" and "activation" for a quantizer, "node" for a node
    before     float values;  after: quantized ones (of a node: its output in the whole calibrated model)
    threshold  smallest threshold of the quantizer, None for a node;  axis: axis of the channels
    bits       of the quantizer, 0 for a node
    """

    name: str
    kind: str
    before: np.ndarray
    after: np.ndarray
    threshold: float | None
    axis: int
    bits: int = 0

    @property
    def statistics(self) -> dict[str, float]:
        """Figures of the tensor: range, mean, deviation, agreement, distinct values and zeros after quantization."""
        x = self.before[np.isfinite(self.before)].astype(np.float64)
        found = agreement(self.before, self.after)
        return {
            "min": float(x.min(initial=np.inf)), "max": float(x.max(initial=-np.inf)), "mean": float(x.mean()),
            "std": float(x.std()), "threshold": np.nan if self.threshold is None else self.threshold,
            "bits": self.bits, **{name: m.of(found) for name, m in METRICS.items() if name != "mae"},
            "sqnr-without-mean": sqnr_without_mean(self.before, self.after),
            "distinct": len(np.unique(self.after)), "zeros": float(np.mean(self.after == 0)),
        }

    def channels(self, axis: int | None = None) -> np.ndarray:
        """Float values as [channels, values]. PtqError for an axis that is none."""
        axis = self.axis if axis is None else axis
        if not -self.before.ndim <= axis < self.before.ndim:
            raise PtqError(Problem("PTQ554", f"axis of {self.name}", str(axis),
                                   f"{-self.before.ndim} to {self.before.ndim - 1}"), "debug")
        return np.moveaxis(self.before, axis, 0).reshape(self.before.shape[axis], -1)


def values_of(network: Network, names: Sequence[str], samples: SampleSet, where: str = "nodes_list") -> list[Values]:
    """Values of quantizers and nodes by name, over all samples. PtqError for names that are neither."""
    graph = network.graph
    unknown = [n for n in names if n not in network.quantizers and n not in graph]
    raise_if([unknown_node(n, network, where) for n in unknown], "debug")
    tensors = {n: network.quantizers[n].tensor if n in network.quantizers else str(graph.node(n).outputs[0].name)
               for n in names}
    constants = {t for t in tensors.values() if t in graph.initializers}
    inputs = {str(v.name) for v in graph.inputs}
    computed = [t for t in dict.fromkeys(tensors.values()) if t not in constants and t not in inputs]
    nodes = [tensors[n] for n in names if n not in network.quantizers and tensors[n] in computed]
    before: dict[str, list[np.ndarray]] = {t: [] for t in tensors.values() if t not in constants}
    after: dict[str, list[np.ndarray]] = {t: [] for t in nodes}
    if before:
        reference = session(graph.model, outputs=computed) if computed else None
        calibrated = session(partial_model(network, network.quantizers, outputs=nodes)) if nodes else None
        for sample in samples:
            known: Mapping[str, np.ndarray] = dict(sample)
            if reference is not None:
                known = {**known, **dict(zip(computed, reference.run(computed, sample), strict=True))}
            for tensor, arrays in before.items():
                arrays.append(np.atleast_1d(known[tensor]))
            if calibrated is not None:
                for tensor, array in zip(calibrated.output_names, calibrated.run(None, sample), strict=True):
                    after[tensor].append(np.atleast_1d(array))
    return [_one(network, n, tensors[n], before, after) for n in names]


def _one(network: Network, name: str, tensor: str, before: Mapping[str, list[np.ndarray]],
         after: Mapping[str, list[np.ndarray]]) -> Values:
    quantizer = network.quantizers.get(name)
    x = network.graph.array(tensor) if tensor not in before else np.concatenate(before[tensor])
    if quantizer is None:
        y = np.concatenate(after[tensor]) if tensor in after else x
        return Values(name, "node", x, y, None, min(1, x.ndim - 1))
    kind = "activation" if quantizer.kind == "activation" else "weight"
    axis = min(1, x.ndim - 1) if kind == "activation" else max(quantizer.axis, 0)
    return Values(name, kind, x, quantizer(x), float(quantizer.thresholds.min()), axis, quantizer.bits)
