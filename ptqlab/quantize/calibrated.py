"""The calibrated model: the optimized float graph with a HzCalibration node wherever the BPU stores integers.

It shows what quantization of weights and activations alone costs: accumulators, biases and rescaling stay float.
"""
from __future__ import annotations

from base64 import b64encode

import numpy as np
import onnx_ir as ir

from ptqlab.arith.formats import QType
from ptqlab.graph import FloatGraph
from ptqlab.ops.calibration_node import DOMAIN, calibration_function, calibration_node
from ptqlab.ops.matmul import constant_codes
from ptqlab.ops.node import constant
from ptqlab.ops.spec import Encoding, Role
from ptqlab.ops.table import spec_of
from ptqlab.quantize.encode import is_weighted
from ptqlab.quantize.weights import channel_axis, dequantized, float_bias, per_weight
from ptqlab.stages.calibration import Encodings
from ptqlab.stages.plan import Plan
from ptqlab.stages.quantized import CalibratedModel

# on every activation's HzCalibration: the slot whose threshold it holds, and the type
SLOT, QTYPE = "ptqlab.slot", "ptqlab.qtype"
# on an operator whose bias is corrected for its input, too: the part for its weights, float32 [C] in base64
OWN_CORRECTION = "ptqlab.weight_correction"

# inputs of movers that hold data and not shapes, where they are constant
CONSTANT_DATA = {"Concat": range(10**9), "Pad": (2,)}


