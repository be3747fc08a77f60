"""A look at a model's inputs, before anything is checked or repaired."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from ptqlab.graph.files import read

Dims: TypeAlias = tuple[int | str, ...]


def input_dims(path: str | os.PathLike[str]) -> dict[str, Dims]:
    """Input name -> sizes as the file states them; a size that is no number is its symbol ("" where it has none).

    Initializers that old exporters list as inputs are left out. PtqError when the file is no ONNX model.
    """
    graph = read(path).proto.graph
    constants = {t.name for t in graph.initializer}
    return {
        value.name: tuple(
            int(d.dim_value) if d.HasField("dim_value") else str(d.dim_param) for d in value.type.tensor_type.shape.dim
        )
        for value in graph.input
        if value.name not in constants
    }


def batches_of_one(
    path: str | os.PathLike[str], given: Mapping[str, Sequence[int]]
) -> tuple[dict[str, tuple[int, ...]], tuple[str, ...]]:
    """(shapes for `load`, inputs whose open batch became 1): what was given, and 1 where only the batch is open."""
    dims = input_dims(path)
    if list(given) == [""]:
        return {"": tuple(given[""])}, ()
    shapes = {name: made for name, stated in dims.items() if name not in given and (made := _batch_of_one(stated))}
    return shapes | {name: tuple(shape) for name, shape in given.items()}, tuple(shapes)


def _batch_of_one(dims: Dims) -> tuple[int, ...]:
    """The sizes with 1 for a dynamic batch; () where the batch is fixed or another size is dynamic."""
    rest = [d for d in dims[1:] if isinstance(d, int) and d > 0]
    open_batch = bool(dims) and (not isinstance(dims[0], int) or dims[0] <= 0)
    return (1, *rest) if open_batch and len(rest) == len(dims) - 1 else ()
