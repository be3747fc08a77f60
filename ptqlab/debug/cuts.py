"""Exact effect of what is quantized on a model's outputs, for many choices of it, by graph cuts.

A choice changes some nodes. They run, with what depends on them, up to the next tensor that alone is live (a cut, see
`quantize.pieces`); from there float pieces go on that all choices share. What they read besides is known from one float
run. Activations are quantized outside, in numpy, and fed: so types of activations share one session.
"""
from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import onnx_ir as ir

from ptqlab.arith.metrics import Agreement
from ptqlab.debug.network import Choice, Half, Network, Quantizer, partial_model
from ptqlab.events import Watch
from ptqlab.graph import FloatGraph, Session, session
from ptqlab.graph.slices import Place, Slicer
from ptqlab.quantize.parallel import SampleSet
from ptqlab.quantize.pieces import Cut, Map

# float pieces behind the cuts: each one more is one more run per choice, each one less a longer way to the next
PIECES = 8
# sessions that are kept when there is one sample only, where none is used again much later
KEPT = 8
# nodes of a slice that is not split into what changes and what is float behind it
SHORT = 12
# choices that make it worth while to split a slice, and runs to let onnxruntime optimise one
OFTEN = 3


@dataclass(frozen=True)
class Slice:
    """Some nodes of the graph, by number, from what they read to what is wanted of them.

    sides    tensors it reads that are no constants;  results  tensors it gives, the cut first;  end  the cut
    """

    nodes: tuple[int, ...]
    sides: tuple[str, ...]
    results: tuple[str, ...]
    end: Cut | None


#: What changes, and the float slices behind.
Way: TypeAlias = tuple[Slice, tuple[Slice, ...]]


@dataclass
class _Task:
    """One choice: its slice and session, how to make what is fed to it, and the float slices behind."""

    head: Slice
    run: Session
    feeds: Mapping[str, tuple[str, tuple[Quantizer | Half, ...]]]
    behind: tuple[Slice, ...]


@dataclass
class Known:
    """Float values of one sample by name, and what was made of them by rounding, the last few."""

    values: Mapping[str, np.ndarray]
    rounded: dict[Any, tuple[Any, np.ndarray]] = field(default_factory=dict)

    def fed(self, tensor: str, rounds: tuple[Quantizer | Half, ...]) -> np.ndarray:
        """A tensor as it is fed: rounded."""
        if not rounds:
            return self.values[tensor]
        key = (tensor, tuple(map(id, rounds)))
        found = self.rounded.get(key)
        if found is None:
            array = self.values[tensor]
            for one in rounds:
                array = one(array)
            # what the key knows by id is kept alive with it
            found = self.rounded[key] = (rounds, array)
            for old in list(self.rounded)[:-KEPT]:
                self.rounded.pop(old, None)
        return found[1]


