"""Helpers for tests of operators: a small float model placed, quantized, lowered and run in every form."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx
from models import init, model, node, value
from small import same_bits

from ptqlab.events import Watch
from ptqlab.graph import FloatGraph, load, session
from ptqlab.passes import optimize
from ptqlab.placement import Ask, Asks, place
from ptqlab.platforms import platform
from ptqlab.quantize.calibrate import calibrate
from ptqlab.quantize.encode import encode
from ptqlab.quantize.lower import lower
from ptqlab.simulate import FastExecutor, ReferenceExecutor
from ptqlab.stages.calibration import Encodings
from ptqlab.stages.plan import Plan
from ptqlab.stages.quantized import QuantizedModel

Feeds = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Lowered:
    """A quantized small model and what it gave for the first sample.

    floats    the float model's tensors;  outputs  those of the integer model, as float
    codes     integer tensor of each tensor of the graph that has one
    """

    graph: FloatGraph
    plan: Plan
    encodings: Encodings
    quantized: QuantizedModel
    floats: dict[str, np.ndarray]
    outputs: dict[str, np.ndarray]
    codes: dict[str, np.ndarray]

    def step(self, tensor: str) -> float:
        return float(np.asarray(self.quantized.integers[tensor].scale).max())

    def real(self, tensor: str) -> np.ndarray:
        """What the codes of a tensor stand for."""
        stored = self.quantized.integers[tensor]
        return (self.codes[tensor].astype(np.float64) - stored.zero_point) * stored.scale.astype(np.float64)

    def operators(self) -> list[str]:
        return [n.op_type for n in self.quantized.model.graph]

    def cosine(self, tensor: str) -> float:
        a, b = self.floats[tensor].ravel().astype(np.float64), self.outputs[tensor].ravel().astype(np.float64)
        return float(a @ b / np.sqrt(a @ a) / np.sqrt(b @ b))


def one_node(op: str, feeds: Feeds, constants: Mapping[str, object] | None = None, inputs: Sequence[str] | None = None,
             **attributes: object) -> onnx.ModelProto:
    """A model of one operator named "op"; its inputs are the feeds, then the constants, unless `inputs` orders them."""
    constants = constants or {}
    names = list(inputs) if inputs is not None else [*feeds, *constants]
    return model([node(op, names, "y", "op", **attributes)], [value(n, a.shape) for n, a in feeds.items()],
                 [value("y", None)], [init(n, a) for n, a in constants.items()], opset=19)


def lowered(proto: onnx.ModelProto | FloatGraph, *samples: Feeds, qtype: str = "int8",
            asks: Mapping[str, Ask] | None = None, march: str = "nash-e", output: object = None,
            asymmetric: bool = False) -> Lowered:
    """Quantize a model for samples (all nodes of type `qtype`, unless `asks` says otherwise) and run it on the first.

    asymmetric  every tensor gets the range it was seen in, with a zero point, instead of -T to T

    The reference kernels, the fast path and onnxruntime on the integer model must agree in every bit.
    """
    graph = proto if isinstance(proto, FloatGraph) else optimize(load(proto))
    wanted = {str(n.name): Ask(qtype, level="model") for n in graph.nodes} | dict(asks or {})
    plan = place(graph, platform(march), Asks(wanted, output))
    calibration = calibrate(graph, plan, list(samples), len(samples), Watch())
    if asymmetric:
        ranges = {s: replace(t, bounds=(min(t.low, 0.0), max(t.high, 0.0))) for s, t in calibration.thresholds.items()
                  if t.low != t.high}
        calibration = replace(calibration, thresholds={**calibration.thresholds, **ranges})
    encodings = encode(graph, plan, calibration)
    quantized = lower(graph, plan, encodings)
    keep = [t.name for t in quantized.integers.values()]
    names = list(dict.fromkeys([str(o.name) for o in graph.outputs] + keep))
    feeds = dict(samples[0])
    results = ReferenceExecutor(quantized, keep=keep).run(feeds)
    fast = FastExecutor(quantized, keep=keep).run(feeds)
    functions = session(quantized.model, outputs=names, optimise=False)
    standard = dict(zip(functions.output_names, functions.run(None, feeds), strict=True))
    for name in names:
        same_bits(fast[name], results[name], f"fast path, {name}")
        same_bits(standard[name], results[name], f"onnxruntime, {name}")
    tensors = [str(o.name) for n in graph.nodes for o in n.outputs if o.name]
    floats = dict(zip(tensors, session(graph.model, outputs=tensors).run(tensors, feeds), strict=True)) | feeds
    outputs = {str(o.name): results[str(o.name)] for o in graph.outputs}
    codes = {tensor: results[t.name] for tensor, t in quantized.integers.items()}
    return Lowered(graph, plan, encodings, quantized, floats, outputs, codes)
