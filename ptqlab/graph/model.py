"""The float graph: the one form of a model that every later stage reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import onnx_ir as ir

from ptqlab.errors import Finding

OLDEST_OPSET, NEWEST_OPSET = 10, 19
NEWEST_IR = 9


@dataclass(frozen=True)
class FloatGraph:
    """A float model in internal form.

    model     static shapes, topologically sorted, every node and tensor named once, type and shape of every
              tensor known; opset of the file after `load`, 19 after `ptqlab.passes.adapt`
    aliases   name in the user's file -> name of the node of this graph that computes it now; a node that
              lives maps to itself
    findings  what was repaired or noticed on the way
    source    the file, None for a model given in memory
    """

    model: ir.Model
    aliases: Mapping[str, str] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    source: Path | None = None

    @property
    def opset(self) -> int:
        return self.model.graph.opset_imports[""]

    @cached_property
    def nodes(self) -> tuple[ir.Node, ...]:
        """Nodes in topological order (those inside an If or Loop body are not listed)."""
        return tuple(self.model.graph)

    @cached_property
    def inputs(self) -> tuple[ir.Value, ...]:
        return tuple(self.model.graph.inputs)

    @cached_property
    def outputs(self) -> tuple[ir.Value, ...]:
        return tuple(self.model.graph.outputs)

    @cached_property
    def initializers(self) -> tuple[str, ...]:
        """Names of the constant tensors; `array` gives their contents."""
        return tuple(self.model.graph.initializers)

    @cached_property
    def values(self) -> Mapping[str, ir.Value]:
        """Every tensor by name: inputs, constants and node outputs."""
        return {str(v.name): v for v in all_values(self.model.graph)}

    @cached_property
    def _nodes_by_name(self) -> Mapping[str, ir.Node]:
        return {str(n.name): n for n in self.nodes}

    @cached_property
    def _consumers(self) -> Mapping[str, tuple[ir.Node, ...]]:
        readers: dict[str, dict[ir.Node, None]] = {}
        for node in self.nodes:
            for value in read_values(node):
                readers.setdefault(str(value.name), {})[node] = None
        return {name: tuple(nodes) for name, nodes in readers.items()}

    def node(self, name: str) -> ir.Node:
        """The node of this name. KeyError when there is none (an alias does not count)."""
        return self._nodes_by_name[name]

    def __contains__(self, name: object) -> bool:
        return name in self._nodes_by_name

    def producer(self, tensor: str) -> ir.Node | None:
        """The node that computes the tensor; None for inputs and constants."""
        return self.values[tensor].producer()

    def consumers(self, tensor: str) -> tuple[ir.Node, ...]:
        """The nodes that read the tensor, each once, in topological order.

        A node with a body that reads it from outside (If, Loop) counts as a consumer.
        """
        return self._consumers.get(tensor, ())

    def array(self, tensor: str) -> np.ndarray:
        """Contents of a constant tensor, read-only by convention."""
        return self.model.graph.initializers[tensor].const_value.numpy()  # type: ignore[union-attr]

    def constant(self, value: ir.Value | None) -> np.ndarray | None:
        """Contents of a tensor when it is a constant, else None; None stands for a missing optional input."""
        if value is None or value.name not in self.model.graph.initializers:
            return None
        return self.array(str(value.name))

    def shape(self, tensor: str) -> tuple[int, ...]:
        return static_shape(self.values[tensor])

    def dtype(self, tensor: str) -> np.dtype:
        """numpy dtype of a tensor."""
        dtype = self.values[tensor].dtype
        assert dtype is not None
        return dtype.numpy()


def bodies(node: ir.Node) -> Iterator[ir.Graph]:
    """The graphs a node carries: branches of If, bodies of Loop and Scan."""
    for attribute in node.attributes.values():
        if attribute.type == ir.AttributeType.GRAPH:
            yield attribute.as_graph()
        elif attribute.type == ir.AttributeType.GRAPHS:
            yield from attribute.as_graphs()


def read_values(node: ir.Node) -> Iterator[ir.Value]:
    """The tensors a node reads, those its bodies read included (their own inner tensors too)."""
    for value in node.inputs:
        if value is not None:
            yield value
    for body in bodies(node):
        for inner in body:
            yield from read_values(inner)
        yield from body.outputs


def outer_values(node: ir.Node) -> tuple[ir.Value, ...]:
    """What a node needs of the graph it stands in, each once: its inputs, and what its bodies read from outside."""
    inner = {v for body in bodies(node) for v in _made_inside(body)}
    return tuple(dict.fromkeys(v for v in read_values(node) if v not in inner))


def _made_inside(graph: ir.Graph) -> Iterator[ir.Value]:
    yield from all_values(graph)
    for node in graph:
        for body in bodies(node):
            yield from _made_inside(body)


def static_shape(value: ir.Value) -> tuple[int, ...]:
    """Shape of a value as ints. AssertionError when it is not static."""
    shape = value.shape
    assert shape is not None and shape.is_static(), f"tensor {value.name!r} has no static shape: {shape}"
    return sizes(shape)


def sizes(shape: ir.ShapeProtocol) -> tuple[int, ...]:
    """The dimensions of a static shape."""
    return tuple(d for d in shape if isinstance(d, int))


def all_values(graph: ir.Graph) -> Iterator[ir.Value]:
    """Inputs, constants and present node outputs of a graph, bodies of If and Loop excluded."""
    yield from graph.inputs
    yield from graph.initializers.values()
    for node in graph:
        for value in node.outputs:
            if value.name:
                yield value


def verify(graph: FloatGraph) -> None:
    """Assert the internal form; AssertionError says which tensor or node breaks which rule."""
    model = graph.model
    assert set(model.graph.opset_imports) == {""}, f"foreign domains: {sorted(model.graph.opset_imports)}"
    assert OLDEST_OPSET <= graph.opset <= NEWEST_OPSET, f"opset {graph.opset}"
    assert model.ir_version <= NEWEST_IR, f"ir_version {model.ir_version}"
    assert not model.functions, "model-local functions are inlined by load"
    assert not set(graph.initializers) & {v.name for v in graph.inputs}, "an initializer is listed as input"

    seen: set[str] = set()
    known: set[ir.Value] = set()
    for value in (*model.graph.inputs, *model.graph.initializers.values()):
        _verify_value(value, seen)
        known.add(value)
    names: set[str] = set()
    for node in model.graph:
        assert node.name, f"{node.op_type} node without a name"
        assert node.name not in names, f"two nodes are named {node.name!r}"
        names.add(node.name)
        for read in node.inputs:
            assert read is None or read in known, (
                f"node {node.name!r} reads {getattr(read, 'name', None)!r} before it exists"
            )
        for value in node.outputs:
            if value.name:
                _verify_value(value, seen)
            known.add(value)
    for value in model.graph.outputs:
        assert value in known, f"nothing produces the output {value.name!r}"
    for name, target in graph.aliases.items():
        assert target in names, f"alias {name!r} points at {target!r}, which is no node"
    missing = names - set(graph.aliases)
    assert not missing, f"nodes without an alias entry: {sorted(missing)[:5]}"


def _verify_value(value: ir.Value, seen: set[str]) -> None:
    assert value.name, "a tensor without a name"
    assert value.name not in seen, f"two tensors are named {value.name!r}"
    seen.add(value.name)
    assert value.dtype is not None, f"tensor {value.name!r} has no type"
    shape = static_shape(value)
    if value.const_value is not None and value.is_initializer():
        stored = sizes(value.const_value.shape)
        assert stored == shape, f"constant {value.name!r} is {stored}, noted as {shape}"
        assert value.const_value.dtype == value.dtype, f"constant {value.name!r} is {value.const_value.dtype}"
