"""Which tensors to raise to int16 first: what each costs in accuracy at the output, and what raising it costs in time.

Errors of single tensors at the output add up well enough to rank them; the outcome is measured, not predicted.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from ptqlab.arith.metrics import Agreement
from ptqlab.debug.cuts import Effects
from ptqlab.debug.network import Choice, Network
from ptqlab.events import Watch
from ptqlab.quantize.parallel import SampleSet

# a tensor that costs no time is not worth more than one that costs a hundredth of the whole
FREE = 0.01


@dataclass(frozen=True)
class Raise:
    """A tensor (slot) that could be raised: the nodes to ask int16 for.

    noise     error at the outputs from this tensor alone, relative to their size (mean over outputs and samples)
    added_us  latency that raising it adds, alone
    """

    slot: str
    nodes: tuple[str, ...]
    noise: float
    added_us: float

    def worth(self, latency_us: float) -> float:
        """Noise taken away per share of latency added."""
        return self.noise / (max(self.added_us, 0.0) / max(latency_us, 1e-9) + FREE)


def noise_of_slots(network: Network, slots: Iterable[str], samples: SampleSet, watch: Watch) -> dict[str, float]:
    """Slot -> squared error at the outputs when it alone is quantized, relative to their own squares."""
    choices: dict[str, Choice] = {
        slot: {n: q for n, q in network.quantizers.items() if q.slot == slot} for slot in dict.fromkeys(slots)
    }
    pooled: dict[str, list[Agreement]] = {}
    for slot, _, found in Effects(network).run(choices, samples, watch):
        for total, one in zip(pooled.setdefault(slot, [Agreement() for _ in found]), found, strict=True):
            total.merge(one)
    return {slot: float(np.mean([a.squared_error / a.aa if a.aa else 0.0 for a in totals]))
            for slot, totals in pooled.items()}


def raises(
    noise: Mapping[str, float], readers: Mapping[str, Iterable[str]], fixed: Iterable[str],
    added: Callable[[Mapping[str, str]], float], latency_us: float,
) -> list[Raise]:
    """What could be raised, best first.

    readers  slot -> nodes that read it;  fixed: nodes whose types the user has given, which stay
    added    what latency changes by, for a change of types by node
    """
    kept = set(fixed)
    found = []
    for slot, loss in noise.items():
        nodes = tuple(n for n in readers.get(slot, ()) if n not in kept)
        if nodes and np.isfinite(loss) and loss > 0:
            found.append(Raise(slot, nodes, loss, added(dict.fromkeys(nodes, "int16"))))
    return sorted(found, key=lambda r: -r.worth(latency_us))
