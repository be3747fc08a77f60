"""One pass of the float model over the samples, and what it keeps: ranges, histograms, means of inputs."""
from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any
from zipfile import BadZipFile

import numpy as np

from ptqlab.events import Watch
from ptqlab.graph import FloatGraph
from ptqlab.ops.masks import masked_tensors, without_masks
from ptqlab.quantize.histogram import Histogram
from ptqlab.quantize.means import Reach, input_mean
from ptqlab.quantize.observe import Observer, Seen
from ptqlab.quantize.parallel import PortableSession, Sample, SampleSet, ordered
from ptqlab.quantize.store import Store, digest_of, model_digest

FORMAT = 3
# samples that tell how far each channel reaches: outlier channels are a property of the network
CHANNEL_SAMPLES = 2
# fewer values of a channel say nothing of how far it reaches
SMALLEST_CHANNEL = 16


@dataclass
class Statistics:
    """What one pass over the samples keeps.

    seen      tensor -> what was seen of it
    channels  tensor -> largest |x| of each channel [2, C], in samples of even and of odd number: of all samples where
              a step per channel is asked for, of the first CHANNEL_SAMPLES elsewhere
    means    node with weights -> one array per sample, in their order (see `quantize.means`)
    samples  number of samples
    """

    seen: dict[str, Seen]
    means: dict[str, list[np.ndarray]] = field(default_factory=dict)
    samples: int = 0
    channels: dict[str, np.ndarray] = field(default_factory=dict)

    @classmethod
    def of(cls, bins: Mapping[str, int]) -> Statistics:
        return cls({tensor: Seen.with_bins(n) for tensor, n in bins.items()})

    def merge(self, later: Statistics) -> None:
        """Take in the statistics of later samples."""
        for tensor, seen in later.seen.items():
            self.seen[tensor].merge(seen)
        for name, arrays in later.means.items():
            self.means.setdefault(name, []).extend(arrays)
        for tensor, largest in later.channels.items():
            self.channels[tensor] = np.maximum(self.channels[tensor], largest) if tensor in self.channels else largest
        self.samples += later.samples


class Pass:
    """The float model, and what is read of it for each sample. Can be pickled."""

    def __init__(
        self, graph: FloatGraph, bins: Mapping[str, int], corrected: Sequence[str], with_means: int,
        trailing: Mapping[str, int],
    ) -> None:
        self.bins = dict(bins)
        self.trailing = dict(trailing)
        self.reaches = {name: Reach.of(graph.node(name)) for name in corrected}
        self.with_means = with_means
        self.masked = masked_tensors(graph.nodes)
        inputs = {str(v.name) for v in graph.inputs}
        self.features = {name: str(graph.node(name).inputs[0].name) for name in corrected}  # type: ignore[union-attr]
        self.tensors = [t for t in bins if t not in inputs]
        more = [t for t in self.features.values() if t not in inputs and t not in bins]
        self.computed = list(dict.fromkeys([*self.tensors, *more]))
        self.runner = PortableSession(graph.model, self.computed) if self.computed else None

    def __call__(self, item: tuple[int, Sample]) -> Statistics:
        """Statistics of one sample, to be merged by who asked."""
        alone = Statistics.of(self.bins)
        self.take(*item, alone)
        return alone

    def take(self, index: int, sample: Sample, into: Statistics) -> None:
        """Add sample number `index` to statistics."""
        means = index < self.with_means
        names = self.computed if means else self.tensors
        arrays = dict(zip(names, self.runner.run(names, sample), strict=True)) if self.runner and names else {}
        for tensor, seen in into.seen.items():
            values = arrays[tensor] if tensor in arrays else sample[tensor]
            if tensor in self.masked:
                values = without_masks(values, self.masked[tensor])
            seen.add(index, values)
            axis = self._channel_axis(tensor, index, values)
            if axis is not None:
                rows = np.zeros((2, values.shape[axis]), np.float32)
                rows[index % 2] = channel_largest(values, axis)
                into.channels[tensor] = np.maximum(into.channels[tensor], rows) if tensor in into.channels else rows
        if means:
            for name, reach in self.reaches.items():
                feature = self.features[name]
                x = arrays[feature] if feature in arrays else sample[feature]
                into.means.setdefault(name, []).append(input_mean(reach, x))
        into.samples += 1

    def _channel_axis(self, tensor: str, index: int, values: np.ndarray) -> int | None:
        """Axis of the channels whose reach is to be kept; None where it is not."""
        if tensor in self.trailing:
            return values.ndim - 1 - self.trailing[tensor]
        if index >= CHANNEL_SAMPLES or values.ndim < 2:
            return None
        axis = 1 if values.ndim >= 4 else values.ndim - 1  # feature maps; sequences and rows
        return axis if values.size >= SMALLEST_CHANNEL * values.shape[axis] else None


