"""Which tensors are integers on the BPU, which share a threshold, and in which type each is stored."""
from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir

from ptqlab.arith.formats import QType, widest
from ptqlab.graph import FloatGraph
from ptqlab.ops.spec import Role
from ptqlab.ops.table import spec_of
from ptqlab.placement.capability import Verdict
from ptqlab.stages.plan import Group, TensorPlan


class _Union:
    """Union-find whose representative is the member seen first."""

    def __init__(self) -> None:
        self.parent: dict[str, str] = {}

    def find(self, x: str) -> str:
        self.parent.setdefault(x, x)
        while self.parent[x] != x:
            x = self.parent[x]
        return x

    def join(self, keep: str, other: str) -> None:
        self.parent[self.find(other)] = self.find(keep)


def make_slots(
    graph: FloatGraph, groups: Mapping[str, Group], tails: frozenset[str], verdicts: Mapping[str, Verdict],
    output_type: QType | None,
) -> tuple[dict[str, TensorPlan], dict[str, tuple[str, ...]]]:
    """(tensor -> its plan), (slot -> tensors whose values set its threshold)."""
    union = _Union()
    readers: dict[str, list[QType]] = {}
    movers: dict[str, ir.Node] = {}
    held: dict[str, None] = {}
    for group in groups.values():
        if verdicts[group.main].in_float:
            continue
        for tensor, qtype in _reads(graph, group, verdicts):
            held[tensor] = None
            if qtype is not None:
                readers.setdefault(tensor, []).append(qtype)
        if group.main not in tails and not verdicts[group.main].spec.plain_output:
            held[group.output] = None
        main = graph.node(group.main)
        if verdicts[group.main].spec.role is Role.PASSIVE and not verdicts[group.main].spec.plain_output:
            for out in main.outputs:
                if out.name:
                    held[out.name] = None
                    movers[out.name] = main
    for output, main in movers.items():
        for value in main.inputs:
            if value is not None and str(value.name) in held and _shares(graph, main, value):
                union.join(str(value.name), output)
    wanted: dict[str, list[QType]] = {}
    members: dict[str, list[str]] = {}
    for tensor in held:
        slot = union.find(tensor)
        members.setdefault(slot, []).append(tensor)
        wanted.setdefault(slot, []).extend(readers.get(tensor, []))
    writers = {g.output: g for g in groups.values()}
    plans: dict[str, TensorPlan] = {}
    sources: dict[str, tuple[str, ...]] = {}
    for slot, tensors in members.items():
        types = list(wanted[slot])
        if output_type and any(graph.values[t].is_graph_output() for t in tensors):
            types.append(output_type)
        if not types:
            # nobody on the BPU reads it: the type its own operator was granted
            types = _own_types(writers, verdicts, tensors) or [QType.INT8]
        stored = widest(types)
        for tensor in tensors:
            plans[tensor] = TensorPlan(tensor, slot, stored)
        sources[slot] = tuple(t for t in tensors if t not in movers or _has_foreign_operand(movers[t], union, slot))
    return plans, sources


def _reads(graph: FloatGraph, group: Group, verdicts: Mapping[str, Verdict]) -> list[tuple[str, QType | None]]:
    """Tensors that a group reads from outside, with the type it wants; None for passive operators."""
    produced = {str(o.name) for m in group.members for o in graph.node(m).outputs}
    reads: list[tuple[str, QType | None]] = []
    for member in group.members:
        verdict, node = verdicts[member], graph.node(member)
        for index, value in enumerate(node.inputs):
            if value is None or verdict.inputs[index] is None or str(value.name) in produced:
                continue
            passive = verdict.spec.role is Role.PASSIVE
            reads.append((str(value.name), None if passive else verdict.inputs[index]))
    return reads


def _shares(graph: FloatGraph, mover: ir.Node, value: ir.Value) -> bool:
    """Whether an operand of a mover shares the mover's threshold.

    The first operand of a mover always does. An operand of Concat does when Concat is its only reader and it
    is no output of the model or of another mover: then its producer can write at the common scale at no cost to
    anybody else. Other operands are rescaled on entry.
    """
    if mover.op_type != "Concat":
        return mover.inputs[0] is value
    if value.is_graph_output() or len(graph.consumers(str(value.name))) != 1:
        return False
    producer = value.producer()
    return producer is None or spec_of(producer).role is not Role.PASSIVE


def _has_foreign_operand(mover: ir.Node, union: _Union, slot: str) -> bool:
    """Whether values from outside of the slot enter through this mover (operands of Concat, values of Pad, updates)."""
    if mover.op_type == "Pad":
        return len(mover.inputs) > 2 and mover.inputs[2] is not None
    features = spec_of(mover).features
    data = mover.inputs if features is None else [mover.inputs[i] for i in features]
    return any(v is not None and (v.const_value is not None or union.find(str(v.name)) != slot) for v in data)


def _own_types(writers: Mapping[str, Group], verdicts: Mapping[str, Verdict], tensors: list[str]) -> list[QType]:
    types: list[QType] = []
    for tensor in tensors:
        if tensor in writers:
            types += [t for m in writers[tensor].members for t in verdicts[m].asked_types]
    return types
