"""Convolution."""
from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx_ir as ir

from ptqlab.arith.requantize import LARGEST_RATIO, fixed_point
from ptqlab.ops.integer.accumulate import drop_bits
from ptqlab.ops.node import attribute, shape, spatial_geometry
from ptqlab.ops.rules import constant_weights, explicit_pads, few_products, float_features, not_empty
from ptqlab.ops.spec import Encoding, Engine, Lowering, Operand, OpSpec, Role
from ptqlab.platforms import Platform


def at_most_three_spatial_axes(node: ir.Node, platform: Platform) -> str | None:
    """Convolutions have one, two or three spatial axes on the BPU."""
    rank = len(shape(node.inputs[0])) - 2
    return None if rank in (1, 2, 3) else f"{rank} spatial axes"


def at_most_two_spatial_axes(node: ir.Node, platform: Platform) -> str | None:
    """Transposed convolutions have one or two spatial axes on the BPU."""
    rank = len(shape(node.inputs[0])) - 2
    return None if rank in (1, 2) else f"{rank} spatial axes"


def lower_accumulating(
    ctx: Lowering, node: ir.Node, name: str, attributes: dict[str, object], channel_shape: tuple[int, ...],
    more: Mapping[str, ir.Value | np.ndarray] | None = None,
) -> None:
    """Common to all TAE operators: choose plain, residual or tail form and give it its integers.

    `name` is the operator's name behind the types ("Conv" gives Int8Conv, Int16ConvAdd, DualInt16Conv, ...);
    `channel_shape` is how a per-channel array broadcasts against the output; `more` inputs replace or join the usual.
    """
    x, w = ctx.read(node, 0), ctx.weights(node)
    bits, weight_bits = x.encoding.qtype.bits, w.qtype.bits
    prefix = f"DualInt16{name}" if weight_bits == 16 else f"Int{bits}{name}"
    inputs: dict[str, ir.Value | np.ndarray] = {
        "x": x.value, "weight": w.codes, "bias": w.bias.reshape(channel_shape).astype(np.int32),
    }
    inputs |= more or {}
    attributes = attributes | {"x_zero_point": x.encoding.zero_point}
    accumulator_scale = float(x.encoding.scale) * w.scale.astype(np.float64) * (1 << drop_bits(bits, weight_bits))
    out = ctx.output(node)
    if out is None:
        scale = accumulator_scale.astype(np.float32).reshape(channel_shape)
        ctx.write_tail(node, f"{prefix}Tail", inputs, attributes, scale)
        return
    ratio, steps = accumulator_scale / float(out.scale), ctx.channels(node)
    if steps is not None:
        ratio = ratio / steps.astype(np.float64).ravel()
    inputs |= scaled_by("", ratio.reshape(channel_shape))
    attributes |= output_attributes(ctx, node, out)
    residual = ctx.residual(node)
    if residual is None:
        ctx.write(node, prefix, inputs, attributes)
        return
    inputs |= residual_inputs(residual, out)
    attributes |= {"residual_zero_point": residual.encoding.zero_point}
    ctx.write(node, f"{prefix}Add", inputs, attributes)


def scaled_by(prefix: str, ratio: np.ndarray) -> dict[str, np.ndarray]:
    """The multiplier and shift inputs for a real ratio.

    A ratio of 2^20 or more (a tensor that was all but zero over the samples behind one that was not) is held
    just below: one input step then saturates any output, as it would with the ratio itself.
    """
    largest = np.nextafter(LARGEST_RATIO, 0.0)
    multiplier, shift = fixed_point(np.clip(ratio, -largest, largest))
    return {f"{prefix}multiplier": multiplier, f"{prefix}shift": shift}


def residual_inputs(residual: Operand, out: Encoding) -> dict[str, ir.Value | np.ndarray]:
    ratio = np.float64(residual.encoding.scale) / np.float64(out.scale)
    return {"residual": residual.value, **scaled_by("residual_", np.asarray(ratio))}


