"""`load`: from the user's file to a `FloatGraph`, or to one refusal that names everything that is wrong.

Order: parse and map weights; versions; names; model-local functions; operators, types, topology; inputs and
outputs; half precision; shapes. Everything before shapes works on a protobuf without weights.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import onnx
import onnx_ir as ir

from ptqlab.errors import Finding, raise_if
from ptqlab.graph import checks, interface, topology
from ptqlab.graph.files import TITLE, Parsed, attach, read
from ptqlab.graph.functions import inline_functions
from ptqlab.graph.halves import widen_halves
from ptqlab.graph.model import NEWEST_IR, FloatGraph, verify
from ptqlab.graph.names import name_nodes, name_outputs, reads, sort_nodes
from ptqlab.graph.shapes import infer

Source: TypeAlias = str | os.PathLike[str] | bytes | onnx.ModelProto | ir.Model


def load(
    source: Source, input_shapes: Mapping[str, Sequence[int]] | None = None, *, output_nodes: Sequence[str] = ()
) -> FloatGraph:
    """The float graph of an ONNX model: static, sorted, named, of the file's opset (10 to 19).

    source        path (weights beside it are mapped, not read), bytes, ModelProto or onnx_ir model; left untouched
    input_shapes  input name -> sizes, needed for every dynamic input; a single input may be named ""
    output_nodes  names of nodes whose outputs become the outputs of the model
    Raises PtqError with all problems found; ShapeInferenceError (with `.model`) when shapes do not fit.
    """
    parsed = read(source)
    proto = parsed.proto
    raise_if(checks.check_text(proto), TITLE)
    problems, findings = checks.check_versions(proto)
    raise_if(problems, TITLE)
    _normalise(proto)
    interface.drop_listed_initializers(proto.graph)
    findings += name_nodes(proto.graph)
    callers = inline_functions(proto)
    if callers:
        findings.append(
            Finding(
                "PTQ137",
                f"{len(callers)} calls of model-local functions were written out.",
                tuple(callers.values()),
                severity="note",
            )
        )
    findings += name_outputs(proto)
    problems = [*checks.check_nodes(proto), *topology.check_types(proto), *topology.check_topology(proto)]
    problems += interface.fix_shapes(proto.graph, input_shapes)
    raise_if(problems, TITLE)
    if sort_nodes(proto.graph):
        findings.append(
            Finding("PTQ131", "The nodes of the file were not in topological order; they were sorted.", severity="note")
        )
    aliases = {n.name: n.name for n in proto.graph.node} | callers
    if output_nodes:
        findings += interface.cut_outputs(proto.graph, output_nodes, aliases)
    findings += interface.unused_inputs(proto.graph)
    findings += widen_halves(proto, parsed.tensors)
    noticed, decided = infer(proto, parsed.tensors)
    aliases |= {n.name: n.name for n in proto.graph.node}
    return _finish(parsed, {a: _follow(n, decided) for a, n in aliases.items()}, findings + noticed)


def _follow(name: str, decided: Mapping[str, str]) -> str:
    """The node that computes what an If gave; it may come out of an If inside the If."""
    while name in decided:
        name = decided[name]
    return name


def _normalise(proto: onnx.ModelProto) -> None:
    """One spelling of the standard domain; the ir_version every opset up to 19 can be stored with."""
    proto.ir_version = NEWEST_IR
    for node in checks.walk(proto.graph.node):
        if node.domain == "ai.onnx":
            node.domain = ""
    for function in proto.functions:
        for node in checks.walk(function.node):
            if node.domain == "ai.onnx":
                node.domain = ""
    for opset in proto.opset_import:
        if opset.domain == "ai.onnx":
            opset.domain = ""


def _finish(parsed: Parsed, aliases: Mapping[str, str], findings: list[Finding]) -> FloatGraph:
    proto, tensors = parsed.proto, parsed.tensors
    used = {n for node in proto.graph.node for n in reads(node)} | {v.name for v in proto.graph.output}
    stubs = [t for t in proto.graph.initializer if t.name in used]
    kept = [onnx.TensorProto.FromString(t.SerializeToString()) for t in stubs]
    del proto.graph.initializer[:]
    proto.graph.initializer.extend(kept)
    del proto.opset_import[1:]
    model = attach(proto, tensors)
    living = {n.name for n in proto.graph.node}
    graph = FloatGraph(model, {a: n for a, n in aliases.items() if n in living}, tuple(findings), parsed.path)
    verify(graph)
    return graph
