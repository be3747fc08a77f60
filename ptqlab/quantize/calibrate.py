"""Calibration: one pass of the float model over the samples gives a threshold to every slot of the plan."""
from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from ptqlab.errors import Finding
from ptqlab.events import Watch
from ptqlab.graph import FloatGraph, session
from ptqlab.quantize.observe import Observer
from ptqlab.stages.calibration import Calibration, Threshold
from ptqlab.stages.plan import Plan

SAFE_THRESHOLD = 1.0
LARGE_THRESHOLD = 8000.0


def needed_tensors(plan: Plan) -> tuple[str, ...]:
    """Tensors whose values set a threshold: those that survive fusion and sharing."""
    return tuple(dict.fromkeys(t for slot in plan.sources for t in plan.sources[slot]))


def observe(
    graph: FloatGraph, tensors: Sequence[str], samples: Iterable[Mapping[str, np.ndarray]], total: int, watch: Watch,
) -> dict[str, Observer]:
    """Run the float model on each sample and keep the statistics of `tensors` (inputs of the model included)."""
    inputs = {str(v.name) for v in graph.inputs}
    computed = [t for t in tensors if t not in inputs]
    observers = {t: Observer() for t in tensors}
    runner = session(graph.model, outputs=computed) if computed else None
    with watch.stage("calibrate", total) as stage:
        for sample in samples:
            arrays = dict(zip(computed, runner.run(computed, sample), strict=True)) if runner else {}
            for tensor, observer in observers.items():
                observer.add(arrays[tensor] if tensor in arrays else sample[tensor])
            stage.step()
    return observers


def calibrate(
    graph: FloatGraph, plan: Plan, samples: Iterable[Mapping[str, np.ndarray]], total: int, watch: Watch,
) -> Calibration:
    """Thresholds by method "max": T = max |x| over all samples and all tensors of the slot."""
    observers = observe(graph, needed_tensors(plan), samples, total, watch)
    thresholds: dict[str, Threshold] = {}
    findings: list[Finding] = []
    for slot, sources in plan.sources.items():
        seen = Observer()
        for tensor in sources:
            seen.merge(observers[tensor])
        thresholds[slot] = _threshold(graph, slot, sources, seen, findings)
    return Calibration(thresholds, total, "max", tuple(findings)).verify()


def _threshold(
    graph: FloatGraph, slot: str, sources: Sequence[str], seen: Observer, findings: list[Finding],
) -> Threshold:
    nodes = tuple(str(p.name) for t in sources if (p := graph.producer(t)) is not None)
    where = f"tensor {slot}" + (f" (node {nodes[0]})" if nodes else "")
    if seen.not_finite:
        findings.append(
            Finding(
                "PTQ502",
                f"{where}: {seen.not_finite} of {seen.count} values are NaN or Inf in the float model; they do not "
                "count for the threshold",
                nodes,
                "look at the float model with these samples",
            )
        )
    value = float(np.float32(seen.largest))
    if value == 0.0:
        findings.append(
            Finding(
                "PTQ501",
                f"{where} is all zero over all samples; a threshold of {SAFE_THRESHOLD} stands in for the 0 that was "
                "seen",
                nodes,
                "use samples that reach this part of the model, or see whether it is dead",
            )
        )
        return Threshold(0.0, 0.0, SAFE_THRESHOLD, "max", ("all-zero",))
    if value > LARGE_THRESHOLD:
        findings.append(Finding(
            "PTQ503", f"{where} has a threshold of {value:g}: int8 steps are {value / 127:g} wide", nodes,
            "thresholds this large point at the model (missing normalisation or weight decay); int16 may help"))
    tags = ("constant",) if seen.low == seen.high else ()
    return Threshold(seen.low, seen.high, value, "max", tags)
