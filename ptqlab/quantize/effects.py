"""What rounding one slot alone does to the outputs of the float model: the measure of searches and rankings."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np

from ptqlab.arith.metrics import Agreement
from ptqlab.events import Watch
from ptqlab.graph import FloatGraph
from ptqlab.ops.spec import Encoding, Role
from ptqlab.ops.table import spec_of
from ptqlab.quantize.parallel import PortableSession, Sample, SampleSet, ordered
from ptqlab.quantize.pieces import Head, Map, piece_model, quantizer_names
from ptqlab.quantize.trial import numbers_of
from ptqlab.stages.calibration import Encodings
from ptqlab.stages.plan import Plan

NAMES = quantizer_names("piece")
Alive = Mapping[str, Sequence[int]]
# an encoding and, where channels have steps of their own, their factors
Rounding = tuple[Encoding, np.ndarray | None]


def entries_of(graph: FloatGraph, plan: Plan) -> dict[str, list[str]]:
    """Slot -> its tensors whose values are rounded where they are made (all but what movers pass on)."""
    moved = {
        str(o.name) for g in plan.groups.values()
        if spec_of(graph.node(g.main)).role is Role.PASSIVE and plan.nodes[g.main].in_integers
        for o in graph.node(g.main).outputs
    }
    entries: dict[str, list[str]] = {}
    for tensor in plan.tensors.values():
        if tensor.name not in moved:
            entries.setdefault(tensor.slot, []).append(tensor.name)
    return entries


def quantized_readers(graph: FloatGraph, plan: Plan, tensor: str) -> list[str]:
    """Nodes that read a held tensor as codes: integer operators of the BPU, and all nodes if one of these made it."""
    producer = graph.producer(tensor)
    made = producer is not None and plan.nodes[str(producer.name)].writes_integers
    return [str(n.name) for n in graph.consumers(tensor) if made or plan.nodes[str(n.name)].in_integers]


@dataclass(frozen=True)
class Task:
    """One slot: where it starts, what runs, the pieces behind, and the numbers of each candidate."""

    head: Head
    run: PortableSession
    behind: tuple[tuple[Head, PortableSession], ...]
    numbers: tuple[dict[str, np.ndarray], ...]


class Race:
    """For one sample and the candidates in the race: how near the outputs come to the float model's."""

    def __init__(self, graph: FloatGraph, cuts: Map, tasks: Mapping[str, Task]) -> None:
        self.tasks = dict(tasks)
        self.outputs = cuts.outputs
        inputs = {str(v.name) for v in graph.inputs}
        heads = [h for t in tasks.values() for h in (t.head, *(piece for piece, _ in t.behind))]
        needed = [n for h in heads for n in h.sides] + [n for t in tasks.values() for n in t.head.entries]
        self.computed = [n for n in dict.fromkeys((*needed, *self.outputs)) if n not in inputs]
        self.float = PortableSession(graph.model, self.computed)

    def __call__(self, item: tuple[Sample, Alive]) -> dict[str, dict[int, list[Agreement]]]:
        sample, alive = item
        known = dict(sample) | dict(zip(self.computed, self.float.run(None, sample), strict=True))
        return {slot: {i: self._one(self.tasks[slot], known, i) for i in indices} for slot, indices in alive.items()}

    def _one(self, task: Task, known: Mapping[str, np.ndarray], index: int) -> list[Agreement]:
        feeds = {n: known[n] for n in (*task.head.entries, *task.head.sides)} | task.numbers[index]
        made = dict(zip(task.head.results, task.run.run(None, feeds), strict=True))
        for piece, runner in task.behind:
            feeds = {n: known[n] for n in piece.sides} | {e: made[e] for e in piece.entries}
            made |= zip(piece.results, runner.run(None, feeds), strict=True)
        return [_agreement(known[o], made.get(o, known[o])) for o in self.outputs]


def _agreement(truth: np.ndarray, got: np.ndarray) -> Agreement:
    agreement = Agreement()
    agreement.add(truth, got, distances=True)
    return agreement


def race(graph: FloatGraph, plan: Plan, candidates: Mapping[str, Sequence[Rounding]]) -> Race:
    """The job that measures every candidate of every slot named; slots that nothing rounds are left out."""
    cuts = Map(graph)
    entries = entries_of(graph, plan)
    pieces: dict[Head, PortableSession] = {}
    tasks: dict[str, Task] = {}
    for slot, roundings in candidates.items():
        if slot not in entries:
            continue
        head = cuts.head(entries[slot])
        behind = cuts.behind(head.end) if head.end else []
        for piece in behind:
            if piece not in pieces:
                pieces[piece] = PortableSession(piece_model(graph, piece))
        quantized = {e: quantized_readers(graph, plan, e) for e in entries[slot]}
        tasks[slot] = Task(
            head, PortableSession(piece_model(graph, head, quantized)), tuple((p, pieces[p]) for p in behind),
            tuple(numbers_of(NAMES, e, steps) for e, steps in roundings),
        )
    return Race(graph, cuts, tasks)


def pooled(agreements: Sequence[list[Agreement]]) -> list[Agreement]:
    """Agreements of the outputs over all samples."""
    sums = [Agreement() for _ in agreements[0]]
    for one in agreements:
        for total, more in zip(sums, one, strict=True):
            total.merge(more)
    return sums


def slot_effects(
    graph: FloatGraph, plan: Plan, encodings: Encodings, samples: SampleSet, total: int, watch: Watch,
    executor: Executor | None = None,
) -> dict[str, list[Agreement]]:
    """Slot -> agreement of every output with the float model when this slot alone is rounded, by its encoding."""
    job = race(graph, plan, {slot: [(e, encodings.channels.get(slot))] for slot, e in encodings.slots.items()})
    alive = dict.fromkeys(job.tasks, (0,))
    found: dict[str, list[list[Agreement]]] = {slot: [] for slot in job.tasks}
    with watch.stage("rank", total) as stage:
        for result in ordered(executor, job, ((samples[i], alive) for i in range(total))):
            for slot, candidates in result.items():
                found[slot].append(candidates[0])
            stage.step()
    return {slot: pooled(agreements) for slot, agreements in found.items()}
