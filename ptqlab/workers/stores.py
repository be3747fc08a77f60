"""Where results stay between runs: in memory for the session, in a folder where the configuration names one.

Keys are hashes of everything a result was computed from, so an entry is right or not there; nothing has to be
invalidated. What a folder holds is read as plain numbers and never executed.
"""
from __future__ import annotations

import os
import re
import secrets
import threading
from collections import OrderedDict
from pathlib import Path
from typing import Protocol

MEMORY_LIMIT = 128 << 20
KEY = re.compile(r"[0-9a-f]{8,64}")


class Store(Protocol):
    def get(self, key: str) -> bytes | None: ...
    def put(self, key: str, data: bytes) -> None: ...


class MemoryStore:
    """The entries used last, up to `limit` bytes in all."""

    def __init__(self, limit: int = MEMORY_LIMIT) -> None:
        self.limit = limit
        self._entries: OrderedDict[str, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: str) -> bytes | None:
        with self._lock:
            if key in self._entries:
                self._entries.move_to_end(key)
            return self._entries.get(key)

    def put(self, key: str, data: bytes) -> None:
        with self._lock:
            self._entries[key] = data
            self._entries.move_to_end(key)
            while sum(map(len, self._entries.values())) > self.limit:
                self._entries.popitem(last=False)


class FolderStore:
    """One file per entry. `fresh`: entries of earlier runs are not read, only overwritten (force_overwrite)."""

    def __init__(self, folder: Path, fresh: bool = False) -> None:
        self.folder, self.fresh = folder, fresh
        self._written: set[str] = set()

    def _path(self, key: str) -> Path:
        assert KEY.fullmatch(key), "keys are hashes"
        return self.folder / f"{key}.ptqlab-cache"

    def get(self, key: str) -> bytes | None:
        if self.fresh and key not in self._written:
            return None
        try:
            return self._path(key).read_bytes()
        except FileNotFoundError:
            return None

    def put(self, key: str, data: bytes) -> None:
        path = self._path(key)
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
        try:
            temporary.write_bytes(data)
            os.replace(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        self._written.add(key)


class Layers:
    """Several stores as one: read from the first that has it, written to all."""

    def __init__(self, *stores: Store) -> None:
        self.stores = stores

    def get(self, key: str) -> bytes | None:
        return next((data for store in self.stores if (data := store.get(key)) is not None), None)

    def put(self, key: str, data: bytes) -> None:
        for store in self.stores:
            store.put(key, data)


_session = MemoryStore()


def session_store(folder: Path | None = None, fresh: bool = False) -> Store:
    """The store of this Python session, with a folder behind it where one is given."""
    if folder is None:
        return _session
    if fresh:
        return FolderStore(folder, fresh=True)
    return Layers(_session, FolderStore(folder))
