"""What a change of types does to the latency, fast enough to answer while somebody edits a grid.

More bits never make a model faster: every piece of work grows with the bits, and the course of a run is built of sums
and maxima only.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ptqlab.arith.formats import QType, widest
from ptqlab.errors import Problem, PtqError, nearest
from ptqlab.ops.spec import Role
from ptqlab.ops.table import spec_of
from ptqlab.perf.cost import run, times
from ptqlab.perf.estimate import rates_of
from ptqlab.perf.host import cpu_costs, runtime_us, switch_us
from ptqlab.perf.layer import TAE_OPS, Layer, check, results
from ptqlab.perf.work import Work, input_bytes, is_virtual, row, work_of

# Words of quant_config that a layer on the BPU can take: features and weights.
WORDS: dict[str, tuple[QType, QType]] = {
    "int8": (QType.INT8, QType.INT8),
    "int16": (QType.INT16, QType.INT8),
    "dual-int16": (QType.INT16, QType.INT16),
    "float16": (QType.FLOAT16, QType.INT8),
}


@dataclass(frozen=True)
class Effect:
    """Latency after a change in us, and what the change adds (negative: saves)."""

    latency_us: float
    board_latency_us: float
    added_us: float


class WhatIf:
    """Latency of one model under changes of types. Made once for a model and march, then asked often."""

    def __init__(self, layers: Sequence[Layer], march: str, *, core_num: int = 1, older_runtime: bool = False) -> None:
        check(layers)
        self.layers = tuple(layers)
        self.rates = rates_of(march, core_num)
        self.work = work_of(layers)
        self.leaving = frozenset(results(layers))
        self.index = {name: i for i, layer in enumerate(layers) for name in (*layer.nodes, layer.name)}
        self.asked = stored_types(layers)
        segments = {layer.segment for layer in layers if layer.on_bpu}
        result_mb = sum(layers[i].writes for i in self.leaving) * 4 / 1e6
        self.host_us = (runtime_us(self.rates, result_mb, older_runtime) + sum(c.total_us for c in cpu_costs(layers))
                        + max(0, len(segments) - 1) * switch_us(self.rates))
        self.base_us = self._latency(self.layers, self.work)

    def effect(self, changes: Mapping[str, str]) -> Effect:
        """Effect of types by layer or node name: "int8", "int16", "dual-int16" or "float16".

        What a layer writes follows its readers, and what only moves data follows its neighbours. The placement stays:
        layers on the CPU are not changed.
        Raises PtqError for names and words that are none, all at once.
        """
        changed = self.changed(changes)
        rows = self.work.rows.copy()
        for i, (old, new) in enumerate(zip(self.layers, changed, strict=True)):
            if old is not new:
                rows[i] = row(new, i in self.leaving, is_virtual(changed, i))
        latency = self._latency(changed, Work(rows))
        return Effect(latency, latency + self.host_us, latency - self.base_us)

    def changed(self, changes: Mapping[str, str]) -> tuple[Layer, ...]:
        """The layers after the change."""
        self._check(changes)
        layers = list(self.layers)
        for name, word in changes.items():
            i = self.index[name]
            if layers[i].on_bpu and not is_passive(layers[i]):
                features, weights = WORDS[word]
                weights = weights if layers[i].op in TAE_OPS else layers[i].weight_qtype
                layers[i] = replace(layers[i], qtype=features, weight_qtype=weights)
        now = stored_types(layers)
        for i, (before, after) in enumerate(zip(self.asked, now, strict=True)):
            if before is not after:
                known = self.layers[i].output_qtype
                stored = widest([known, after]) if is_wider(after, before) else after
                layers[i] = replace(layers[i], output_qtype=stored)
                if is_passive(layers[i]):
                    layers[i] = replace(layers[i], qtype=layers[i].output_qtype)
        return tuple(layers)

    def _check(self, changes: Mapping[str, str]) -> None:
        problems = []
        for name, word in changes.items():
            if name not in self.index:
                near = nearest(name, self.index, 1)
                problems.append(Problem("PTQ451", "what-if", f"no layer {name!r}", "a node or layer of the model",
                                        f"did you mean {near[0]!r}?" if near else ""))
            if word not in WORDS:
                problems.append(Problem("PTQ451", f"what-if: {name}", repr(word), ", ".join(WORDS)))
        if problems:
            raise PtqError(problems, "what-if")

    def _latency(self, layers: Sequence[Layer], work: Work) -> float:
        return run(times(work, self.rates), input_bytes(layers) / self.rates.ddr / 1e3).total


def is_passive(layer: Layer) -> bool:
    """It moves data and takes its type from its neighbours."""
    return spec_of(layer.op).role is Role.PASSIVE


def is_wider(a: QType, b: QType) -> bool:
    return widest([a, b]) is a and a is not b


def stored_types(layers: Sequence[Layer]) -> list[QType]:
    """Type in which each layer writes: the widest that a reader wants; its own where nobody on the BPU reads it."""
    found = [layer.output_qtype for layer in layers]
    for i in range(len(layers) - 1, -1, -1):
        readers = [c for c in layers[i].consumers if layers[c].on_bpu]
        if readers:
            found[i] = widest([found[c] if is_passive(layers[c]) else layers[c].qtype for c in readers])
    return found


def single_changes(layers: Sequence[Layer], march: str, word: str = "int16") -> dict[str, float]:
    """us that each layer of the BPU alone would add in another type, by name; the cost column of a sensitivity list."""
    ask = WhatIf(layers, march)
    return {layer.name: ask.effect({layer.name: word}).added_us for layer in layers if layer.on_bpu}


