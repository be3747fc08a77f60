"""Image inputs of the quantized model: camera bytes in place of the float tensor.

Preprocessing enters only here; every ONNX stage keeps the float input (documented). The float tensor
x = (byte - mean) * scale has 256 values per channel, so the quantizer behind it becomes an exact table.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from ptqlab.ops.integer import DOMAIN
from ptqlab.ops.integer.boundary import quantize as quantize_kernel
from ptqlab.ops.integer.image import CHROMA_OFFSET, FULL_RANGE, VIDEO_BLACK, VIDEO_RANGE
from ptqlab.ops.node import shape as shape_of
from ptqlab.quantize.rewrite import Rewriter
from ptqlab.stages.interface import ImageInput
from ptqlab.stages.quantized import QuantizedModel

BYTE = ir.DataType.UINT8


def with_image_inputs(quantized: QuantizedModel, images: Sequence[ImageInput]) -> QuantizedModel:
    """The model with each of these inputs fed as an image. nv12 becomes `<name>_y` and `<name>_uv`."""
    if not images:
        return quantized
    work = Rewriter(quantized)
    for image in images:
        _feed(work, image)
    return work.done()


def float_table(image: ImageInput, channels: int) -> np.ndarray:
    """[channels, 256] float32: what each byte of each channel means to the network, (byte - mean) * scale."""
    mean = np.broadcast_to(np.asarray(image.mean, np.float32), (channels,))[:, None]
    scale = np.broadcast_to(np.asarray(image.scale, np.float32), (channels,))[:, None]
    return ((np.arange(256, dtype=np.float32)[None, :] - mean) * scale).astype(np.float32)


def _feed(work: Rewriter, image: ImageInput) -> None:
    index, old = next((i, v) for i, v in enumerate(work.graph.inputs) if v.name == image.name)
    shape = shape_of(old)
    first = next(iter(work.graph), None)
    gray = image.type_train == "gray"
    n, c, h, w = shape if gray or image.layout == "NCHW" else (shape[0], shape[3], shape[1], shape[2])
    old.name = work.fresh(f"{image.name}_float")
    made, pixels = _pixels(work, image, (n, c, h, w), first)
    work.graph.inputs[index : index + 1] = made
    table = float_table(image, c)
    base = np.arange(c, dtype=np.int32) * 256 if not gray else np.zeros(1, np.int32)
    wanted = shape if gray else (n, h, w, c)
    for user, _ in list(old.uses()):
        if user.domain == DOMAIN and user.op_type == "Quantize":
            codes = _codes(user, table)
            out = user.outputs[0]
            _lookup(work, image, pixels, codes, base, wanted, shape, str(out.name), out, user)
            work.graph.remove(user, safe=True)
    if old.uses() or old.is_graph_output():
        # the float tensor takes its old name where no new input bears it
        name = image.name if image.name not in {str(v.name) for v in made} else str(old.name)
        _lookup(work, image, pixels, table, base, wanted, shape, name, old, first)


def _codes(quantizer: ir.Node, table: np.ndarray) -> np.ndarray:
    attributes = {a.name: a.value for a in quantizer.attributes.values()}
    scale = quantizer.inputs[1]
    assert scale is not None and scale.const_value is not None
    return quantize_kernel(attributes, table, scale.const_value.numpy())


def _lookup(
    work: Rewriter,
    image: ImageInput,
    pixels: ir.Value,
    table: np.ndarray,
    base: np.ndarray,
    got: tuple[int, ...],
    wanted: tuple[int, ...],
    name: str,
    old: ir.Value,
    before: ir.Node | None,
) -> None:
    """Table, then a Transpose where the network wants NCHW; takes over the name and the readers of `old`."""
    dtype = ir.DataType.from_numpy(table.dtype)
    turned = got != wanted or (image.type_train != "gray" and image.layout == "NCHW")
    if old.name == name:
        old.name = work.fresh(f"{name}_replaced")
    first = work.fresh(f"{name}_nhwc") if turned else name
    value = work.operator(
        "ImageTable", f"{name}_table", {"x": pixels, "table": table, "base": base}, {}, first, got, dtype, before
    )
    if turned:
        value = work.standard(
            "Transpose", f"{name}_transpose", [value], {"perm": [0, 3, 1, 2]}, name, wanted, dtype, before
        )
    work.replace_uses(old, value)


def _pixels(
    work: Rewriter, image: ImageInput, size: tuple[int, int, int, int], before: ir.Node | None
) -> tuple[list[ir.Value], ir.Value]:
    """(new graph inputs, bytes in the colours the network was trained on)."""
    n, c, h, w = size
    if image.type_rt == "nv12":
        y, uv = _input(f"{image.name}_y", (n, h, w, 1)), _input(f"{image.name}_uv", (n, h // 2, w // 2, 2))
        yuv = work.operator(
            "Nv12ToYuv",
            f"{image.name}_yuv444",
            {"luma": y, "chroma": uv},
            {"to": int(BYTE)},
            work.fresh(f"{image.name}_yuv"),
            (n, h, w, 3),
            BYTE,
            before,
        )
        return [y, uv], _coloured(work, image, yuv, "yuv444", (n, h, w, 3), before)
    if image.type_rt == "gray":
        made = _input(image.name, (n, c, h, w))
        return [made], made
    made = _input(image.name, (n, h, w, c))
    return [made], _coloured(work, image, made, image.type_rt, (n, h, w, 3), before)


def _input(name: str, shape: tuple[int, ...]) -> ir.Value:
    return ir.Value(name=name, shape=ir.Shape(shape), type=ir.TensorType(BYTE))


def _coloured(
    work: Rewriter, image: ImageInput, pixels: ir.Value, colours: str, shape: tuple[int, ...], before: ir.Node | None
) -> ir.Value:
    if colours == image.type_train:
        return pixels
    matrix, offset = colour_matrix(colours, image.type_train, image.video_range)
    return work.operator(
        "ConvertColour",
        f"{image.name}_{colours}_to_{image.type_train}",
        {"x": pixels, "matrix": matrix, "offset": offset},
        {"to": int(BYTE)},
        work.fresh(f"{image.name}_{image.type_train}"),
        shape,
        BYTE,
        before,
    )


def colour_matrix(source: str, target: str, video_range: bool) -> tuple[np.ndarray, np.ndarray]:
    """(matrix [3, 3] in 16-bit fixed point, offset [3]) from yuv444, rgb or bgr to rgb or bgr."""
    if source == "yuv444":
        matrix = VIDEO_RANGE if video_range else FULL_RANGE
        offset = np.array([VIDEO_BLACK if video_range else 0, CHROMA_OFFSET, CHROMA_OFFSET], np.int32)
        return (matrix if target == "rgb" else np.ascontiguousarray(matrix[:, ::-1])), offset
    return np.ascontiguousarray(np.eye(3, dtype=np.int32)[:, ::-1]) * (1 << 16), np.zeros(3, np.int32)
