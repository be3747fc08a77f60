"""Logarithms of powers, as in the spectra that sound networks begin with: what of them should stay in float.

Powers span far more than 16 bits hold, and the logarithm shows all of it: what is rounded to 0 there becomes the lowest
number of all. So nothing between the operators with weights in front of a logarithm and those behind it is rounded.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import onnx_ir as ir

from ptqlab.graph import FloatGraph
from ptqlab.ops.spec import Role
from ptqlab.ops.table import spec_of

Neighbours = Callable[[ir.Node], Iterable[ir.Node]]


def around_logarithms(graph: FloatGraph) -> tuple[list[ir.Node], list[ir.Node]]:
    """(nodes to keep in float, operators that feed them), each in topological order and without movers of data.

    In float: every Log, and the operators reached from it in either direction without passing one with weights.
    Movers between them follow by themselves.
    """
    def readers(node: ir.Node) -> Iterator[ir.Node]:
        for out in node.outputs:
            if out.name:
                yield from graph.consumers(out.name)

    logs = [n for n in graph.nodes if n.op_type == "Log"]
    held = _reach(logs, _makers) | _reach(logs, readers)
    feeding = _ancestors(held) - held
    active = [n for n in graph.nodes if spec_of(n).role is not Role.PASSIVE]
    return [n for n in active if n in held], [n for n in active if n in feeding]


def _makers(node: ir.Node) -> Iterator[ir.Node]:
    for value in node.inputs:
        producer = None if value is None else value.producer()
        if producer is not None:
            yield producer


def _reach(start: Iterable[ir.Node], neighbours: Neighbours) -> set[ir.Node]:
    """Nodes of `start` and those reached from them through operators without weights."""
    open_ends = list(start)
    seen = set(open_ends)
    while open_ends:
        for other in neighbours(open_ends.pop()):
            if other not in seen and not spec_of(other).is_tae:
                seen.add(other)
                open_ends.append(other)
    return seen


def _ancestors(nodes: Iterable[ir.Node]) -> set[ir.Node]:
    open_ends = list(nodes)
    seen = set(open_ends)
    while open_ends:
        for maker in _makers(open_ends.pop()):
            if maker not in seen:
                seen.add(maker)
                open_ends.append(maker)
    return seen
