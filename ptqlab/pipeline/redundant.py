"""Entries of a quant_config that say nothing new: overruled by a finer level, or what their nodes have anyway."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from ptqlab.config import NodeRequest, QuantConfig
from ptqlab.config.quant import Entry
from ptqlab.errors import Finding
from ptqlab.graph import FloatGraph

FINER = {"op": "subgraph_config or node_config", "subgraph": "node_config"}


def redundant_entries(graph: FloatGraph, quant: QuantConfig, held: Mapping[str, Sequence[str]]) -> list[Finding]:
    """A note for each op, subgraph and node entry whose type changes nothing at any node it matches.

    held  node name -> subgraph_config entries that hold it
    """
    asked = _resolve(graph, quant, held)
    findings = []
    without_ops = _resolve(graph, replace(quant, ops={}), held)
    for key, entry in quant.ops.items():
        nodes = [str(n.name) for n in graph.nodes if n.op_type.lower() == key.lower()]
        findings += _judge("op", f"op_config.{key}", entry, nodes, asked, without_ops)
    without_subgraphs = _resolve(graph, replace(quant, subgraphs={}), held)
    for key, subgraph in quant.subgraphs.items():
        nodes = [name for name, keys in held.items() if key in keys]
        findings += _judge("subgraph", f"subgraph_config.{key}", subgraph.entry, nodes, asked, without_subgraphs)
    without_nodes = _resolve(graph, replace(quant, nodes={}), held)
    for key, entry in quant.nodes.items():
        name = graph.aliases.get(key, key)
        findings += _judge("node", f"node_config.{key}", entry, [name] if name in asked else [], asked, without_nodes)
    return findings


def _resolve(graph: FloatGraph, quant: QuantConfig, held: Mapping[str, Sequence[str]]) -> dict[str, NodeRequest]:
    return {
        str(n.name): quant.for_node(str(n.name), n.op_type, held.get(str(n.name), ()), len(n.inputs), graph.aliases)
        for n in graph.nodes
    }


def _judge(
    level: str,
    where: str,
    entry: Entry,
    nodes: Iterable[str],
    asked: Mapping[str, NodeRequest],
    without: Mapping[str, NodeRequest],
) -> list[Finding]:
    """Nothing for an entry without a type, without a node, or with an effect at one node at least."""
    names = tuple(nodes)
    if not names or not (entry.qtype or entry.inputs) or entry.on or entry.activation:
        return []
    if any((asked[n].qtype, asked[n].inputs) != (without[n].qtype, without[n].inputs) for n in names):
        return []
    word = str(entry.qtype.value) if entry.qtype else ", ".join(str(s.value) for s in entry.inputs.values())
    count = "the node" if len(names) == 1 else f"all {len(names)} nodes"
    finer = [n for n in names if _finer(level, asked[n].origin.level)]
    if len(finer) == len(names) and level in FINER:
        message = f"{where}: {word} has no effect: {FINER[level]} overrules it at {count} it matches"
        return [Finding("PTQ407", message, names, "take the entry out, or the finer ones", "note")]
    message = f"{where}: {word} has no effect: {count} it matches would have that type without it"
    return [Finding("PTQ406", message, names, "the entry can be taken out", "note")]


def _finer(level: str, other: str) -> bool:
    order = ("default", "model", "op", "subgraph", "node")
    return order.index(other) > order.index(level)
