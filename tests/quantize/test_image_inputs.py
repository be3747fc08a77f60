"""Colour conversion and the tables of image inputs: the integers against the formulas, every form of a model alike."""

from __future__ import annotations

import numpy as np
import pytest
from image_nets import as_image, compiled, floats, photos, to_nv12, to_yuv
from small import same_bits

from ptqlab.arith.rounding import quantize
from ptqlab.artifacts.models import read_quantized
from ptqlab.graph import session
from ptqlab.ops.integer.image import convert_colour, nv12_to_yuv
from ptqlab.quantize.image_inputs import colour_matrix, float_table, with_image_inputs
from ptqlab.simulate import FastExecutor, ReferenceExecutor
from ptqlab.stages.interface import ImageInput

# every fifth value of each channel, and both ends
STEPS = np.unique(np.append(np.arange(0, 256, 5), 255)).astype(np.uint8)
GRID = np.stack(np.meshgrid(STEPS, STEPS, STEPS, indexing="ij"), axis=-1).reshape(1, -1, 1, 3)


def bt601(yuv: np.ndarray, video: bool) -> np.ndarray:
    """R, G, B as real numbers by the standard's formula, within 0..255."""
    y, u, v = (yuv[..., i].astype(np.float64) - (0, 128, 128)[i] for i in range(3))
    if video:
        y, u, v = (y - 16) * 255 / 219, u * 255 / 224, v * 255 / 224
    rgb = np.stack([y + 1.402 * v, y - 0.344136 * u - 0.714136 * v, y + 1.772 * u], axis=-1)
    return np.clip(rgb, 0, 255)


@pytest.mark.parametrize("video", [False, True])
def test_conversion_is_the_rounded_formula(video):
    """Every byte is the formula's value rounded: at most half a step off, and 2^-7 for the 16-bit coefficients."""
    matrix, offset = colour_matrix("yuv444", "rgb", video)
    got = convert_colour({}, GRID, matrix, offset)
    assert np.abs(got.astype(np.float64) - bt601(GRID, video)).max() <= 0.5 + 2.0**-7
    bgr = convert_colour({}, GRID, *colour_matrix("yuv444", "bgr", video))
    assert np.array_equal(bgr, got[..., ::-1])


def test_gray_is_exact_and_there_and_back_is_within_two():
    """Gray bytes are unchanged; colours that a camera rounded come back within 2 in full range."""
    gray = np.repeat(np.arange(256, dtype=np.uint8), 3).reshape(1, 256, 1, 3)
    back = convert_colour({}, to_yuv(gray), *colour_matrix("yuv444", "rgb", False))
    assert np.array_equal(back, gray)
    back = convert_colour({}, to_yuv(GRID), *colour_matrix("yuv444", "rgb", False))
    assert np.abs(back.astype(int) - GRID.astype(int)).max() <= 2


def test_rgb_to_bgr_only_swaps():
    """The matrix of a swap is exact."""
    for pair in (("rgb", "bgr"), ("bgr", "rgb")):
        assert np.array_equal(convert_colour({}, GRID, *colour_matrix(*pair, False)), GRID[..., ::-1])


def test_chroma_serves_two_by_two_pixels():
    """Plane positions: pixel (h, w) takes pair (h // 2, w // 2)."""
    luma = np.arange(24, dtype=np.uint8).reshape(1, 4, 6, 1)
    chroma = np.arange(12, dtype=np.uint8).reshape(1, 2, 3, 2) + 100
    yuv = nv12_to_yuv({}, luma, chroma)
    for h in range(4):
        for w in range(6):
            assert yuv[0, h, w].tolist() == [luma[0, h, w, 0], *chroma[0, h // 2, w // 2]]


def test_tables_hold_mean_and_scale_per_channel():
    """(byte - mean) * scale in float32, one row per channel; one value serves all channels."""
    image = ImageInput("x", "rgb", "rgb", "NCHW", (1.0, 2.0, 3.0), (0.5,))
    table = float_table(image, 3)
    assert table.shape == (3, 256) and table.dtype == np.float32
    assert table[:, 10].tolist() == [4.5, 4.0, 3.5]


@pytest.mark.parametrize("rt", ["rgb", "bgr", "yuv444", "nv12"])
def test_every_form_gives_the_same_bits(tmp_path, rt):
    """Reference kernels, fast path and the model-local functions in onnxruntime agree on a real photo."""
    quantized = read_quantized(compiled(tmp_path / "out", **as_image(rt)).artifacts["quantized"]).quantized
    pixels = photos()[1]
    feeds = to_nv12(to_yuv(pixels)) if rt == "nv12" else {"x": pixels}
    wanted = ReferenceExecutor(quantized).run(feeds)["y"]
    same_bits(FastExecutor(quantized).run(feeds)["y"], wanted, "fast")
    same_bits(session(quantized.model, optimise=False).run(None, feeds)[0], wanted, "functions")


def test_an_image_input_replaces_the_quantizer_exactly(tmp_path):
    """Applied to a float-fed model: the code of each byte is the quantizer's code of its float value."""
    quantized = read_quantized(compiled(tmp_path / "out").artifacts["quantized"]).quantized
    image = ImageInput("x", "rgb", "rgb", "NCHW", (100.0, 120.0, 140.0), (0.013, 0.01, 0.02))
    changed = with_image_inputs(quantized, [image])
    held = quantized.integers["x"]
    pixels = photos()[2]
    codes = FastExecutor(changed, keep=[changed.integers["x"].name]).run({"x": pixels})[changed.integers["x"].name]
    mean = np.array([100, 120, 140], np.float32)[:, None, None]
    scale = np.array([0.013, 0.01, 0.02], np.float32)[:, None, None]
    real = (pixels.transpose(0, 3, 1, 2).astype(np.float32) - mean) * scale
    assert np.array_equal(codes, quantize(real, held.scale, held.zero_point, -128, 127))
    assert [str(v.name) for v in quantized.model.graph.inputs] == ["x"]  # the given model is left as it was
    assert quantized.model.graph.inputs[0].dtype.numpy() == np.float32


def test_without_images_nothing_changes(tmp_path):
    """No image input: the very model."""
    quantized = read_quantized(compiled(tmp_path / "out").artifacts["quantized"]).quantized
    assert with_image_inputs(quantized, []) is quantized
    assert floats(photos()[0]).shape == (1, 3, 32, 48)
