"""The fast path: one onnxruntime graph of standard operators per BPU part, integers carried in float32.

Equal to the reference kernels in every bit: see `ops.emit` and `ops.integer.accumulate` for why, and the tests
for the proof. float32 holds every code of 8 and 16 bits; accumulators are kept below 2^24 or carried in int32
or float64.
"""
from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import onnx_ir as ir

from ptqlab.graph import Session, session
from ptqlab.ops.emit import DOUBLE, FLOAT, FastEmitter, Operand
from ptqlab.ops.integer import DOMAIN, INTEGER_OPS, OPSET
from ptqlab.simulate.executor import Executor
from ptqlab.stages.schedule import Part

# integers that travel as float32; int32, int64 and bool are indices, conditions or accumulators, and stay what they are
CARRIED = (np.dtype(np.int8), np.dtype(np.int16))


class FastExecutor(Executor):
    """Runs BPU parts in onnxruntime; `raw=True` leaves integer tensors in the float form they are carried in."""

    def __init__(self, *args: Any, raw: bool = False, **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        self.raw = raw
        self._dtypes = {
            str(o.name): o.dtype.numpy()
            for n in self.quantized.model.graph for o in n.outputs if o.dtype is not None and o.dtype != FLOAT
        }

    @cached_property
    def _sessions(self) -> dict[Part, Session]:
        return {
            part: session(fast_model(self._nodes, part, self.wanted(part)), threads=self.threads)
            for part in self.quantized.parts if part.device == "BPU" and not part.floating
        }

    def _run_bpu(self, part: Part, live: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        runner = self._sessions[part]
        inputs = {
            name: live[name].astype(np.float32) if live[name].dtype in CARRIED else live[name]
            for name in runner.input_names
        }
        return dict(zip(runner.output_names, runner.run(None, inputs), strict=True))

    def run(self, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        results = super().run(feeds)
        if self.raw:
            return results
        return {
            name: array.astype(self._dtypes[name]) if name in self._dtypes else array for name, array in results.items()
        }


# operators of integers without clamp whose codes are those of x
PASSING = ("DepthToSpace", "SpaceToDepth")


class _FastGraph:
    """Collects the standard nodes of one part; tensors of its own get names that no tensor in `taken` begins with.

    Of a tensor of codes it holds the float32 form, and makes the float64 form where an operator reads it: from the
    float64 numbers that were clamped to become it, where there are some, so that no cast to float32 and back remains.
    """

    def __init__(self, taken: Collection[str]) -> None:
        self.own = "."
        while any(name.startswith(self.own) for name in taken):
            self.own += "."
        self.nodes: list[ir.Node] = []
        self.values: dict[str, ir.Value] = {}
        self.initializers: list[ir.Value] = []
        self.scalars: dict[tuple[str, bytes], ir.Value] = {}
        self.ranges: dict[str, tuple[int, int]] = {}
        self.unclipped: dict[str, ir.Value] = {}
        self.wide: dict[str, ir.Value] = {}

    def constant(self, array: np.ndarray) -> ir.Value:
        key = (array.dtype.str, array.tobytes())
        if array.ndim == 0 and key in self.scalars:
            return self.scalars[key]
        name = f"{self.own}constant_{len(self.initializers)}"
        tensor = ir.tensor(array, name=name)
        value = ir.Value(name=name, shape=ir.Shape(array.shape), type=ir.TensorType(tensor.dtype), const_value=tensor)
        self.initializers.append(value)
        if array.ndim == 0:
            self.scalars[key] = value
        return value

    def append(self, nodes: Sequence[ir.Node], label: str) -> None:
        for index, made in enumerate(nodes):
            for output in made.outputs:
                output.name = f"{self.own}{len(self.nodes)}"
            made.name = f"{label}/{index}"
            self.nodes.append(made)

    def double(self, name: str) -> ir.Value:
        """The float64 form of a tensor of codes."""
        if name not in self.wide:
            if name in self.unclipped:
                low, high = (self.constant(np.asarray(float(bound))) for bound in self.ranges[name])
                node = ir.Node("", "Clip", [self.unclipped[name], low, high], num_outputs=1)
            else:
                node = ir.Node("", "Cast", [self.values[name]], attributes=[ir.AttrInt64("to", int(DOUBLE))],
                               num_outputs=1)
            self.append([node], f"{name}/wide")
            self.wide[name] = node.outputs[0]
        return self.wide[name]

    def operand(self, value: ir.Value) -> Operand:
        name = str(value.name)
        low, high = self.ranges.get(name, (0, 0))
        shape = () if value.shape is None else tuple(value.shape.numpy())
        return Operand(self.values[name], lambda: self.double(name), low, high, shape)

    def add(self, node: ir.Node) -> None:
        arrays: dict[str, np.ndarray] = {}
        operands: dict[str, Operand] = {}
        attributes = {a.name: a.value for a in node.attributes.values()}
        own = INTEGER_OPS[node.op_type] if node.domain == DOMAIN else None
        names = own.inputs if own else tuple(str(index) for index in range(len(node.inputs)))
        for name, value in zip(names, node.inputs, strict=True):
            if value is None:
                continue
            if value.const_value is not None:
                arrays[name] = value.const_value.numpy()
            else:
                operands[name] = self.operand(value)
        made = str(node.outputs[0].name)
        unclipped = None
        if own:
            emitter = FastEmitter(operands, attributes, arrays, self.constant)
            result = own.emit(emitter)
            nodes, unclipped = emitter.nodes, emitter.unclipped.get(result)
        else:
            # a mover: integer operands that are data travel as float32, shape operands stay what they are
            data = [
                operands[name].value if name in operands
                else self.constant(_carried(arrays[name])) if name in arrays else None
                for name in names
            ]
            mover = ir.Node("", node.op_type, data, attributes=list(node.attributes.values()), num_outputs=1)
            result, nodes = mover.outputs[0], [mover]
        self.append(nodes, str(node.name))
        result.name = made
        self.values[made] = result
        if unclipped is not None:
            self.unclipped[made] = unclipped
        if node.outputs[0].dtype is not None and node.outputs[0].dtype.numpy() in CARRIED:
            self.ranges[made] = self._range(node, attributes)

    def _range(self, node: ir.Node, attributes: Mapping[str, Any]) -> tuple[int, int]:
        """Bounds of the codes that a node gives."""
        if "low" in attributes and "high" in attributes:
            # a clamp with the lower bound above the upper one gives the upper one everywhere
            return min(attributes["low"], attributes["high"]), attributes["high"]
        bounds = [self.ranges[str(v.name)] for v in node.inputs if v is not None and str(v.name) in self.ranges]
        arrays = [v.const_value.numpy() for v in node.inputs if v is not None and v.const_value is not None]
        bounds += [(int(a.min()), int(a.max())) for a in arrays if a.dtype in CARRIED and a.size]
        if bounds and (node.domain != DOMAIN or node.op_type in PASSING):
            return min(low for low, _ in bounds), max(high for _, high in bounds)
        assert node.outputs[0].dtype is not None
        return _full_range(node.outputs[0].dtype.numpy())


def _full_range(dtype: np.dtype) -> tuple[int, int]:
    return int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)


def _carried(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float32) if array.dtype in CARRIED else array


def fast_model(nodes: Mapping[str, ir.Node], part: Part, wanted: list[str]) -> ir.Model:
    """The standard operators that compute the tensors `wanted` of one part."""
    shapes = {str(v.name): v.shape for n in part.nodes for v in (*nodes[n].inputs, *nodes[n].outputs) if v is not None}
    dtypes = {str(v.name): v.dtype for n in part.nodes for v in (*nodes[n].inputs, *nodes[n].outputs) if v is not None}
    fast = _FastGraph(shapes)
    inputs = []
    for name in part.inputs:
        own = dtypes[name]
        carried = FLOAT if own is None or own.numpy() in CARRIED else own
        fast.values[name] = ir.Value(name=name, shape=shapes[name], type=ir.TensorType(carried))
        if own is not None and own.numpy() in CARRIED:
            fast.ranges[name] = _full_range(own.numpy())
        inputs.append(fast.values[name])
    for name in part.nodes:
        fast.add(nodes[name])
    outputs = [fast.values[w] for w in wanted]
    graph = ir.Graph(inputs, outputs, nodes=_needed(fast.nodes, outputs), initializers=fast.initializers,
                     opset_imports={"": OPSET}, name="bpu_part")
    return ir.Model(graph, ir_version=8)


def _needed(nodes: Sequence[ir.Node], outputs: Sequence[ir.Value]) -> list[ir.Node]:
    """What the outputs are computed from: forms of a tensor that nothing reads are left out."""
    read, kept = set(outputs), []
    for node in reversed(nodes):
        if read & set(node.outputs):
            kept.append(node)
            read.update(v for v in node.inputs if v is not None)
    return kept[::-1]
