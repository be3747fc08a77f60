"""Networks of an image and real photos for the tests of inputs and outputs, with the codes that a network reads."""
from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from benchmarks.photos import photo_crops
from models import init, model, node, random, value

import ptqlab
from ptqlab.artifacts.models import read_quantized
from ptqlab.simulate import FastExecutor

MEAN, SCALE = 127, 2.0**-7
MAX = {"model_config": {"activation": {"calibration_type": "max"}}}
H, W = 32, 48


@cache
def photos() -> tuple[np.ndarray, ...]:
    """Pieces of six real photos: uint8 [1, H, W, 3], RGB; the pixels that a crop was normalised from, exactly."""
    crops = photo_crops("scoring", 6, "lite")
    pixels = [crop.image.transpose(0, 2, 3, 1) * 128 + 127 for crop in crops]
    return tuple(np.round(p[:, 60:60 + H, 40:40 + W]).astype(np.uint8) for p in pixels)


def floats(pixels: np.ndarray) -> np.ndarray:
    """What the float network is fed for NHWC pixels: (byte - 127) / 128, NCHW."""
    return np.ascontiguousarray((pixels.astype(np.float32) - MEAN).transpose(0, 3, 1, 2) * np.float32(SCALE))


def image_net(path: Path) -> Path:
    """Two convolutions of a colour image, the dynamic batch open."""
    nodes = [node("Conv", ["x", "w"], "c", "conv", pads=[1] * 4), node("Relu", ["c"], "r", "relu"),
             node("Conv", ["r", "w2"], "y", "conv2")]
    onnx.save(model(nodes, [value("x", ["N", 3, H, W])], [value("y", None)],
                    [init("w", random(4, 3, 3, 3)), init("w2", random(5, 4, 1, 1, seed=2))]), path)
    return path


def compiled(folder: Path, model_path: Path | None = None, **keywords: Any) -> ptqlab.CompileResult:
    """A compile whose input has the step 1/128, so that the code of a byte is byte - 127, at most 127."""
    net = model_path or image_net(folder.parent / "net.onnx")
    data = [random(1, 3, H, W, seed=i, scale=0.2).clip(-0.9, 0.9) for i in range(2)]
    data[0][0, 0, 0, 0] = 127 / 128
    given: dict[str, Any] = {"model": net, "march": "nash-e", "working_dir": folder, "quant_config": MAX,
                             "input_shape": {"x": (1, 3, H, W)}, "calibration_data": data}
    return ptqlab.compile(**(given | keywords))


def as_image(rt: str, train: str = "rgb", **more: str) -> dict[str, str]:
    """Keywords of an image input of this network."""
    return {"input_name": "x", "input_type_rt": rt, "input_type_train": train, "input_layout_train": "NCHW",
            "mean_value": str(MEAN), "scale_value": str(SCALE), **more}


def input_codes(run: ptqlab.CompileResult, feeds: dict[str, np.ndarray], tensor: str = "x") -> np.ndarray:
    """The integers that the network reads at its input."""
    quantized = read_quantized(run.artifacts["quantized"]).quantized
    name = quantized.integers[tensor].name
    return FastExecutor(quantized, keep=[name]).run(feeds)[name]


def to_yuv(pixels: np.ndarray, video: bool = False) -> np.ndarray:
    """BT.601 of RGB bytes, rounded: what a camera would deliver. uint8, the shape of `pixels`."""
    full = np.array([[0.299, 0.587, 0.114], [-0.168736, -0.331264, 0.5], [0.5, -0.418688, -0.081312]])
    yuv = pixels.astype(np.float64) @ full.T
    if video:
        yuv = yuv * np.array([219 / 255, 224 / 255, 224 / 255]) + np.array([16, 128, 128])
    else:
        yuv += np.array([0, 128, 128])
    return np.clip(np.floor(yuv + 0.5), 0, 255).astype(np.uint8)


def to_nv12(yuv: np.ndarray) -> dict[str, np.ndarray]:
    """The two planes of an image, each chroma pair the rounded mean of its 2 x 2 pixels."""
    n, h, w, _ = yuv.shape
    chroma = yuv[..., 1:].reshape(n, h // 2, 2, w // 2, 2, 2).astype(np.float64).mean(axis=(2, 4))
    return {"x_y": yuv[..., :1].copy(), "x_uv": np.floor(chroma + 0.5).astype(np.uint8)}
