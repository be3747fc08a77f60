"""Which nodes a subgraph_config entry means: from its `inputs` to its `outputs`, both included [our definition]."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import onnx_ir as ir

from ptqlab.config import QuantConfig
from ptqlab.config.quant import Subgraph
from ptqlab.graph import FloatGraph


def memberships(graph: FloatGraph, quant: QuantConfig) -> dict[str, list[str]]:
    """Node name -> names of the subgraph_config entries that hold it, in the order of the file."""
    held: dict[str, list[str]] = {}
    for key, subgraph in quant.subgraphs.items():
        for name in members(graph, subgraph):
            held.setdefault(name, []).append(key)
    return held


def members(graph: FloatGraph, subgraph: Subgraph) -> set[str]:
    """Nodes on a way from one of `inputs` to one of `outputs`; names are those of nodes or tensors."""
    forward = _reach(_nodes(graph, subgraph.inputs, readers=True), lambda n: _successors(graph, n))
    return forward & _reach(_nodes(graph, subgraph.outputs, readers=False), _predecessors)


def _nodes(graph: FloatGraph, names: Iterable[str], readers: bool) -> list[ir.Node]:
    """The nodes that names mean: a node itself, or the readers (else the producer) of a tensor."""
    found: list[ir.Node] = []
    for name in names:
        node = graph.aliases.get(name, name)
        if node in graph:
            found.append(graph.node(node))
        elif readers:
            found += graph.consumers(name)
        elif (producer := graph.producer(name)) is not None:
            found.append(producer)
    return found


def _successors(graph: FloatGraph, node: ir.Node) -> list[ir.Node]:
    return [reader for out in node.outputs if out.name for reader in graph.consumers(out.name)]


def _predecessors(node: ir.Node) -> list[ir.Node]:
    return [p for v in node.inputs if v is not None and (p := v.producer()) is not None]


def _reach(start: list[ir.Node], step: Callable[[ir.Node], list[ir.Node]]) -> set[str]:
    seen: dict[str, ir.Node] = {str(n.name): n for n in start}
    todo = list(start)
    while todo:
        for node in step(todo.pop()):
            if str(node.name) not in seen:
                seen[str(node.name)] = node
                todo.append(node)
    return set(seen)
