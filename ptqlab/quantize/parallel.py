"""Work over many samples by several workers, with results in the order of the samples.

A job is a callable that can be pickled: sent to another process it takes its model along as a file and makes its
session there, once per process. Threads share it as it is. Results arrive in order whoever made them, and sums over
samples are made by the receiver, so one worker and many give the same bits.
"""
from __future__ import annotations

import os
import shutil
import tempfile
import threading
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import onnx_ir as ir

from ptqlab.errors import Problem, PtqError
from ptqlab.graph import Session, save, session

Sample = Mapping[str, np.ndarray]
Item = TypeVar("Item")
Result = TypeVar("Result")
# sessions that a worker process keeps: enough for one search, little enough for its memory
KEPT_SESSIONS = 8


class SampleSet(Protocol):
    """Calibration data as every step reads it: by number, as often as needed."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> Sample: ...
    def __iter__(self) -> Iterator[Sample]: ...


class Part:
    """Some samples of a set, in an order of their own."""

    def __init__(self, samples: SampleSet, indices: Sequence[int]) -> None:
        self.samples, self.indices = samples, indices

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: int) -> Sample:
        return self.samples[self.indices[index]]

    def __iter__(self) -> Iterator[Sample]:
        return (self[i] for i in range(len(self)))


def ordered(
    executor: Executor | None, job: Callable[[Item], Result], items: Iterable[Item], ahead: int = 2
) -> Iterator[Result]:
    """job(item) for every item, in order. None works here and now.

    Only `ahead` items per worker are under way at a time, so that samples do not pile up in memory. When the receiver
    stops, work that has not begun is cancelled.
    """
    if executor is None:
        yield from map(job, items)
        return
    waiting: deque[Future[Result]] = deque()
    most = ahead * workers_of(executor)
    try:
        for item in items:
            waiting.append(executor.submit(job, item))
            if len(waiting) >= most:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()


def workers_of(executor: Executor | None) -> int:
    """How many items an executor works on at a time; what the standard library's say, else the processor's count."""
    if executor is None:
        return 1
    return int(getattr(executor, "_max_workers", None) or os.cpu_count() or 1)


class PortableSession:
    """A session that can be pickled: the model travels as a file, and the session is made where it arrives."""

    def __init__(self, model: ir.Model, outputs: Sequence[str] | None = None) -> None:
        self.outputs = None if outputs is None else tuple(outputs)
        self._model: ir.Model | None = model
        self._path: Path | None = None
        self._session: Session | None = session(model, outputs=outputs)

    @property
    def session(self) -> Session:
        if self._session is None:
            assert self._path is not None
            self._session = _kept(self._path, self.outputs)
        return self._session

    def run(self, names: Sequence[str] | None, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        return self.session.run(names, feeds)

    def __getstate__(self) -> dict[str, Any]:
        if self._path is None:
            assert self._model is not None
            folder = Path(tempfile.mkdtemp(prefix="ptqlab-model-"))
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
            self._path = save(self._model, folder / "model.onnx")
        return {"outputs": self.outputs, "_path": self._path, "_model": None, "_session": None}


_sessions: OrderedDict[tuple[Path, tuple[str, ...] | None], Session] = OrderedDict()
_lock = threading.Lock()


def _kept(path: Path, outputs: tuple[str, ...] | None) -> Session:
    """The session of a model that travelled here, made on first use."""
    key = (path, outputs)
    with _lock:
        if key not in _sessions:
            if not path.exists():
                raise PtqError(Problem(
                    "PTQ701", str(path), "the model's file is not there for this worker", "a folder all workers see",
                    "let TMPDIR point at a shared folder, or use workers of this machine"))
            _sessions[key] = session(path, outputs=outputs)
            while len(_sessions) > KEPT_SESSIONS:
                _sessions.popitem(last=False)
        _sessions.move_to_end(key)
        return _sessions[key]
