"""Lowering: the optimized graph, its plan and its encodings become the integer model.

The driver walks the BPU operators of the plan; how each becomes integers stands in the operator table.
"""
from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from ptqlab.arith.formats import QType
from ptqlab.errors import Finding
from ptqlab.graph import FloatGraph, bodies
from ptqlab.ops.activation import lower_composed
from ptqlab.ops.composed import Composed
from ptqlab.ops.conv import scaled_by
from ptqlab.ops.integer import DOMAIN, DOMAIN_VERSION, INTEGER_OPS
from ptqlab.ops.integer.boundary import quantize as quantize_kernel
from ptqlab.ops.spec import Encoding, Operand, Role, WeightEncoding
from ptqlab.ops.table import spec_of
from ptqlab.stages.calibration import Encodings
from ptqlab.stages.plan import Group, Plan
from ptqlab.stages.quantized import IntegerTensor, QuantizedModel
from ptqlab.stages.schedule import schedule

SOURCE, DEVICE = "ptqlab.nodes", "ptqlab.device"
GRAPHS = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)


class _Lowering:
    """Implements `ops.spec.Lowering` for one graph."""

    def __init__(self, graph: FloatGraph, plan: Plan, encodings: Encodings) -> None:
        self.graph, self.plan, self.encodings = graph, plan, encodings
        self.floats: dict[str, ir.Value] = {}
        self.halves: dict[str, ir.Value] = {}
        self.codes: dict[str, ir.Value] = {}
        self.views: dict[tuple[str, str, QType], Operand] = {}
        self.integers: dict[str, IntegerTensor] = {}
        self.nodes: list[ir.Node] = []
        self.findings: list[Finding] = []
        self.initializers: dict[str, ir.Value] = {}
        self.current: Group | None = None
        self.used = set(graph.values)
        self.used_by_nodes = {str(n.name) for n in graph.nodes}
        self.inputs = [self._input(v) for v in graph.inputs]

    # ---- what the operator table asks

    def read(self, node: ir.Node, index: int) -> Operand:
        value = node.inputs[index]
        assert value is not None
        out = self.plan.group_of(str(node.name)).output
        if spec_of(node).role is Role.PASSIVE:
            slot = self.plan.tensors[out].slot
            encoding = self.encodings.slots[slot]
        else:
            qtype = self.plan.nodes[str(node.name)].inputs[index]
            assert qtype is not None
            slot = self.plan.tensors[str(value.name)].slot
            encoding = self.encodings.view(slot, qtype)
        return self._view(value, slot, encoding)

    def residual(self, node: ir.Node) -> Operand | None:
        group = self.plan.group_of(str(node.name))
        if group.residual is None:
            return None
        name, index = group.residual
        return self.read(self.graph.node(name), index)

    def constant(self, node: ir.Node, index: int) -> np.ndarray | None:
        return self.graph.constant(node.inputs[index] if index < len(node.inputs) else None)

    def plain(self, node: ir.Node, index: int) -> ir.Value:
        value = node.inputs[index]
        assert value is not None
        return self._float(value)

    def weights(self, node: ir.Node) -> WeightEncoding:
        return self.encodings.weights[str(node.name)]

    def weight_type(self, node: ir.Node) -> QType:
        qtype = self.plan.nodes[str(node.name)].weights
        assert qtype is not None, f"{node.name} has no constant operand"
        return qtype

    def output(self, node: ir.Node) -> Encoding | None:
        name = str(node.name)
        if self.plan.nodes[name].tail or self.plan.nodes[name].output is not None:
            return None
        return self.encodings.slots[self.plan.tensors[self.plan.group_of(name).output].slot]

    def channels(self, node: ir.Node) -> np.ndarray | None:
        tensor = self.plan.group_of(str(node.name)).output
        return self.encodings.channels.get(self.plan.tensors[tensor].slot) if tensor in self.plan.tensors else None

    def bounds(self, node: ir.Node) -> tuple[int, int]:
        encoding, group = self.output(node), self.plan.group_of(str(node.name))
        assert encoding is not None
        low = encoding.low if group.low is None or np.isneginf(group.low) else encoding.code(group.low)
        high = encoding.high if group.high is None or np.isposinf(group.high) else encoding.code(group.high)
        return low, high

    def report(self, finding: Finding) -> None:
        self.findings.append(finding)

    def write(self, node: ir.Node, op: str, inputs: Mapping[str, ir.Value | np.ndarray],
              attributes: Mapping[str, Any], notes: Mapping[str, str] | None = None) -> None:
        encoding = self.output(node)
        assert encoding is not None
        group = self.plan.group_of(str(node.name))
        out = self._emit(
            op, str(node.name), inputs, attributes, group.output, "quantized", encoding.qtype, group.members
        )
        self.nodes[-1].metadata_props.update(notes or {})
        self._stored(group.output, out, encoding)

    def write_plain(self, node: ir.Node, op: str, inputs: Mapping[str, ir.Value | np.ndarray],
                    attributes: Mapping[str, Any]) -> None:
        group = self.plan.group_of(str(node.name))
        self.floats[group.output] = self._emit(op, str(node.name), inputs, attributes, group.output, "", None,
                                               group.members, ir.DataType(attributes["to"]))

    def keep(self, node: ir.Node) -> None:
        self._copy(node, "BPU")

    def write_tail(self, node: ir.Node, op: str, inputs: Mapping[str, ir.Value | np.ndarray],
                   attributes: Mapping[str, Any], scale: np.ndarray) -> None:
        tensor = self.plan.group_of(str(node.name)).output
        acc = self._emit(op, str(node.name), inputs, attributes, tensor, "quantized", QType.INT32, (str(node.name),))
        self.integers[tensor] = IntegerTensor(str(acc.name), QType.INT32, scale, 0)
        # an accumulator is nothing that an integer operator can read: one that reads this tensor quantizes the float
        if self.plan.nodes[str(node.name)].output is QType.FLOAT16:
            wide = self._dequantize(tensor, acc, scale, 0, "float32")
            self.floats[tensor] = self._half(wide, tensor, tensor)
        else:
            self.floats[tensor] = self._dequantize(tensor, acc, scale, 0)

    def move(self, node: ir.Node, inputs: list[ir.Value | np.ndarray | None], output: int = 0, op: str = "",
             attributes: Mapping[str, Any] | None = None) -> None:
        tensor = str(node.outputs[output].name)
        encoding = self.encodings.slots[self.plan.tensors[tensor].slot]
        values = [self._constant(f"{node.name}_operand{i}", v) if isinstance(v, np.ndarray) else v
                  for i, v in enumerate(inputs)]
        attrs = [ir.convenience.convert_attribute(k, v) for k, v in attributes.items()] if attributes is not None else [
            *node.attributes.values()]
        name = str(node.name) if not output else _unused(f"{node.name}_{output}", self.used_by_nodes)
        made = ir.Node("", op or node.op_type, values, attributes=attrs, num_outputs=1, name=name)
        out = self._finish(made, self._fresh(f"{tensor}_quantized"), self.graph.values[tensor].shape,
                           ir.DataType.from_numpy(encoding.qtype.numpy), (str(node.name),))
        self._stored(tensor, out, encoding)

    # ---- the walk

    def build(self) -> QuantizedModel:
        last = {group.members[-1]: group for group in self.plan.groups.values()}
        for node in self.graph.nodes:
            name = str(node.name)
            if name in last:
                group = last[name]
                main = self.graph.node(group.main)
                if self.plan.nodes[group.main].in_float:
                    self._compute(main, self.plan.nodes[group.main].output)
                    continue
                if group.source is not None:
                    members = tuple(self.graph.node(member) for member in group.members)
                    lower_composed(self, main, Composed(self.graph.values[group.source], members))
                    continue
                lower = spec_of(main).lower
                assert lower is not None, f"{main.op_type} is on the BPU without a way to lower it"
                lower(self, main)
            elif not self.plan.nodes[name].on_bpu:
                self._copy(node)
        outputs = [self._float(v) for v in self.graph.outputs]
        used = {n.op_type for n in self.nodes if n.domain == DOMAIN}
        graph = ir.Graph(
            self.inputs, outputs, nodes=self.nodes, initializers=list(self.initializers.values()),
            opset_imports={"": 19, DOMAIN: DOMAIN_VERSION}, name=self.graph.model.graph.name,
        )
        functions = [op.function() for name, op in INTEGER_OPS.items() if name in used]
        model = ir.Model(graph, ir_version=8, producer_name="ptqlab", functions=functions)
        parts = schedule(graph, lambda n: n.metadata_props[DEVICE])
        return QuantizedModel(model, self.integers, parts, tuple(self.findings)).verify()

    # ---- pieces

    def _input(self, value: ir.Value) -> ir.Value:
        made = ir.Value(name=value.name, shape=value.shape, type=value.type)
        self.floats[str(value.name)] = made
        return made

    def _copy(self, node: ir.Node, device: str = "CPU") -> None:
        """A node as it stands, reading tensors that are not quantized."""
        inputs = [None if v is None else self._float(v) for v in node.inputs]
        attributes = [self._body(a) if a.type in GRAPHS else a for a in node.attributes.values()]
        made = ir.Node(node.domain, node.op_type, inputs, attributes=attributes, num_outputs=len(node.outputs),
                       name=node.name)
        self.nodes.append(made)
        made.metadata_props.update({SOURCE: json.dumps([node.name]), DEVICE: device})
        for out, old in zip(made.outputs, node.outputs, strict=True):
            out.name, out.shape, out.type = old.name, old.shape, old.type
            if old.name:
                self.floats[str(old.name)] = out

    def _compute(self, node: ir.Node, qtype: QType | None) -> None:
        """A node of the float vector unit: float32 arithmetic of what it reads, rounded to its type, by ONNX's
        operators. For float16 that is numpy's definition, too: +, -, *, / and roots then are what float16 gives."""
        half = qtype is QType.FLOAT16
        inputs = [None if v is None else self._half_operand(v) if half else self._float(v) for v in node.inputs]
        made = ir.Node("", node.op_type, inputs, attributes=list(node.attributes.values()),
                       num_outputs=len(node.outputs), name=node.name)
        self.nodes.append(made)
        made.metadata_props.update({SOURCE: json.dumps([node.name]), DEVICE: "BPU"})
        for out, old in zip(made.outputs, node.outputs, strict=True):
            name = str(old.name or "")
            out.shape, out.type = old.shape, old.type
            rounded = half and name and old.dtype == ir.DataType.FLOAT
            out.name = self._fresh(f"{name}_float32") if rounded else name
            if name:
                self.floats[name] = self._half(out, name, name) if rounded else out

    def _half_operand(self, value: ir.Value) -> ir.Value:
        """What a float16 node reads of a tensor: float32 that float16 holds; indices and shapes as they are."""
        name, producer = str(value.name), value.producer()
        decided = None if producer is None else self.plan.nodes[str(producer.name)]
        if value.dtype != ir.DataType.FLOAT or (decided is not None and decided.output is QType.FLOAT16):
            return self._float(value)
        if name not in self.halves:
            array = self.graph.constant(value)
            if array is not None:
                self.halves[name] = self._constant(f"{name}_float16", rounded_half(array))
            else:
                self.halves[name] = self._half(self._float(value), name, self._fresh(f"{name}_rounded"))
        return self.halves[name]

    def _half(self, value: ir.Value, tensor: str, output: str) -> ir.Value:
        """A float32 tensor by way of float16, which rounds it (ties to even; what is too large becomes Inf)."""
        for dtype, made in ((ir.DataType.FLOAT16, self._fresh(f"{tensor}_float16")), (ir.DataType.FLOAT, output)):
            node = ir.Node("", "Cast", [value], attributes=[ir.AttrInt64("to", int(dtype))], num_outputs=1,
                           name=_unused(f"{tensor}_to_{dtype.name.lower()}", self.used_by_nodes))
            value = self._finish(node, made, self.graph.values[tensor].shape, dtype, ())
        return value

    def _body(self, attribute: ir.Attr) -> ir.Attr:
        """A branch of If or a body of Loop; what it reads from outside, it reads of this graph."""
        if attribute.type == ir.AttributeType.GRAPHS:
            return ir.AttrGraphs(attribute.name, [self._inner(g) for g in attribute.as_graphs()])
        return ir.AttrGraph(attribute.name, self._inner(attribute.as_graph()))

    def _inner(self, body: ir.Graph) -> ir.Graph:
        made = body.clone(allow_outer_scope_values=True)
        self._rebind(made)
        return made

    def _rebind(self, body: ir.Graph) -> None:
        for node in body:
            for index, value in enumerate(node.inputs):
                if value is not None and self.graph.values.get(str(value.name)) is value:
                    node.replace_input_with(index, self._float(value))
            for inner in bodies(node):
                self._rebind(inner)
        for index, output in enumerate(body.outputs):
            if self.graph.values.get(str(output.name)) is output:
                body.outputs[index] = self._float(output)

    def _float(self, value: ir.Value) -> ir.Value:
        """The float form of a tensor: as it is, a constant, or dequantized. It keeps the tensor's name."""
        name = str(value.name)
        if name not in self.floats:
            array = self.graph.constant(value)
            if array is not None:
                self.floats[name] = self._initializer(name, array)
            else:
                stored = self.integers[name]
                self.floats[name] = self._dequantize(name, self.codes[name], stored.scale, stored.zero_point)
        return self.floats[name]

    def _view(self, value: ir.Value, slot: str, encoding: Encoding) -> Operand:
        """A tensor as integers of an encoding: as stored, rescaled from it, or quantized from float."""
        name = str(value.name)
        array = self.graph.constant(value)
        key = (name, slot, encoding.qtype)
        if array is not None:
            if key not in self.views:
                attributes = {"y_zero_point": encoding.zero_point, "low": encoding.low, "high": encoding.high,
                              "to": _onnx_type(encoding.qtype)}
                codes = quantize_kernel(attributes, array, np.asarray(encoding.scale))
                self.views[key] = Operand(self._constant(f"{name}_codes_{slot}", codes), encoding)
            return self.views[key]
        if name not in self.codes:
            own = self.encodings.slots[self.plan.tensors[name].slot]
            self._stored(name, self._quantize(name, own), own)
        own = self.encodings.slots[self.plan.tensors[name].slot]
        if own == encoding:
            return Operand(self.codes[name], own)
        if key not in self.views:
            inputs: dict[str, ir.Value | np.ndarray] = {
                "x": self.codes[name], **scaled_by("", np.asarray(float(own.scale) / float(encoding.scale)))}
            attributes = {"x_zero_point": own.zero_point, "y_zero_point": encoding.zero_point, "low": encoding.low,
                          "high": encoding.high, "to": _onnx_type(encoding.qtype)}
            label = f"{name}_to_{encoding.qtype.value}" + ("" if slot == self.plan.tensors[name].slot else f"_{slot}")
            out = self._emit(
                "Rescale", f"{label}_requantize", inputs, attributes, name, "requantized", encoding.qtype, ()
            )
            self.views[key] = Operand(out, encoding)
        return self.views[key]

    def _quantize(self, tensor: str, encoding: Encoding) -> ir.Value:
        attributes = {"y_zero_point": encoding.zero_point, "low": encoding.low, "high": encoding.high,
                      "to": _onnx_type(encoding.qtype)}
        inputs: dict[str, ir.Value | np.ndarray] = {
            "x": self._float(self.graph.values[tensor]), "scale": np.asarray(encoding.scale, np.float32),
        }
        return self._emit("Quantize", f"{tensor}_quantize", inputs, attributes, tensor, "quantized", encoding.qtype, ())

    def _dequantize(self, tensor: str, codes: ir.Value, scale: np.ndarray, zero_point: int,
                    suffix: str = "") -> ir.Value:
        inputs: dict[str, ir.Value | np.ndarray] = {"x": codes, "scale": np.asarray(scale, np.float32)}
        return self._emit(
            "Dequantize", f"{tensor}_dequantize", inputs, {"x_zero_point": zero_point}, tensor, suffix, None, ()
        )

    def _stored(self, tensor: str, codes: ir.Value, encoding: Encoding) -> None:
        self.codes[tensor] = codes
        steps = self.encodings.channels.get(self.plan.tensors[tensor].slot)
        scale = np.asarray(encoding.scale if steps is None else encoding.scale * steps)
        self.integers[tensor] = IntegerTensor(str(codes.name), encoding.qtype, scale, encoding.zero_point)

    def _emit(self, op: str, name: str, inputs: Mapping[str, ir.Value | np.ndarray], attributes: Mapping[str, Any],
              tensor: str, suffix: str, qtype: QType | None, nodes: tuple[str, ...],
              plain: ir.DataType = ir.DataType.FLOAT) -> ir.Value:
        """Append integer operator `op` that makes the form `suffix` of a tensor ("" for the tensor itself, of type
        `plain`)."""
        spec = INTEGER_OPS[op]
        assert set(spec.inputs) == set(inputs), f"{op} takes {spec.inputs}, given {sorted(inputs)}"
        assert set(spec.attributes) == set(attributes), (
            f"{op} has {sorted(spec.attributes)}, given {sorted(attributes)}"
        )
        values = [self._operand(f"{name}_{i}", inputs[i]) for i in spec.inputs]
        attrs = [ir.convenience.convert_attribute(k, v) for k, v in attributes.items()]
        # a node of the float graph keeps its name; what is added between them makes room for it
        own = name if name in nodes else _unused(name, self.used_by_nodes)
        node = ir.Node(DOMAIN, op, values, attributes=attrs, num_outputs=1, name=own)
        dtype = plain if qtype is None else ir.DataType.from_numpy(qtype.numpy)
        output = self._fresh(f"{tensor}_{suffix}") if suffix else tensor
        return self._finish(node, output, self.graph.values[tensor].shape, dtype, nodes)

    def _fresh(self, name: str) -> str:
        """A tensor name that the float graph and this one do not use yet."""
        return _unused(name, self.used)

    def _finish(self, node: ir.Node, output: str, shape: ir.Shape | None, dtype: ir.DataType | None,
                nodes: tuple[str, ...]) -> ir.Value:
        self.nodes.append(node)
        node.metadata_props.update({SOURCE: json.dumps(list(nodes)), DEVICE: "BPU"})
        out = node.outputs[0]
        out.name, out.shape, out.type = output, shape, None if dtype is None else ir.TensorType(dtype)
        return out

    def _operand(self, name: str, value: ir.Value | np.ndarray) -> ir.Value:
        return self._constant(name, value) if isinstance(value, np.ndarray) else value

    def _constant(self, name: str, array: np.ndarray) -> ir.Value:
        return self._initializer(self._fresh(name), array)

    def _initializer(self, name: str, array: np.ndarray) -> ir.Value:
        tensor = ir.tensor(np.ascontiguousarray(array) if array.ndim else array, name=name)
        self.initializers[name] = ir.Value(name=name, shape=ir.Shape(array.shape), type=ir.TensorType(tensor.dtype),
                                           const_value=tensor)
        return self.initializers[name]


def _unused(name: str, used: set[str]) -> str:
    """`name`, or the first of `name_1`, `name_2` ... that is not in `used`; it is in there afterwards."""
    unique, count = name, 0
    while unique in used:
        count += 1
        unique = f"{name}_{count}"
    used.add(unique)
    return unique


def rounded_half(array: np.ndarray) -> np.ndarray:
    """float32 numbers that float16 holds: each the nearest one, Inf beyond its range."""
    with np.errstate(over="ignore"):
        return array.astype(np.float16).astype(np.float32)


def _onnx_type(qtype: QType) -> int:
    return int(ir.DataType.from_numpy(qtype.numpy))


def lower(graph: FloatGraph, plan: Plan, encodings: Encodings) -> QuantizedModel:
    """The integer model of a plan."""
    return _Lowering(graph, plan, encodings).build()
