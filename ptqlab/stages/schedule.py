"""The order in which devices work: nodes of one device that wait for nobody else form a part."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import onnx_ir as ir

from ptqlab.graph import outer_values


@dataclass(frozen=True)
class Part:
    """Nodes that one device runs in a row; inputs and outputs are tensor names.

    device    "BPU" or "CPU";  segment  number of the BPU segment, None on the CPU
    floating  the vector unit computes the nodes in float; a segment can have several parts of both kinds
    """

    device: str
    segment: int | None
    nodes: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    floating: bool = False


FLOATS = (ir.DataType.FLOAT, ir.DataType.FLOAT16)


def is_floating(node: ir.Node) -> bool:
    """Whether a node of an integer model computes on floats: a standard operator that reads or writes them."""
    return node.domain == "" and any(v is not None and v.dtype in FLOATS for v in (*node.inputs[:1], *node.outputs))


def levels(nodes: Iterable[ir.Node], device: Callable[[ir.Node], str]) -> dict[ir.Node, int]:
    """Level of each node (given in topological order): the number of device changes on the longest path to it.

    Nodes of one device and level can run together, and never wait for a node of a higher level. A BPU node that
    only BPU nodes read stands with the first of them: a quantizer, or the convolution of a residual Add whose
    other operand comes late, makes no segment of its own.
    """
    ordered = list(nodes)
    level: dict[ir.Node, int] = {}
    for node in ordered:
        reach = 0
        for value in outer_values(node):
            producer = value.producer()
            if producer in level:
                reach = max(reach, level[producer] + (device(producer) != device(node)))
        level[node] = reach
    for node in reversed(ordered):
        readers = [reader for out in node.outputs for reader, _ in out.uses()]
        inside = all(reader in level and device(reader) == "BPU" for reader in readers)
        if device(node) == "BPU" and readers and inside and not any(o.is_graph_output() for o in node.outputs):
            level[node] = min(level[reader] for reader in readers)
    return level


def schedule(graph: ir.Graph, device: Callable[[ir.Node], str]) -> tuple[Part, ...]:
    """Cut the nodes of a graph into parts by device, in order of execution."""
    level = levels(graph, device)
    members: dict[tuple[int, str], list[ir.Node]] = {}
    for node in graph:
        members.setdefault((level[node], device(node)), []).append(node)
    keys = sorted(members)
    bpu = [key for key in keys if key[1] == "BPU"]
    outputs = {str(v.name) for v in graph.outputs}
    return tuple(
        Part(key[1], bpu.index(key) if key in bpu else None, *_interface(nodes, outputs), floating=floating)
        for key in keys
        for nodes, floating in (_by_kind(members[key]) if key in bpu else [(members[key], False)])
    )


def split(
    parts: Iterable[Part], graph: ir.Graph, piece: Callable[[ir.Node], int | None]
) -> tuple[Part, ...]:
    """The same schedule in smaller parts: nodes of a part that belong to different pieces come apart.

    piece  number of a node's piece, growing along the graph; None: that of what it reads
    A node that reads a later piece than its own goes there, so that the order of execution stays one.
    """
    outputs, by_name = {str(v.name) for v in graph.outputs}, {str(n.name): n for n in graph}
    found: list[Part] = []
    for part in parts:
        number: dict[ir.Node, int] = {}
        members: dict[int, list[ir.Node]] = {}
        for node in (by_name[name] for name in part.nodes):
            own = [number[p] for v in outer_values(node) if (p := v.producer()) in number]
            number[node] = max([*own, given] if (given := piece(node)) is not None else own, default=0)
            members.setdefault(number[node], []).append(node)
        for key in sorted(members):
            found.append(Part(part.device, part.segment, *_interface(members[key], outputs), floating=part.floating))
    return tuple(found)


def _by_kind(nodes: list[ir.Node]) -> list[tuple[list[ir.Node], bool]]:
    """The nodes of a BPU segment in order of execution, those that compute on floats apart."""
    level = levels(nodes, lambda node: "float" if is_floating(node) else "integer")
    members: dict[tuple[int, bool], list[ir.Node]] = {}
    for node in nodes:
        members.setdefault((level[node], is_floating(node)), []).append(node)
    return [(members[key], key[1]) for key in sorted(members)]


def _interface(nodes: list[ir.Node], outputs: set[str]) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    inside = set(nodes)
    reads = dict.fromkeys(
        str(v.name)
        for n in nodes
        for v in outer_values(n)
        if v.producer() not in inside and v.const_value is None
    )
    written = dict.fromkeys(
        str(o.name)
        for n in nodes
        for o in n.outputs
        if o.name and (o.name in outputs or any(user not in inside for user, _ in o.uses()))
    )
    return tuple(str(n.name) for n in nodes), tuple(reads), tuple(written)
