"""The tensors around a node, for its histograms and boxes."""
from __future__ import annotations

from typing import TYPE_CHECKING

from ptqlab.debug.distribution import values_of
from ptqlab.report.tensors import Panel

if TYPE_CHECKING:
    from ptqlab.debug.network import Network, Quantizer
    from ptqlab.quantize.samples import Samples


def panels_around(network: Network, node: str, samples: Samples) -> list[Panel]:
    """What `node` reads through quantizers, and its output; of the name of a quantizer that one alone.

    Raises PtqError with the nearest names for a name that is neither.
    """
    names = [*network.of_node(node), node] if node in network.graph else [node]
    found = values_of(network, names, samples, "node")
    return [Panel(v, ends(network.quantizers[v.name]) if v.name in network.quantizers else None) for v in found]


def ends(quantizer: Quantizer) -> tuple[float, float]:
    """The real values of the outermost codes; of several channels those of the widest."""
    step = float(quantizer.scale.max(initial=0.0))
    return (quantizer.low - quantizer.zero_point) * step, (quantizer.high - quantizer.zero_point) * step
