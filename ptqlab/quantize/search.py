"""modelwise_search: which candidate, taken for the whole model, leaves its outputs nearest to the float model's."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import astuple, dataclass, replace
from typing import Any

import numpy as np

from ptqlab.arith.metrics import METRICS, Agreement
from ptqlab.events import Watch
from ptqlab.graph import FloatGraph
from ptqlab.quantize.encode import encode, encode_slots
from ptqlab.quantize.methods import Method
from ptqlab.quantize.options import SlotOptions
from ptqlab.quantize.parallel import Part, PortableSession, Sample, SampleSet, ordered
from ptqlab.quantize.recipe import Recipe
from ptqlab.quantize.store import Kept, Store, digest_of, model_digest
from ptqlab.quantize.trial import Trial
from ptqlab.stages.calibration import Calibration
from ptqlab.stages.plan import Plan


@dataclass(frozen=True)
class Score:
    """What a search found out about one candidate; `slots`: how many slots take it from this list."""

    method: str
    score: float
    chosen: bool
    slots: int

    def to_dict(self) -> dict[str, Any]:
        return {"method": self.method, "score": self.score, "chosen": self.chosen, "slots": self.slots}


def same_lists(recipe: Recipe) -> dict[tuple[Method, ...], list[str]]:
    """Slots with something to choose, by their list of candidates; coarse settings first."""
    lists: dict[tuple[Method, ...], list[str]] = {}
    for slot, ask in recipe.slots.items():
        if len(ask.methods) > 1:
            lists.setdefault(ask.methods, []).append(slot)
    return dict(sorted(lists.items(), key=lambda item: -len(item[1])))


def modelwise(
    graph: FloatGraph, plan: Plan, recipe: Recipe, options: Mapping[str, SlotOptions], start: Calibration,
    samples: SampleSet, total: int, watch: Watch, executor: Executor | None = None, store: Store | None = None,
) -> tuple[Calibration, list[Score]]:
    """The calibration with the best candidate for the whole model, and every candidate's score.

    Slots whose settings come from op_config or node_config with a list of their own are searched after the rest, with
    what was chosen before in force. Where candidates have steps per channel, the samples of even number set these and
    the others judge all candidates. Candidates that lead to the same thresholds are tried once. Of equal scores the
    earlier candidate in the list wins.
    """
    metric = METRICS[recipe.metric]
    chosen = start
    scores: list[Score] = []
    trial: Trial | None = None
    if total > 1 and any(o.per_channel for o in options.values()):
        samples, total = Part(samples, range(1, total, 2)), total // 2
    for methods, slots in same_lists(recipe).items():
        tries = [_with(chosen, options, slots, index) for index in range(len(methods))]
        trial = trial or Trial(graph, plan, encode(graph, plan, chosen))
        numbers = [trial.numbers(encode_slots(plan, _tried(chosen, options, slots, i))) for i in range(len(methods))]
        found = [metric.score(a) for a in compare(graph, trial, numbers, samples, total, watch, executor, store)]
        best = 0
        for index, score in enumerate(found):
            best = index if metric.better(score, found[best]) else best
        chosen = tries[best]
        scores += [Score(m.word, s, i == best, len(slots)) for i, (m, s) in enumerate(zip(methods, found, strict=True))]
        watch.log(f"Select {methods[best].word} method." + ("" if len(slots) == len(recipe.slots) else
                                                           f" ({len(slots)} of {len(recipe.slots)} tensors)"))
    return chosen, scores


def _tried(base: Calibration, options: Mapping[str, SlotOptions], slots: Sequence[str], index: int) -> Calibration:
    """The same as a trial takes it: steps per channel from half of the samples."""
    return replace(base, thresholds={**base.thresholds, **{slot: options[slot].tried(index) for slot in slots}})


def _with(base: Calibration, options: Mapping[str, SlotOptions], slots: Sequence[str], index: int) -> Calibration:
    """The calibration with candidate `index` of these slots."""
    return replace(base, thresholds={**base.thresholds, **{slot: options[slot].thresholds[index] for slot in slots}})


class _Comparison:
    """For one sample: how near each candidate's outputs come to the float model's."""

    def __init__(self, graph: FloatGraph, trial: Trial, numbers: Sequence[Mapping[str, np.ndarray]]) -> None:
        self.plain = PortableSession(graph.model)
        self.trial, self.numbers = trial, numbers

    def __call__(self, sample: Sample) -> list[list[Agreement]]:
        truth = self.plain.run(None, sample)
        return [[_agreement(a, b) for a, b in zip(truth, self.trial.run(sample, n), strict=True)] for n in self.numbers]


def _agreement(a: np.ndarray, b: np.ndarray) -> Agreement:
    agreement = Agreement()
    agreement.add(a, b, distances=True)
    return agreement


def compare(
    graph: FloatGraph, trial: Trial, numbers: Sequence[Mapping[str, np.ndarray]], samples: SampleSet, total: int,
    watch: Watch, executor: Executor | None = None, store: Store | None = None,
) -> list[list[Agreement]]:
    """Agreement of every output with the float model over all samples, for each set of trial inputs.

    Equal sets are tried once. Each sample is read once, so memory does not grow with their number.
    """
    keys = [b"".join(n[name].tobytes() for name in sorted(n)) for n in numbers]
    first = {key: index for index, key in reversed(list(enumerate(keys)))}
    distinct = sorted(first.values())
    key = ""
    if store is not None:
        key = digest_of("modelwise", model_digest(graph), trial.digest, *(numbers[i] for i in distinct))
    kept = Kept(store, key, samples, total)
    job = _Comparison(graph, trial, [numbers[i] for i in distinct])
    with watch.stage("search", total) as stage:
        try:
            for _ in range(kept.known):
                stage.step()
            rest = (samples[i] for i in range(kept.known, total))
            for found in ordered(executor, job, rest):
                kept.add([[astuple(a) for a in outputs] for outputs in found])
                stage.step()
        finally:
            kept.save()
    sums = [[Agreement() for _ in trial.output_names] for _ in distinct]
    for result in kept.results:
        for candidate, more in zip(sums, result, strict=True):
            for agreement, one in zip(candidate, more, strict=True):
                agreement.merge(Agreement(*one))
    return [sums[distinct.index(first[key])] for key in keys]
