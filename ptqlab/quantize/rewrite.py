"""Common ground of the rewrites of a quantized model's inputs and outputs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from ptqlab.ops.integer import DOMAIN, DOMAIN_VERSION, INTEGER_OPS
from ptqlab.quantize.lower import DEVICE, SOURCE
from ptqlab.stages.quantized import IntegerTensor, QuantizedModel
from ptqlab.stages.schedule import schedule


class Rewriter:
    """A copy of a quantized model under change; `done` gives the new model."""

    def __init__(self, quantized: QuantizedModel) -> None:
        self.model = quantized.model.clone()
        self.graph = self.model.graph
        self.integers: dict[str, IntegerTensor] = dict(quantized.integers)
        self.names = {str(n.name) for n in self.graph} | set(self.values())

    def values(self) -> dict[str, ir.Value]:
        """Every tensor by name."""
        made = {str(o.name): o for n in self.graph for o in n.outputs if o.name}
        return {str(v.name): v for v in (*self.graph.inputs, *self.graph.initializers.values())} | made

    def fresh(self, name: str) -> str:
        """A name that nothing in the model bears yet."""
        unique, count = name, 0
        while unique in self.names:
            count += 1
            unique = f"{name}_{count}"
        self.names.add(unique)
        return unique

    def constant(self, name: str, array: np.ndarray) -> ir.Value:
        name = self.fresh(name)
        tensor = ir.tensor(array, name=name)
        value = ir.Value(name=name, shape=ir.Shape(array.shape), type=ir.TensorType(tensor.dtype), const_value=tensor)
        self.graph.register_initializer(value)
        return value

    def operator(
        self,
        op: str,
        name: str,
        inputs: Mapping[str, ir.Value | np.ndarray],
        attributes: Mapping[str, Any],
        output: str,
        shape: tuple[int, ...],
        dtype: ir.DataType,
        before: ir.Node | None,
    ) -> ir.Value:
        """Insert an integer operator before a node (None: at the end); returns its output, named `output`."""
        name = self.fresh(name)
        values = [
            self.constant(f"{name}_{i}", v) if isinstance(v := inputs[i], np.ndarray) else v
            for i in INTEGER_OPS[op].inputs
        ]
        attrs = [ir.convenience.convert_attribute(k, v) for k, v in attributes.items()]
        node = ir.Node(DOMAIN, op, values, attributes=attrs, num_outputs=1, name=name)
        return self.insert(node, output, shape, dtype, before)

    def standard(
        self,
        op_type: str,
        name: str,
        inputs: list[ir.Value],
        attributes: Mapping[str, Any],
        output: str,
        shape: tuple[int, ...],
        dtype: ir.DataType,
        before: ir.Node | None,
    ) -> ir.Value:
        """Insert a mover."""
        attrs = [ir.convenience.convert_attribute(k, v) for k, v in attributes.items()]
        node = ir.Node("", op_type, inputs, attributes=attrs, num_outputs=1, name=self.fresh(name))
        return self.insert(node, output, shape, dtype, before)

    def insert(
        self, node: ir.Node, output: str, shape: tuple[int, ...], dtype: ir.DataType, before: ir.Node | None
    ) -> ir.Value:
        node.metadata_props.update({SOURCE: json.dumps([]), DEVICE: "BPU"})
        out = node.outputs[0]
        out.name, out.shape, out.dtype = output, ir.Shape(shape), dtype
        if before is None:
            self.graph.append(node)
        else:
            self.graph.insert_before(before, node)
        return out

    def replace_uses(self, old: ir.Value, new: ir.Value) -> None:
        """Every reader of `old`, and the graph's outputs, read `new`."""
        for user, index in list(old.uses()):
            user.replace_input_with(index, new)
        for index, output in enumerate(self.graph.outputs):
            if output is old:
                self.graph.outputs[index] = new

    def done(self) -> QuantizedModel:
        """The new model: unread constants dropped, functions and schedule made anew."""
        for name, value in list(self.graph.initializers.items()):
            if not value.uses() and not value.is_graph_output():
                del self.graph.initializers[name]
        used = {n.op_type for n in self.graph if n.domain == DOMAIN}
        self.model.functions.clear()
        for op in sorted(used):
            function = INTEGER_OPS[op].function()
            self.model.functions[function.identifier()] = function
        self.graph.opset_imports[DOMAIN] = DOMAIN_VERSION
        made = set(self.values())
        integers = {k: t for k, t in self.integers.items() if t.name in made}
        return QuantizedModel(self.model, integers, schedule(self.graph, lambda n: n.metadata_props[DEVICE])).verify()
