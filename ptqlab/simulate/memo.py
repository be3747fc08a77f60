"""Integer models run again and again with small changes: what is the same as in an earlier run is not computed again.

A part of the schedule is known by what it is (its nodes with their constants), and a value by the part that makes it
and the values that went in. So a change in one place runs the parts that it reaches and no others, and going back to an
earlier model runs nothing.
"""
from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import onnx_ir as ir

from ptqlab.graph import Session, outer_values
from ptqlab.simulate.fast import FastExecutor
from ptqlab.stages.quantized import QuantizedModel
from ptqlab.stages.schedule import Part

MEMORY_LIMIT = 256 << 20
SESSIONS = 96
Arrays = dict[str, np.ndarray]


class Memo:
    """Sessions by what they compute, and results by what they were computed from; those used last stay.

    limit  bytes of results that are kept
    """

    def __init__(self, limit: int = MEMORY_LIMIT) -> None:
        self.limit = limit
        self.sessions: OrderedDict[str, Session] = OrderedDict()
        self.results: OrderedDict[str, Arrays] = OrderedDict()
        self.lock = threading.Lock()
        self._held = 0

    def get(self, key: str) -> Arrays | None:
        with self.lock:
            if key in self.results:
                self.results.move_to_end(key)
            return self.results.get(key)

    def put(self, key: str, arrays: Arrays) -> None:
        with self.lock:
            if key in self.results or _bytes(arrays) > self.limit:
                return
            self.results[key] = arrays
            self._held += _bytes(arrays)
            while self._held > self.limit:
                _, gone = self.results.popitem(last=False)
                self._held -= _bytes(gone)


def _bytes(arrays: Arrays) -> int:
    return sum(a.nbytes for a in arrays.values())


class _Sessions(Mapping[Part, Session]):
    """Sessions of the parts of an executor, each made when it is first needed, or taken from the memo."""

    def __init__(self, executor: MemoExecutor) -> None:
        self.executor = executor

    def __getitem__(self, part: Part) -> Session:
        memo, key = self.executor.memo, self.executor.keys[part]
        with memo.lock:
            if key not in memo.sessions:
                memo.sessions[key] = self._make(part)
                while len(memo.sessions) > SESSIONS:
                    memo.sessions.popitem(last=False)
            memo.sessions.move_to_end(key)
            return memo.sessions[key]

    def _make(self, part: Part) -> Session:
        quantized = self.executor.quantized
        alone = FastExecutor(replace(quantized, parts=(part,)), threads=self.executor.threads)
        floating = part.device == "CPU" or part.floating
        return (alone._float_sessions if floating else alone._sessions)[part]

    def __iter__(self) -> Iterator[Part]:
        return iter(self.executor.quantized.parts)

    def __len__(self) -> int:
        return len(self.executor.quantized.parts)


class MemoExecutor(FastExecutor):
    """A `FastExecutor` that shares sessions and results with those before it; gives the same bits.

    Integer tensors are left in the float form they are carried in (`raw`). `ran` counts the parts that were computed.
    """

    def __init__(self, quantized: QuantizedModel, memo: Memo, *, threads: int = 1) -> None:
        super().__init__(quantized, threads=threads, raw=True)
        self.memo = memo
        self.ran = 0
        self.keys = {part: self._key(part) for part in quantized.parts}
        # in place of what the executor makes for itself
        self.__dict__["_sessions"] = self.__dict__["_float_sessions"] = _Sessions(self)

    def run_known(self, feeds: Mapping[str, np.ndarray], sample: str) -> Arrays:
        """Outputs by name. `sample` tells these feeds from all others that the memo ever saw."""
        values = {name: f"{sample}/{name}" for name in feeds}
        made: dict[Part, str] = {}
        for part in self.quantized.parts:
            made[part] = _digest([self.keys[part], *(f"{n}={values.get(n, n)}" for n in part.inputs)])
            values.update({name: f"{made[part]}/{name}" for name in self.wanted(part)})
        live: Arrays = {**feeds, **self._constant_outputs}
        for part in self._unknown(made, live):
            found = self.run_part(part, live)
            live.update(found)
            self.memo.put(made[part], found)
            self.ran += 1
        return {name: live[name] for name in self.output_names}

    def _unknown(self, made: Mapping[Part, str], live: Arrays) -> list[Part]:
        """Parts to be run, in order; results that are known go to `live`."""
        asked, run = set(self.output_names), []
        for part in reversed(self.quantized.parts):
            if asked.isdisjoint(self.wanted(part)):
                continue
            known = self.memo.get(made[part])
            if known is None:
                run.append(part)
                asked.update(part.inputs)
            else:
                live.update(known)
        return run[::-1]

    def _key(self, part: Part) -> str:
        pieces = [part.device, str(part.floating), str(self.threads), *part.inputs, *self.wanted(part)]
        return _digest(pieces, (piece for name in part.nodes for piece in _node(self._nodes[name])))


def _digest(texts: list[str], more: Iterator[bytes] | tuple[()] = ()) -> str:
    found = hashlib.blake2b(digest_size=16)
    for text in texts:
        found.update(text.encode() + b"\0")
    for piece in more:
        found.update(piece)
    return found.hexdigest()


def _node(node: ir.Node) -> Iterator[bytes]:
    """Everything that decides what a node computes, constants by their numbers."""
    yield ir.to_proto(node).SerializeToString(deterministic=True)
    for value in (*outer_values(node), *node.outputs):
        yield f"{value.name} {value.dtype} {value.shape}\0".encode()
        if value.const_value is not None:
            yield _contents(value.const_value)


def _contents(tensor: Any) -> bytes:
    return np.ascontiguousarray(tensor.numpy()).tobytes()
