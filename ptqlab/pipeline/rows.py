"""The rows of the record: what the node table and the output table say."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx_ir as ir

from ptqlab.arith.formats import QType
from ptqlab.arith.metrics import Agreement
from ptqlab.graph import FloatGraph
from ptqlab.ops.spec import Role
from ptqlab.ops.table import spec_of
from ptqlab.pipeline.measure import Measures
from ptqlab.platforms import Platform
from ptqlab.stages.calibration import Calibration
from ptqlab.stages.plan import NodePlan, Plan
from ptqlab.stages.record import NodeRow, OutputRow, TensorInfo


def node_rows(
    graph: FloatGraph, plan: Plan, calibration: Calibration | None, measures: Measures, platform: Platform
) -> tuple[NodeRow, ...]:
    return tuple(_node_row(graph, node, plan, calibration, measures, platform) for node in graph.nodes)


def first_output(node: ir.Node) -> str:
    """Name of the first output that a node really has (an LSTM may leave out its first)."""
    return next(str(o.name) for o in node.outputs if o.name)


def _node_row(
    graph: FloatGraph,
    node: ir.Node,
    plan: Plan,
    calibration: Calibration | None,
    measures: Measures,
    platform: Platform,
) -> NodeRow:
    name = str(node.name)
    decided, output = plan.nodes[name], first_output(node)
    threshold, tags = _threshold(node, decided, plan, calibration)
    granted = decided.granted
    spec = spec_of(node)
    if decided.writes_integers and output in plan.tensors and (spec.role is Role.PASSIVE or spec.features == ()):
        granted = plan.tensors[output].stored.value  # it reads no activation of its own type
    elif decided.on_bpu and spec.plain_output and spec.features == ():
        granted = str(graph.dtype(output))
    calibrated, quantized = measures.of("calibrated", output), measures.of("quantized", output)
    if calibrated is not None and calibrated.all_zero:
        tags = tuple(dict.fromkeys((*tags, "all-zero")))
    return NodeRow(
        name,
        node.op_type,
        decided.device.value,
        f"id({decided.segment})" if decided.on_bpu else "--",
        threshold,
        _cosine(calibrated),
        _cosine(quantized),
        _data_type(graph, node, decided, plan, platform),
        decided.asked,
        granted,
        decided.reason,
        decided.rule,
        decided.group if decided.group != name else "",
        tags,
        output,
    )


def _threshold(
    node: ir.Node, decided: NodePlan, plan: Plan, calibration: Calibration | None
) -> tuple[float | None, tuple[str, ...]]:
    """Threshold of the first quantized input that the node reads from memory, and the tags of it and of the output."""
    if calibration is None:
        return None, ()
    output = plan.tensors.get(first_output(node))
    tags = calibration.thresholds[output.slot].tags if output else ()
    for value, qtype in zip(node.inputs, decided.inputs, strict=True):
        if value is not None and qtype is not None and value.name in plan.tensors:
            return calibration.thresholds[plan.tensors[str(value.name)].slot].value, tags
    return None, tags


def _data_type(graph: FloatGraph, node: ir.Node, decided: NodePlan, plan: Plan, platform: Platform) -> str:
    if decided.tail:
        return platform.tail_type.word
    if decided.output is not None:
        return decided.output.word
    written = plan.group_of(str(node.name)).output if decided.on_bpu else first_output(node)
    if decided.on_bpu and written in plan.tensors:
        return plan.tensors[written].stored.word
    dtype = graph.dtype(written)
    if decided.on_bpu and str(dtype) in {t.value for t in QType}:
        return QType(str(dtype)).word
    return "f32" if dtype == np.float32 else str(dtype)


def _cosine(agreement: Agreement | None) -> float | None:
    return None if agreement is None or not agreement.samples else float(agreement.cosine)


def output_rows(graph: FloatGraph, measures: Measures) -> tuple[OutputRow, ...]:
    rows = []
    for value in graph.outputs:
        name = str(value.name)
        quantized = measures.of("quantized", name)
        figures: Mapping[str, float | None] = {"sqnr": None, "l1": None, "l2": None, "chebyshev": None}
        if quantized is not None and quantized.samples:
            figures = {key: float(getattr(quantized, key)) for key in figures}
        rows.append(OutputRow(name, _cosine(measures.of("calibrated", name)), _cosine(quantized), **figures))
    return tuple(rows)


def tensor_infos(values: tuple[ir.Value, ...], graph: FloatGraph) -> tuple[TensorInfo, ...]:
    return tuple(TensorInfo(str(v.name), str(graph.dtype(str(v.name))), graph.shape(str(v.name))) for v in values)
