"""Which nodes one BPU operator computes together: a TAE operator with bias, residual Add and Relu / Clip; the nodes
of a function of one tensor that is written out, such as Gelu or Swish."""
from __future__ import annotations

from collections.abc import Collection

import onnx_ir as ir

from ptqlab.graph import FloatGraph
from ptqlab.ops.composed import CURVES, Composed, largest
from ptqlab.ops.elementwise import clip_bounds, same_shape_as_output
from ptqlab.ops.node import constant, has_weights, shape
from ptqlab.ops.reduce import index_cast
from ptqlab.ops.table import spec_of
from ptqlab.stages.plan import Group


def make_groups(
    graph: FloatGraph, on_bpu: Collection[str], tails: Collection[str], floats: Collection[str] = ()
) -> dict[str, Group]:
    """Group of every BPU node, keyed by main node; nodes that are alone have a group of their own.

    Tails and `floats`, nodes that write float, are alone.
    """
    integers = set(on_bpu) - set(floats)
    taken: set[str] = set()
    groups: dict[str, Group] = {}
    # backwards, so that a residual Add joins the later of two convolutions: its other operand then exists already
    for node in reversed(graph.nodes):
        name = str(node.name)
        if name in on_bpu and spec_of(node).is_tae:
            alone = name in tails or name in floats
            group = Group(name, (name,), _output(node)) if alone else _grow(graph, node, integers, taken)
            groups[name] = group
            taken.update(group.members)
    for node in reversed(graph.nodes):
        if str(node.name) in integers and str(node.name) not in taken:
            function = _function(node, integers, taken)
            if function is not None:
                groups[function.main] = function
                taken.update(function.members)
    for node in graph.nodes:
        name = str(node.name)
        cast = index_cast(node) if node.op_type in ("ArgMax", "ArgMin") and name in on_bpu else None
        if cast is not None:
            groups[name] = Group(name, (name, str(cast.name)), _output(cast))
            taken.update(groups[name].members)
        elif name in on_bpu and name not in taken:
            low, high = clip_bounds(node) if node.op_type in ("Relu", "Clip") else (None, None)
            groups[name] = Group(name, (name,), _output(node), low=low, high=high)
    order = {str(n.name): i for i, n in enumerate(graph.nodes)}
    return dict(sorted(groups.items(), key=lambda item: max(order[m] for m in item[1].members)))


def _function(last: ir.Node, on_bpu: Collection[str], taken: Collection[str]) -> Group | None:
    """The largest curve that ends with a node, of nodes that are not in an operator yet."""
    found = largest(last, lambda n: (name := str(n.name)) in on_bpu and name not in taken)
    if found is None or not found.is_curve:
        return None
    main = _main(found)
    return Group(
        str(main.name), tuple(str(n.name) for n in found.members), _output(last), source=str(found.source.name)
    )


def _main(function: Composed) -> ir.Node:
    """The member that gives the operator its name: the first with a table of its own, else the last."""
    return next((n for n in function.members if n.op_type in CURVES), function.members[-1])


def _output(node: ir.Node) -> str:
    return next(str(o.name) for o in node.outputs if o.name)


def _grow(graph: FloatGraph, main: ir.Node, on_bpu: Collection[str], taken: Collection[str]) -> Group:
    members, last = [str(main.name)], main
    residual: tuple[str, int] | None = None
    bias_add: str | None = None
    low: float | None = None
    high: float | None = None
    while (nxt := _sole_reader(graph, last)) is not None and str(nxt.name) in on_bpu and str(nxt.name) not in taken:
        other = _other_operand(nxt, last)
        if (
            nxt.op_type == "Add"
            and residual is None
            and bias_add is None
            and len(members) == 1
            and has_weights(main)
            and _is_bias(nxt, other)
        ):
            bias_add = str(nxt.name)
        elif nxt.op_type == "Add" and residual is None and other is not None and _is_residual(graph, nxt, other):
            residual = (str(nxt.name), other)
        elif nxt.op_type in ("Relu", "Clip"):
            low, high = clip_bounds(nxt)
        else:
            break
        members.append(str(nxt.name))
        last = nxt
        if low is not None:
            break
    return Group(str(main.name), tuple(members), _output(last), residual, bias_add, low, high)


def _sole_reader(graph: FloatGraph, node: ir.Node) -> ir.Node | None:
    """The one node that reads the output of `node`, once; None if there are more or it is a graph output."""
    out = node.outputs[0]
    if out.is_graph_output():
        return None
    readers = graph.consumers(str(out.name))
    if len(readers) != 1 or sum(v is out for v in readers[0].inputs) != 1:
        return None
    return readers[0]


def _other_operand(add: ir.Node, first: ir.Node) -> int | None:
    if len(add.inputs) != 2:
        return None
    return 1 if add.inputs[0] is first.outputs[0] else 0


def _is_bias(add: ir.Node, other: int | None) -> bool:
    """A constant with one value per output channel (or one for all), which the accumulator's bias can take."""
    if other is None:
        return False
    value, producer = constant(add.inputs[other]), add.inputs[1 - other]
    if value is None or producer is None or shape(add.outputs[0]) != shape(producer):
        return False
    tae = producer.producer()
    full = shape(producer)
    axis = 1 if tae is not None and tae.op_type in ("Conv", "ConvTranspose") else len(full) - 1
    padded = (1,) * (len(full) - value.ndim) + value.shape
    return all(d == 1 or (i == axis and d == full[i]) for i, d in enumerate(padded))


def _is_residual(graph: FloatGraph, add: ir.Node, other: int) -> bool:
    """The other operand is computed and nothing is broadcast."""
    value = add.inputs[other]
    return value is not None and value.const_value is None and same_shape_as_output(add)
