"""From what a user gives as `executor` to one that the calibration passes can use.

    None, "threads"      a pool of threads, one per processor: onnxruntime works outside of Python's lock
    "processes"          a pool of processes, for models whose statistics cost more than their inference; started
                         fresh ("spawn"), so a script needs its `if __name__ == "__main__":`
    a number             that many threads; 1 works here and now
    an Executor          any of `concurrent.futures`; it stays open
    a dask Client        of `dask.distributed` (extra [dask]); its workers need to see the folder for temporary files
"""
from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from ptqlab.errors import Problem, PtqError

ALLOWED = 'None, "threads", "processes", a number of threads, a concurrent.futures.Executor or a dask Client'


@contextmanager
def opened(given: Any = None) -> Iterator[Executor | None]:
    """The executor for one run; what is made here is closed at the end, what was given stays open.

    None stands for "here and now". Raises PtqError (PTQ702) for anything that cannot work.
    """
    if isinstance(given, Executor):
        yield given
        return
    if hasattr(given, "get_executor"):  # dask.distributed.Client, without importing it
        with given.get_executor() as executor:
            yield executor
        return
    workers = _threads(given)
    if given == "processes":
        context = multiprocessing.get_context("spawn")
        pool: Executor = ProcessPoolExecutor(_processors(), mp_context=context)
    elif workers is not None and workers > 1:
        pool = ThreadPoolExecutor(workers, thread_name_prefix="ptqlab")
    elif workers == 1:
        yield None
        return
    else:
        raise PtqError(Problem("PTQ702", "executor", repr(given), ALLOWED, "leave it out for threads"))
    try:
        yield pool
    finally:
        # on a stop, work that has not begun is dropped instead of waited for
        pool.shutdown(wait=True, cancel_futures=True)


def _threads(given: Any) -> int | None:
    if given is None or (isinstance(given, str) and given == "threads"):
        return _processors()
    if isinstance(given, int) and not isinstance(given, bool) and given >= 1:
        return given
    return None


def _processors() -> int:
    """Processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
