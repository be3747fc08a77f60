"""If whose condition is known: the branch that is taken, written out in its place."""

from __future__ import annotations

import onnx
from onnx import helper

from ptqlab.graph.checks import proto_bodies
from ptqlab.graph.names import unique


def branch(node: onnx.NodeProto, taken: bool) -> onnx.GraphProto:
    """The body of an If that runs."""
    return next(a.g for a in node.attribute if a.name == ("then_branch" if taken else "else_branch"))


def write_out(
    node: onnx.NodeProto, taken: bool, names: set[str]
) -> tuple[list[onnx.NodeProto], list[onnx.TensorProto]]:
    """Nodes and constants that compute what an If with this condition gives.

    Inner tensors and nodes are called `<if>/<inner name>`; `names` are the tensor names of the graph, and grow.
    """
    body = branch(node, taken)
    prefix = f"{node.name}/"
    made = [*(t.name for t in body.initializer), *(o for n in body.node for o in n.output if o)]
    new = {name: unique(prefix + name, names) for name in made}
    copies: list[onnx.NodeProto] = []
    results: dict[str, str] = {}
    for inner, outer in zip(body.output, node.output, strict=True):
        produced = any(inner.name in n.output for n in body.node)
        if outer and produced and inner.name not in results:
            results[inner.name] = outer
            new[inner.name] = outer
    for inner_node in body.node:
        copy = onnx.NodeProto()
        copy.CopyFrom(inner_node)
        copy.name = prefix + inner_node.name
        rename(copy, new)
        copies.append(copy)
    for inner, outer in zip(body.output, node.output, strict=True):
        if outer and results.get(inner.name) != outer:
            source = new.get(inner.name, inner.name)
            copies.append(helper.make_node("Identity", [source], [outer], name=f"{prefix}{outer}"))
    constants = []
    for tensor in body.initializer:
        constant = onnx.TensorProto()
        constant.CopyFrom(tensor)
        constant.name = new[tensor.name]
        constants.append(constant)
    return copies, constants


def rename(node: onnx.NodeProto, new: dict[str, str]) -> None:
    """Let a node, and the bodies in it, use the new names of tensors."""
    node.input[:] = [new.get(n, n) for n in node.input]
    node.output[:] = [new.get(n, n) for n in node.output]
    for body in proto_bodies(node):
        inner = {k: v for k, v in new.items() if k not in {x.name for x in (*body.input, *body.initializer)}}
        for value in (*body.output, *body.value_info):
            value.name = inner.get(value.name, value.name)
        for one in body.node:
            rename(one, inner)
