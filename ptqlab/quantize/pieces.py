"""A float graph cut into pieces wherever one activation is live, so that a change in one place runs one piece.

A *cut* is a tensor through which everything that is computed before it reaches what is computed after it (inputs of
the model aside, which are at hand everywhere). A *head* starts at the tensors of a slot and ends at the next cut; what
else it reads is known from the float run. Behind the cut the float pieces go on to the outputs.
"""
from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from ptqlab.graph import FloatGraph
from ptqlab.graph.model import read_values

PARTS = ("scale", "zero_point", "shift", "low", "high")


@dataclass(frozen=True)
class Cut:
    """A tensor that alone is live after node number `position`."""

    tensor: str
    position: int


@dataclass(frozen=True)
class Head:
    """What is computed anew when the tensors of a slot change.

    entries  the slot's tensors where they are made;  sides  what else is read, known from the float run
    end      the cut where it ends, None where it runs to the outputs of the model
    outputs  model outputs that it computes on the way (all that change, where `end` is None)
    """

    entries: tuple[str, ...]
    sides: tuple[str, ...]
    end: Cut | None
    outputs: tuple[str, ...]

    @property
    def results(self) -> tuple[str, ...]:
        """Tensors to be computed: the cut first."""
        return tuple(dict.fromkeys((*((self.end.tensor,) if self.end else ()), *self.outputs)))


class Map:
    """Cuts, heads and the float pieces behind them, by name only."""

    def __init__(self, graph: FloatGraph, pieces: int = 8) -> None:
        """`pieces`: at most about as many, of like numbers of nodes; each piece more is one more run per variant."""
        self.graph = graph
        self.nodes = graph.nodes
        self.position = {v: i for i, n in enumerate(self.nodes) for v in n.outputs}
        # constants and what lives inside of the body of an If or Loop are of no interest
        known = {*self.position, *graph.inputs}
        self.reads = [tuple(dict.fromkeys(v for v in read_values(n) if v in known)) for n in self.nodes]
        self.outputs = tuple(str(v.name) for v in graph.outputs)
        self.cuts = _spread(self._find_cuts(), len(self.nodes), pieces)
        self._behind: dict[Cut, list[Head]] = {}

    def _find_cuts(self) -> tuple[Cut, ...]:
        last: dict[ir.Value, int] = {}
        for index, values in enumerate(self.reads):
            last.update(dict.fromkeys((v for v in values if v in self.position), index))
        live: dict[ir.Value, None] = {}
        found: dict[str, Cut] = {}
        for index, node in enumerate(self.nodes):
            live.update(dict.fromkeys(v for v in node.outputs if last.get(v, -1) > index))
            for value in self.reads[index]:
                if last.get(value) == index:
                    live.pop(value, None)
            if len(live) == 1:
                name = str(next(iter(live)).name)
                found.setdefault(name, Cut(name, index))
        return tuple(found.values())

    def head(self, entries: Sequence[str]) -> Head:
        """The head of a slot whose values are made in `entries`."""
        reached = self._reached(entries)
        names = {str(v.name) for v in reached}
        # an input of the model does not count as live at a cut, so a cut is no end before its last reader
        latest = max((max(self._made(e), self._last_reader(e)) for e in entries), default=-1)
        end = next((c for c in self.cuts if c.tensor in names - set(entries) and c.position >= latest), None)
        limit = len(self.nodes) if end is None else end.position
        changed = {*names, *entries}
        outputs = tuple(o for o in self.outputs if o in changed and self._made(o) <= limit)
        return Head(tuple(entries), self._sides(entries, reached, limit), end, outputs)

    def _made(self, tensor: str) -> int:
        """Number of the node that makes a tensor; -1 for inputs of the model."""
        return self.position.get(self.graph.values[tensor], -1)

    def _last_reader(self, tensor: str) -> int:
        """Number of the last node that reads an input of the model; -1 for other tensors."""
        value = self.graph.values[tensor]
        if value in self.position:
            return -1
        return max((i for i, values in enumerate(self.reads) if value in values), default=-1)

    def _reached(self, entries: Iterable[str]) -> set[ir.Value]:
        """Tensors that depend on `entries`, those left out."""
        start = {self.graph.values[e] for e in entries}
        reached: set[ir.Value] = set()
        for node, values in zip(self.nodes, self.reads, strict=True):
            if any(v in start or v in reached for v in values):
                reached.update(node.outputs)
        return reached - start

    def _sides(self, entries: Collection[str], reached: set[ir.Value], limit: int) -> tuple[str, ...]:
        start = {self.graph.values[e] for e in entries}
        sides: dict[str, None] = {}
        for index, (node, values) in enumerate(zip(self.nodes, self.reads, strict=True)):
            if index <= limit and any(o in reached for o in node.outputs):
                sides |= dict.fromkeys(str(v.name) for v in values if v not in reached and v not in start)
        return tuple(sides)

    def behind(self, cut: Cut) -> list[Head]:
        """The float pieces from a cut to the outputs, in order: each runs to the next cut."""
        if cut not in self._behind:
            first = self.head((cut.tensor,))
            self._behind[cut] = [first, *(self.behind(first.end) if first.end else [])]
        return self._behind[cut]


