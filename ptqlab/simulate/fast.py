"""The fast path: one onnxruntime graph of standard operators per BPU part, integers carried in float32.

Equal to the reference kernels in every bit: see `ops.emit` and `ops.integer.accumulate` for why, and the tests
for the proof. float32 holds every code of 8 and 16 bits; accumulators are kept below 2^24 or carried in int32
or float64.
"""
from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cached_property
from typing import Any

import numpy as np
import onnx_ir as ir

from ptqlab.graph import Session, session
from ptqlab.ops.emit import FLOAT, FastEmitter
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
            part: session(_fast_model(self._nodes, part, self.wanted(part)), threads=self.threads)
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


class _FastGraph:
    """Collects the standard nodes of one part; tensors of its own get names that no tensor in `taken` begins with."""

    def __init__(self, taken: Collection[str]) -> None:
        self.own = "."
        while any(name.startswith(self.own) for name in taken):
            self.own += "."
        self.nodes: list[ir.Node] = []
        self.values: dict[str, ir.Value] = {}
        self.initializers: list[ir.Value] = []
        self.scalars: dict[tuple[str, bytes], ir.Value] = {}

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

    def add(self, node: ir.Node) -> None:
        arrays: dict[str, np.ndarray] = {}
        values: dict[str, ir.Value] = {}
        attributes = {a.name: a.value for a in node.attributes.values()}
        own = INTEGER_OPS[node.op_type] if node.domain == DOMAIN else None
        names = own.inputs if own else tuple(str(index) for index in range(len(node.inputs)))
        for name, value in zip(names, node.inputs, strict=True):
            if value is None:
                continue
            if value.const_value is not None:
                arrays[name] = value.const_value.numpy()
            else:
                values[name] = self.values[str(value.name)]
        if own:
            emitter = FastEmitter(values, attributes, arrays, self.constant)
            result = own.emit(emitter)
            nodes = emitter.nodes
        else:
            # a mover: integer operands that are data travel as float32, shape operands stay what they are
            data = [
                values[name] if name in values else self.constant(_carried(arrays[name])) if name in arrays else None
                for name in names
            ]
            mover = ir.Node("", node.op_type, data, attributes=list(node.attributes.values()), num_outputs=1)
            result, nodes = mover.outputs[0], [mover]
        for index, made in enumerate(nodes):
            for output in made.outputs:
                output.name = f"{self.own}{len(self.nodes) + index}"
            made.name = f"{node.name}/{index}"
        result.name = str(node.outputs[0].name)
        self.values[str(node.outputs[0].name)] = result
        self.nodes += nodes


def _carried(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float32) if array.dtype in CARRIED else array


def _fast_model(nodes: Mapping[str, ir.Node], part: Part, wanted: list[str]) -> ir.Model:
    shapes = {str(v.name): v.shape for n in part.nodes for v in (*nodes[n].inputs, *nodes[n].outputs) if v is not None}
    dtypes = {str(v.name): v.dtype for n in part.nodes for v in (*nodes[n].inputs, *nodes[n].outputs) if v is not None}
    fast = _FastGraph(shapes)
    inputs = []
    for name in part.inputs:
        own = dtypes[name]
        carried = FLOAT if own is None or own.numpy() in CARRIED else own
        fast.values[name] = ir.Value(name=name, shape=shapes[name], type=ir.TensorType(carried))
        inputs.append(fast.values[name])
    for name in part.nodes:
        fast.add(nodes[name])
    graph = ir.Graph(inputs, [fast.values[w] for w in wanted], nodes=fast.nodes, initializers=fast.initializers,
                     opset_imports={"": OPSET}, name="bpu_part")
    return ir.Model(graph, ir_version=8)