def observe(
    graph: FloatGraph,
    bins: Mapping[str, int] | Sequence[str],
    samples: SampleSet,
    total: int,
    watch: Watch,
    *,
    corrected: Sequence[str] = (),
    with_means: int = 0,
    trailing: Mapping[str, int] | None = None,
    executor: Executor | None = None,
    store: Store | None = None,
) -> Statistics:
    """Run the float model on each sample and keep statistics of tensors (inputs of the model included).

    bins       tensor -> bins of its histogram (0: none); a plain list of tensors stands for 0 everywhere
    corrected  nodes with weights whose input means are kept, from the first `with_means` samples
    trailing   tensors whose reach per channel is kept over all samples -> number of axes behind the channels
    store      what was kept there of the same pass over the same first samples is not computed again; what is done
               is put there, also when the work is stopped
    """
    wanted = dict(bins) if isinstance(bins, Mapping) else dict.fromkeys(bins, 0)
    key = ""
    if store is not None:
        per_channel = sorted((trailing or {}).items())
        key = digest_of("statistics", FORMAT, model_digest(graph), wanted, list(corrected), with_means, per_channel)
    digests: list[str] = []
    statistics = Statistics.of(wanted)
    with watch.stage("calibrate", total) as stage:
        if store is not None:
            statistics, digests = _resumed(store, key, statistics, samples, total)
            for _ in range(statistics.samples):
                stage.step()
        done = statistics.samples
        if done < total:
            work = Pass(graph, wanted, corrected, with_means, trailing or {})
            try:
                if executor is None:
                    for index, sample in enumerate(samples):
                        if index >= done:
                            work.take(index, sample, statistics)
                            stage.step()
                else:
                    items = ((index, sample) for index, sample in enumerate(samples) if index >= done)
                    for alone in ordered(executor, work, items):
                        statistics.merge(alone)
                        stage.step()
            finally:
                if store is not None and statistics.samples > done:
                    digests += [digest_of(samples[i]) for i in range(len(digests), statistics.samples)]
                    store.put(key, packed(statistics, digests))
    return statistics


def _resumed(
    store: Store, key: str, fresh: Statistics, samples: SampleSet, total: int
) -> tuple[Statistics, list[str]]:
    """Statistics of as many of the first samples as the store knows, if they are the same samples."""
    data = store.get(key)
    found = unpacked(data) if data is not None else None
    if found is None:
        return fresh, []
    statistics, digests = found
    if set(statistics.seen) != set(fresh.seen) or len(digests) > total:
        return fresh, []
    same = all(digest_of(samples[i]) == digest for i, digest in enumerate(digests))
    return (statistics, digests) if same else (fresh, [])


def packed(statistics: Statistics, digests: Sequence[str]) -> bytes:
    """Statistics of the samples with these digests as the bytes of an .npz file."""
    arrays: dict[str, np.ndarray] = {}
    tensors: list[dict[str, Any]] = []

    def keep(array: np.ndarray) -> str:
        arrays[f"a{len(arrays)}"] = array
        return f"a{len(arrays) - 1}"

    for name, seen in statistics.seen.items():
        halves = []
        for half in (seen.even, seen.odd):
            numbers = [half.low, half.high, half.not_finite, half.count]
            h = half.histogram
            counts = None if h is None else [
                h.bins, h.exponent, keep(h.positive), None if h.negative is None else keep(h.negative)
            ]
            halves.append([numbers, counts])
        tensors.append({"name": name, "halves": halves})
    means = {name: [keep(a) for a in kept] for name, kept in statistics.means.items()}
    channels = {name: keep(a) for name, a in statistics.channels.items()}
    about = {
        "samples": statistics.samples, "digests": list(digests), "tensors": tensors, "means": means,
        "channels": channels,
    }
    buffer = io.BytesIO()
    np.savez(buffer, about=np.frombuffer(json.dumps(about).encode(), np.uint8), **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()


def unpacked(data: bytes) -> tuple[Statistics, list[str]] | None:
    """What `packed` made; None for anything else, which then counts as not there."""
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            about = json.loads(file["about"].tobytes())
            seen = {t["name"]: Seen(*(_observer(half, file) for half in t["halves"])) for t in about["tensors"]}
            means = {name: [file[a] for a in kept] for name, kept in about["means"].items()}
            channels = {name: file[a] for name, a in about["channels"].items()}
        statistics = Statistics(seen, means, int(about["samples"]), channels)
        digests = [str(d) for d in about["digests"]]
    except (ValueError, KeyError, TypeError, OSError, EOFError, BadZipFile):
        return None
    return (statistics, digests) if len(digests) == statistics.samples else None


def channel_largest(values: np.ndarray, axis: int) -> np.ndarray:
    """max |x| of each channel."""
    others = tuple(a for a in range(values.ndim) if a != axis)
    return np.maximum(values.max(axis=others), -values.min(axis=others))


def _observer(half: list[Any], file: Mapping[str, np.ndarray]) -> Observer:
    (low, high, not_finite, count), counts = half
    histogram = None
    if counts is not None:
        bins, exponent, positive, negative = counts
        histogram = Histogram(int(bins))
        histogram.exponent = None if exponent is None else int(exponent)
        histogram.positive = file[positive]
        histogram.negative = None if negative is None else file[negative]
    return Observer(float(low), float(high), int(not_finite), int(count), histogram)
