"""Time that each engine needs for each layer, and when it gets to it."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ptqlab.perf.parameters import Parameters
from ptqlab.perf.work import Work


@dataclass(frozen=True)
class Times:
    """us per layer, each engine taken alone.

    tae, vector   TAE, and VAE or TRANS;  beside  AAE
    fixed         cost of its commands;  load, store   weights from, results to DDR
    """

    tae: np.ndarray
    vector: np.ndarray
    beside: np.ndarray
    fixed: np.ndarray
    load: np.ndarray
    store: np.ndarray

    @property
    def compute(self) -> np.ndarray:
        """TAE and vector unit work on the same layer at once, tile by tile: the slower one counts."""
        return np.maximum(self.tae, self.vector) + self.fixed

    @property
    def whole(self) -> np.ndarray:
        """Time that a layer adds: its weights arrive while it is computed, what leaves the BPU is stored behind it."""
        return np.maximum(self.compute, self.load) + self.store


def times(work: Work, rates: Parameters) -> Times:
    """Time of every layer on every engine."""
    spatial, pointwise, depthwise, matmul, streamed, table, plain, hidden, commands, load, store = work.rows.T
    dense = (spatial / rates.spatial + pointwise / rates.pointwise) * (1 + rates.streaming * streamed)
    tae = (dense + depthwise / rates.depthwise + matmul / rates.matmul) / 1e6
    vector = (table * rates.table + plain * rates.plain) / 1e6
    beside = hidden * rates.plain / 1e6
    return Times(tae, vector, beside, commands * rates.command, load / rates.ddr / 1e3, store / rates.ddr / 1e3)


@dataclass(frozen=True)
class Course:
    """Start and end of every layer in us, of its work in the AAE, and the end of the whole."""

    start: np.ndarray
    end: np.ndarray
    beside: np.ndarray
    total: float


def run(spent: Times, first: float = 0.0) -> Course:
    """Layers one after the other, from `first` on, when the inputs have been loaded.

    The AAE runs beside: the layer behind starts on its first tiles. Nothing ends before the AAE has done all its work.
    """
    whole = spent.whole
    end = first + np.cumsum(whole)
    start = end - whole
    beside = np.zeros(len(end))
    free = 0.0
    for index in np.flatnonzero(spent.beside):
        beside[index] = max(free, float(start[index]))
        free = beside[index] + float(spent.beside[index])
    return Course(start, end, beside, max(float(end[-1]) if len(end) else first, free))