class Effects:
    """Effects of choices on the outputs of a network, or on the output of one node."""

    def __init__(self, network: Network, output_node: str | None = None, pieces: int = PIECES) -> None:
        self.network, self.output_node, self.pieces = network, output_node, pieces
        graph = network.graph
        if output_node is not None:
            ends = [str(o.name) for o in graph.node(output_node).outputs if o.name]
            starts = [str(v.name) for v in graph.inputs]
            view = ir.convenience.extract(graph.model.graph, starts, ends)
            graph = FloatGraph(ir.Model(view, ir_version=graph.model.ir_version))
        self.graph = graph
        self.slicer = Slicer(graph)
        coarse = Map(graph, pieces)
        self.cuts = {c.position: c for c in Map(graph, len(graph.nodes)).cuts}
        self.coarse = frozenset(coarse.cuts)
        self.outputs = coarse.outputs
        self.makes = [tuple(str(o.name) for o in n.outputs if o.name) for n in graph.nodes]
        self.number = {str(n.name): i for i, n in enumerate(graph.nodes)}
        initializers = graph.model.graph.initializers
        self.reads = [tuple(r for r in reads if r not in initializers) for reads in self.slicer.reads]
        self._slices: dict[Slice, Session] = {}
        self._behind: dict[Cut, tuple[Slice, ...]] = {}

    def slice_of(self, changed: Sequence[int], entry: str = "") -> Slice:
        """What is computed anew when nodes compute something else, or when the tensor `entry` is another; to the next
        cut, and behind an entry to the next coarse one where that is not far."""
        reached = {entry} if entry else set()
        nodes: list[int] = []
        end = None
        first, last = (min(changed), max(changed)) if changed else (self._behind_of(entry), -1)
        marked = set(changed)
        for number in range(first, len(self.makes)):
            if number in marked or any(r in reached for r in self.reads[number]):
                nodes.append(number)
                reached.update(self.makes[number])
            cut = self.cuts.get(number)
            if cut is None or number < last or (entry and cut not in self.coarse):
                continue
            if cut.tensor in reached and cut.tensor != entry:
                end = cut
                break
        mine = {m for n in nodes for m in self.makes[n]}
        results = dict.fromkeys((end.tensor,) if end else ())
        results |= dict.fromkeys(o for o in self.outputs if o in mine)
        return Slice(tuple(nodes), self._sides(nodes), tuple(results), end)

    def _behind_of(self, tensor: str) -> int:
        """Number of the first node that can read a tensor."""
        producer = self.graph.producer(tensor)
        return 0 if producer is None else self.number[str(producer.name)] + 1

    def behind(self, cut: Cut | None) -> tuple[Slice, ...]:
        """The float slices from a cut to the outputs, in order."""
        if cut is None:
            return ()
        if cut not in self._behind:
            first = self.slice_of((), cut.tensor)
            self._behind[cut] = (first, *self.behind(first.end))
        return self._behind[cut]

    def run(
        self, choices: Mapping[str, Choice], samples: SampleSet, watch: Watch
    ) -> Iterator[tuple[str, int, list[Agreement]]]:
        """(choice, number of the sample, agreement of each output with the float one), sample by sample.

        Raises Interrupted between two choices when the watch is stopped; what was yielded stays good.
        """
        ready = Prepared(self, choices, len(samples))
        with watch.stage("sensitivity", len(samples) * len(choices)) as stage:
            for number, sample in enumerate(samples):
                known = ready.known(sample)
                for label in choices:
                    yield label, number, self.compare(known, ready.outputs(label, known))
                    stage.step()

    def compare(self, known: Known, made: Mapping[str, np.ndarray]) -> list[Agreement]:
        """Agreement of each output with the float one."""
        return [agreement(known.values[o], made[o]) for o in self.outputs]

    def changed(self, choice: Choice) -> tuple[int, ...]:
        """Numbers of the nodes that compute something else under a choice."""
        return tuple(sorted(self.number[n] for n in self.network.changed(choice) if n in self.number))

    def way(self, changed: tuple[int, ...], split: bool) -> Way | None:
        """What is computed anew when nodes compute something else; None where that is nothing.

        split  the float nodes up to the next cut are a slice of their own, worth while where many choices share it
        """
        whole = self.slice_of(changed) if changed else None
        if whole is None or not whole.results:
            return None
        behind = self.behind(whole.end)
        near = tuple(n for n in whole.nodes if n <= changed[-1])
        far = whole.nodes[len(near):]
        if not split or len(whole.nodes) <= SHORT or not far:
            return whole, behind
        made = [m for n in near for m in self.makes[n]]
        reads = {r for n in far for r in self.reads[n]}
        head = Slice(near, self._sides(near), tuple(m for m in made if m in reads or m in whole.results), None)
        rest = Slice(far, self._sides(far), tuple(r for r in whole.results if r not in made), whole.end)
        return (head, (rest, *behind)) if rest.results else (whole, behind)

    def _sides(self, nodes: Sequence[int]) -> tuple[str, ...]:
        mine = {m for n in nodes for m in self.makes[n]}
        return tuple(dict.fromkeys(r for n in nodes for r in self.reads[n] if r not in mine))

    def piece(self, piece: Slice, optimise: bool) -> Session:
        """The session of a float slice, made once."""
        held = self._slices.get(piece)
        if held is None:
            held = self._slices[piece] = self.slicer.session(piece.nodes, piece.results, optimise=optimise)
        return held


