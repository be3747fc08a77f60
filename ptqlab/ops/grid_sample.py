"""GridSample: int8 features at the places that a grid names; a computed grid is int16, a constant one is worked out."""
from __future__ import annotations

import numpy as np
import onnx_ir as ir

from ptqlab.arith.formats import QType
from ptqlab.ops.conv import output_attributes, scaled_by
from ptqlab.ops.integer.grid_sample import ONE, POSITION_BITS, TAP_BITS
from ptqlab.ops.node import attribute, constant, shape
from ptqlab.ops.rules import float_features, not_empty
from ptqlab.ops.spec import Engine, Lowering, OpSpec, Role
from ptqlab.platforms import Platform

# sizes of an axis for which one step of a grid from -1 to 1 in int16 is at most half a pixel
LONGEST_SIDE = 1 << 15


def sampled_mode(node: ir.Node, platform: Platform) -> str | None:
    """GridSample has the modes bilinear and nearest on the BPU."""
    mode = attribute(node, "mode", "bilinear")
    return None if mode in ("bilinear", "nearest") else f"mode {mode}"


def sampled_image(node: ir.Node, platform: Platform) -> str | None:
    """What a grid samples must be a computed tensor of four axes, at most 32,768 pixels high and wide."""
    sizes = shape(node.inputs[0])
    if constant(node.inputs[0]) is not None:
        return "it is constant"
    return None if len(sizes) == 4 and max(sizes[2:]) <= LONGEST_SIDE else f"shape {list(sizes)}"


def finite_grid(node: ir.Node, platform: Platform) -> str | None:
    """A constant grid holds finite numbers."""
    grid = constant(node.inputs[1])
    return None if grid is None or np.isfinite(grid).all() else "NaN or Inf"


def fixed_taps(node: ir.Node) -> tuple[np.ndarray, np.ndarray]:
    """(index int64, weight int16) [N, H', W', K] of a constant grid: the elements that each output sums.

    K is 1 in nearest mode, else 4; weights have TAP_BITS fractional bits and keep the sum of each output.
    """
    grid = constant(node.inputs[1])
    assert grid is not None, "a constant grid"
    height, width = shape(node.inputs[0])[2:]
    nearest = attribute(node, "mode", "bilinear") == "nearest"
    columns, beside = _neighbours(node, grid[..., 0], width, nearest)
    rows, above = _neighbours(node, grid[..., 1], height, nearest)
    index = (rows[..., :, None] * width + columns[..., None, :]).reshape(*grid.shape[:3], -1)
    weight = (above[..., :, None] * beside[..., None, :]).reshape(index.shape)
    fixed = np.rint(weight * (1 << TAP_BITS)).astype(np.int64)
    left = np.rint(weight.sum(axis=-1) * (1 << TAP_BITS)).astype(np.int64) - fixed.sum(axis=-1)
    largest = fixed.argmax(axis=-1)[..., None]
    np.put_along_axis(fixed, largest, np.take_along_axis(fixed, largest, -1) + left[..., None], -1)
    return index.astype(np.int64), fixed.astype(np.int16)


def _neighbours(node: ir.Node, grid: np.ndarray, size: int, nearest: bool) -> tuple[np.ndarray, np.ndarray]:
    """(index, weight) of the pixels next to each coordinate of one axis; ONNX's definition."""
    # float32 as ONNX computes it: at a tie in nearest mode the last bit decides
    half, middle = np.float32(_half(node, size)), np.float32((size - 1) / 2)
    position = grid.astype(np.float32) * half + middle if nearest else grid.astype(np.float64) * half + middle
    position = np.rint(position).astype(np.float64) if nearest else position
    padding = attribute(node, "padding_mode", "zeros")
    if padding == "reflection":
        edge = _edge(node)
        period = max(2 * (size - 1 + 2 * edge), 1.0)
        there = (position + edge) % period
        position = np.clip(np.minimum(there, period - there) - edge, 0, size - 1)
    else:
        margin = 0 if padding == "border" else 1
        position = np.clip(position, -margin, size - 1 + margin)
    first = np.floor(position)
    near = first[..., None] if nearest else np.stack([first, first + 1], axis=-1)
    weight = np.where((near >= 0) & (near < size), 1 - np.abs(position[..., None] - near), 0)
    return np.clip(near, 0, size - 1).astype(np.int64), weight


def _half(node: ir.Node, size: int) -> float:
    """Pixels between 0 and 1 of the grid."""
    return (size - 1) / 2 if attribute(node, "align_corners", 0) else size / 2


def _edge(node: ir.Node) -> float:
    """Pixels outside of the first one at which reflection mirrors."""
    return 0.0 if attribute(node, "align_corners", 0) else 0.5


def lower_grid_sample(ctx: Lowering, node: ir.Node) -> None:
    x, out = ctx.read(node, 0), ctx.output(node)
    assert out is not None, "only TAE operators leave at high precision"
    ratio = float(x.encoding.scale) / float(out.scale)
    attributes = {"x_zero_point": x.encoding.zero_point} | output_attributes(ctx, node, out)
    if constant(node.inputs[1]) is not None:
        index, weight = fixed_taps(node)
        ctx.write(node, "GridSampleConstant", {
            "x": x.value, "index": index, "weight": weight, **scaled_by("", np.asarray(ratio * 2.0**-TAP_BITS)),
        }, attributes)
        return
    grid, (height, width) = ctx.read(node, 1), shape(node.inputs[0])[2:]
    step = float(grid.encoding.scale) * ONE
    inputs: dict[str, ir.Value | np.ndarray] = {
        "x": x.value, "grid": grid.value, **scaled_by("columns_", np.asarray(_half(node, width) * step)),
        **scaled_by("rows_", np.asarray(_half(node, height) * step)),
        **scaled_by("", np.asarray(ratio * 2.0 ** (-2 * POSITION_BITS))),
    }
    nearest = attribute(node, "mode", "bilinear") == "nearest"
    attributes |= {"grid_zero_point": grid.encoding.zero_point, "height": height, "width": width,
                   "step": ONE if nearest else 1}
    padding = attribute(node, "padding_mode", "zeros")
    if padding == "reflection":
        ctx.write(node, "GridSampleMirrored", inputs, attributes | {"edge": int(_edge(node) * ONE)})
    else:
        ctx.write(node, "GridSample", inputs, attributes | {"margin": 0 if padding == "border" else ONE})


SPECS = (
    OpSpec("GridSample", Role.ACTIVE, Engine.AAE, features=(0, 1), qtypes=(QType.INT8,),
           fixed_types={1: QType.INT16}, rules=(float_features, sampled_mode, sampled_image, finite_grid, not_empty),
           lower=lower_grid_sample,
           note=f"int8 features; a computed grid is int16 whatever is asked, and its coordinates have {POSITION_BITS} "
                f"fractional bits; a constant grid becomes indices and weights of {TAP_BITS} bits"),
)
