"""Unit convs: convolutions that change nothing, put beside nodes that have no threshold of their own (documented).

A mover of data at the head or tail of a graph runs on the CPU, since no operator with a threshold stands between it and
the end. A convolution of 1 x 1 with the weight 1 is such an operator. Its price: what it reads is int8 or int16 where
it was float before.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx_ir as ir

from ptqlab.errors import Problem, nearest, raise_if, shorten
from ptqlab.events import Watch
from ptqlab.graph import FloatGraph, load, save_runnable, verify
from ptqlab.ops.spec import Role
from ptqlab.ops.table import spec_of
from ptqlab.passes.base import Work, shape_of

# the vendor's name for them (log of an older generation)
PREFIX = "UNIT_CONV_FOR_"
# ranks that a convolution over channels has; tensors of others are reshaped to one channel and back
RANKS = (3, 4, 5)
TITLE = "Inserting unit convs"


class InsertUnitConvs:
    """Put a unit conv beside each of some nodes.

    Given   names of nodes whose first computed float input, or whose outputs in use, are float32 tensors
    Result  in front of a node with no operator that has thresholds before it: UNIT_CONV_FOR_<node> feeds the node; of
            any other the unit conv takes over the outputs, under their names
    `placed` then says of each node "in front of" or "behind".
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names
        self.placed: dict[str, str] = {}

    def __call__(self, work: Work) -> int:
        nodes = {str(n.name): n for n in work.graph}
        for name in self.names:
            node = nodes[name]
            if _stands_at_the_head(node):
                self.placed[name] = "in front of"
                _put_in_front(work, node)
            else:
                self.placed[name] = "behind"
                for index in _outputs_in_use(node):
                    _put_behind(work, node, index)
        return len(self.names)


def with_unit_convs(graph: FloatGraph, names: Sequence[str]) -> tuple[FloatGraph, dict[str, str]]:
    """(the graph with a unit conv beside each named node, node -> "in front of" or "behind")"""
    work, insert = Work(graph, Watch()), InsertUnitConvs(names)
    insert(work)
    result = work.done()
    verify(result)
    return result, insert.placed


def insert_unit_conv(
    model: str | Path, nodes: Sequence[str], *, output: str | Path,
    input_shape: dict[str, tuple[int, ...]] | None = None,
) -> Path:
    """Write `model` with a unit conv beside each of `nodes`; returns `output`.

    nodes        names of nodes that only move data (Reshape, Concat, ...) and stand at the head or tail of the model:
                 the unit conv gives them a threshold, so that they run on the BPU. At the head it stands in front of
                 the node, elsewhere behind it. What it reads is int8 or int16 then, where it was float.
    output       path of the new model, not that of the old one
    input_shape  input -> sizes, where the model leaves some open; the new model has them
    The numbers that the float model gives stay the same. Raises PtqError with every problem of the call.
    """
    path, target = Path(model), Path(output)
    graph = load(path, input_shape)
    problems = [unknown(graph, name, "nodes") for name in nodes if name not in graph]
    problems += [why for name in nodes if name in graph and (why := unfit(graph.node(name)))]
    if target.resolve() == path.resolve():
        problems.append(Problem("PTQ121", "output", str(target), "another path than that of the model"))
    if not nodes:
        problems.append(Problem("PTQ121", "nodes", "no name", "names of nodes"))
    raise_if(problems, TITLE)
    made, _ = with_unit_convs(graph, list(dict.fromkeys(nodes)))
    save_runnable(made.model, target)
    return target


def unknown(graph: FloatGraph, name: str, where: str) -> Problem:
    """The refusal of a name that no node has."""
    near = nearest(name, [str(n.name) for n in graph.nodes])
    hint = f"did you mean {near[0]}?" if near else "`ptqlab check` lists the names"
    return Problem("PTQ121", where, f"unknown node {shorten(repr(name))}", "a node of the model", hint)


def unfit(node: ir.Node) -> Problem | None:
    """Why no unit conv can stand beside a node: nothing there is a float32 tensor of at least one element."""
    beside = [_data_input(node)] if _stands_at_the_head(node) else [node.outputs[i] for i in _outputs_in_use(node)]
    for value in beside:
        if value is None or value.dtype != ir.DataType.FLOAT or 0 in shape_of(value):
            found = "no computed input" if value is None else f"tensor {shorten(value.name)} is {_kind(value)}"
            return Problem("PTQ121", f"node {shorten(repr(node.name))} ({node.op_type})", found,
                           "a float32 tensor with elements, which a convolution can take")  # fmt: skip
    return None


