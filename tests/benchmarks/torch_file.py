"""Tensors of a torch checkpoint, read without torch: a zip archive of raw numbers and one pickled table of them.

The pickle may build tensors and ordered dictionaries; anything else it asks for is refused, so that no code of the
file runs.
"""
from __future__ import annotations

import pickle
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

DTYPES = {"FloatStorage": np.float32, "HalfStorage": np.float16, "DoubleStorage": np.float64, "LongStorage": np.int64}


class _Reader(pickle.Unpickler):
    """Reads `data.pkl` of an opened checkpoint; storages come from the files beside it."""

    def __init__(self, archive: zipfile.ZipFile, table: str) -> None:
        super().__init__(archive.open(table))
        self._archive, self._folder = archive, table.rpartition("/")[0]

    def find_class(self, module: str, name: str) -> Any:
        if module == "torch" and name in DTYPES:
            return DTYPES[name]
        known: dict[tuple[str, str], Callable[..., Any]] = {
            ("collections", "OrderedDict"): OrderedDict, ("torch._utils", "_rebuild_tensor_v2"): _tensor,
        }
        if (module, name) not in known:
            raise pickle.UnpicklingError(f"the checkpoint asks for {module}.{name}, which is no tensor")
        return known[module, name]

    def persistent_load(self, pid: Any) -> np.ndarray:
        """("storage", type, key, device, count)"""
        _, dtype, key, _, count = pid
        return np.frombuffer(self._archive.read(f"{self._folder}/data/{key}"), dtype, count)


def _tensor(storage: np.ndarray, offset: int, size: tuple[int, ...], stride: tuple[int, ...], *rest: object
            ) -> np.ndarray:
    bytes_apart = [s * storage.itemsize for s in stride]
    return np.lib.stride_tricks.as_strided(storage[offset:], size, bytes_apart, writeable=False)


def read_tensors(path: Path) -> dict[str, np.ndarray]:
    """Name -> array of every tensor of a state dict saved by torch 1.6 or later."""
    with zipfile.ZipFile(path) as archive:
        table = next(name for name in archive.namelist() if name.endswith("/data.pkl"))
        return dict(_Reader(archive, table).load())
