"""Fold per-channel arithmetic into the weights of the operator in front of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from ptqlab.passes.base import Work, get_float, get_int, get_ints, get_string, shape_of

WEIGHTED = frozenset({"Conv", "ConvTranspose", "Gemm"})


@dataclass(frozen=True)
class Affine:
    """y = scale * x + shift, one value per channel (axis 1) or one for all; float64."""

    scale: np.ndarray
    shift: np.ndarray


def batch_norm_affine(work: Work, node: ir.Node) -> Affine | None:
    """BatchNormalization in inference as an affine map; None when its statistics are not constant or are updated."""
    parameters = [work.constant(v) for v in node.inputs[1:5]]
    training = get_int(node, "training_mode", 0) or any(o.name for o in node.outputs[1:])
    if training or any(p is None for p in parameters):
        return None
    scale, bias, mean, variance = (np.asarray(p, np.float64) for p in parameters)
    with np.errstate(all="ignore"):
        factor = scale / np.sqrt(variance + get_float(node, "epsilon", 1e-5))
        shift = bias - mean * factor
    return Affine(factor, shift)


def _per_channel(array: np.ndarray, rank: int, channels: int) -> np.ndarray | None:
    """A constant that broadcasts along axis 1 only, as [channels]; None when it varies elsewhere."""
    if array.size == 1:
        return np.full(channels, array.reshape(-1)[0], np.float64)
    padded = (1,) * (rank - array.ndim) + array.shape
    if array.ndim > rank or padded[1] != channels or any(d != 1 for i, d in enumerate(padded) if i != 1):
        return None
    return array.reshape(-1).astype(np.float64)


def constant_affine(work: Work, node: ir.Node, source: ir.Value, channels: int) -> Affine | None:
    """Add, Sub, Mul or Div of `source` and a per-channel constant as an affine map; None when it is none."""
    if node.op_type not in ("Add", "Sub", "Mul", "Div") or len(node.inputs) != 2:
        return None
    index = 0 if node.inputs[0] is source else 1
    array = work.constant(node.inputs[1 - index])
    shape = shape_of(source)
    if array is None or array.dtype.kind != "f" or shape_of(node.outputs[0]) != shape:
        return None
    value = _per_channel(array, len(shape), channels)
    if value is None:
        return None
    zero, one = np.zeros(channels), np.ones(channels)
    match node.op_type, index:
        case "Add", _:
            return Affine(one, value)
        case "Sub", 0:
            return Affine(one, -value)
        case "Sub", _:
            return Affine(-one, value)
        case "Mul", _:
            return Affine(value, zero)
        case "Div", 0 if np.all(value != 0):
            return Affine(1 / value, zero)
    return None


class FuseAffine:
    """Given Conv, ConvTranspose or Gemm with constant weights, read only by BatchNormalization (inference), or by Add,
    Sub, Mul or Div of a constant per output channel; grouped and depthwise too.
    Result: weights and bias hold the map, computed in float64; the operator keeps its name, the other's name becomes
    an alias of it. Refused when the result in front is an output of the model or has another reader."""

    def __call__(self, work: Work) -> int:
        changes = 0
        for node in list(work.graph):
            if node.graph is not None and node.op_type in WEIGHTED:
                while self._fuse(work, node):
                    changes += 1
        return changes

    def _fuse(self, work: Work, node: ir.Node) -> bool:
        output = node.outputs[0]
        if output.dtype != ir.DataType.FLOAT:
            return False
        readers = [use.node for use in output.uses()]
        if not any(r.op_type == "BatchNormalization" or r.op_type in ("Add", "Sub", "Mul", "Div") for r in readers):
            return False
        channels = shape_of(output)[1] if len(shape_of(output)) > 1 else 0
        reader = readers[0]
        if reader.op_type == "BatchNormalization":
            affine = batch_norm_affine(work, reader)
            if affine is None:
                return bool(work.refuse(reader, "its statistics are not constant"))
        else:
            affine = constant_affine(work, reader, output, channels)
            if affine is None:
                return False
        if work.sole_reader(output) is None:
            for one in readers:
                if one.op_type == "BatchNormalization":
                    work.refuse(one, f"the result of '{node.name}' is needed elsewhere, too")
            return False
        weights = work.constant(node.inputs[1])
        given = node.inputs[2] if len(node.inputs) > 2 else None
        bias = np.zeros(channels) if given is None else work.constant(given)
        if weights is None or bias is None:
            return bool(work.refuse(reader, f"the weights of '{node.name}' are not constant"))
        if node.op_type == "Gemm" and not _plain_gemm(work, node):
            return bool(work.refuse(reader, f"'{node.name}' is not in plain form"))
        with np.errstate(all="ignore"):
            scaled = (weights * _weight_factor(node, weights, affine.scale)).astype(np.float32)
            shifted = np.broadcast_to(bias.astype(np.float64).reshape(-1), channels) * affine.scale + affine.shift
            shifted = shifted.astype(np.float32)
        if not np.isfinite(scaled).all() or not np.isfinite(shifted).all():
            return bool(work.refuse(reader, "the result would hold Inf or NaN"))
        if (affine.scale != 1).any():
            work.set_constant(node, 1, scaled)
        if given is None and not shifted.any():
            pass  # a pure factor needs no bias
        else:
            work.set_constant(node, 2, shifted, str(given.name) if given is not None else f"{node.name}_bias")
        work.absorb(node, reader)
        return True


def _plain_gemm(work: Work, node: ir.Node) -> bool:
    given = node.inputs[2] if len(node.inputs) > 2 else None
    rows = given is None or shape_of(given)[:-1] in ((), (1,))
    return get_float(node, "alpha", 1.0) == 1 and get_float(node, "beta", 1.0) == 1 and rows


def _weight_factor(node: ir.Node, weights: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """What the weights are multiplied by (broadcasting), so that output channel c is multiplied by scale[c]."""
    tail = (1,) * (weights.ndim - 2)
    if node.op_type == "Conv":  # [Cout, Cin/g, ...]
        return scale.reshape(-1, 1, *tail)
    if node.op_type == "Gemm":  # [K, N], or [N, K] with transB
        return scale[:, None] if get_int(node, "transB", 0) else scale
    # ConvTranspose [Cin, Cout/g, ...]: a row of group k gives the channels k*Cout/g ... of that group
    groups = get_int(node, "group", 1)
    rows = np.repeat(scale.reshape(groups, -1), weights.shape[0] // groups, axis=0)
    return rows.reshape(*rows.shape, *tail)


class FusePad:
    """Given Pad with constant 0 on the spatial axes, read by Conv, or by AveragePool that counts its padding.
    Result: the pads of that operator; the Pad's name becomes an alias of it. Refused for negative pads, other values,
    or padding of batch or channels."""

    def __call__(self, work: Work) -> int:
        changes = 0
        for node in list(work.graph):
            if node.op_type == "Pad" and self._fuse(work, node):
                changes += 1
        return changes

    def _fuse(self, work: Work, node: ir.Node) -> bool:
        reader = work.sole_reader(node.outputs[0])
        if reader is None or reader.op_type not in ("Conv", "AveragePool") or reader.inputs[0] is not node.outputs[0]:
            return False
        counts = (
            reader.op_type == "Conv" or get_int(reader, "count_include_pad", 0) or not any(get_ints(reader, "pads"))
        )
        pads = _full_pads(work, node)
        value = 0.0 if len(node.inputs) < 3 or node.inputs[2] is None else work.scalar(node.inputs[2])
        if get_string(node, "mode", "constant") != "constant" or value != 0 or pads is None or not counts:
            return bool(work.refuse(node, "it is no padding with zeros that the operator behind it can do"))
        rank = len(pads) // 2
        spatial = [pads[i] for i in (*range(2, rank), *range(rank + 2, 2 * rank))]
        if any(pads[i] for i in (0, 1, rank, rank + 1)) or min(spatial) < 0:
            return bool(work.refuse(node, "it pads batch or channels, or cuts"))
        if reader.op_type == "AveragePool":
            if get_int(reader, "ceil_mode", 0):
                return bool(work.refuse(node, "the pooling behind it rounds its size up"))
            kernel = get_ints(reader, "kernel_shape")
            if any(p >= k for p, k in zip(spatial, kernel * 2, strict=True)):
                return bool(work.refuse(node, "it pads as much as the window of the pooling behind it"))
            reader.attributes["count_include_pad"] = ir.AttrInt64("count_include_pad", 1)
        own = get_ints(reader, "pads", [0] * len(spatial))
        reader.attributes["pads"] = ir.AttrInt64s("pads", [a + b for a, b in zip(own, spatial, strict=True)])
        reader.replace_input_with(0, node.inputs[0])
        work.merge(node, reader)
        return True


def _full_pads(work: Work, node: ir.Node) -> list[int] | None:
    """Begin and end pads of every axis; None when they are not constant."""
    pads = work.constant(node.inputs[1])
    if pads is None:
        return None
    rank = len(shape_of(node.inputs[0]))
    axes = work.constant(node.inputs[3]) if len(node.inputs) > 3 and node.inputs[3] is not None else np.arange(rank)
    if axes is None:
        return None
    full = [0] * (2 * rank)
    for index, axis in enumerate(axes):
        full[int(axis) % rank] = int(pads[index])
        full[int(axis) % rank + rank] = int(pads[index + len(axes)])
    return full


class FuseMatMulBias:
    """Given MatMul of rank 2 with constant weights, read only by Add of a constant row.
    Result: Gemm under the name of the MatMul; the Add's name becomes an alias. A MatMul of higher rank stays
    MatMul + Add."""

    def __call__(self, work: Work) -> int:
        changes = 0
        for node in list(work.graph):
            if (
                node.op_type != "MatMul"
                or work.constant(node.inputs[1]) is None
                or node.outputs[0].dtype != ir.DataType.FLOAT
            ):
                continue
            output = node.outputs[0]
            reader = work.sole_reader(output)
            if reader is None or reader.op_type != "Add":
                continue
            other = reader.inputs[1] if reader.inputs[0] is output else reader.inputs[0]
            bias = work.constant(other)
            shape = shape_of(output)
            if bias is None or bias.size not in (1, shape[-1]) or shape_of(reader.outputs[0]) != shape:
                continue
            if len(shape) != 2 or any(d != 1 for d in bias.shape[:-1]):
                work.refuse(reader, f"its bias stays an Add behind '{node.name}', which has rank {len(shape)}")
                continue
            row = np.broadcast_to(bias.reshape(-1), (shape[-1],)).astype(np.float32)
            constant = other if bias.shape == row.shape else work.add_constant(f"{node.name}_bias", row)
            work.retype(node, "Gemm", [node.inputs[0], node.inputs[1], constant])
            work.absorb(node, reader)
            changes += 1
        return changes