def _kind(value: ir.Value) -> str:
    if value.dtype != ir.DataType.FLOAT:
        return value.dtype.name.lower() if value.dtype else "untyped"
    return f"empty, {list(shape_of(value))}"


def _outputs_in_use(node: ir.Node) -> list[int]:
    return [i for i, out in enumerate(node.outputs) if out.name and (out.uses() or out.is_graph_output())]


def _data_input(node: ir.Node) -> ir.Value | None:
    """The first input that is computed and float32, or else computed at all."""
    computed = [v for v in node.inputs if v is not None and v.const_value is None]
    floats = [v for v in computed if v.dtype == ir.DataType.FLOAT]
    return next(iter([*floats, *computed]), None)


def _stands_at_the_head(node: ir.Node) -> bool:
    """Whether no operator with thresholds of its own stands before a node."""
    open_ends, seen = [node], {node}
    while open_ends:
        for value in open_ends.pop().inputs:
            producer = None if value is None else value.producer()
            if producer is None or producer in seen:
                continue
            if spec_of(producer).role is Role.ACTIVE:
                return False
            seen.add(producer)
            open_ends.append(producer)
    return True


def _as_channels(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape in which a unit conv takes a tensor: as it is, or all elements in one channel."""
    return shape if len(shape) in RANKS else (1, 1, math.prod(shape))


def _weight(work: Work, name: str, shape: tuple[int, ...]) -> tuple[ir.Value, list[ir.Attr]]:
    """Ones, of every channel its own, and the attributes of the convolution."""
    channels, rank = shape[1], len(shape) - 2
    ones = work.add_constant(f"{name}_weight", np.ones((channels, 1, *[1] * rank), np.float32))
    return ones, [ir.AttrInt64("group", channels), ir.AttrInt64s("kernel_shape", [1] * rank)]


def _sizes(work: Work, name: str, shape: tuple[int, ...]) -> ir.Value:
    return work.add_constant(f"{name}_shape", np.array(shape, np.int64))


def _put_in_front(work: Work, node: ir.Node) -> None:
    value = _data_input(node)
    assert value is not None and value.dtype is not None, "asked before"
    name, shape = f"{PREFIX}{node.name}", shape_of(value)
    inner, dtype = _as_channels(shape), value.dtype
    source = value
    if inner != shape:
        source = work.add_node("Reshape", [value, _sizes(work, f"{name}_in", inner)], f"{name}_in", before=node,
                               shape=inner, dtype=dtype).outputs[0]  # fmt: skip
    ones, attributes = _weight(work, name, inner)
    made = work.add_node("Conv", [source, ones], name, before=node, shape=inner, dtype=dtype, attributes=attributes)
    result = made.outputs[0]
    if inner != shape:
        result = work.add_node("Reshape", [result, _sizes(work, f"{name}_out", shape)], f"{name}_out", before=node,
                               shape=shape, dtype=dtype).outputs[0]  # fmt: skip
    node.replace_input_with(next(i for i, v in enumerate(node.inputs) if v is value), result)


def _put_behind(work: Work, node: ir.Node, index: int) -> None:
    """The chain behind an output ends with the tensor that the output was, under its name."""
    shape, name = shape_of(node.outputs[index]), f"{PREFIX}{node.name}"
    inner = _as_channels(shape)
    ones, attributes = _weight(work, name, inner)
    last = work.append_node(node, "Conv", [ones], name, inner_shape=shape, attributes=attributes, index=index)
    if inner == shape:
        return
    source, dtype = last.inputs[0], last.outputs[0].dtype
    assert source is not None and dtype is not None
    flat = work.add_node("Reshape", [source, _sizes(work, f"{name}_in", inner)], f"{name}_in", before=last,
                         shape=inner, dtype=dtype)  # fmt: skip
    last.replace_input_with(0, flat.outputs[0])
    work.append_node(last, "Reshape", [_sizes(work, f"{name}_out", shape)], f"{name}_out", inner_shape=inner)
