"""Means of the inputs of operators with weights: all that a bias correction needs to know of the data.

An operator with weights is linear: the mean over output positions of  sum w * x  is  sum w * m, where m[c, k] is the
mean of what tap k of the kernel reads of channel c (zeros outside of x included). So the mean error that rounding w
to w' makes in output channel o,  sum (w' - w)[o, c, k] * m[c, k], follows for any w' from one small array per node.
"""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from ptqlab.ops.node import attribute, shape, spatial_geometry

# samples that do not agree by accident
SURE = 16


@dataclass(frozen=True)
class Reach:
    """Which elements of its input an operator with weights reads: all that its geometry says, without its weights.

    kernel, strides, dilations, pads, out  per spatial axis; empty for MatMul and Gemm
    """

    op_type: str
    kernel: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    dilations: tuple[int, ...] = ()
    pads: tuple[int, ...] = ()
    out: tuple[int, ...] = ()

    @classmethod
    def of(cls, node: ir.Node) -> Reach:
        if node.op_type not in ("Conv", "ConvTranspose"):
            return cls(node.op_type)
        kernel = shape(node.inputs[1])[2:]
        geometry = {name: tuple(values) for name, values in spatial_geometry(node, list(kernel)).items()}
        return cls(node.op_type, kernel, out=shape(node.outputs[0])[2:], **geometry)


def input_mean(reach: Reach, x: np.ndarray) -> np.ndarray:
    """m of one sample, float64: [C, kernel...] for convolutions, [K] for MatMul and Gemm.

    Sums run in float32 along one axis and in float64 from there on, always in the same order.
    """
    with np.errstate(invalid="ignore", over="ignore"):  # NaN and Inf are told by the observers, and correct no bias
        return _mean(reach, x)


def _mean(reach: Reach, x: np.ndarray) -> np.ndarray:
    if not reach.kernel:
        flat = x.reshape(-1, x.shape[-1])
        return flat.sum(axis=0, dtype=np.float64) / max(flat.shape[0], 1)
    taps: np.ndarray = x[0] if len(x) == 1 else x.sum(axis=0)
    for axis, size in enumerate(reach.kernel):
        # axis 0 holds the channels, then the taps of the axes that are done, then the axes to come
        along = 1 + axis
        slices = [
            _reads(reach.op_type, tap * reach.dilations[axis] - reach.pads[axis], reach.strides[axis],
                   x.shape[2 + axis], reach.out[axis])
            for tap in range(size)
        ]
        taps = np.stack(_sums(taps, slices, along), axis=along).astype(np.float64)
    return np.asarray(taps, np.float64) / max(x.shape[0] * int(np.prod(reach.out)), 1)


def _sums(x: np.ndarray, slices: list[slice], along: int) -> list[np.ndarray]:
    """Sum over each slice of an axis. Of slices that are nearly all of it: the sum of all, less what they leave out."""

    def part(chosen: slice) -> np.ndarray:
        return np.asarray(x[(slice(None),) * along + (chosen,)].sum(axis=along))

    size = x.shape[along]
    if len(slices) < 2 or any(s.step not in (None, 1) or 2 * (s.stop - s.start) < size for s in slices):
        return [part(s) for s in slices]
    whole = part(slice(None)).astype(np.float64)
    return [whole - part(slice(0, s.start)) - part(slice(s.stop, size)) for s in slices]


def _reads(op_type: str, offset: int, stride: int, size: int, out: int) -> slice:
    """The positions of x that a tap at `offset` meets, over all output positions.

    Conv reads x[p * stride + offset]; ConvTranspose writes x[p] to output position p * stride + offset.
    """
    limit, count = (size, out) if op_type == "Conv" else (out, size)
    first = max(0, -(offset // stride)) if offset < 0 else 0
    last = min(count - 1, (limit - 1 - offset) // stride)
    if last < first:
        return slice(0, 0)
    if op_type == "Conv":
        return slice(first * stride + offset, last * stride + offset + 1, stride)
    return slice(first, last + 1)


def mean_output_error(node: ir.Node, weight_error: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Mean of the output error per output channel, float64 [O], for errors of the weights as the node holds them."""
    return output_means(node, weight_error, mean[None])[0]


def output_means(node: ir.Node, weights: np.ndarray, means: np.ndarray) -> np.ndarray:
    """Means of the output, float64 [S, O], for weights as the node holds them and means of what its kernel reads.

    means  [S, C, kernel...] for convolutions, [S, K] for MatMul and Gemm
    """
    weights, count = weights.astype(np.float64), len(means)
    group = attribute(node, "group", 1)
    if node.op_type == "Conv":
        split = weights.reshape(group, weights.shape[0] // group, -1)
        columns = means.reshape(count, group, -1).transpose(1, 2, 0)
        return np.matmul(split, columns).reshape(-1, count).T
    if node.op_type == "ConvTranspose":
        taps = int(np.prod(weights.shape[2:]))
        by_tap = weights.reshape(group, weights.shape[0] // group, weights.shape[1], taps)
        return np.einsum("gcok,sgck->sgo", by_tap, means.reshape(count, group, -1, taps)).reshape(count, -1)
    transposed = node.op_type == "Gemm" and attribute(node, "transB", 0)
    return means @ weights.T if transposed else means @ weights


def common(errors: np.ndarray) -> np.ndarray:
    """The mean error of each channel where the samples have it in common, else 0; float64 [O] of [S, O].

    They do where the mean exceeds the standard deviation between samples; of less than SURE samples, which may agree by
    accident, it has to exceed as many standard errors of itself.
    """
    count = len(errors)
    mean, variance = errors.mean(axis=0), errors.var(axis=0, ddof=1)
    return np.where(mean**2 > max(1.0, SURE / count) * variance, mean, 0.0)
