"""The data of a quantized model's image inputs, made from the float model's: what its configuration says of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from ptqlab.config.image_types import INPUT_TYPES
from ptqlab.quantize.camera import camera_bytes
from ptqlab.stages.interface import ImageInput

KEYS = (
    "input_type_rt", "input_type_train", "input_layout_train", "input_space_and_range", "mean_value", "scale_value",
)  # fmt: skip


def runtime_feed(settings: Mapping[str, Any], feed: Mapping[str, np.ndarray]) -> dict[str, np.ndarray] | None:
    """`feed` with the bytes of every image input in place of its float tensor; None where the settings, which come
    from a file, do not say enough, or the batch is split."""
    given = settings.get("input_parameters")
    if not isinstance(given, Mapping) or given.get("input_batch") is not None:
        return None
    try:
        images = image_inputs(given)
        out = {name: array for name, array in feed.items() if name not in images}
        for name, image in images.items():
            if name in feed:
                out |= camera_bytes(image, feed[name])
    except (ValueError, TypeError, IndexError):
        return None
    return out


def image_inputs(given: Mapping[str, Any]) -> dict[str, ImageInput]:
    """Input name -> image input, of the group input_parameters as an artifact holds it. ValueError for other forms."""
    names = _entries(given, "input_name", 0)
    held = {key: _entries(given, key, len(names)) for key in KEYS}
    out = {}
    for index, name in enumerate(names):
        rt, train, layout, space, mean, scale = (words[index] for words in held.values())
        if rt not in ("", "featuremap") and {rt, train} <= set(INPUT_TYPES):
            out[name] = ImageInput(name, rt, train, layout or "NCHW", _numbers(mean, 0.0), _numbers(scale, 1.0),
                                   space == "bt601_video")  # fmt: skip
    return out


def _entries(given: Mapping[str, Any], key: str, count: int) -> list[str]:
    words = str(given.get(key, "")).rstrip(";").split(";")
    if count and len(words) not in (1, count):
        raise ValueError(key)
    return [w.strip() for w in (words * count if count and len(words) == 1 else words)]


def _numbers(words: str, default: float) -> tuple[float, ...]:
    found = [float(w) for w in re.split(r"[ ,]+", words) if w not in ("", "None")]
    return tuple(found) or (default,)
