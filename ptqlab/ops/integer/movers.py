"""Movers on integers: standard ONNX operators that keep codes as they are, in plain numpy."""
from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np


def reshape(attrs: Mapping[str, Any], x: np.ndarray, shape: np.ndarray) -> np.ndarray:
    """0 keeps an axis (unless allowzero), -1 takes what is left."""
    wanted = [int(d) for d in shape]
    if not attrs.get("allowzero", 0):
        wanted = [x.shape[i] if d == 0 else d for i, d in enumerate(wanted)]
    return x.reshape(wanted)


def flatten(attrs: Mapping[str, Any], x: np.ndarray) -> np.ndarray:
    axis = attrs.get("axis", 1)
    split = axis + x.ndim if axis < 0 else axis
    return x.reshape(int(np.prod(x.shape[:split])), -1)


def transpose(attrs: Mapping[str, Any], x: np.ndarray) -> np.ndarray:
    return np.transpose(x, attrs.get("perm"))


def squeeze(attrs: Mapping[str, Any], x: np.ndarray, axes: np.ndarray | None = None) -> np.ndarray:
    return np.squeeze(x, axis=None if axes is None else tuple(int(a) for a in axes))


def unsqueeze(attrs: Mapping[str, Any], x: np.ndarray, axes: np.ndarray) -> np.ndarray:
    return np.expand_dims(x, tuple(int(a) for a in axes))


def slice_(attrs: Mapping[str, Any], x: np.ndarray, starts: np.ndarray, ends: np.ndarray,
           axes: np.ndarray | None = None, steps: np.ndarray | None = None) -> np.ndarray:
    """numpy's slices, except that an end below -length of a backward slice means "through the first element"."""
    index: list[slice] = [slice(None)] * x.ndim
    for i, (start, end) in enumerate(zip(starts, ends, strict=True)):
        axis = int(axes[i]) if axes is not None else i
        step = int(steps[i]) if steps is not None else 1
        size = x.shape[axis]
        stop: int | None = int(end)
        if step < 0 and int(end) < -size:
            stop = None
        index[axis] = slice(int(start), stop, step)
    return x[tuple(index)]


def concat(attrs: Mapping[str, Any], *operands: np.ndarray) -> np.ndarray:
    return np.concatenate(operands, axis=attrs["axis"])


def identity(attrs: Mapping[str, Any], x: np.ndarray) -> np.ndarray:
    return x


MOVERS: dict[str, Callable[..., np.ndarray]] = {
    "Reshape": reshape,
    "Flatten": flatten,
    "Transpose": transpose,
    "Squeeze": squeeze,
    "Unsqueeze": unsqueeze,
    "Slice": slice_,
    "Concat": concat,
    "Identity": identity,
}
