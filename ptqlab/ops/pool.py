"""Pooling and means."""
from __future__ import annotations

import numpy as np
import onnx_ir as ir

from ptqlab.arith.formats import QType
from ptqlab.ops.conv import output_attributes, scaled_by
from ptqlab.ops.integer.pool import LARGEST_WINDOW
from ptqlab.ops.node import attribute, constant, input_value, output_spatial, shape, spatial_geometry
from ptqlab.ops.rules import constant_shape_operand, explicit_pads, float_features, not_empty, single_output
from ptqlab.ops.spec import Engine, Lowering, OpSpec, Role
from ptqlab.platforms import Platform

LARGEST_MEAN = 1 << 22


def window_fits(node: ir.Node, platform: Platform) -> str | None:
    """An average window holds at most 255 elements."""
    size = int(np.prod(attribute(node, "kernel_shape")))
    return None if size <= LARGEST_WINDOW else f"window of {size} elements"


def pads_within_kernel(node: ir.Node, platform: Platform) -> str | None:
    """Padding, with what ceil_mode adds at the end, must be smaller than the kernel."""
    kernel, pads = attribute(node, "kernel_shape"), end_pads(node)["pads"]
    return None if all(p < k for p, k in zip(pads, kernel * 2, strict=True)) else f"pads {pads} for kernel {kernel}"


def mean_fits(node: ir.Node, platform: Platform) -> str | None:
    """A mean is taken over 2^22 elements at most, so that no sum of int16 codes can overflow."""
    # 2^22 * 2^16 codes = 2^38, what `rescale` is exact for
    count = shape_size(shape(node.inputs[0])) // shape_size(shape(node.outputs[0]))
    return None if count <= LARGEST_MEAN else f"{count} elements"


def averages_something(node: ir.Node, platform: Platform) -> str | None:
    """A mean without axes is taken over all of them; noop_with_empty_axes makes it a copy."""
    axes = constant(input_value(node, 1))
    given = axes is not None and axes.size > 0
    return None if given or not attribute(node, "noop_with_empty_axes", 0) else "no axes and noop_with_empty_axes"


def shape_size(sizes: tuple[int, ...]) -> int:
    return int(np.prod(sizes, dtype=np.int64))


def end_pads(node: ir.Node) -> dict[str, list[int]]:
    """Geometry of a pooling node with ceil_mode turned into end pads, so that floor division gives its output."""
    kernel = attribute(node, "kernel_shape")
    geometry = spatial_geometry(node, kernel)
    rank, size = len(kernel), shape(node.inputs[0])[2:]
    pads = list(geometry["pads"])
    for i, out in enumerate(output_spatial(node)):
        reach = (out - 1) * geometry["strides"][i] + geometry["dilations"][i] * (kernel[i] - 1) + 1
        pads[rank + i] = reach - size[i] - pads[i]
    return geometry | {"pads": [max(p, 0) for p in pads]}


def window_counts(node: ir.Node) -> np.ndarray:
    """Elements that each output position averages over, [1, 1, spatial...].

    count_include_pad 0 counts real elements; 1 counts the node's own pads too, but never what ceil_mode adds.
    """
    kernel = attribute(node, "kernel_shape")
    geometry = spatial_geometry(node, kernel)
    include = attribute(node, "count_include_pad", 0)
    size, rank = shape(node.inputs[0])[2:], len(kernel)
    counts = np.ones((1, 1) + (1,) * rank, np.int64)
    for i, out in enumerate(output_spatial(node)):
        before, after = geometry["pads"][i], geometry["pads"][rank + i]
        first, last = (-before, size[i] + after) if include else (0, size[i])
        taps = np.arange(kernel[i]) * geometry["dilations"][i]
        starts = np.arange(out) * geometry["strides"][i] - before
        positions = starts[:, None] + taps[None, :]
        along = ((positions >= first) & (positions < last)).sum(axis=1)
        counts = counts * along.reshape((1, 1, *(-1 if j == i else 1 for j in range(rank))))
    return counts


