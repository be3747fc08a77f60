"""Results in order by any executor, and sessions that travel to other processes."""
from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from calibration_nets import mobile

from ptqlab.errors import PtqError
from ptqlab.quantize import parallel
from ptqlab.quantize.parallel import PortableSession, ordered, workers_of


def slow_first(item: int) -> int:
    time.sleep(0.02 if item == 0 else 0.0)
    return item * item


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_results_come_in_order(workers: int) -> None:
    """However long one takes, results follow the items."""
    pool = ThreadPoolExecutor(workers) if workers else None
    assert list(ordered(pool, slow_first, range(20))) == [i * i for i in range(20)]
    if pool:
        pool.shutdown()


def test_items_are_read_only_a_little_ahead() -> None:
    """No more than two items per worker wait, so that samples do not pile up in memory."""
    read: list[int] = []

    def items() -> Iterator[int]:
        for i in range(50):
            read.append(i)
            yield i

    with ThreadPoolExecutor(2) as pool:
        results = ordered(pool, slow_first, items())
        next(results)
        assert len(read) <= 4
        results.close()  # type: ignore[attr-defined]


def test_what_has_not_begun_is_cancelled_when_the_receiver_stops() -> None:
    """After close no further item is worked on."""
    begun: list[int] = []
    gate = threading.Event()

    def work(item: int) -> int:
        begun.append(item)
        if item:
            gate.wait(5)
        return item

    with ThreadPoolExecutor(1) as pool:
        results = ordered(pool, work, range(10), ahead=4)
        assert next(results) == 0
        results.close()  # type: ignore[attr-defined]
        gate.set()
    assert len(begun) <= 2


def test_an_error_reaches_the_receiver() -> None:
    """The exception of a job is raised where its result would have come."""
    with ThreadPoolExecutor(2) as pool:
        results = ordered(pool, lambda i: 1 // (3 - i), range(6))
        assert [next(results) for _ in range(3)] == [0, 0, 1]
        with pytest.raises(ZeroDivisionError):
            next(results)


def test_sessions_travel() -> None:
    """A pickled session gives the same outputs; when its file is gone, the refusal says what to do."""
    graph, _, samples = mobile(1)
    portable = PortableSession(graph.model, ["r0", "sum"])
    wanted = portable.run(None, samples[0])
    data = pickle.dumps(portable)
    assert len(data) < 2000
    arrived = pickle.loads(data)
    for a, b in zip(arrived.run(None, samples[0]), wanted, strict=True):
        assert np.array_equal(a, b)
    lost = pickle.loads(data)
    parallel._sessions.clear()
    folder = lost._path.parent
    del portable
    assert not folder.exists()
    with pytest.raises(PtqError) as refused:
        lost.run(None, samples[0])
    assert refused.value.problems[0].code == "PTQ701"
    assert "TMPDIR" in refused.value.problems[0].hint


def test_numbers_of_workers() -> None:
    """None works alone, pools say how many they are."""
    assert workers_of(None) == 1
    with ThreadPoolExecutor(3) as pool:
        assert workers_of(pool) == 3
