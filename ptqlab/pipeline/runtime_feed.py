"""The data of a quantized model's image inputs, made from the float model's: what its configuration says of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ptqlab.config.image_types import INPUT_TYPES
from ptqlab.quantize.batch_inputs import separated_names
from ptqlab.quantize.camera import camera_bytes
from ptqlab.stages.interface import ImageInput

Feed = dict[str, np.ndarray]
LARGEST_BATCH = 4096
KEYS = (
    "input_type_rt", "input_type_train", "input_layout_train", "input_space_and_range", "mean_value", "scale_value",
)  # fmt: skip


def runtime_feed(settings: Mapping[str, Any], feed: Mapping[str, np.ndarray]) -> tuple[Feed, int] | None:
    """`feed` as the quantized model takes it, and how often each sample stands in it.

    The bytes of every image input are in place of its float tensor; a batch that the configuration asked for holds the
    one sample again and again, or the samples of the feed where they are as many, split into inputs where it says so.
    None where the settings, which come from a file, do not say enough.
    """
    given = settings.get("input_parameters")
    if not isinstance(given, Mapping):
        return None
    try:
        images = image_inputs(given)
        batch = int(given.get("input_batch") or 1)
        lengths = {len(array) if array.ndim else 0 for array in feed.values()}
        if not 1 <= batch <= LARGEST_BATCH or (batch > 1 and lengths not in ({1}, {batch})):
            return None
        repeats = batch if batch > 1 and lengths == {1} else 1
        out: Feed = {}
        for name, array in feed.items():
            samples = np.concatenate([array] * repeats) if repeats > 1 else array
            for part, data in _split(given, name, samples, batch):
                out |= camera_bytes(replace(images[name], name=part), data) if name in images else {part: data}
    except (ValueError, TypeError, IndexError):
        return None
    return out, repeats


def _split(given: Mapping[str, Any], name: str, samples: np.ndarray, batch: int) -> list[tuple[str, np.ndarray]]:
    """The inputs that take the samples of one input of the float model."""
    separate = bool(given.get("separate_batch")) or name in _entries(given, "separate_name", 0)
    if batch == 1 or not separate:
        return [(name, samples)]
    return [(part, samples[i : i + 1]) for i, part in enumerate(separated_names(name, batch))]


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