class _Builder:
    def __init__(self, graph: FloatGraph, plan: Plan, encodings: Encodings) -> None:
        self.source, self.plan, self.encodings = graph, plan, encodings
        self.model = graph.model.clone()
        self.graph = self.model.graph
        self.values = {str(v.name): v for v in (*self.graph.inputs, *self.graph.initializers.values())}
        self.nodes = {str(n.name): n for n in self.graph}
        for node in self.graph:
            self.values.update({str(o.name): o for o in node.outputs if o.name})
        self.origin = {value: name for name, value in self.values.items()}
        self.used = {"tensor": set(self.values), "node": set(self.nodes)}
        self.names: dict[str, str] = {}
        self.edges: dict[tuple[str, str, QType], ir.Value] = {}
        self.stored: dict[str, ir.Value] = {}
        self.halves: dict[ir.Value, ir.Value] = {}

    def build(self) -> CalibratedModel:
        for tensor in self._entries():
            self._store(tensor)
        for group in self.plan.groups.values():
            if self.plan.nodes[group.main].in_float:
                continue
            for member in group.members:
                self._read_edges(self.nodes[member], set(group.members))
            main = self.nodes[group.main]
            if is_weighted(self.source, self.plan, group.main):
                self._weights(main)
            elif main.op_type == "MatMul":
                self._product_operand(main)
        for name, decided in self.plan.nodes.items():
            if decided.output is QType.FLOAT16:
                self._in_half(self.nodes[name], decided.in_float)
        self.graph.sort()
        function = calibration_function()
        self.model.functions[function.identifier()] = function
        self.graph.opset_imports[DOMAIN] = 1
        return CalibratedModel(self.model, self.names)

    def _entries(self) -> list[str]:
        """Tensors whose values are rounded to integers where they are made: all held ones but what movers write."""
        moved = {
            str(o.name) for g in self.plan.groups.values()
            if spec_of(self.nodes[g.main]).role is Role.PASSIVE and self.plan.nodes[g.main].in_integers
            for o in self.nodes[g.main].outputs
        }
        return [t for t in self.plan.tensors if t not in moved]

    def _store(self, tensor: str) -> None:
        """Put the quantizer of a tensor behind it. BPU readers read that; all do, if the BPU made the tensor."""
        value = self.values[tensor]
        plan = self.plan.tensors[tensor]
        producer = value.producer()
        in_codes = producer is not None and self.plan.nodes[str(producer.name)].writes_integers
        readers = [(n, i) for n, i in value.uses() if in_codes or self._reads_codes(n)]
        was_output = value.is_graph_output() and in_codes
        node = self._calibration(value, self.encodings.slots[plan.slot], plan.slot, f"{tensor}_HzCalibration",
                                 f"{tensor}_calibrated")
        self._insert(node, value)
        out = node.outputs[0]
        for reader, index in readers:
            reader.replace_input_with(index, out)
        if was_output:
            # the output keeps its name, and holds what the board would give
            value.name, out.name = self._fresh(f"{tensor}_float"), tensor
            for index, output in enumerate(self.graph.outputs):
                if output is value:
                    self.graph.outputs[index] = out
        if producer is None or self.plan.nodes[str(producer.name)].output is None:
            self.names[tensor] = str(out.name)
        self.stored[tensor] = out

    def _read_edges(self, node: ir.Node, inside: set[str]) -> None:
        """Quantizers on edges that read another type or scale than the tensor is stored in."""
        plan = self.plan.nodes[str(node.name)]
        mover = spec_of(node).role is Role.PASSIVE
        for index, value in enumerate(node.inputs):
            if value is not None and value.const_value is not None and index in CONSTANT_DATA.get(node.op_type, ()):
                self._constant_operand(node, index, value)
            if value is None or plan.inputs[index] is None:
                continue
            tensor = self.origin[value]
            held = self.plan.tensors.get(tensor)
            if held is None:
                continue
            slot = self.plan.tensors[self.plan.group_of(str(node.name)).output].slot if mover else held.slot
            qtype = self.plan.tensors[slot].stored if mover else plan.inputs[index]
            assert qtype is not None
            if slot == held.slot and qtype is held.stored:
                continue
            key = (tensor, slot, qtype)
            if key not in self.edges:
                name = f"{tensor}_{qtype.value}" if slot == held.slot else f"{tensor}_{node.name}"
                made = self._calibration(value, self.encodings.view(slot, qtype), slot, f"{name}_HzCalibration",
                                         f"{name}_calibrated")
                self._insert(made, value)
                self.edges[key] = made.outputs[0]
            node.replace_input_with(index, self.edges[key])

    def _constant_operand(self, node: ir.Node, index: int, value: ir.Value) -> None:
        """A constant that a mover puts among the codes of its slot is stored as codes, too."""
        slot = self.plan.tensors[str(node.outputs[0].name)].slot
        name = f"{value.name}_{node.name}"
        made = self._calibration(value, self.encodings.slots[slot], slot, f"{name}_HzCalibration", f"{name}_calibrated")
        self.graph.insert_before(node, made)
        node.replace_input_with(index, made.outputs[0])

    def _reads_codes(self, node: ir.Node) -> bool:
        """Whether the BPU computes a node on integers; one inside the body of an If or Loop never is."""
        return node.graph is self.graph and self.plan.nodes[str(node.name)].in_integers

    def _in_half(self, node: ir.Node, reads: bool) -> None:
        """Round to float16 what a node writes, and what it `reads`: float32 arithmetic between numbers float16 has."""
        for index, value in enumerate(node.inputs if reads else ()):
            if value is None or value.dtype != ir.DataType.FLOAT or value in self.halves.values():
                continue
            if value not in self.halves:
                self.halves[value] = self._rounded(value, self._fresh(f"{value.name}_rounded"))
            node.replace_input_with(index, self.halves[value])
        for out in node.outputs:
            if not out.name or out.dtype != ir.DataType.FLOAT:
                continue
            readers, tensor = list(out.uses()), str(out.name)
            out.name = self._fresh(f"{tensor}_float32")
            rounded = self._rounded(out, tensor)
            for user, index in readers:
                user.replace_input_with(index, rounded)
            for index, output in enumerate(self.graph.outputs):
                if output is out:
                    self.graph.outputs[index] = rounded
            self.halves[out] = rounded

    def _rounded(self, value: ir.Value, output: str) -> ir.Value:
        """`value` by way of float16, in a tensor named `output`."""
        made = value
        for dtype, name in ((ir.DataType.FLOAT16, self._fresh(f"{output}_float16")), (ir.DataType.FLOAT, output)):
            node = ir.Node("", "Cast", [made], attributes=[ir.AttrInt64("to", int(dtype))], num_outputs=1,
                           name=self._fresh(f"{output}_to_{dtype.name.lower()}", "node"))
            node.outputs[0].name, node.outputs[0].shape, node.outputs[0].dtype = name, value.shape, dtype
            self._insert(node, made)
            made = node.outputs[0]
        self.origin[made] = self.origin[value]
        return made

    def _weights(self, node: ir.Node) -> None:
        weight = node.inputs[1]
        assert weight is not None
        encoding = self.encodings.weights[str(node.name)]
        assert weight.shape is not None, "a constant has a shape"
        qtype, along = encoding.qtype, per_weight(node, encoding.scale, len(weight.shape))
        if encoding.factors is not None:
            along = along / encoding.factors
        name = f"{weight.name}_{node.name}"
        made = calibration_node(
            weight, self._fresh(f"{name}_HzCalibration", "node"), self._fresh(f"{name}_calibrated"),
            scales=along, thresholds=along * qtype.qmax, zero_point=0, low=qtype.qmin, high=qtype.qmax,
            bits=qtype.bits, kind="weight", axis=channel_axis(node), shape=along.shape,
        )
        self.graph.insert_before(node, made)
        node.replace_input_with(1, made.outputs[0])
        if encoding.correction is not None and encoding.correction.any():
            self._correct(node, encoding.correction)
            if encoding.own is not None and encoding.own is not encoding.correction:
                node.metadata_props[OWN_CORRECTION] = b64encode(encoding.own.astype("<f4").tobytes()).decode()

    def _product_operand(self, node: ir.Node) -> None:
        """The constant operand of a product that has no weights: a left operand, or a batch of matrices."""
        for index, value in enumerate(node.inputs):
            array = constant(value)
            if value is None or array is None:
                continue
            qtype = self.plan.nodes[str(node.name)].weights
            assert qtype is not None, f"{node.name} has a constant operand without a type"
            _, scale, axis = constant_codes(array, index, qtype)
            name = f"{value.name}_{node.name}"
            made = calibration_node(
                value, self._fresh(f"{name}_HzCalibration", "node"), self._fresh(f"{name}_calibrated"), scales=scale,
                thresholds=scale * qtype.qmax, zero_point=0, low=qtype.qmin, high=qtype.qmax, bits=qtype.bits,
                kind="constant", axis=axis,
            )
            self.graph.insert_before(node, made)
            node.replace_input_with(index, made.outputs[0])

    def _correct(self, node: ir.Node, correction: np.ndarray) -> None:
        """Add the correction to the node's bias; MatMul, which has none, gets an Add behind it."""
        name = self._fresh(f"{node.name}_corrected_bias")
        if node.op_type != "MatMul":
            bias = self._constant(name, (float_bias(node, None, correction.size) + correction).astype(np.float32))
            if len(node.inputs) < 3:
                node.resize_inputs(3)
            node.replace_input_with(2, bias)
            return
        old = node.outputs[0]
        add = ir.Node("", "Add", [old, self._constant(name, correction.astype(np.float32))], num_outputs=1,
                      name=self._fresh(f"{node.name}_bias_correction", "node"))
        out = add.outputs[0]
        out.shape, out.type, out.name = old.shape, old.type, old.name
        self.origin[out] = self.origin[old]
        for user, index in list(old.uses()):
            if user is not add:
                user.replace_input_with(index, out)
        for index, output in enumerate(self.graph.outputs):
            if output is old:
                self.graph.outputs[index] = out
        old.name = self._fresh(f"{node.name}_uncorrected")
        self.graph.insert_after(node, add)

    def _constant(self, name: str, array: np.ndarray) -> ir.Value:
        tensor = ir.tensor(array, name=name)
        value = ir.Value(name=name, shape=ir.Shape(array.shape), type=ir.TensorType(tensor.dtype), const_value=tensor)
        self.graph.register_initializer(value)
        return value

    def _fresh(self, name: str, kind: str = "tensor") -> str:
        """A name that no tensor (or node) of the model bears yet."""
        unique, count = name, 0
        while unique in self.used[kind]:
            count += 1
            unique = f"{name}_{count}"
        self.used[kind].add(unique)
        return unique

    def _calibration(self, value: ir.Value, encoding: Encoding, slot: str, name: str, output: str) -> ir.Node:
        steps = self.encodings.channels.get(slot, np.float32(1))
        made = calibration_node(
            value,
            self._fresh(name, "node"),
            self._fresh(output),
            scales=np.asarray(encoding.scale * steps),
            thresholds=np.asarray(np.float32(self.encodings.thresholds[slot]) * steps),
            zero_point=encoding.zero_point,
            low=encoding.low,
            high=encoding.high,
            bits=encoding.qtype.bits,
            kind="activation",
            axis=-1 if steps.size == 1 else len(value.shape or ()) - steps.ndim,
            shape=steps.shape or None,
        )
        self.origin[made.outputs[0]] = self.origin[value]
        made.metadata_props.update({SLOT: slot, QTYPE: encoding.qtype.value})
        return made

    def _insert(self, node: ir.Node, after: ir.Value) -> None:
        producer = after.producer()
        if producer is not None:
            self.graph.insert_after(producer, node)
            return
        first = self.graph.node(0)
        self.graph.insert_before(first, node)


def calibrated_model(graph: FloatGraph, plan: Plan, encodings: Encodings) -> CalibratedModel:
    """The calibrated model of a plan; `names` tells which of its tensors stands for which float tensor."""
    return _Builder(graph, plan, encodings).build()


def with_folded_weights(calibrated: CalibratedModel, encodings: Encodings) -> ir.Model:
    """The calibrated model with weights quantized and dequantized beforehand: the same ones at a fraction of the cost.

    onnxruntime would fold each weight's HzCalibration operator by operator when it makes a session: half a second
    and 250 MB more for resnet18.
    """
    model = calibrated.model.clone()
    for node in list(model.graph):
        if node.domain != DOMAIN or node.attributes["kind"].as_string() != "weight":
            continue
        out = node.outputs[0]
        reader, _ = next(iter(out.uses()))
        encoding = encodings.weights[str(reader.name)]
        tensor = ir.tensor(dequantized(reader, encoding), name=out.name)
        folded = ir.Value(name=out.name, shape=out.shape, type=out.type, const_value=tensor)
        for user, index in list(out.uses()):
            user.replace_input_with(index, folded)
        model.graph.remove(node, safe=True)
        model.graph.register_initializer(folded)
    return model