def _spread(cuts: tuple[Cut, ...], nodes: int, pieces: int) -> tuple[Cut, ...]:
    """Of all cuts those that leave about `nodes` / `pieces` nodes between them."""
    kept: list[Cut] = []
    for cut in cuts:
        if cut.position - (kept[-1].position if kept else -1) >= nodes / pieces:
            kept.append(cut)
    return tuple(kept)


def piece_model(graph: FloatGraph, head: Head, quantized: Mapping[str, Collection[str]] | None = None) -> ir.Model:
    """The model of a head. `quantized`: entry -> nodes that read it as integers; those read it through a quantizer
    whose numbers are further inputs (`quantizer_names`)."""
    inputs = list(dict.fromkeys((*head.entries, *head.sides)))
    view = ir.convenience.extract(graph.model.graph, inputs, list(head.results))
    values = {str(v.name): v for v in view.inputs}
    if quantized:
        # no shapes: numbers are scalars, or have one entry per channel
        numbers = {p: ir.Value(name=n, type=ir.TensorType(ir.DataType.FLOAT))
                   for p, n in quantizer_names("piece").items()}
        view.inputs.extend(numbers.values())
        first = view.node(0)
        for entry, readers in quantized.items():
            value = values[entry]
            uses = [(n, i) for n, i in value.uses() if n.name in readers]
            out = insert_quantizer(view, value, numbers, first, entry)
            for user, index in uses:
                user.replace_input_with(index, out)
            for index, output in enumerate(view.outputs):
                if output is value:
                    view.outputs[index] = out
    return ir.Model(view, ir_version=graph.model.ir_version)


def quantizer_names(label: str) -> dict[str, str]:
    """Names of the inputs that hold a quantizer's numbers."""
    return {p: f"ptqlab_{label}_{p}" for p in PARTS}


def insert_quantizer(
    graph: ir.Graph, x: ir.Value, numbers: Mapping[str, ir.Value], before: ir.Node, label: str
) -> ir.Value:
    """Insert  y = (floor(clip(x / scale + shift, low, high)) - zero_point) * scale  and return y.

    With shift = zero_point + 0.5 and the limits half a code up it is HzCalibration in fewer operators, but for ties
    below zero, which it rounds up.
    """
    for op_type, names in (
        ("Div", ("scale",)), ("Add", ("shift",)), ("Clip", ("low", "high")), ("Floor", ()), ("Sub", ("zero_point",)),
        ("Mul", ("scale",)),
    ):
        made = ir.Node("", op_type, [x, *(numbers[n] for n in names)], num_outputs=1, name=f"{label}/{op_type}")
        out = made.outputs[0]
        out.name, out.shape, out.type = f"{label}/{op_type}", x.shape, x.type
        graph.insert_before(before, made)
        x = out
    return x
