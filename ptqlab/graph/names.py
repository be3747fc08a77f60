"""Unique names and topological order, before anything is shown to the user."""

from __future__ import annotations

from collections.abc import Iterable

import onnx

from ptqlab.errors import Finding, Problem, PtqError, shorten
from ptqlab.graph.checks import default_opset, node_label, proto_bodies, walk


def unique(name: str, taken: set[str]) -> str:
    """`name`, or `name_1`, `name_2`, ... : the first that is free; it is taken afterwards."""
    candidate, count = name, 0
    while candidate in taken:
        count += 1
        candidate = f"{name}_{count}"
    taken.add(candidate)
    return candidate


def name_nodes(graph: onnx.GraphProto) -> list[Finding]:
    """Give every node, bodies included, a name of its own.

    A node without a name becomes `OpType_<first output>`; of several that share a name the first keeps it and the
    others get `_1`, `_2`. Names in the file win over made-up ones. The same file gives the same names.
    """
    nodes = list(walk(graph.node))
    counts: dict[str, int] = {}
    for node in nodes:
        counts[node.name] = counts.get(node.name, 0) + 1
    taken = {n for n in counts if n}
    seen: set[str] = set()
    renamed: list[tuple[str, str]] = []
    unnamed = 0
    for node in nodes:
        old = node.name
        if not old:
            output = next((o for o in node.output if o), "")
            node.name = unique(f"{node.op_type}_{output}", taken)
            unnamed += 1
        elif old in seen:
            node.name = unique(old, taken)
            renamed.append((old, node.name))
        seen.add(node.name)
    findings = []
    if unnamed:
        findings.append(
            Finding("PTQ132", f"{unnamed} nodes have no name; they are called <operator>_<output>.", severity="note")
        )
    if renamed:
        shown = ", ".join(f"'{shorten(a)}' -> '{shorten(b)}'" for a, b in renamed[:5]) + (
            ", ..." if len(renamed) > 5 else ""
        )
        findings.append(
            Finding(
                "PTQ132",
                f"{len(renamed)} nodes shared a name with another and were renamed: {shown}.",
                tuple(b for _, b in renamed),
            )
        )
    return findings


def name_outputs(proto: onnx.ModelProto) -> list[Finding]:
    """Give every output that the standard does not let a node leave out a name: `<node>_output_<index>`.

    Exporters leave the name of an output empty that nothing reads. Where the operator's definition has it as
    optional that is right; elsewhere it is no valid model, and onnxruntime refuses it or (Split) crashes.
    Nodes have names of their own.
    """
    opset = default_opset(proto)
    empty = [n for n in walk(proto.graph.node) if not n.domain and not all(n.output)]
    if opset is None or not empty:
        return []
    taken = set(_tensors(proto.graph))
    named: dict[str, list[str]] = {}
    for node in empty:
        for index in _required(node, opset):
            if not node.output[index]:
                node.output[index] = unique(f"{node.name}_output_{index}", taken)
                named.setdefault(node.name, []).append(node.output[index])
    if not named:
        return []
    made = [name for names in named.values() for name in names]
    shown = ", ".join(f"'{shorten(name)}'" for name in made[:5]) + (", ..." if len(made) > 5 else "")
    text = f"Outputs that their operators do not let be left out had no name: they are called {shown}."
    return [Finding("PTQ132", text, tuple(named), severity="note")]


def _required(node: onnx.NodeProto, opset: int) -> Iterable[int]:
    """Indices of the outputs that the operator's definition wants; none of an operator that is not known."""
    if not onnx.defs.has(node.op_type, opset, ""):
        return
    formal = onnx.defs.get_schema(node.op_type, opset, "").outputs
    for index in range(len(node.output)):
        # the last one of the definition may stand for any number
        if formal and formal[min(index, len(formal) - 1)].option != onnx.defs.OpSchema.FormalParameterOption.Optional:
            yield index


def _tensors(graph: onnx.GraphProto) -> Iterable[str]:
    """Names of tensors of a graph and of the bodies in it."""
    yield from (v.name for v in (*graph.input, *graph.output, *graph.initializer))
    yield from (t.values.name for t in graph.sparse_initializer)
    for node in graph.node:
        yield from (*node.input, *node.output)
        for body in proto_bodies(node):
            yield from _tensors(body)


def sort_nodes(graph: onnx.GraphProto) -> bool:
    """Bring the nodes of a graph (and of its bodies) into topological order, keeping theirs where it is one.

    Returns whether anything moved. PtqError names the nodes of a cycle.
    """
    moved = False
    for node in graph.node:
        for body in proto_bodies(node):
            moved |= sort_nodes(body)
    producer = {name: index for index, node in enumerate(graph.node) for name in node.output if name}
    needs = [{producer[name] for name in reads(node) if name in producer} for node in graph.node]
    if all(max(n, default=-1) < index for index, n in enumerate(needs)):
        return moved
    order, cycle = _stable_order(needs)
    if cycle:
        shown = ", ".join(node_label(graph.node[i]) for i in cycle[:5])
        raise PtqError(
            Problem("PTQ111", shown, "nodes that wait for each other", "a graph without cycles"), "Loading the model"
        )
    nodes = [graph.node[i] for i in order]
    copies = [onnx.NodeProto.FromString(n.SerializeToString()) for n in nodes]
    del graph.node[:]
    graph.node.extend(copies)
    return True


def reads(node: onnx.NodeProto) -> Iterable[str]:
    """Names a node reads, those of its bodies included."""
    yield from (n for n in node.input if n)
    for body in proto_bodies(node):
        for inner in body.node:
            yield from reads(inner)
        yield from (v.name for v in body.output)


def _stable_order(needs: list[set[int]]) -> tuple[list[int], list[int]]:
    """Depth-first from each node in turn: a node comes right after the last thing it waited for.

    Returns the order and an empty list, or what was placed so far and the nodes of a cycle.
    """
    order: list[int] = []
    new, waiting, placed = 0, 1, 2
    state = [new] * len(needs)
    for root in range(len(needs)):
        stack = [root]
        while stack:
            index = stack[-1]
            if state[index] == placed:
                stack.pop()
                continue
            state[index] = waiting
            missing = sorted((i for i in needs[index] if state[i] != placed), reverse=True)
            closing = next((i for i in missing if state[i] == waiting), None)
            if closing is not None:
                path = [i for i in dict.fromkeys(stack) if state[i] == waiting]
                return order, path[path.index(closing) :]
            if missing:
                stack.extend(missing)
            else:
                state[index] = placed
                order.append(index)
                stack.pop()
    return order, []
