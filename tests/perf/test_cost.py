"""Times of engines and the course of a run, on numbers made for mental arithmetic."""

from __future__ import annotations

import numpy as np
import pytest

from ptqlab.perf.cost import Times, run, times
from ptqlab.perf.parameters import Parameters
from ptqlab.perf.work import COLUMNS, Work

RATES = Parameters(
    spatial=10,
    pointwise=20,
    depthwise=2,
    matmul=5,
    streaming=1.0,
    table=40,
    plain=10,
    command=2,
    ddr=40,
    runtime=300,
    runtime_per_mb=10,
    older_runtime=200,
    gap=30,
    gap_per_mb=5,
)


def spent(**columns: float) -> Times:
    return times(Work(np.array([[columns.get(name, 0.0) for name in COLUMNS]])), RATES)


@pytest.mark.parametrize(
    ("columns", "engine", "us"),
    [
        ({"spatial": 1e8}, "tae", 10),
        ({"pointwise": 1e8}, "tae", 5),
        ({"depthwise": 1e8}, "tae", 50),
        ({"matmul": 1e8}, "tae", 20),
        ({"spatial": 1e8, "streamed": 0.5}, "tae", 15),
        ({"depthwise": 1e8, "streamed": 0.5}, "tae", 50),
        ({"table": 1e6}, "vector", 40),
        ({"plain": 1e6}, "vector", 10),
        ({"hidden": 1e6}, "beside", 10),
        ({"commands": 3}, "fixed", 6),
        ({"load": 1e6}, "load", 25),
        ({"store": 2e6}, "store", 50),
    ],
)
def test_each_engine(columns: dict[str, float], engine: str, us: float) -> None:
    """MACs over TMAC/s, a million bytes at the rate of its pass, bytes over GB/s: all in us, and nothing elsewhere."""
    found = spent(**columns)
    for name in ("tae", "vector", "beside", "fixed", "load", "store"):
        assert getattr(found, name)[0] == pytest.approx(us if name == engine else 0)


def test_engines_overlap() -> None:
    """TAE and vector unit share a layer, commands come on top; weights arrive meanwhile; results are stored behind."""

    def whole(tae: float, vector: float, fixed: float, load: float, store: float) -> float:
        parts = [np.array([v]) for v in (tae, vector, 0.0, fixed, load, store)]
        return float(Times(*parts).whole[0])

    assert whole(10, 4, 2, 5, 0) == 12
    assert whole(4, 10, 2, 50, 0) == 50
    assert whole(4, 10, 2, 5, 7) == 19


def test_the_course_of_a_run() -> None:
    """Layers follow each other behind the loading of the inputs; the AAE works beside and may be the last to end."""
    zero = np.zeros(3)
    tae, beside = np.array([10.0, 0.0, 20.0]), np.array([5.0, 50.0, 0.0])
    found = run(Times(tae, zero, beside, zero, zero, zero), first=3)
    assert found.start.tolist() == [3, 13, 13] and found.end.tolist() == [13, 13, 33]
    assert found.beside.tolist() == [3, 13, 0]
    assert found.total == 63
    short = run(Times(tae, zero, zero, zero, zero, zero), first=3)
    assert short.total == 33


def test_scaled_rates() -> None:
    """Twice the compute halves what computes, and leaves DDR and host alone."""
    twice = RATES.scaled(2, 1, 1)
    assert (twice.spatial, twice.table, twice.command, twice.ddr, twice.runtime) == (20, 20, 1, 40, 300)
    host = RATES.scaled(1, 3, 0.5)
    assert (host.spatial, host.ddr, host.runtime, host.runtime_per_mb, host.older_runtime) == (10, 120, 150, 5, 100)
    assert host.streaming == RATES.streaming and host.gap == RATES.gap
