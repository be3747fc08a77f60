"""Results kept by the hash of everything they were computed from, so that a second run continues the first."""
from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import numpy as np
import onnx_ir as ir

from ptqlab.graph import FloatGraph
from ptqlab.graph.saving import assemble
from ptqlab.quantize.parallel import SampleSet


class Store(Protocol):
    """Where results stay: in memory or in a folder (`ptqlab.workers`)."""

    def get(self, key: str) -> bytes | None: ...
    def put(self, key: str, data: bytes) -> None: ...


_models: WeakKeyDictionary[ir.Model, str] = WeakKeyDictionary()


def model_digest(graph: FloatGraph) -> str:
    """Hash of a model: nodes, shapes and the bytes of every constant. Remembered, since models do not change."""
    model = graph.model
    if model not in _models:
        digest = hashlib.blake2b(digest_size=16)
        digest.update(assemble(model, lambda name, tensor: None).SerializeToString(deterministic=True))
        for name, value in model.graph.initializers.items():
            assert value.const_value is not None
            digest.update(name.encode() + b"\0")
            _update(digest, value.const_value.numpy())
        _models[model] = digest.hexdigest()
    return _models[model]


def digest_of(*parts: Any) -> str:
    """Hash of plain values, arrays and mappings of arrays; the same in every process."""
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        if isinstance(part, np.ndarray):
            _update(digest, part)
        elif isinstance(part, Mapping) and any(isinstance(v, np.ndarray) for v in part.values()):
            for name in sorted(part):
                digest.update(name.encode() + b"\0")
                _update(digest, part[name])
        else:
            digest.update(json.dumps(part, sort_keys=True).encode() + b"\0")
    return digest.hexdigest()


def _update(digest: Any, array: np.ndarray) -> None:
    digest.update(f"{array.dtype.str}{array.shape}".encode())
    digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8) if array.dtype.kind in "fiub" else
                  json.dumps(array.tolist(), default=str).encode())


class Kept:
    """Results of a search by sample, as plain JSON; those of the same first samples are there again after a stop."""

    def __init__(self, store: Store | None, key: str, samples: SampleSet, total: int) -> None:
        self.store, self.key, self.samples = store, key, samples
        self.results: list[Any] = []
        self._digests: list[str] = []
        for digest, result in self._read()[:total]:
            if digest != digest_of(samples[len(self.results)]):
                break
            self.results.append(result)
            self._digests.append(digest)
        self.known = len(self.results)

    def _read(self) -> list[Any]:
        data = self.store.get(self.key) if self.store is not None else None
        try:
            found = json.loads(data) if data else []
        except ValueError:
            return []
        fits = isinstance(found, list) and all(isinstance(entry, list) and len(entry) == 2 for entry in found)
        return found if fits else []

    def add(self, result: Any) -> None:
        """The result of the next sample."""
        self.results.append(result)

    def save(self) -> None:
        """Keep what was added."""
        if self.store is not None and len(self.results) > self.known:
            self._digests += [digest_of(self.samples[i]) for i in range(len(self._digests), len(self.results))]
            self.store.put(self.key, json.dumps(list(zip(self._digests, self.results, strict=True))).encode())
