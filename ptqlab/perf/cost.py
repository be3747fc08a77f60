"""Time that each engine needs for each layer, and when it gets to it."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ptqlab.perf.parameters import Parameters
from ptqlab.perf.work import Work


@dataclass(frozen=True)
class Times:
    """us per layer: TAE, vector engines, fixed cost of its commands, load of its weights, store of its results."""

    tae: np.ndarray
    vector: np.ndarray
    fixed: np.ndarray
    load: np.ndarray
    store: np.ndarray

    @property
    def compute(self) -> np.ndarray:
        """TAE and vector engine work on the same layer at once, tile by tile: the slower one counts."""
        return np.maximum(self.tae, self.vector) + self.fixed


def times(work: Work, rates: Parameters) -> Times:
    """Time of every layer on every engine, each taken alone."""
    spatial, pointwise, depthwise, matmul, table, plain, commands, load, store, _ = work.rows.T
    tae = (spatial / rates.spatial + pointwise / rates.pointwise + depthwise / rates.depthwise
           + matmul / rates.matmul) / 1e6
    vector = (table * rates.table + plain * rates.plain) / 1e6
    return Times(tae, vector, commands * rates.command, load / rates.ddr / 1e3, rates.exposed * store / rates.ddr / 1e3)


@dataclass(frozen=True)
class Course:
    """Start and end of every layer in us, and the end of the whole."""

    start: np.ndarray
    end: np.ndarray
    total: float


def run(spent: Times, first: float = 0.0) -> Course:
    """Layers one after the other; the weights of a layer are loaded while it is computed, and
    results are stored at the end.

    `first` is the time to load the inputs.
    """
    each = np.maximum(spent.compute, spent.load)
    end = first + np.cumsum(each)
    last = float(end[-1]) if len(end) else first
    return Course(end - each, end, last + float(spent.store.sum()))
