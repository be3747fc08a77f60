"""Effects of many choices over many samples: by several workers, judged by the user's own measure, continued later."""
from __future__ import annotations

import json
import pickle
import shutil
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from ptqlab.arith.metrics import Agreement
from ptqlab.debug.cuts import Effects, Known, Prepared
from ptqlab.debug.network import Choice, Half, Network
from ptqlab.errors import Problem, PtqError
from ptqlab.events import Watch
from ptqlab.graph import save
from ptqlab.quantize.parallel import Sample, SampleSet, ordered
from ptqlab.quantize.store import Store, digest_of, model_digest

#: The user's own measure: (outputs by name, number of the sample) -> how good they are; more is better.
Judge = Callable[[Mapping[str, np.ndarray], int], float]
Item = tuple[int, Sample, tuple[str, ...]]
# choices that a worker takes at a time: few enough to be stopped soon, many enough to be worth the way
AT_A_TIME = 8
FIELDS = tuple(f.name for f in fields(Agreement))


@dataclass
class Row:
    """One choice on one sample: how near each output is to the float one, and what the judges say."""

    label: str
    number: int
    found: list[Agreement]
    judged: list[float] = field(default_factory=list)


def measured(
    effects: Effects, choices: Mapping[str, Choice], samples: SampleSet, watch: Watch, *,
    executor: Executor | None = None, judges: Sequence[Judge] = (), store: Store | None = None,
    numbers: Iterable[int] | None = None,
) -> Iterator[Row]:
    """Rows of all choices, sample by sample.

    executor  who works: None here and now, threads, or anything that can pickle;  numbers: samples to use, None: all
    store     where results are kept and found again, by what they were computed from; not with judges

    Raises Interrupted between two rows when the watch is stopped; what was yielded stays good, and is in the store.
    """
    wanted = list(range(len(samples)) if numbers is None else numbers)
    held = {n: _Held(None if judges else store, effects, samples[n]) for n in wanted}
    digests = {label: _digest(choice) for label, choice in choices.items()}
    job = _Work(effects, choices, judges, len(wanted)) if executor is None or isinstance(executor, ThreadPoolExecutor) \
        else _Away(effects, choices, judges, len(wanted))
    size = 1 if executor is None else AT_A_TIME

    def items() -> Iterator[Item]:
        for number in wanted:
            open_ = [label for label in choices if digests[label] not in held[number].known]
            for start in range(0, len(open_), size):
                yield number, samples[number], tuple(open_[start:start + size])

    try:
        with watch.stage("sensitivity", len(wanted) * len(choices)) as stage:
            for number in wanted:
                for label in choices:
                    if digests[label] in held[number].known:
                        yield Row(label, number, held[number].get(digests[label]))
                        stage.step()
            for rows in ordered(executor, job, items()):
                for row in rows:
                    held[row.number].add(digests[row.label], row.found)
                    yield row
                    stage.step()
    finally:
        for results in held.values():
            results.save()


class _Work:
    """Some choices on one sample, in this process; threads share it."""

    def __init__(self, effects: Effects, choices: Mapping[str, Choice], judges: Sequence[Judge], samples: int) -> None:
        self.effects, self.judges = effects, judges
        self.ready = Prepared(effects, choices, samples)
        self.known: dict[int, Known] = {}
        self.lock = threading.Lock()

    def __call__(self, item: Item) -> list[Row]:
        number, sample, labels = item
        with self.lock:
            known = self.known.get(number)
            if known is None:
                known = self.known[number] = self.ready.known(sample)
                for old in list(self.known)[:-2]:
                    del self.known[old]
        rows = []
        for label in labels:
            made = self.ready.outputs(label, known)
            judged = [float(judge(made, number)) for judge in self.judges]
            rows.append(Row(label, number, self.effects.compare(known, made), judged))
        return rows


class _Away:
    """The same in other processes: what it needs travels as files, once, and is made ready there on first use."""

    def __init__(self, effects: Effects, choices: Mapping[str, Choice], judges: Sequence[Judge], samples: int) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="ptqlab-debug-"))
        weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)
        network = effects.network
        save(network.graph.model, self.folder / "model.onnx")
        try:
            (self.folder / "rest").write_bytes(pickle.dumps(
                (network.quantizers, network.edges, effects.output_node, effects.pieces, dict(choices), list(judges),
                 samples)))
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise PtqError(Problem("PTQ557", "metric", f"cannot be sent to other processes: {error}",
                                   "a function of a module", "or let threads do it: executor='threads'"),
                           "sensitivity") from None

    def __getstate__(self) -> dict[str, Any]:
        return {"folder": self.folder}

    def __call__(self, item: Item) -> list[Row]:
        return _arrived(self.folder)(item)


_here: dict[Path, _Work] = {}
_lock = threading.Lock()


def _arrived(folder: Path) -> _Work:
    """The work that lies in a folder, made ready once in this process; that of an earlier one is dropped."""
    with _lock:
        if folder not in _here:
            if not folder.is_dir():
                raise PtqError(Problem("PTQ701", str(folder), "the model's file is not there for this worker",
                                       "a folder all workers see", "let TMPDIR point at a shared folder, or use "
                                       "workers of this machine"))
            quantizers, edges, output_node, pieces, choices, judges, samples = pickle.loads(
                (folder / "rest").read_bytes())
            network = Network.of(folder / "model.onnx", quantizers, edges)
            _here.clear()
            _here[folder] = _Work(Effects(network, output_node, pieces), choices, judges, samples)
        return _here[folder]


class _Held:
    """Results of one sample in a store: digest of a choice -> figures of each output, as plain JSON."""

    def __init__(self, store: Store | None, effects: Effects, sample: Sample) -> None:
        self.store, self.new = store, False
        self.known: dict[str, list[list[Any]]] = {}
        if store is None:
            return
        edges = [[*edge, *chain] for edge, chain in effects.network.edges.items()]
        self.key = digest_of("sensitivity", model_digest(effects.network.graph), edges, effects.output_node or "",
                             dict(sample))
        data = store.get(self.key)
        try:
            found = json.loads(data) if data else {}
        except ValueError:
            found = {}
        if isinstance(found, dict):
            self.known = {k: v for k, v in found.items() if self._fits(v, len(effects.outputs))}

    @staticmethod
    def _fits(rows: Any, outputs: int) -> bool:
        return isinstance(rows, list) and len(rows) == outputs and all(
            isinstance(row, list) and len(row) == len(FIELDS) and all(isinstance(v, int | float) for v in row)
            for row in rows)

    def get(self, digest: str) -> list[Agreement]:
        return [Agreement(**dict(zip(FIELDS, row, strict=True))) for row in self.known[digest]]

    def add(self, digest: str, found: Sequence[Agreement]) -> None:
        if self.store is not None:
            self.known[digest] = [[getattr(a, name) for name in FIELDS] for a in found]
            self.new = True

    def save(self) -> None:
        if self.store is not None and self.new:
            self.store.put(self.key, json.dumps(self.known).encode())


def _digest(choice: Choice) -> str:
    """Hash of what is on."""
    parts: list[Any] = []
    for key, on in choice.items():
        parts += [key]
        if isinstance(on, Half):
            parts += [on.node, on.computes]
            continue
        parts += [on.zero_point, on.low, on.high, on.scale]
        if on.correction is not None:
            c = on.correction
            parts += [c.node, c.index, c.whole, c.own, dict(c.inputs)]
    return digest_of(*parts)
