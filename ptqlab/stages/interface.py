"""How the inputs of a quantized model differ from those of the float model."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ImageInput:
    """An input that is fed camera bytes at run time.

    name         input of the float model;  type_rt  nv12, yuv444, rgb, bgr, gray: what comes at run time
    type_train   rgb, bgr, yuv444, gray: what the network was trained on;  layout  NCHW or NHWC: of the float model
    mean, scale  per channel in the order of type_train (one value: all channels): x = (byte - mean) * scale
    video_range  the bytes are BT.601 video range ([16, 235]), else full range
    """

    name: str
    type_rt: str
    type_train: str
    layout: str
    mean: tuple[float, ...] = (0.0,)
    scale: tuple[float, ...] = (1.0,)
    video_range: bool = False
