"""Bytes: what moves between DDR and the BPU, and what must be kept where.

Features stay in the SRAM of the BPU while they fit. Published latencies rule out that sets of live tensors up to about
12 MB go through DDR, so only what is beyond SRAM_BYTES is counted as spilled, and it costs bytes, not time.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ptqlab.perf.layer import FREE_OPS, Layer, results
from ptqlab.perf.work import input_bytes, spilled

# L2 memory that nash-h and nash-p share (documented); for the other marches a guess.
SRAM_BYTES = 24 << 20


@dataclass(frozen=True)
class Memory:
    """Bytes of one run.

    loaded, stored   DDR traffic: weights, inputs and features in; results and features out (those that do not fit)
    input, output    buffers at the ends of the network
    static           weights;  intermediate  features that do not fit the SRAM
    peak_live        most bytes of features alive at once;  peak_layer  the layer at which that is
    """

    loaded: int
    stored: int
    input: int
    output: int
    static: int
    intermediate: int
    peak_live: int
    peak_layer: str

    @property
    def dynamic(self) -> int:
        """What a run needs beside the weights."""
        return self.input + self.output + self.intermediate

    @property
    def least(self) -> int:
        return self.static + self.dynamic


def memory(layers: Sequence[Layer]) -> Memory:
    """Traffic and memory of one run."""
    alive = live_bytes(layers)
    peak = max(range(len(layers)), key=alive.__getitem__)
    beyond = sum(max(0, now - max(before, SRAM_BYTES)) for before, now in zip([0, *alive], alive, strict=False))
    weights = sum(layer.weight_bytes for layer in layers if layer.on_bpu)
    leaving = sum(layers[i].write_bytes for i in results(layers))
    inputs = input_bytes(layers)
    attention = [spilled(layer) for layer in layers if layer.on_bpu]
    read, written = (sum(pair[i] for pair in attention) for i in (0, 1))
    return Memory(
        loaded=weights + inputs + beyond + read, stored=leaving + beyond + written, input=inputs, output=leaving,
        static=weights, intermediate=max(0, alive[peak] - SRAM_BYTES), peak_live=alive[peak],
        peak_layer=layers[peak].name,
    )


def live_bytes(layers: Sequence[Layer]) -> list[int]:
    """Bytes of features alive while each layer runs: what it reads and writes, and what later layers still need."""
    last = {source: index for index, layer in enumerate(layers) for source in layer.sources}
    size = [0 if layer.op in FREE_OPS else layer.writes * layer.output_qtype.bits // 8 for layer in layers]
    until: dict[int, list[int]] = {}
    for index in range(len(layers)):
        until.setdefault(max(last.get(index, index), index), []).append(index)
    alive, found = 0, []
    for index in range(len(layers)):
        alive += size[index]
        found.append(alive)
        alive -= sum(size[done] for done in until.get(index, ()))
    return found