class Prepared:
    """Choices made ready to run, sample after sample. Sessions are made on first use, and kept for further samples."""

    def __init__(self, effects: Effects, choices: Mapping[str, Choice], samples: int) -> None:
        self.effects, self.choices, self.samples = effects, choices, samples
        changed = {label: effects.changed(choice) for label, choice in choices.items()}
        alike = Counter(changed.values())
        ways = {nodes: effects.way(nodes, split=count >= OFTEN) for nodes, count in alike.items()}
        self.ways = {label: ways[nodes] for label, nodes in changed.items()}
        slices = Counter(s for way in self.ways.values() if way for s in (way[0], *way[1]))
        self.often = {s for s, count in slices.items() if count * samples >= OFTEN}
        inputs = {str(v.name) for v in effects.graph.inputs}
        needed = dict.fromkeys((*(n for s in slices for n in s.sides), *effects.outputs))
        self.computed = [n for n in needed if n not in inputs]
        self.reference = session(effects.graph.model, outputs=self.computed)
        self.tasks: dict[str, _Task | None] = {}
        self.sessions: dict[Any, tuple[Any, Session]] = {}

    def known(self, sample: Mapping[str, np.ndarray]) -> Known:
        """Everything float that the choices read of one sample."""
        return Known(dict(sample) | dict(zip(self.computed, self.reference.run(self.computed, sample), strict=True)))

    def outputs(self, label: str, known: Known) -> dict[str, np.ndarray]:
        """The outputs under a choice."""
        if label not in self.tasks:
            way = self.ways[label]
            self.tasks[label] = self._task(*way, self.choices[label]) if way else None
        task = self.tasks[label]
        made: dict[str, np.ndarray] = {}
        if task is not None:
            feeds = {n: known.fed(*task.feeds[n]) if n in task.feeds else known.values[n] for n in task.run.input_names}
            made = dict(zip(task.head.results, task.run.run(None, feeds), strict=True))
            for piece in task.behind:
                runner = self.effects.piece(piece, piece in self.often)
                feeds = {n: made[n] if n in made else known.values[n] for n in runner.input_names}
                made |= zip(piece.results, runner.run(None, feeds), strict=True)
        if self.samples == 1:
            self.tasks[label] = None
            for old in list(self.sessions)[:-KEPT]:
                self.sessions.pop(old, None)
        return {o: made.get(o, known.values[o]) for o in self.effects.outputs}

    def _task(self, head: Slice, behind: tuple[Slice, ...], choice: Choice) -> _Task:
        effects = self.effects
        plan = _Plan(effects, head, choice)
        if plan.inside:
            whole = partial_model(effects.network, choice, head.sides, head.results)
            return _Task(head, session(whole), {}, behind)
        held = self.sessions.get(plan.key)  # threads share them, and drop old ones
        if held is None:
            # it runs once per sample: onnxruntime would need longer to optimise it than that gains
            made = effects.slicer.session(head.nodes, head.results, fed=plan.labels, constants=plan.constants,
                                          halves=plan.halves, optimise=False)
            # what the key knows by id is kept alive with it
            held = self.sessions[plan.key] = (choice, made)
        return _Task(head, held[1], plan.feeds, behind)


class _Plan:
    """How a slice runs under a choice: what is fed rounded, which constants are others, what is rounded behind.

    inside  something is rounded that is computed inside of the slice, for which the quantizer must be part of it
    key     equal for choices that can share a session
    """

    def __init__(self, effects: Effects, head: Slice, choice: Choice) -> None:
        network, graph = effects.network, effects.graph
        self.labels: dict[Place, str] = {}
        self.feeds: dict[str, tuple[str, tuple[Quantizer | Half, ...]]] = {}
        self.constants: dict[Place, np.ndarray] = {}
        self.inside = False
        ids: list[Any] = []
        halves = {h.node: h for h in choice.values() if isinstance(h, Half)}
        on = {n: q for n, q in choice.items() if isinstance(q, Quantizer)}
        told = [q.correction for q in on.values() if q.correction is not None]
        corrections = {(c.node, c.index): c.bias(on) for c in told}
        self.halves = [effects.number[n] for n in halves if n in effects.number]
        changed = {effects.number[n] for n in network.changed(choice) if n in effects.number}
        sides = set(head.sides)
        for number in (n for n in head.nodes if n in changed):
            node = graph.nodes[number]
            name, half = str(node.name), halves.get(str(node.name))
            for index, value in enumerate(node.inputs):
                if value is None:
                    continue
                place, tensor = (number, index), str(value.name)
                corrected = corrections.get((name, index))
                chain = network.edges.get((name, index), ())
                rounds: tuple[Quantizer | Half, ...] = tuple(on[q] for q in chain if q in on)
                if half is not None and half.computes:
                    rounds = (half,) if value.dtype == ir.DataType.FLOAT else ()
                    chain = ()
                if corrected is not None:
                    self.constants[place] = corrected
                    ids.append((place, id(corrected)))
                elif value.const_value is not None:
                    if rounds:
                        array = value.const_value.numpy()
                        for one in rounds:
                            array = one(array)
                        self.constants[place] = array
                        ids.append((place, *map(id, rounds)))
                elif tensor in sides and (rounds or chain):
                    # fed under a name of its own even where it is not rounded: other choices round it
                    label = f"{tensor}/{'/'.join(chain) or 'float16'}"
                    self.labels[place] = label
                    self.feeds[label] = (tensor, rounds)
                elif rounds:
                    self.inside = True
        self.key = (head, tuple(ids), tuple(sorted(self.labels.items())), tuple(sorted(self.halves)))


def agreement(truth: np.ndarray, got: np.ndarray) -> Agreement:
    """Comparison of one array with its float one, distances included."""
    found = Agreement()
    found.add(truth, got, distances=True)
    return found
