"""Movers on integers: standard ONNX operators that keep codes as they are, in plain numpy."""
from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ptqlab.errors import Problem, PtqError

TO_THE_END = (2**31 - 1, 2**63 - 1)


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
    """Starts and ends count from the end where negative, and are then held inside of the axis [ONNX].

    The largest integers as the end mean "through the last element" in either direction [onnxruntime]."""
    index: list[slice] = [slice(None)] * x.ndim
    for i, (start, end) in enumerate(zip(starts, ends, strict=True)):
        axis = int(axes[i]) if axes is not None else i
        step = int(steps[i]) if steps is not None else 1
        size = x.shape[axis]
        if step < 0 and int(end) in TO_THE_END:
            end = -size - 1
        first, stop = (int(v) + size if v < 0 else int(v) for v in (start, end))
        if step > 0:
            index[axis] = slice(min(max(first, 0), size), min(max(stop, 0), size), step)
        else:
            stop = min(max(stop, -1), size - 1)
            index[axis] = slice(min(max(first, 0), size - 1), None if stop < 0 else stop, step)
    return x[tuple(index)]


def concat(attrs: Mapping[str, Any], *operands: np.ndarray) -> np.ndarray:
    return np.concatenate(operands, axis=attrs["axis"])


def expand(attrs: Mapping[str, Any], x: np.ndarray, shape: np.ndarray) -> np.ndarray:
    """Broadcasting in both directions: the result may have more axes, or fewer ones in `shape` than x has."""
    return np.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(int(d) for d in shape)))


def tile(attrs: Mapping[str, Any], x: np.ndarray, repeats: np.ndarray) -> np.ndarray:
    return np.tile(x, [int(r) for r in repeats])


def gather(attrs: Mapping[str, Any], x: np.ndarray, indices: np.ndarray) -> np.ndarray:
    """Negative indices count from the end, here and below. PtqError for one outside: they may be a model's input."""
    axis = attrs.get("axis", 0)
    size = x.shape[axis]
    outside = indices[(indices < -size) | (indices >= size)]
    if outside.size:
        raise PtqError(Problem("PTQ120", "indices of Gather", f"index {outside.flat[0]}", f"{-size} to {size - 1}"),
                       "Running the model")
    return np.take(x, indices, axis=axis)


def gather_elements(attrs: Mapping[str, Any], x: np.ndarray, indices: np.ndarray) -> np.ndarray:
    """y[i, j] = x[indices[i, j], j] for axis 0: on the other axes y may be shorter than x."""
    return x[_along(attrs.get("axis", 0) % x.ndim, indices)]


def scatter_elements(attrs: Mapping[str, Any], x: np.ndarray, indices: np.ndarray, updates: np.ndarray) -> np.ndarray:
    y = x.copy()
    y[_along(attrs.get("axis", 0) % x.ndim, indices)] = updates
    return y


def _along(axis: int, indices: np.ndarray) -> tuple[np.ndarray, ...]:
    grid: list[np.ndarray] = list(np.indices(indices.shape))
    grid[axis] = indices
    return tuple(grid)


def gather_nd(attrs: Mapping[str, Any], x: np.ndarray, indices: np.ndarray) -> np.ndarray:
    """The last axis of `indices` is an index into x behind its first `batch_dims` axes."""
    batch = attrs.get("batch_dims", 0)
    lead = x.shape[:batch]
    flat, where = x.reshape(-1, *x.shape[batch:]), indices.reshape(-1, *indices.shape[batch:])
    picked = [one[tuple(np.moveaxis(at, -1, 0))] for one, at in zip(flat, where, strict=True)]
    return np.stack(picked).reshape(*lead, *picked[0].shape)


def scatter_nd(attrs: Mapping[str, Any], x: np.ndarray, indices: np.ndarray, updates: np.ndarray) -> np.ndarray:
    y = x.copy()
    y[tuple(np.moveaxis(indices, -1, 0))] = updates
    return y


def identity(attrs: Mapping[str, Any], x: np.ndarray) -> np.ndarray:
    return x


# on int32 and bool tensors of the model; sums and products that leave 32 bits wrap around
NATIVE: dict[str, Callable[..., np.ndarray]] = {
    "Add": lambda attrs, a, b: a + b,
    "Sub": lambda attrs, a, b: a - b,
    "Mul": lambda attrs, a, b: a * b,
    "And": lambda attrs, a, b: a & b,
    "Or": lambda attrs, a, b: a | b,
    "Xor": lambda attrs, a, b: a ^ b,
    "Not": lambda attrs, a: ~a,
    "Neg": lambda attrs, a: -a,
    "Abs": lambda attrs, a: np.abs(a),
    "Max": lambda attrs, *operands: functools.reduce(np.maximum, operands),
    "Min": lambda attrs, *operands: functools.reduce(np.minimum, operands),
}

MOVERS: dict[str, Callable[..., np.ndarray]] = {
    "Reshape": reshape,
    "Flatten": flatten,
    "Transpose": transpose,
    "Squeeze": squeeze,
    "Unsqueeze": unsqueeze,
    "Slice": slice_,
    "Concat": concat,
    "Identity": identity,
    "Expand": expand,
    "Tile": tile,
    "Gather": gather,
    "GatherElements": gather_elements,
    "GatherND": gather_nd,
    "ScatterElements": scatter_elements,
    "ScatterND": scatter_nd,
}

# every standard operator that a BPU part may hold
STANDARD: dict[str, Callable[..., np.ndarray]] = MOVERS | NATIVE
