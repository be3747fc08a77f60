"""What every pass works with: a private copy of the graph, and edits that keep names, types and the interface."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

import numpy as np
import onnx_ir as ir

from ptqlab.errors import Finding, shorten
from ptqlab.events import Watch
from ptqlab.graph.model import FloatGraph, all_values, bodies, static_shape
from ptqlab.graph.names import unique


class Pass(Protocol):
    """One rewrite of the graph. The docstring of each says Given and Result.

    Calling it applies it everywhere once; the number of changes decides whether the pipeline goes round again.
    """

    def __call__(self, work: Work) -> int: ...


class Work:
    """A graph being rewritten. Nodes keep their names; what is fused away leaves an alias."""

    def __init__(self, source: FloatGraph, watch: Watch) -> None:
        self.source = source
        self.watch = watch
        self.model = source.model.clone()
        self.graph = self.model.graph
        self.findings: list[Finding] = list(source.findings)
        self.aliases: dict[str, str] = dict(source.aliases)
        self._merged: dict[str, str] = {}
        self._value_names = {str(v.name) for v in all_values(self.graph)}
        self._node_names = {str(n.name) for n in all_nodes(self.graph)}
        for body in (b for n in self.graph for b in bodies(n)):
            self._value_names.update(str(v.name) for v in all_values(body))
        self._refused: set[tuple[str, str]] = set()

    # --- reading -------------------------------------------------------------------------------------------
    def constant(self, value: ir.Value | None) -> np.ndarray | None:
        """Contents of a constant tensor; None for a computed or a missing one."""
        if value is None or not value.is_initializer() or value.const_value is None:
            return None
        return value.const_value.numpy()

    def scalar(self, value: ir.Value | None) -> float | None:
        """A constant of one element as a number."""
        array = self.constant(value)
        return array.reshape(-1)[0].item() if array is not None and array.size == 1 else None

    def sole_reader(self, value: ir.Value) -> ir.Node | None:
        """The one node that reads a tensor, when the tensor is no output and is read once, in this graph."""
        uses = list(value.uses())
        if len(uses) != 1 or value.is_graph_output() or uses[0].node.graph is not self.graph:
            return None
        return uses[0].node

    def is_output(self, value: ir.Value) -> bool:
        return value.is_graph_output()

    # --- saying --------------------------------------------------------------------------------------------
    def refuse(self, node: ir.Node, reason: str) -> int:
        """Log once why a node was left as it is. Returns 0, the number of changes."""
        entry = (str(node.name), reason)
        if entry not in self._refused:
            self._refused.add(entry)
            self.watch.log(f"{shorten(node.name)} ({node.op_type}) left as it is: {reason}")
        return 0

    # --- writing -------------------------------------------------------------------------------------------
    def add_constant(self, name: str, array: np.ndarray, *, same_name: bool = False) -> ir.Value:
        """A new constant tensor; a taken name gets a number, unless the constant replaces the tensor of that name."""
        name = name if same_name else unique(name, self._value_names)
        tensor = ir.tensor(np.ascontiguousarray(array) if array.ndim else array, name=name)
        value = ir.Value(
            name=tensor.name, shape=ir.Shape(array.shape), type=ir.TensorType(tensor.dtype), const_value=tensor
        )
        self.graph.register_initializer(value)
        return value

    def set_constant(self, node: ir.Node, index: int, array: np.ndarray, name: str = "") -> None:
        """Let input `index` of a node read a new constant; the old one is untouched (others may share it)."""
        old = node.inputs[index] if index < len(node.inputs) else None
        if not name:
            name = str(old.name) if old is not None else f"{node.outputs[0].name}_{index}"
        self.set_input(node, index, self.add_constant(name, array))

    def set_input(self, node: ir.Node, index: int, value: ir.Value | None) -> None:
        if index >= len(node.inputs):
            node.resize_inputs(index + 1)
        node.replace_input_with(index, value)

    def add_node(
        self,
        op_type: str,
        inputs: Sequence[ir.Value | None],
        name: str,
        *,
        before: ir.Node,
        shape: Sequence[int],
        dtype: ir.DataType,
        output: str = "",
        attributes: Iterable[ir.Attr] = (),
    ) -> ir.Node:
        """A new node of one output, put in front of `before`."""
        name = unique(name, self._node_names)
        value = ir.Value(
            name=unique(output or f"{name}_output", self._value_names), shape=ir.Shape(shape), type=ir.TensorType(dtype)
        )
        node = ir.Node("", op_type, list(inputs), attributes=list(attributes), outputs=[value], name=name)
        assert before.graph is not None
        before.graph.insert_before(before, node)
        self.aliases[name] = name
        return node

    def append_node(
        self,
        node: ir.Node,
        op_type: str,
        others: Sequence[ir.Value | None],
        name: str,
        *,
        inner_shape: Sequence[int],
        attributes: Iterable[ir.Attr] = (),
        index: int = 0,
    ) -> ir.Node:
        """A new node behind `node` that gives the tensor `node` gave so far (same name, also as an output).

        The new node reads what `node` gives now, a tensor of `inner_shape`, as its first input, then `others`.
        `index` is the output of `node` that is meant.
        """
        old = node.outputs[index]
        assert old.name and old.shape is not None and old.dtype is not None and node.graph is not None
        result = ir.Value(name=old.name, shape=old.shape.copy(), type=ir.TensorType(old.dtype))
        old.name = unique(f"{old.name}_inner", self._value_names)
        old.replace_all_uses_with(result, replace_graph_outputs=True)
        old.shape = ir.Shape(inner_shape)
        name = unique(name, self._node_names)
        last = ir.Node("", op_type, [old, *others], attributes=list(attributes), outputs=[result], name=name)
        node.graph.insert_after(node, last)
        self.aliases[name] = name
        return last

    def replace_output(
        self, value: ir.Value, op_type: str, inputs: Sequence[ir.Value], name: str, *, before: ir.Node
    ) -> ir.Node:
        """Let a new node give an output of the model (and its name) that another node gave so far."""
        output = str(value.name)
        value.name = None
        result = ir.Value(name=output, shape=value.shape, type=value.type)
        value.replace_all_uses_with(result, replace_graph_outputs=True)
        node = ir.Node("", op_type, list(inputs), outputs=[result], name=unique(name, self._node_names))
        self.graph.insert_before(before, node)
        self.aliases[str(node.name)] = str(node.name)
        return node

    def retype(
        self, node: ir.Node, op_type: str, inputs: Sequence[ir.Value | None], attributes: Iterable[ir.Attr] = ()
    ) -> None:
        """Make a node another operator; its name and outputs stay."""
        node.op_type = op_type
        node.attributes.clear()
        for attribute in attributes:
            node.attributes.add(attribute)
        node.resize_inputs(len(inputs))
        for index, value in enumerate(inputs):
            node.replace_input_with(index, value)

    def merge(self, node: ir.Node, into: ir.Node | None) -> None:
        """Remove a node whose result `into` computes now (None: no node does); its name becomes an alias."""
        assert isinstance(node.graph, ir.Graph)
        if into is not None:
            self._merged[str(node.name)] = str(into.name)
        node.graph.remove(node, safe=True)

    def absorb(self, node: ir.Node, reader: ir.Node) -> None:
        """`node` computes now what `reader`, its only reader, gave: take over its output and remove it."""
        output, result = node.outputs[0], reader.outputs[0]
        name = str(result.name)
        self._value_names.discard(str(output.name))
        result.name = None
        output.name = name
        output.shape, output.type = result.shape, result.type
        for index in range(len(reader.inputs)):
            reader.replace_input_with(index, None)
        result.replace_all_uses_with(output, replace_graph_outputs=True)
        self.merge(reader, node)

    def bypass(self, node: ir.Node, source: ir.Value) -> bool:
        """Remove a node whose output is `source` unchanged.

        An output of the model keeps its name: the tensor in front takes it over, unless that is an input, a
        constant or an output itself. Then nothing is done and the answer is False.
        """
        output = node.outputs[0]
        producer = source.producer()
        if output.is_graph_output():
            if producer is None or source.is_graph_output() or producer.graph is not node.graph:
                return False
            name = str(output.name)
            owner = node.graph
            assert isinstance(owner, ir.Graph)
            for index, value in enumerate(owner.outputs):
                if value is output:
                    owner.outputs[index] = source
            output.name = None
            self._value_names.discard(str(source.name))
            source.name = name
        output.replace_all_uses_with(source)
        self.merge(node, producer)
        return True

    def done(self) -> FloatGraph:
        """The rewritten graph with aliases brought up to date."""
        living = {str(n.name) for n in self.graph}
        aliases: dict[str, str] = {n: n for n in living}
        for alias, target in self.aliases.items():
            while target not in living and target in self._merged:
                target = self._merged[target]
            if target in living:
                aliases[alias] = target
        return FloatGraph(self.model, aliases, tuple(self.findings), self.source.source)


def all_nodes(graph: ir.Graph) -> Iterator[ir.Node]:
    """Nodes of a graph and of the bodies inside it."""
    for node in graph:
        yield node
        for body in bodies(node):
            yield from all_nodes(body)


def shape_of(value: ir.Value | None) -> tuple[int, ...]:
    assert value is not None
    return static_shape(value)


def is_static(value: ir.Value | None) -> bool:
    return value is not None and value.shape is not None and value.shape.is_static()


def get_int(node: ir.Node, name: str, default: int) -> int:
    attribute = node.attributes.get(name)
    return default if attribute is None else attribute.as_int()


def get_float(node: ir.Node, name: str, default: float) -> float:
    attribute = node.attributes.get(name)
    return default if attribute is None else attribute.as_float()


def get_ints(node: ir.Node, name: str, default: Sequence[int] = ()) -> tuple[int, ...]:
    attribute = node.attributes.get(name)
    return tuple(default) if attribute is None else tuple(attribute.as_ints())


def get_string(node: ir.Node, name: str, default: str) -> str:
    attribute = node.attributes.get(name)
    return default if attribute is None else attribute.as_string()
