"""A look at a model's inputs, before anything is checked or repaired."""

from __future__ import annotations

import os
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
