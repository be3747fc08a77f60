"""What may be given as executor, and that every kind gives the same bits."""
from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from calibration_nets import mobile, recipe

from ptqlab.errors import PtqError
from ptqlab.events import Watch
from ptqlab.quantize.calibrate import calibrate
from ptqlab.stages.calibration import Calibration
from ptqlab.workers import opened

BLOCKS: list[dict[str, Any]] = [
    {},
    {"activation": {"calibration_type": ["max", "kl"]}, "weight": {"bias_correction": {"num_sample": 2}}},
    {"activation": {"calibration_type": ["max", "mse"]}, "layerwise_search": {}},
]


def calibrated(block: dict[str, Any], executor: Any) -> Calibration:
    graph, plan, samples = mobile(5)
    with opened(executor) as pool:
        return calibrate(graph, plan, samples, 5, Watch(), recipe(graph, plan, block), pool)


def same(a: Calibration, b: Calibration) -> bool:
    means = a.means.keys() == b.means.keys() and all((a.means[n] == b.means[n]).all() for n in a.means)
    return means and a.thresholds == b.thresholds and a.answers == b.answers and a.method == b.method


@pytest.mark.parametrize("block", BLOCKS, ids=["default", "modelwise", "layerwise"])
def test_threads_give_the_same_bits(block: dict[str, Any]) -> None:
    """None, "threads" and any number of them."""
    alone = calibrated(block, 1)
    for given in (None, "threads", 2, 5):
        assert same(calibrated(block, given), alone)


@pytest.mark.slow
def test_processes_give_the_same_bits() -> None:
    """Jobs and sessions travel to other processes; results come back as they would have come here."""
    graph, plan, samples = mobile(5)
    with opened("processes") as pool:
        for block in BLOCKS:
            found = calibrate(graph, plan, samples, 5, Watch(), recipe(graph, plan, block), pool)
            assert same(found, calibrated(block, 1))


@pytest.mark.slow
def test_a_dask_client_gives_the_same_bits() -> None:
    """dask.distributed is asked through its executor; it is an extra and may not be there."""
    distributed = pytest.importorskip("distributed", reason="the extra [dask] is not installed")
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, \
            distributed.Client(cluster) as client:
        for block in BLOCKS:
            assert same(calibrated(block, client), calibrated(block, 1))


def test_who_closes_the_pool() -> None:
    """A pool that was given stays open; one that was made here is closed; 1 works without a pool."""
    with ThreadPoolExecutor(1) as mine:
        with opened(mine) as pool:
            assert pool is mine
        assert mine.submit(int, "7").result() == 7
    with opened(2) as pool:
        assert pool is not None
    with pytest.raises(RuntimeError, match="shutdown"):
        pool.submit(int, "7")
    with opened(1) as pool:
        assert pool is None


@pytest.mark.parametrize("given", [0, -1, True, "dask", 2.5, object()])
def test_anything_else_is_refused(given: Any) -> None:
    """The refusal shows what was given and what may be."""
    with pytest.raises(PtqError) as refused, opened(given):
        pass
    problem = refused.value.problems[0]
    assert (problem.code, problem.where, problem.found) == ("PTQ702", "executor", repr(given))
    assert "threads" in problem.expected
