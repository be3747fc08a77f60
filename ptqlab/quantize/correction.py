"""Bias correction decided node by node: kept where the node's output comes nearer to the float model's by a metric.

The correction itself is a matter of weights (`quantize.weights`, from the means of `quantize.means`). Here every
corrected node runs alone on its float input, with float and with quantized weights, on samples that the means have
not seen where there are enough of them.
"""
from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, replace

import numpy as np
import onnx_ir as ir

from ptqlab.arith.metrics import METRICS, Agreement
from ptqlab.events import Watch
from ptqlab.graph import FloatGraph
from ptqlab.ops.spec import WeightEncoding
from ptqlab.quantize.encode import encode
from ptqlab.quantize.parallel import PortableSession, Sample, SampleSet, ordered
from ptqlab.quantize.recipe import Correction
from ptqlab.quantize.weights import dequantized
from ptqlab.stages.calibration import Calibration
from ptqlab.stages.plan import Plan


@dataclass(frozen=True)
class Decision:
    """Score of one node's output without and with the correction, and whether it is kept."""

    node: str
    without: float
    corrected: float
    kept: bool


def judge(
    graph: FloatGraph, plan: Plan, calibration: Calibration, asked: Correction, samples: SampleSet, watch: Watch,
    executor: Executor | None = None,
) -> tuple[Calibration, list[Decision]]:
    """The calibration without the corrections that do not help, and every decision.

    Judged on samples n .. 2n - 1 for means of samples 0 .. n - 1; on the same samples where there are fewer than 2n.
    """
    weights = encode(graph, plan, calibration).weights
    nodes = [n for n in calibration.means if weights[n].correction is not None]
    count = min(asked.num_sample, len(samples))
    first = count if len(samples) >= 2 * count else 0
    metric = METRICS[asked.metric]
    sums = {n: (Agreement(), Agreement()) for n in nodes}
    job = _Twins(graph, {n: weights[n] for n in nodes})
    with watch.stage("correct biases", count) as stage:
        for found in ordered(executor, job, (samples[i] for i in range(first, first + count))):
            for node, pair in found.items():
                for total, one in zip(sums[node], pair, strict=True):
                    total.merge(one)
            stage.step()
    decisions = []
    for node, (without, corrected) in sums.items():
        a, b = metric.of(without), metric.of(corrected)
        decisions.append(Decision(node, a, b, metric.better(b, a)))
    kept = {d.node for d in decisions if d.kept}
    watch.log(f"bias correction: kept for {len(kept)} of {len(decisions)} nodes, by {asked.metric}")
    return replace(calibration, means={n: m for n, m in calibration.means.items() if n in kept}), decisions


class _Twins:
    """For one sample: how near each node's output comes to the float one, with quantized weights, and corrected."""

    def __init__(self, graph: FloatGraph, weights: Mapping[str, WeightEncoding]) -> None:
        inputs = {str(v.name) for v in graph.inputs}
        self.features = {n: str(graph.node(n).inputs[0].name) for n in weights}  # type: ignore[union-attr]
        self.computed = list(dict.fromkeys(f for f in self.features.values() if f not in inputs))
        self.float = PortableSession(graph.model, self.computed) if self.computed else None
        self.twins = {n: PortableSession(twin(graph.node(n), w)) for n, w in weights.items()}
        self.shift = {n: _along(graph.node(n), w.correction) for n, w in weights.items()}

    def __call__(self, sample: Sample) -> dict[str, tuple[Agreement, Agreement]]:
        arrays = dict(sample)
        if self.float is not None:
            arrays |= zip(self.computed, self.float.run(self.computed, sample), strict=True)
        found = {}
        for node, feature in self.features.items():
            wanted, quantized = self.twins[node].run(None, {"x": arrays[feature]})
            without, corrected = Agreement(), Agreement()
            without.add(wanted, quantized, distances=True)
            corrected.add(wanted, quantized + self.shift[node], distances=True)
            found[node] = (without, corrected)
        return found


def _along(node: ir.Node, correction: np.ndarray | None) -> np.ndarray:
    """The correction, shaped to be added to the node's output."""
    assert correction is not None and node.outputs[0].shape is not None
    rank = len(node.outputs[0].shape)
    axis = 1 if node.op_type in ("Conv", "ConvTranspose") else rank - 1
    return correction.astype(np.float32).reshape(tuple(-1 if a == axis else 1 for a in range(rank)))


def twin(node: ir.Node, encoding: WeightEncoding) -> ir.Model:
    """A model of the node alone: input "x", outputs of the node with float and with quantized weights."""
    x = node.inputs[0]
    assert x is not None and node.inputs[1] is not None
    feed = ir.Value(name="x", shape=x.shape, type=x.type)
    raw = node.inputs[1].const_value
    assert raw is not None
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    constants = {"weight": raw.numpy(), "quantized": dequantized(node, encoding)}
    if bias is not None and bias.const_value is not None:
        constants["bias"] = bias.const_value.numpy()
    values = {}
    for name, array in constants.items():
        tensor = ir.tensor(array, name=name)
        dtype = ir.TensorType(tensor.dtype)
        values[name] = ir.Value(name=name, shape=ir.Shape(array.shape), type=dtype, const_value=tensor)
    made = []
    for name in ("weight", "quantized"):
        inputs = [feed, values[name]] + ([values["bias"]] if "bias" in values else [])
        attributes = list(node.attributes.values())
        made.append(ir.Node("", node.op_type, inputs, attributes=attributes, num_outputs=1, name=name))
        out = made[-1].outputs[0]
        out.name, out.shape, out.type = f"{name}_output", node.outputs[0].shape, node.outputs[0].type
    graph = ir.Graph([feed], [n.outputs[0] for n in made], nodes=made, initializers=list(values.values()),
                     opset_imports={"": 19}, name="twin")
    return ir.Model(graph, ir_version=8)
