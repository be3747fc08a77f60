"""Thresholds per channel, where the hardware model can have them: between two operators with weights.

Channel c of a tensor then has the step  s * r[c]. Nothing but numbers changes: the producer requantizes each of its
output channels by its own ratio, as it does anyway, and the reader's weights take the factors in before they are
rounded,  sum w[c] * (q[c] * s * r[c])  =  s * sum (w[c] * r[c]) * q[c].  Everything else that could read or write the
tensor would need one step for all channels, and then the tensor keeps one. [our definition]

r[c] = T[c] / T with T the tensor's threshold and T[c] the channel's largest value, held between T / 2 and T: smaller
steps would follow the samples too closely (measured on EfficientNet-lite0: cosine 0.979 falls to 0.923 without a
floor).

equalization is cross-layer equalization in these terms. Rescaling channel c between two operators, w1[c] / r[c] and
w2[c] * r[c], does not change the network, and nothing of w1 where each of its output channels has a scale of its own;
what is left is the step s * r[c] of the channel and the factor on the reader's weights. r[c] brings both to the same
size,
    r[c] = sqrt( (T[c] / T) / W[c] ),  held between T[c] / T and 1,
with W[c] the largest of the reader's weights for channel c, each relative to the largest of its output channel. Below
T[c] / T the channel would be cut off, above 1 it would leave the codes. So the clamp of a fused Relu6 stays exact for
every channel: no threshold lies beyond it, as for per_channel.
"""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir

from ptqlab.arith.formats import QType
from ptqlab.graph import FloatGraph
from ptqlab.ops.node import attribute, constant, has_weights, shape
from ptqlab.ops.table import spec_of
from ptqlab.quantize.weights import channel_axis, channel_scales, numbers, per_weight, weight_groups
from ptqlab.stages.plan import Plan

FLOOR = 0.5
CONVOLUTIONS = ("Conv", "ConvTranspose")
PRODUCTS = ("Gemm", "MatMul")


@dataclass(frozen=True)
class Channels:
    """Which slots can have a step per channel.

    trailing  slot -> number of axes behind the channels
    limits    slot -> upper bound of a fused Clip: the threshold must not exceed it
    reasons   every other slot -> why it keeps one step
    weights   slot -> largest weight of its readers for each channel, see above
    """

    trailing: Mapping[str, int]
    limits: Mapping[str, float]
    reasons: Mapping[str, str]
    weights: Mapping[str, np.ndarray] = field(default_factory=dict)


def find_channels(graph: FloatGraph, plan: Plan) -> Channels:
    """Look at every slot of a plan."""
    members: dict[str, list[str]] = {}
    for tensor in plan.tensors.values():
        members.setdefault(tensor.slot, []).append(tensor.name)
    trailing: dict[str, int] = {}
    limits: dict[str, float] = {}
    reasons: dict[str, str] = {}
    weights: dict[str, np.ndarray] = {}
    for slot, tensors in members.items():
        why = _why_not(graph, plan, slot, tensors)
        if why:
            reasons[slot] = why
            continue
        producer = graph.producer(slot)
        assert producer is not None
        group = plan.group_of(str(producer.name))
        convolution = graph.node(group.main).op_type in CONVOLUTIONS
        trailing[slot] = len(graph.shape(slot)) - 2 if convolution else 0
        if group.high is not None and np.isfinite(group.high):
            limits[slot] = group.high
        weights[slot] = np.max([reader_weights(reader) for reader in graph.consumers(slot)], axis=0)
    return Channels(trailing, limits, reasons, weights)


def _why_not(graph: FloatGraph, plan: Plan, slot: str, tensors: list[str]) -> str:
    if len(tensors) > 1:
        return "operators that only move data share it"
    producer = graph.producer(slot)
    if producer is None or not plan.nodes[str(producer.name)].on_bpu:
        return "no operator on the BPU writes it"
    group = plan.group_of(str(producer.name))
    main = graph.node(group.main)
    if not (spec_of(main.op_type).is_tae and has_weights(main)):
        return f"{main.op_type} writes it, which has one step for all channels"
    if group.residual is not None:
        return "a residual is added to it"
    if graph.values[slot].is_graph_output():
        return "it is an output of the model"
    kinds = CONVOLUTIONS if main.op_type in CONVOLUTIONS else PRODUCTS
    for reader in graph.consumers(slot):
        name = str(reader.name)
        alone = plan.nodes[name].on_bpu and plan.group_of(name).main == name
        weighted = alone and reader.op_type in kinds and has_weights(reader)
        if not weighted or any(v is graph.values[slot] for v in reader.inputs[1:]):
            return f"{name} ({reader.op_type}) reads it with one step for all channels"
    return ""


def reader_weights(node: ir.Node) -> np.ndarray:
    """W[c] of an operator with weights, float64 [C] in 0 .. 1: its largest weight for each input channel, relative to
    the largest of the output channel it belongs to."""
    raw = constant(node.inputs[1])
    assert raw is not None, "weights are constant by rule"
    weight = np.abs(numbers(raw).astype(np.float64))
    scale = channel_scales(weight, channel_axis(node), weight_groups(node)).astype(np.float64) * QType.INT8.qmax
    relative = weight / per_weight(node, scale, weight.ndim)
    if node.op_type == "Conv":
        group = attribute(node, "group", 1)
        by_group = relative.reshape(group, weight.shape[0] // group, weight.shape[1], -1)
        return np.asarray(by_group.max(axis=(1, 3)).ravel())
    transposed = node.op_type == "Gemm" and attribute(node, "transB", 0)
    return np.asarray(relative.max(axis=0 if transposed else tuple(range(1, weight.ndim))))


def equalized(largest: np.ndarray, threshold: float, weights: np.ndarray) -> np.ndarray:
    """r[c] of equalization as float32, rounded as in `factors`."""
    share = np.clip(np.asarray(largest, np.float64) / threshold, 0.0, 1.0)
    ratio = np.clip(np.sqrt(share / np.maximum(weights, 1e-6)), share, 1.0)
    return (np.ceil(np.maximum(ratio, 1 / 4096) * 4096) / 4096).astype(np.float32)


def factors(largest: np.ndarray, threshold: float) -> np.ndarray:
    """r[c] as float32, in [FLOOR, 1]; rounded to twelve bits so that w * r stays near to the grid of w."""
    ratio = np.clip(np.asarray(largest, np.float64) / threshold, FLOOR, 1.0)
    return (np.ceil(ratio * 4096) / 4096).astype(np.float32)


def along_input(node: ir.Node, given: np.ndarray) -> np.ndarray:
    """Factors of the input channels of an operator, shaped to multiply its weights as the node holds them."""
    weight, flat = shape(node.inputs[1]), given.ravel()
    ones = (1,) * (len(weight) - 2)
    if node.op_type == "Conv":
        group = attribute(node, "group", 1)
        rows = np.repeat(flat.reshape(group, -1), weight[0] // group, axis=0)
        return np.asarray(rows.reshape(weight[0], weight[1], *ones))
    if node.op_type == "ConvTranspose":
        return flat.reshape(-1, 1, *ones)
    transposed = node.op_type == "Gemm" and attribute(node, "transB", 0)
    return flat.reshape(1, -1) if transposed else flat.reshape(-1, 1)
