"""What both executors of an integer model share: the walk over the parts of the schedule, CPU parts in onnxruntime.

CPU parts, and what the vector unit of the BPU computes in float, run the same way everywhere: node by node as the
graph says, without onnxruntime's rewriting, so that their float results are the same bits in every executor.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np
import onnx_ir as ir

from ptqlab.graph import Session, outer_values, session
from ptqlab.ops.integer import DOMAIN
from ptqlab.stages.quantized import QuantizedModel
from ptqlab.stages.schedule import Part


class Executor:
    """Runs a quantized model. Integer tensors come out as the type they have on the BPU."""

    def __init__(self, quantized: QuantizedModel, *, keep: Sequence[str] = (), threads: int = 1) -> None:
        """`keep` names tensors of the integer model that `run` returns beside the outputs."""
        self.quantized = quantized
        self.keep = tuple(keep)
        self.threads = threads
        self.output_names = tuple(str(v.name) for v in quantized.model.graph.outputs)
        self.input_names = tuple(str(v.name) for v in quantized.model.graph.inputs)
        self._nodes = {str(n.name): n for n in quantized.model.graph}
        initializers = quantized.model.graph.initializers
        self._types = {
            str(o.name): o.dtype.numpy() for n in self._nodes.values() for o in n.outputs
            if n.domain == DOMAIN and o.name and o.dtype is not None
        }
        self._constant_outputs = {
            name: tensor.numpy() for name in self.output_names
            if name in initializers and (tensor := initializers[name].const_value) is not None
        }

    @cached_property
    def _float_sessions(self) -> dict[Part, Session]:
        return {
            part: session(self._submodel(part), outputs=self.wanted(part), optimise=False, threads=self.threads)
            for part in self.quantized.parts if part.device == "CPU" or part.floating
        }

    def wanted(self, part: Part) -> list[str]:
        """Tensors that a part hands on: its outputs, and what the caller wants kept."""
        made = {str(o.name) for name in part.nodes for o in self._nodes[name].outputs}
        return list(dict.fromkeys([*part.outputs, *(t for t in self.keep if t in made)]))

    def run(self, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Outputs and kept tensors by name, for one set of inputs by name."""
        live = {**feeds, **self._constant_outputs}
        for part in self.quantized.parts:
            live.update(self.run_part(part, live))
        return {name: live[name] for name in dict.fromkeys([*self.output_names, *self.keep])}

    def run_part(self, part: Part, live: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """What one part hands on, by name; `live` holds what it reads."""
        if part.device == "BPU" and not part.floating:
            return self._run_bpu(part, live)
        runner = self._float_sessions[part]
        # whole numbers that a fast BPU part carried in float32 are handed on in their own type
        inputs = {name: live[name].astype(self._types[name], copy=False) if name in self._types else live[name]
                  for name in runner.input_names}
        return dict(zip(runner.output_names, runner.run(None, inputs), strict=True))

    def _run_bpu(self, part: Part, live: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        raise NotImplementedError

    def _submodel(self, part: Part) -> ir.Model:
        """A model of the nodes of one float part, as they are."""
        source = self.quantized.model
        values: dict[str, ir.Value] = {}
        initializers: list[ir.Value] = []

        def read(value: ir.Value | None) -> ir.Value | None:
            if value is None:
                return None
            name = str(value.name)
            if name not in values:
                values[name] = ir.Value(name=name, shape=value.shape, type=value.type, const_value=value.const_value)
                if value.const_value is not None:
                    initializers.append(values[name])
            return values[name]

        inputs = [read(_value(source, name)) for name in part.inputs]
        nodes = []
        for name in part.nodes:
            old = self._nodes[name]
            for value in outer_values(old):  # what a body reads from outside must be there too
                read(value)
            node = ir.Node(old.domain, old.op_type, [read(v) for v in old.inputs], num_outputs=len(old.outputs),
                           attributes=list(old.attributes.values()), name=name)
            for new, out in zip(node.outputs, old.outputs, strict=True):
                new.name, new.shape, new.type = out.name, out.shape, out.type
                if out.name:
                    values[out.name] = new
            nodes.append(node)
        graph = ir.Graph([v for v in inputs if v is not None], [values[o] for o in self.wanted(part)], nodes=nodes,
                         initializers=initializers, opset_imports={"": source.opset_imports[""]}, name="float_part")
        return ir.Model(graph, ir_version=source.ir_version)


def _value(model: ir.Model, name: str) -> ir.Value:
    for value in model.graph.inputs:
        if value.name == name:
            return value
    return next(o for n in model.graph for o in n.outputs if o.name == name)
