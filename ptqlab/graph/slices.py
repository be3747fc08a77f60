"""Sessions of slices of one graph, for callers that make hundreds: each node becomes protobuf once.

Cutting and writing a slice with the tools for whole models costs as much as running it.
"""
from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import onnx
import onnx_ir as ir
from onnx_ir import serde

from ptqlab.graph.model import FloatGraph, outer_values
from ptqlab.graph.session import Session, placer, raw_session

# a node by its number in the graph, and an input of it
Place = tuple[int, int]
WHERE = "a slice of the model"


class Slicer:
    """Makes sessions of some nodes of a graph."""

    def __init__(self, graph: FloatGraph) -> None:
        self.graph = graph
        self.reads = [tuple(str(v.name) for v in outer_values(n)) for n in graph.nodes]
        self._nodes: dict[int, onnx.NodeProto] = {}
        self._infos: dict[str, onnx.ValueInfoProto] = {}
        self._constants: dict[str, tuple[onnx.TensorProto, dict[str, np.ndarray]]] = {}
        self._functions = [serde.serialize_function(f) for f in graph.model.functions.values()]

    def session(
        self, nodes: Sequence[int], outputs: Sequence[str], *, fed: Mapping[Place, str] | None = None,
        constants: Mapping[Place, np.ndarray] | None = None, halves: Collection[int] = (), optimise: bool = True,
    ) -> Session:
        """A session of `nodes` (numbers, ascending) that gives `outputs`; what they read and do not make is fed.

        fed        inputs that read an own input of the session, by the name given, instead of their tensor
        constants  inputs that read this constant instead of their tensor
        halves     nodes whose float outputs are rounded to float16
        """
        fed, constants = fed or {}, constants or {}
        proto = onnx.ModelProto(ir_version=self.graph.model.ir_version)
        for domain, version in self.graph.model.opset_imports.items():
            proto.opset_import.add(domain=domain, version=version)
        proto.functions.extend(self._functions)
        graph, buffers = proto.graph, dict[str, np.ndarray]()
        initializers = self.graph.model.graph.initializers
        graph.name = "slice"
        place = placer(buffers, "c")
        inputs: dict[str, onnx.ValueInfoProto] = {}
        known: set[str] = set()
        for number in nodes:
            added = graph.node.add()
            added.CopyFrom(self._node(number))
            # what bodies read from outside has no place in the list of inputs
            read = [name for name in self.reads[number] if name not in added.input]
            for index, name in enumerate(added.input):
                if (number, index) in constants:
                    added.input[index] = f"{name}/constant{number}_{index}"
                    held = ir.tensor(np.ascontiguousarray(constants[number, index]))
                    graph.initializer.append(place(added.input[index], held))
                elif (number, index) in fed:
                    label = added.input[index] = fed[number, index]
                    if label not in inputs:
                        inputs[label] = self._info(name, label)
                elif name:
                    read.append(name)
            for name in dict.fromkeys(n for n in read if n not in known):
                known.add(name)
                if name in initializers:
                    tensor, own = self._constant(name)
                    graph.initializer.append(tensor)
                    buffers |= own
                else:
                    inputs[name] = self._info(name)
            known.update(added.output)
            if number in halves:
                self._halve(graph, added)
        graph.input.extend(inputs.values())
        graph.output.extend(self._info(name) for name in outputs)
        raw = raw_session(
            proto.SerializeToString(), buffers, optimise=optimise, threads=1, where=WHERE, arena=False)
        types = {label: _type(info) for label, info in inputs.items()}
        return Session(raw, outputs, {}, types, WHERE)

    def _node(self, number: int) -> onnx.NodeProto:
        if number not in self._nodes:
            self._nodes[number] = serde.serialize_node(self.graph.nodes[number])
        return self._nodes[number]

    def _info(self, name: str, label: str = "") -> onnx.ValueInfoProto:
        """Type and shape of a tensor, under its own name or another one."""
        if name not in self._infos:
            self._infos[name] = serde.serialize_value(self.graph.values[name])
        if not label:
            return self._infos[name]
        info = onnx.ValueInfoProto()
        info.CopyFrom(self._infos[name])
        info.name = label
        return info

    def _constant(self, name: str) -> tuple[onnx.TensorProto, dict[str, np.ndarray]]:
        """A constant of the graph, and the buffer of a large one."""
        if name not in self._constants:
            buffers: dict[str, np.ndarray] = {}
            tensor = self.graph.model.graph.initializers[name].const_value
            self._constants[name] = (placer(buffers, f"{name}/")(name, tensor), buffers)
        return self._constants[name]

    def _halve(self, graph: onnx.GraphProto, node: onnx.NodeProto) -> None:
        """The float outputs of the node just added by way of float16, under their names."""
        for index, name in enumerate(node.output):
            if not name or self.graph.values[name].dtype != ir.DataType.FLOAT:
                continue
            node.output[index] = f"{name}/float32"
            graph.node.append(onnx.helper.make_node("Cast", [f"{name}/float32"], [f"{name}/half"], to=10))
            graph.node.append(onnx.helper.make_node("Cast", [f"{name}/half"], [name], to=1))


def _type(info: onnx.ValueInfoProto) -> tuple[tuple[int | str | None, ...] | None, np.dtype]:
    """Shape and dtype of an input."""
    value = serde.deserialize_value_info_proto(info, None)
    assert value.dtype is not None, f"{info.name} has a type"
    shape = None if value.shape is None else tuple(d if isinstance(d, int) else d.value for d in value.shape)
    return shape, value.dtype.numpy()
