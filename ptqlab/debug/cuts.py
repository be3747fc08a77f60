"""Exact effect of quantizers on a model's outputs, for many choices of them, by graph cuts.

A choice runs from the first nodes that read through its quantizers to the next cut of the graph (`quantize.pieces`)
and from there through float pieces that all choices share. What it reads besides is known from one float run.
"""
from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from ptqlab.arith.metrics import Agreement
from ptqlab.debug.network import Choice, Network, partial_model
from ptqlab.events import Watch
from ptqlab.graph import FloatGraph, Session, session
from ptqlab.quantize.parallel import SampleSet
from ptqlab.quantize.pieces import Head, Map, piece_model


def head_of(cuts: Map, changed: Collection[str]) -> Head:
    """What is computed anew when the nodes `changed` compute something else."""
    reached: set[ir.Value] = set()
    last = -1
    for index, (node, reads) in enumerate(zip(cuts.nodes, cuts.reads, strict=True)):
        if node.name in changed:
            last = index
        if node.name in changed or any(v in reached for v in reads):
            reached.update(node.outputs)
    names = {str(v.name) for v in reached}
    end = next((c for c in cuts.cuts if c.tensor in names and c.position >= last), None)
    limit = len(cuts.nodes) if end is None else end.position
    outputs = tuple(o for o in cuts.outputs if o in names and cuts.position[cuts.graph.values[o]] <= limit)
    sides: dict[str, None] = {}
    for index, (node, reads) in enumerate(zip(cuts.nodes, cuts.reads, strict=True)):
        if index <= limit and any(o in reached for o in node.outputs):
            sides |= dict.fromkeys(str(v.name) for v in reads if v not in reached)
    return Head((), tuple(sides), end, outputs)


@dataclass
class _Task:
    """One choice: its own piece with its session, and the float pieces behind. No head: nothing changes."""

    head: Head
    run: Session
    behind: tuple[Head, ...]


class Effects:
    """Effects of choices of quantizers on the outputs of a network, or on the output of one node."""

    def __init__(self, network: Network, output_node: str | None = None, pieces: int = 8) -> None:
        self.network = network
        graph = network.graph
        if output_node is not None:
            ends = [str(o.name) for o in graph.node(output_node).outputs if o.name]
            starts = [str(v.name) for v in graph.inputs]
            view = ir.convenience.extract(graph.model.graph, starts, ends)
            graph = FloatGraph(ir.Model(view, ir_version=graph.model.ir_version))
        self.graph = graph
        self.cuts = Map(graph, pieces)
        self.outputs = self.cuts.outputs
        self._pieces: dict[Head, Session] = {}

    def run(
        self, choices: Mapping[str, Choice], samples: SampleSet, watch: Watch
    ) -> Iterator[tuple[str, int, list[Agreement]]]:
        """(choice, number of the sample, agreement of each output with the float one), sample by sample.

        Raises Interrupted between two choices when the watch is stopped; what was yielded stays good.
        """
        heads = {label: self._head(choice) for label, choice in choices.items()}
        tasks: dict[str, _Task | None] = {}
        needed = [n for h in heads.values() if h for n in h.sides]
        ends = {h.end for h in heads.values() if h is not None}
        chains = {end: tuple(self.cuts.behind(end)) if end else () for end in ends}
        behind = {label: chains[h.end] if h else () for label, h in heads.items()}
        needed += [n for pieces in behind.values() for piece in pieces for n in piece.sides]
        inputs = {str(v.name) for v in self.graph.inputs}
        computed = [n for n in dict.fromkeys((*needed, *self.outputs)) if n not in inputs]
        reference = session(self.graph.model, outputs=computed)
        with watch.stage("sensitivity", len(samples) * len(choices)) as stage:
            for number, sample in enumerate(samples):
                known = dict(sample) | dict(zip(computed, reference.run(computed, sample), strict=True))
                for label, choice in choices.items():
                    head = heads[label]
                    if label not in tasks:
                        tasks[label] = self._task(head, choice, behind[label]) if head else None
                    made = self._one(tasks[label], known)
                    yield label, number, [agreement(known[o], made.get(o, known[o])) for o in self.outputs]
                    stage.step()

    def _head(self, choice: Choice) -> Head | None:
        changed = {n for n in self.network.changed(choice) if n in self.graph}
        return head_of(self.cuts, changed) if changed else None

    def _task(self, head: Head, choice: Choice, behind: tuple[Head, ...]) -> _Task | None:
        if not head.results:
            return None
        for piece in behind:
            if piece not in self._pieces:
                self._pieces[piece] = session(piece_model(self.graph, piece))
        return _Task(head, session(partial_model(self.network, choice, head.sides, head.results)), behind)

    def _one(self, task: _Task | None, known: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        if task is None:
            return {}
        made = dict(zip(task.head.results, task.run.run(None, {n: known[n] for n in task.run.input_names}),
                        strict=True))
        for piece in task.behind:
            feeds = {n: known[n] for n in piece.sides} | {e: made[e] for e in piece.entries}
            made |= zip(piece.results, self._pieces[piece].run(None, feeds), strict=True)
        return made


def agreement(truth: np.ndarray, got: np.ndarray) -> Agreement:
    """Comparison of one array with its float one, distances included."""
    found = Agreement()
    found.add(truth, got, distances=True)
    return found