def lower_average_pool(ctx: Lowering, node: ir.Node) -> None:
    x, out = ctx.read(node, 0), ctx.output(node)
    assert out is not None
    channels, kernel = shape(node.inputs[0])[1], attribute(node, "kernel_shape")
    ratio = float(x.encoding.scale) / (np.maximum(window_counts(node), 1) * float(out.scale))
    if np.all(ratio == ratio.flat[0]):
        ratio = ratio[(slice(0, 1),) * ratio.ndim]
    inputs: dict[str, ir.Value | np.ndarray] = {
        "x": x.value, "window": np.ones((channels, 1, *kernel), np.int8), **scaled_by("", ratio),
    }
    attributes = {**end_pads(node), "group": channels, "x_zero_point": x.encoding.zero_point}
    attributes.pop("kernel_shape", None)
    ctx.write(node, "AveragePool", inputs, attributes | output_attributes(ctx, node, out))


def _mean(ctx: Lowering, node: ir.Node, axes: list[int], keepdims: int) -> None:
    x, out = ctx.read(node, 0), ctx.output(node)
    assert out is not None
    count = int(np.prod([shape(node.inputs[0])[a] for a in axes]))
    ratio = np.asarray(float(x.encoding.scale) / (count * float(out.scale)))
    inputs: dict[str, ir.Value | np.ndarray] = {
        "x": x.value, "axes": np.asarray(axes, np.int64), **scaled_by("", ratio),
    }
    attributes = {"x_zero_point": x.encoding.zero_point, "keepdims": keepdims}
    ctx.write(node, "ReduceMean", inputs, attributes | output_attributes(ctx, node, out))


def lower_global_average_pool(ctx: Lowering, node: ir.Node) -> None:
    _mean(ctx, node, list(range(2, len(shape(node.inputs[0])))), 1)


def lower_reduce_mean(ctx: Lowering, node: ir.Node) -> None:
    rank = len(shape(node.inputs[0]))
    axes = constant(input_value(node, 1))
    wanted = range(rank) if axes is None or axes.size == 0 else [int(a) % rank for a in axes.ravel()]
    _mean(ctx, node, sorted(wanted), int(attribute(node, "keepdims", 1)))


def lower_max_pool(ctx: Lowering, node: ir.Node) -> None:
    x = ctx.read(node, 0)
    qtype: QType = x.encoding.qtype
    attributes = {**end_pads(node), "kernel_shape": attribute(node, "kernel_shape"), "lowest": qtype.qmin,
                  "to": int(ir.DataType.from_numpy(qtype.numpy))}
    ctx.write(node, "MaxPool", {"x": x.value}, attributes)


def lower_global_max_pool(ctx: Lowering, node: ir.Node) -> None:
    x, kernel = ctx.read(node, 0), list(shape(node.inputs[0])[2:])
    ones, zeros = [1] * len(kernel), [0] * (2 * len(kernel))
    attributes = {"kernel_shape": kernel, "strides": ones, "dilations": ones, "pads": zeros,
                  "lowest": x.encoding.qtype.qmin, "to": int(ir.DataType.from_numpy(x.encoding.qtype.numpy))}
    ctx.write(node, "MaxPool", {"x": x.value}, attributes)


AVERAGE_POOL = OpSpec(
    "AveragePool", Role.ACTIVE, Engine.AAE, features=(0,),
    rules=(float_features, explicit_pads, window_fits, not_empty), lower=lower_average_pool, source="documented",
)
GLOBAL_AVERAGE_POOL = OpSpec(
    "GlobalAveragePool", Role.ACTIVE, Engine.AAE, features=(0,), rules=(float_features, not_empty, mean_fits),
    lower=lower_global_average_pool, source="documented",
)
REDUCE_MEAN = OpSpec(
    "ReduceMean", Role.ACTIVE, Engine.VAE, features=(0,),
    rules=(float_features, constant_shape_operand, not_empty, averages_something, mean_fits),
    lower=lower_reduce_mean, source="documented",
)
MAX_POOL = OpSpec(
    "MaxPool", Role.PASSIVE, Engine.AAE, features=(0,),
    rules=(float_features, explicit_pads, single_output, not_empty, pads_within_kernel), lower=lower_max_pool,
    note="keeps the threshold of its input (our definition)",
)
GLOBAL_MAX_POOL = OpSpec(
    "GlobalMaxPool", Role.PASSIVE, Engine.AAE, features=(0,), rules=(float_features, not_empty),
    lower=lower_global_max_pool, note="a MaxPool over everything; keeps the threshold of its input (our definition)",
)
SPECS = (AVERAGE_POOL, GLOBAL_AVERAGE_POOL, REDUCE_MEAN, MAX_POOL, GLOBAL_MAX_POOL)
