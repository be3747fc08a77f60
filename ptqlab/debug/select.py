"""Samples on which quantization hurts most."""
from __future__ import annotations

import math
from typing import Any

import numpy as np

from ptqlab.debug.cuts import agreement
from ptqlab.debug.network import partial_model
from ptqlab.debug.source import first_samples, metrics_of, open_source
from ptqlab.events import Watch
from ptqlab.graph import session
from ptqlab.quantize.samples import Samples


def select_sensitive_samples(
    calibrated_model: Any, calibration_data: Any = None, metric: str = "cosine-similarity", num_sample: int = 1, *,
    watch: Watch | None = None,
) -> list[dict[str, np.ndarray]]:
    """The `num_sample` samples whose outputs the calibrated model moves most, worst first.

    They can be handed on as `calibration_data`. Raises PtqError with every problem of the input.
    """
    samples, order = ranked_samples(calibrated_model, calibration_data, metric, num_sample, watch=watch)
    return [samples[i] for i, _ in order]


def ranked_samples(
    calibrated_model: Any, calibration_data: Any, metric: str, num_sample: int, *, watch: Watch | None = None,
) -> tuple[Samples, list[tuple[int, float]]]:
    """All samples, and (number, metric) of the `num_sample` ones that the calibrated model moves most, worst first."""
    chosen = metrics_of(metric, "metric")[0]
    network, samples = open_source(calibrated_model, calibration_data)
    count = len(first_samples(samples, num_sample, "num_sample"))
    reference, calibrated = session(network.graph.model), session(partial_model(network, network.quantizers))
    scores = []
    with (watch or Watch()).stage("select samples", len(samples)) as stage:
        for sample in samples:
            pairs = zip(reference.run(None, sample), calibrated.run(None, sample), strict=True)
            scores.append(chosen.score([agreement(a, b) for a, b in pairs]))
            stage.step()
    badness = [-math.inf if math.isnan(s) else s if chosen.higher else -s for s in scores]
    return samples, [(int(i), scores[i]) for i in np.argsort(badness, kind="stable")[:count]]
