"""Image inputs: from camera bytes to the codes a network reads, in integers.

Three steps, each exact: chroma upsampling, colour conversion in 16-bit fixed point, and a table per channel that
holds mean, scale and quantization at once. Images are uint8; colour ones NHWC.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from ptqlab.ops.emit import DOUBLE, FLOAT, INT32, Emitter
from ptqlab.ops.integer.spec import INT, IntegerOp

# BT.601 [documented]; the 16-bit fixed point is our definition. Rows: Y, U, V; columns: R, G, B.
FULL_RANGE = np.array([[65536, 65536, 65536], [0, -22554, 116130], [91881, -46802, 0]], np.int32)
VIDEO_RANGE = np.array([[76309, 76309, 76309], [0, -25675, 132201], [104597, -53279, 0]], np.int32)
CHROMA_OFFSET, VIDEO_BLACK = 128, 16


def nv12_to_yuv(attrs: Mapping[str, Any], luma: np.ndarray, chroma: np.ndarray) -> np.ndarray:
    """[1,H,W,1] and [1,H/2,W/2,2] to [1,H,W,3]: each chroma pair serves its 2 x 2 pixels."""
    return np.concatenate([luma, chroma.repeat(2, axis=1).repeat(2, axis=2)], axis=3)


def _emit_nv12(e: Emitter) -> ir.Value:
    planes = e.op("Transpose", e.codes("chroma"), perm=[0, 3, 1, 2])
    scales = e.const(np.array([1, 1, 2, 2], np.float32))
    large = e.op(
        "Resize",
        planes,
        None,
        scales,
        mode="nearest",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )
    return e.store(e.op("Concat", e.codes("luma"), e.op("Transpose", large, perm=[0, 2, 3, 1]), axis=3))


def convert_colour(attrs: Mapping[str, Any], x: np.ndarray, matrix: np.ndarray, offset: np.ndarray) -> np.ndarray:
    """out[c] = clamp((sum over j of (x[j] - offset[j]) * matrix[j, c] + 2^15) >> 16, 0, 255)"""
    acc = np.matmul(x.astype(np.int64) - offset.astype(np.int64), matrix.astype(np.int64))
    return np.clip((acc + (1 << 15)) >> 16, 0, 255).astype(np.uint8)


def _emit_colour(e: Emitter) -> ir.Value:
    centred = e.op("Sub", e.codes("x", DOUBLE), e.cast(e.input("offset"), DOUBLE))
    acc = e.op("MatMul", centred, e.cast(e.input("matrix"), DOUBLE))
    rounded = e.op("Floor", e.op("Add", e.op("Mul", acc, e.const(np.float64(2.0**-16))), e.const(np.float64(0.5))))
    return e.store(e.op("Clip", e.cast(rounded, FLOAT), e.const(np.float32(0)), e.const(np.float32(255))))


def lookup(attrs: Mapping[str, Any], x: np.ndarray, table: np.ndarray, base: np.ndarray) -> np.ndarray:
    """out = table[base[c] + x], c the last axis (one table for all where base has one entry)."""
    return table.reshape(-1)[x.astype(np.int64) + base.astype(np.int64)]


def _emit_lookup(e: Emitter) -> ir.Value:
    index = e.op("Add", e.cast(e.codes("x"), INT32), e.input("base"))
    table = e.known("table")
    flat = (
        e.op("Reshape", e.input("table"), e.const(np.array([-1], np.int64)))
        if table is None
        else e.const(table.reshape(-1).astype(np.float32))
    )
    return e.op("Gather", flat, index)


IMAGE_OPS = (
    IntegerOp(
        "Nv12ToYuv", ("luma", "chroma"), {"to": INT}, nv12_to_yuv, _emit_nv12, "yuv[h,w] = (y[h,w], uv[h/2,w/2])"
    ),
    IntegerOp(
        "ConvertColour",
        ("x", "matrix", "offset"),
        {"to": INT},
        convert_colour,
        _emit_colour,
        "out[c] = clamp((sum_j (x[j] - offset[j]) * matrix[j,c] + 2^15) >> 16, 0, 255)",
    ),
    IntegerOp(
        "ImageTable",
        ("x", "table", "base"),
        {},
        lookup,
        _emit_lookup,
        "out = table[base[c] + x]: mean, scale and quantization of every byte, worked out beforehand",
    ),
)
