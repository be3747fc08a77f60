"""Options that may follow the samples too closely are kept only where samples they have not seen confirm them."""
from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor

from ptqlab.arith.metrics import METRICS, Agreement
from ptqlab.events import Watch
from ptqlab.graph import FloatGraph
from ptqlab.quantize.calibrated import calibrated_model, with_folded_weights
from ptqlab.quantize.encode import encode
from ptqlab.quantize.parallel import PortableSession, Sample, SampleSet, ordered
from ptqlab.stages.calibration import Calibration
from ptqlab.stages.plan import Plan


class _Job:
    """For one sample: how near each calibrated model comes to the float model."""

    def __init__(self, graph: FloatGraph, plan: Plan, calibrations: Sequence[Calibration]) -> None:
        self.plain = PortableSession(graph.model)
        self.models = []
        for calibration in calibrations:
            encodings = encode(graph, plan, calibration)
            model = with_folded_weights(calibrated_model(graph, plan, encodings), encodings)
            self.models.append(PortableSession(model))

    def __call__(self, sample: Sample) -> list[list[Agreement]]:
        truth = self.plain.run(None, sample)
        found = []
        for model in self.models:
            agreements = [Agreement() for _ in truth]
            for agreement, a, b in zip(agreements, truth, model.run(None, sample), strict=True):
                agreement.add(a, b, distances=True)
            found.append(agreements)
        return found


def scores(
    graph: FloatGraph, plan: Plan, calibrations: Sequence[Calibration], samples: SampleSet, indices: Sequence[int],
    metric: str, watch: Watch, executor: Executor | None = None,
) -> list[float]:
    """Score of each calibration's calibrated model at the outputs, over the samples of these numbers."""
    sums = [[Agreement() for _ in graph.outputs] for _ in calibrations]
    job = _Job(graph, plan, calibrations)
    with watch.stage("confirm", len(indices)) as stage:
        for found in ordered(executor, job, (samples[i] for i in indices)):
            for total, one in zip(sums, found, strict=True):
                for agreement, more in zip(total, one, strict=True):
                    agreement.merge(more)
            stage.step()
    return [METRICS[metric].score(total) for total in sums]
