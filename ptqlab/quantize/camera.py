"""From the float tensor a network was trained on to the bytes a camera would have delivered: the way back through an
image input, for those who compare models that are fed differently. Exact where every value is (byte - mean) * scale."""

from __future__ import annotations

import numpy as np

from ptqlab.stages.interface import ImageInput

# BT.601, R G B to Y U V (documented); video range: 219 and 224 steps in place of 255
TO_YUV = np.array([[0.299, 0.587, 0.114], [-0.168736, -0.331264, 0.5], [0.5, -0.418688, -0.081312]])
VIDEO_STEPS = np.array([219, 224, 224]) / 255


def camera_bytes(image: ImageInput, x: np.ndarray) -> dict[str, np.ndarray]:
    """Input name of the quantized model -> uint8 array, for the float tensor `x` in the layout of the float model.

    Values beyond 0..255 are those of the nearest byte; nv12 takes the mean chroma of 2 x 2 pixels.
    """
    nhwc = x if image.type_train != "gray" and image.layout == "NHWC" else x.transpose(0, 2, 3, 1)
    trained = rounded(nhwc.astype(np.float64) / np.asarray(image.scale) + np.asarray(image.mean))
    if image.type_train == "gray":
        return {image.name: np.ascontiguousarray(trained.transpose(0, 3, 1, 2))}
    if image.type_rt == image.type_train:
        return {image.name: trained}
    if image.type_rt in ("rgb", "bgr"):
        return {image.name: np.ascontiguousarray(trained[..., ::-1])}
    yuv = trained if image.type_train == "yuv444" else to_yuv(trained[..., :: -1 if image.type_train == "bgr" else 1],
                                                              image.video_range)  # fmt: skip
    if image.type_rt == "yuv444":
        return {image.name: yuv}
    n, h, w, _ = yuv.shape
    chroma = yuv[..., 1:].reshape(n, h // 2, 2, w // 2, 2, 2).astype(np.float64).mean(axis=(2, 4))
    return {f"{image.name}_y": yuv[..., :1].copy(), f"{image.name}_uv": rounded(chroma)}


def to_yuv(rgb: np.ndarray, video_range: bool) -> np.ndarray:
    """BT.601 of RGB bytes [..., 3], rounded to bytes."""
    yuv = rgb.astype(np.float64) @ TO_YUV.T
    scaled = yuv * VIDEO_STEPS if video_range else yuv
    return rounded(scaled + np.array([16 if video_range else 0, 128, 128]))


def rounded(values: np.ndarray) -> np.ndarray:
    """The nearest bytes, halves upwards."""
    return np.clip(np.floor(values + 0.5), 0, 255).astype(np.uint8)
