"""A model file as a viewer is given it: without weights, without metadata, whole or cut around one node."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx

from ptqlab.errors import Problem, PtqError, nearest, shorten
from ptqlab.graph.checks import proto_bodies, walk
from ptqlab.graph.files import read_artifact
from ptqlab.graph.names import name_nodes, reads

#: Larger tensors are left out, in bytes; type and shape stay.
LARGEST = 1024
DATA = ("raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data", "string_data")
MOST_HOPS = 1000


@dataclass(frozen=True)
class Outline:
    """The graph of a file.

    data   ONNX protobuf;  nodes: names of its nodes in the order of the file
    total  number of nodes of the whole model
    """

    data: bytes
    nodes: tuple[str, ...]
    total: int


def outline(path: str | Path, around: str | None = None, hops: int = 2) -> Outline:
    """The model in the file; with `around` only the nodes that are at most `hops` edges away from that node.

    Raises PtqError for a file that is no model, an unknown node (with the nearest names) and hops that are none.
    """
    proto = read_artifact(path).proto
    name_nodes(proto.graph)
    total = len(proto.graph.node)
    if around is not None:
        _cut(proto.graph, _near(proto.graph, around, hops))
    _lighten(proto)
    return Outline(proto.SerializeToString(deterministic=True), tuple(n.name for n in proto.graph.node), total)


def _near(graph: onnx.GraphProto, around: str, hops: int) -> set[str]:
    """Names of the nodes at most `hops` edges away, in either direction."""
    if not isinstance(hops, int) or isinstance(hops, bool) or not 0 <= hops <= MOST_HOPS:
        raise PtqError(Problem("PTQ661", "hops", repr(shorten(hops)), f"a whole number from 0 to {MOST_HOPS}"), "graph")
    names = [n.name for n in graph.node]
    if around not in names:
        near = nearest(str(around), names)
        raise PtqError(Problem("PTQ661", "around", f"no node {shorten(around)!r} in this stage", "the name of a node",
                               f"did you mean {', '.join(map(repr, near))}?" if near else "leave it out"), "graph")
    makers = {out: node.name for node in graph.node for out in node.output if out}
    beside: defaultdict[str, set[str]] = defaultdict(set)
    for node in graph.node:
        for tensor in _reads(node):
            if (maker := makers.get(tensor)) is not None:
                beside[node.name].add(maker)
                beside[maker].add(node.name)
    found, edge = {around}, {around}
    for _ in range(hops):
        edge = {name for known in edge for name in beside[known]} - found
        found |= edge
    return found


def _cut(graph: onnx.GraphProto, kept: set[str]) -> None:
    """Leave these nodes; tensors that cross the cut become inputs and outputs."""
    nodes = [n for n in graph.node if n.name in kept]
    made = {out for node in nodes for out in node.output if out}
    constants = {t.name for t in graph.initializer}
    read = dict.fromkeys(tensor for node in nodes for tensor in _reads(node))
    outside = {tensor for node in graph.node if node.name not in kept for tensor in _reads(node)}
    outside |= {o.name for o in graph.output}
    values = {v.name: v for v in (*graph.value_info, *graph.input, *graph.output)}
    ends = {"input": [t for t in read if t not in made and t not in constants],
            "output": [t for node in nodes for t in node.output if t and t in outside]}
    known = {field: [(t, values.get(t)) for t in tensors] for field, tensors in ends.items()}
    copies = {field: [(t, None if v is None else v.SerializeToString()) for t, v in pairs]
              for field, pairs in known.items()}
    _keep(graph.node, nodes)
    _keep(graph.initializer, [t for t in graph.initializer if t.name in read])
    _keep(graph.value_info, [v for v in graph.value_info if v.name in made])
    for field, pairs in copies.items():
        entries = getattr(graph, field)
        del entries[:]
        for tensor, data in pairs:
            entry = entries.add()
            if data is not None:
                entry.ParseFromString(data)
            entry.name = tensor


def _keep(field: Any, kept: list[Any]) -> None:
    """Leave these messages in a repeated field; they are copied first, since clearing it empties them."""
    copies = [type(one).FromString(one.SerializeToString()) for one in kept]
    del field[:]
    field.extend(copies)


def _reads(node: onnx.NodeProto) -> list[str]:
    """Tensors of the graph that a node and the bodies in it read."""
    within = set()
    for one in walk([node]):
        for body in proto_bodies(one):
            within |= {v.name for v in (*body.input, *body.initializer)}
            within |= {out for inner in body.node for out in inner.output}
    return [name for name in dict.fromkeys(reads(node)) if name not in within]


def _lighten(proto: onnx.ModelProto) -> None:
    """Take out what is large or private: tensors over 1 kB, and metadata such as settings with their paths."""
    del proto.metadata_props[:]
    for tensor in _tensors(proto):
        if tensor.ByteSize() > LARGEST:
            for field in DATA:
                tensor.ClearField(field)
            del tensor.external_data[:]
            tensor.data_location = tensor.EXTERNAL
            tensor.external_data.add(key="location", value="weights-are-not-sent")


def _tensors(proto: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Every tensor in the model: initializers of the graph and of bodies, tensors in attributes, those of functions."""
    yield from proto.graph.initializer
    functions: Iterator[onnx.NodeProto] = (node for function in proto.functions for node in function.node)
    for node in (*walk(proto.graph.node), *walk(functions)):
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
        for body in proto_bodies(node):
            yield from body.initializer
