"""What each branch of a Concat loses because all of them share one threshold."""
from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ptqlab.debug.causes import sqnr_without_mean
from ptqlab.debug.network import Network, Quantizer
from ptqlab.debug.source import first_samples, open_source
from ptqlab.graph import session


@dataclass(frozen=True)
class BranchLoss:
    """One branch of a Concat.

    largest, threshold  largest |value| of the branch, and the threshold it is stored with
    sqnr, alone         SQNR without the mean in dB as stored, and with a threshold of its own;  loss: the difference
    codes               different values that are left of it
    """

    concat: str
    tensor: str
    largest: float
    threshold: float
    sqnr: float
    alone: float
    codes: int

    @property
    def loss(self) -> float:
        return self.alone - self.sqnr

    def __str__(self) -> str:
        return (f"{self.concat}: {self.tensor} reaches {self.largest:g} of {self.threshold:g}, {self.codes} codes, "
                f"{self.sqnr:.1f} dB; {self.alone:.1f} dB with a threshold of its own")


def concat_losses(model: Any, data: Any = None, *, data_num: int | None = 4) -> list[BranchLoss]:
    """What every branch of every Concat of a calibrated model loses, most first.

    model, data  as for `get_sensitivity_of_nodes`. Raises PtqError with every problem of the input.
    """
    network, samples = open_source(model, data)
    found = _branches(network)
    inputs = {str(v.name) for v in network.graph.inputs}
    computed = [t for t in dict.fromkeys(q.tensor for _, q in found) if t not in inputs]
    runner = session(network.graph.model, outputs=computed) if computed else None
    seen: dict[str, list[np.ndarray]] = {q.tensor: [] for _, q in found}
    for sample in first_samples(samples, data_num):
        known = dict(sample) | (dict(zip(computed, runner.run(computed, sample), strict=True)) if runner else {})
        for tensor, arrays in seen.items():
            arrays.append(known[tensor].ravel())
    values = {tensor: np.concatenate(arrays) for tensor, arrays in seen.items()}
    return sorted((_loss(concat, q, values[q.tensor]) for concat, q in found), key=lambda b: -b.loss)


def _branches(network: Network) -> list[tuple[str, Quantizer]]:
    """(Concat, quantizer of a branch) of every branch that is an activation."""
    return [(str(node.name), network.quantizers[name]) for node in network.graph.nodes if node.op_type == "Concat"
            for name in dict.fromkeys(q for i in range(len(node.inputs)) for q in network.of_input(str(node.name), i))
            if network.quantizers[name].kind == "activation"]


def _loss(concat: str, quantizer: Quantizer, x: np.ndarray) -> BranchLoss:
    largest = float(np.abs(x).max(initial=0.0))
    share = np.float32((largest or 1.0) / quantizer.threshold)
    if quantizer.zero_point:
        low, high = float(x.min(initial=0.0)), float(x.max(initial=0.0))
        codes = quantizer.high - quantizer.low
        step = np.float32((high - low) / codes or 1.0)
        zero = round(quantizer.low - low / step)
        own = replace(quantizer, scale=np.full_like(quantizer.scale, step), zero_point=zero)
    else:
        own = replace(quantizer, scale=(quantizer.scale * share).astype(np.float32))
    y = quantizer(x)
    return BranchLoss(concat, quantizer.tensor, largest, quantizer.threshold, sqnr_without_mean(x, y),
                      sqnr_without_mean(x, own(x)), len(np.unique(y)))
