"""Stores: in memory up to a limit, in a folder as files that are whole or not there."""
from __future__ import annotations

from pathlib import Path

import pytest

from ptqlab.workers import FolderStore, Layers, MemoryStore, session_store

A, B, C = "aa" * 8, "bb" * 8, "cc" * 8


def test_memory_forgets_what_was_used_longest_ago() -> None:
    """Entries go when the limit is passed, the least recently read first."""
    store = MemoryStore(limit=10)
    store.put(A, b"1234")
    store.put(B, b"5678")
    assert store.get(A) == b"1234"
    store.put(C, b"9abc")
    assert [store.get(k) for k in (A, B, C)] == [b"1234", None, b"9abc"]
    store.put(A, b"12345678901")
    assert store.get(A) is None


def test_a_folder_keeps_entries_for_the_next_process(tmp_path: Path) -> None:
    """Another store on the same folder reads them; nothing but the entry is left behind."""
    FolderStore(tmp_path).put(A, b"data")
    assert FolderStore(tmp_path).get(A) == b"data"
    assert FolderStore(tmp_path).get(B) is None
    assert [p.name for p in tmp_path.iterdir()] == [f"{A}.ptqlab-cache"]


def test_a_failed_write_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The old entry stays and no temporary file remains."""
    store = FolderStore(tmp_path)
    store.put(A, b"old")

    def broken(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("ptqlab.workers.stores.os.replace", broken)
    with pytest.raises(OSError, match="disk full"):
        store.put(A, b"new")
    assert store.get(A) == b"old"
    assert len(list(tmp_path.iterdir())) == 1


def test_fresh_reads_only_what_it_wrote(tmp_path: Path) -> None:
    """cache_mode force_overwrite: entries of earlier runs are computed again, those of this run are used."""
    FolderStore(tmp_path).put(A, b"old")
    store = FolderStore(tmp_path, fresh=True)
    assert store.get(A) is None
    store.put(A, b"new")
    assert store.get(A) == b"new"


def test_layers() -> None:
    """Read from the first that has it, written to all."""
    first, second = MemoryStore(), MemoryStore()
    second.put(A, b"far")
    both = Layers(first, second)
    assert both.get(A) == b"far"
    both.put(B, b"x")
    assert (first.get(B), second.get(B)) == (b"x", b"x")


def test_keys_are_no_paths(tmp_path: Path) -> None:
    """Only hashes are keys: nothing can be read or written beside the folder."""
    for key in ("../../etc/passwd", "A" * 16, "", "aa/aa" * 4):
        with pytest.raises(AssertionError):
            FolderStore(tmp_path).get(key)


def test_the_session_store(tmp_path: Path) -> None:
    """One for the whole session; with a folder behind it, unless everything is to be made anew."""
    assert session_store() is session_store()
    session_store(tmp_path).put(A, b"kept")
    assert session_store().get(A) == b"kept"
    assert FolderStore(tmp_path).get(A) == b"kept"
    assert session_store(tmp_path, fresh=True).get(A) is None