def output_attributes(ctx: Lowering, node: ir.Node, out: Encoding) -> dict[str, object]:
    """Attributes every requantizing operator has: zero point, clamp, type."""
    low, high = ctx.bounds(node)
    return {
        "y_zero_point": out.zero_point,
        "low": low,
        "high": high,
        "to": int(ir.DataType.from_numpy(out.qtype.numpy)),
    }


def lower_conv(ctx: Lowering, node: ir.Node) -> None:
    weight_shape = shape(node.inputs[1])
    attributes: dict[str, object] = {
        **spatial_geometry(node, list(weight_shape[2:])),
        "group": attribute(node, "group", 1),
    }
    lower_accumulating(ctx, node, "Conv", attributes, (weight_shape[0],) + (1,) * (len(weight_shape) - 2))


def transposed_reach(node: ir.Node, platform: Platform) -> str | None:
    """The pads of a transposed convolution are at most dilation * (kernel - 1)."""
    given = spatial_geometry(node, list(shape(node.inputs[1])[2:]))["pads"]
    return None if all(p >= 0 for p in convolution_pads(node)) else f"pads {given}"


def convolution_pads(node: ir.Node) -> list[int]:
    """Pads of the convolution that a ConvTranspose is, over its input with zeros between the elements."""
    kernel = list(shape(node.inputs[1])[2:])
    geometry, rank = spatial_geometry(node, kernel), len(kernel)
    reach = [d * (k - 1) for d, k in zip(geometry["dilations"], kernel, strict=True)]
    extra = [0] * rank + attribute(node, "output_padding", [0] * rank)
    return [r - p + o for r, p, o in zip(reach * 2, geometry["pads"], extra, strict=True)]


def convolution_weights(codes: np.ndarray, group: int) -> np.ndarray:
    """[C, O/group, kernel...] of a ConvTranspose to [O, C/group, kernel turned around] of the convolution it is."""
    grouped = codes.reshape(group, codes.shape[0] // group, *codes.shape[1:])
    turned = np.flip(np.swapaxes(grouped, 1, 2), tuple(range(3, grouped.ndim)))
    return np.ascontiguousarray(turned.reshape(-1, grouped.shape[1], *codes.shape[2:]))


def lower_transposed(ctx: Lowering, node: ir.Node) -> None:
    kernel, channels = list(shape(node.inputs[1])[2:]), shape(node.inputs[0])[1]
    group, geometry = attribute(node, "group", 1), spatial_geometry(node, kernel)
    attributes: dict[str, object] = {
        "strides": geometry["strides"], "dilations": geometry["dilations"], "pads": convolution_pads(node),
        "group": group, "channels": channels,
    }
    ones = (1,) * len(kernel)
    lower_accumulating(ctx, node, "ConvTranspose", attributes, (shape(node.outputs[0])[1], *ones), {
        "weight": convolution_weights(ctx.weights(node).codes, group), "ones": np.ones((channels, 1, *ones), np.int8),
    })


CONV_TRANSPOSE = OpSpec(
    "ConvTranspose", Role.ACTIVE, Engine.TAE, features=(0,),
    rules=(float_features, constant_weights, explicit_pads, at_most_two_spatial_axes, transposed_reach, few_products,
           not_empty),
    lower=lower_transposed, source="documented",
    note="as Conv; int8 weights per output channel, of every group its own",
)
CONV = OpSpec(
    "Conv", Role.ACTIVE, Engine.TAE, features=(0,),
    rules=(float_features, constant_weights, explicit_pads, at_most_three_spatial_axes, few_products, not_empty),
    lower=lower_conv, source="documented",
    note="int8 weights per output channel; Relu, Clip and a residual Add behind it are computed inside; 1-D to 3-D",
)
SPECS = (CONV, CONV_TRANSPOSE)
