"""One pass over the samples: the same statistics by any number of workers, and after a stop."""
from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from calibration_nets import Feeds, mobile

from ptqlab.errors import Interrupted
from ptqlab.events import Event, Watch
from ptqlab.graph import session
from ptqlab.quantize import statistics as module
from ptqlab.quantize.statistics import Pass, Statistics, observe, packed, unpacked

BINS = {"x": 0, "r0": 64, "sum": 256}


class Memory(dict[str, bytes]):
    """The simplest store."""

    def put(self, key: str, data: bytes) -> None:
        self[key] = data


def run(samples: list[Feeds], **more: Any) -> Statistics:
    graph, _, _ = mobile(1)
    more = {"watch": Watch(), "corrected": ["conv0", "fc"], "with_means": 2} | more
    return observe(graph, BINS, samples, len(samples), **more)


def assert_same(a: Statistics, b: Statistics) -> None:
    """Equal in every number."""
    assert packed(a, ["d"] * a.samples) == packed(b, ["d"] * b.samples)


@pytest.fixture(scope="module")
def samples() -> list[Feeds]:
    return mobile(5)[2]


def test_what_is_kept(samples: list[Feeds]) -> None:
    """Ranges, histograms and means are those of the float model's own tensors; even and odd samples stay apart."""
    graph, _, _ = mobile(1)
    found = run(samples)
    runner = session(graph.model, outputs=["r0", "sum"])
    r0 = [runner.run(["r0"], s)[0] for s in samples]
    even, odd = found.seen["r0"].even, found.seen["r0"].odd
    assert (even.count, odd.count) == (3 * r0[0].size, 2 * r0[0].size)
    assert even.high == max(float(r0[i].max()) for i in (0, 2, 4))
    assert odd.low == min(float(r0[i].min()) for i in (1, 3))
    whole = found.seen["r0"].whole
    assert whole.histogram is not None and whole.histogram.count == 5 * r0[0].size
    assert found.seen["x"].whole.histogram is None
    assert [len(found.means[n]) for n in ("conv0", "fc")] == [2, 2]
    np.testing.assert_allclose(found.means["fc"][0], runner_mean(graph, samples[0]), rtol=1e-5)


def runner_mean(graph: Any, sample: Feeds) -> np.ndarray:
    feature = str(graph.node("fc").inputs[0].name)
    return session(graph.model, outputs=[feature]).run(None, sample)[0].mean(axis=0)


def test_the_same_by_many_workers(samples: list[Feeds]) -> None:
    """Two and four threads give the statistics of one, to the bit."""
    alone = run(samples)
    for workers in (2, 4):
        with ThreadPoolExecutor(workers) as pool:
            assert_same(run(samples, executor=pool), alone)


def test_packed_and_unpacked(samples: list[Feeds]) -> None:
    """Bytes and back lose nothing; anything else counts as not there, and nothing in it is executed."""
    found = run(samples)
    data = packed(found, ["a", "b", "c", "d", "e"])
    again = unpacked(data)
    assert again is not None and again[1] == ["a", "b", "c", "d", "e"]
    assert_same(again[0], found)
    assert unpacked(data[:-100]) is None
    assert unpacked(b"") is None
    assert unpacked(b"\x80\x04.") is None
    assert unpacked(packed(found, ["a"])) is None


def test_a_second_run_runs_nothing(samples: list[Feeds], monkeypatch: pytest.MonkeyPatch) -> None:
    """With a store the same samples are not computed again; one more sample costs one more."""
    store = Memory()
    first = run(samples[:4], store=store)
    taken: list[int] = []
    plain = Pass.take
    monkeypatch.setattr(Pass, "take", lambda self, i, s, into: (taken.append(i), plain(self, i, s, into)))
    assert_same(run(samples[:4], store=store), first)
    assert taken == []
    assert_same(run(samples, store=store), run(samples))
    assert taken[:1] == [4]


@pytest.mark.parametrize("change", ["sample", "bins", "fewer"])
def test_other_work_is_not_the_same(samples: list[Feeds], change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another first sample, other bins or fewer samples: what the store has is not used."""
    store = Memory()
    run(samples, store=store)
    other = [dict(s) for s in samples]
    if change == "sample":
        other[0] = {"x": other[0]["x"] + 1}
    if change == "bins":
        monkeypatch.setitem(BINS, "r0", 128)
    if change == "fewer":
        other = other[:3]
    assert_same(run(other, store=store), run(other))


@pytest.mark.parametrize("workers", [0, 2])
def test_a_stop_keeps_what_is_done(samples: list[Feeds], workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped after two samples: the next run takes up at the third and ends as if nothing had happened."""
    store = Memory()
    watch = Watch(lambda event: watch.stop() if event.kind == "step" and event.done == 2 else None)
    pool = ThreadPoolExecutor(workers) if workers else None
    with pytest.raises(Interrupted) as stopped:
        run(samples, store=store, watch=watch, executor=pool)
    assert stopped.value.done == 2
    if pool:
        pool.shutdown()  # a sample that was under way when the stop came may still be at work
    taken: list[int] = []
    plain = Pass.take
    monkeypatch.setattr(module.Pass, "take", lambda self, i, s, into: (taken.append(i), plain(self, i, s, into)))
    events: list[Event] = []
    again = run(samples, store=store, watch=Watch(events.append))
    assert taken == [2, 3, 4]
    assert_same(again, run(samples))
    assert [e.done for e in events if e.kind == "step"] == [1, 2, 3, 4, 5]
    if pool:
        pool.shutdown()
