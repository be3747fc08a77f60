"""Model-local functions, written out where they are called."""

from __future__ import annotations

import onnx

from ptqlab.errors import Problem, PtqError, shorten
from ptqlab.graph.checks import default_opset, node_label, proto_bodies

# a few nested functions can stand for an endless model; real ones stay far below
MOST_NODES = 200_000
DEEPEST = 50

_Key = tuple[str, str, str]


def inline_functions(proto: onnx.ModelProto) -> dict[str, str]:
    """Replace every call of a model-local function by the function's nodes, in place.

    Inner nodes and tensors are named `<caller>/<inner name>`. Returns caller -> name of the inner node that gives
    the caller's first output. Needs named nodes. PtqError: a function that calls itself, another opset inside,
    wrong number of inputs, or too many nodes.
    """
    if not proto.functions:
        return {}
    opset = default_opset(proto)
    functions: dict[_Key, onnx.FunctionProto] = {(f.domain, f.name, f.overload): f for f in proto.functions}
    for function in functions.values():
        inner = next((o.version for o in function.opset_import if o.domain in ("", "ai.onnx")), opset)
        if inner != opset:
            raise _problem(
                f"function '{shorten(function.name)}'",
                f"opset {inner} in a model of opset {opset}",
                "the same opset inside and outside",
            )
    callers: dict[str, str] = {}
    written = _Writer(functions, callers)
    _replace_calls(proto.graph, written, 0)
    del proto.functions[:]
    domains = {o.domain for o in proto.opset_import} - {f.domain for f in functions.values()} | {""}
    kept = [o for o in proto.opset_import if o.domain in domains]
    del proto.opset_import[:]
    proto.opset_import.extend(kept)
    return callers


def _problem(where: str, found: str, expected: str) -> PtqError:
    return PtqError(Problem("PTQ119", where, found, expected), "Loading the model")


class _Writer:
    """Writes function bodies out and counts what it wrote."""

    def __init__(self, functions: dict[_Key, onnx.FunctionProto], callers: dict[str, str]) -> None:
        self.functions = functions
        self.callers = callers
        self.count = 0

    def function_of(self, node: onnx.NodeProto) -> onnx.FunctionProto | None:
        return self.functions.get((node.domain, node.op_type, node.overload))

    def expand(self, node: onnx.NodeProto, function: onnx.FunctionProto, depth: int) -> list[onnx.NodeProto]:
        if depth > DEEPEST:
            raise _problem(
                node_label(node), f"functions nested more than {DEEPEST} deep", "functions that do not call themselves"
            )
        if len(node.input) > len(function.input) or len(node.output) > len(function.output):
            raise _problem(
                node_label(node),
                f"{len(node.input)} inputs and {len(node.output)} outputs",
                f"{len(function.input)} and {len(function.output)}, as function {shorten(function.name)} has",
            )
        prefix = node.name + "/"
        names = dict.fromkeys(function.input, "")
        names.update(zip(function.input, node.input, strict=False))
        names.update(
            (inner, outer)
            for inner, outer in zip(function.output, node.output, strict=False)
            if outer and inner not in function.input
        )
        attributes = {a.name: a for a in function.attribute_proto}
        attributes.update((a.name, a) for a in node.attribute)
        result: list[onnx.NodeProto] = []
        for index, inner in enumerate(function.node):
            copy = onnx.NodeProto()
            copy.CopyFrom(inner)
            copy.name = prefix + (inner.name or f"{inner.op_type}_{index}")
            _rename(copy, names, prefix)
            _bind_attributes(copy, attributes)
            self.count += 1
            if self.count > MOST_NODES:
                raise _problem(
                    "the model", f"more than {MOST_NODES} nodes once functions are written out", "fewer nodes"
                )
            nested = self.function_of(copy)
            result.extend([copy] if nested is None else self.expand(copy, nested, depth + 1))
        passed = [
            (names[f], outer)
            for f, outer in zip(function.output, node.output, strict=False)
            if outer and f in function.input
        ]
        for source, outer in passed:  # an output that is an input of the function
            result.append(onnx.helper.make_node("Identity", [source], [outer], name=f"{prefix}{outer}"))
        first = next((o for o in node.output if o), None)
        giver = next((n for n in result if first in n.output), None)
        if giver is not None:
            self.callers[node.name] = self.callers.get(giver.name, giver.name)
        return result


def _replace_calls(graph: onnx.GraphProto, writer: _Writer, depth: int) -> None:
    nodes: list[onnx.NodeProto] = []
    changed = False
    for node in graph.node:
        for body in proto_bodies(node):
            _replace_calls(body, writer, depth)
        function = writer.function_of(node)
        changed |= function is not None
        nodes.extend([node] if function is None else writer.expand(node, function, 0))
    if changed:
        copies = [onnx.NodeProto.FromString(n.SerializeToString()) for n in nodes]
        del graph.node[:]
        graph.node.extend(copies)


def _rename(node: onnx.NodeProto, names: dict[str, str], prefix: str) -> None:
    """Tensor names of the function become those of the caller, or get the caller's name in front."""

    def outer(name: str) -> str:
        return "" if not name else names.setdefault(name, prefix + name)

    node.input[:] = [outer(n) for n in node.input]
    node.output[:] = [outer(n) for n in node.output]
    for body in proto_bodies(node):
        for value in (*body.input, *body.output, *body.value_info):
            value.name = outer(value.name)
        for tensor in body.initializer:
            tensor.name = outer(tensor.name)
        for inner in body.node:
            inner.name = prefix + (inner.name or inner.op_type)
            _rename(inner, names, prefix)


def _bind_attributes(node: onnx.NodeProto, given: dict[str, onnx.AttributeProto]) -> None:
    """Attributes that refer to the function's attributes take the caller's values, or vanish where it gives none."""
    bound = []
    for attribute in node.attribute:
        if not attribute.ref_attr_name:
            bound.append(onnx.AttributeProto.FromString(attribute.SerializeToString()))
        elif attribute.ref_attr_name in given:
            copy = onnx.AttributeProto()
            copy.CopyFrom(given[attribute.ref_attr_name])
            copy.name = attribute.name
            bound.append(copy)
    del node.attribute[:]
    node.attribute.extend(bound)
    for body in proto_bodies(node):
        for inner in body.node:
            _bind_attributes(inner, given)
