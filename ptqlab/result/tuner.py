"""The search of `ptqlab.tune`: what is tried, what is kept, when it ends."""
from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ptqlab import perf
from ptqlab.config import Config, QuantConfig
from ptqlab.debug.greedy import Raise, raised, raises
from ptqlab.debug.measured import Judge
from ptqlab.debug.network import Network
from ptqlab.errors import Interrupted
from ptqlab.events import Watch
from ptqlab.pipeline.workbench import Candidate, Workbench
from ptqlab.stages.plan import Plan

METRICS = ("cosine-similarity", "sqnr")
RANKING_SAMPLES = 8
# of single steps; behind them several tensors are raised at a time
SINGLE_STEPS = 10
# rounds of ranking what is left, on the best model so far
ROUNDS = 3
# raises that are taken back one by one once the target is met, to see whether it still is
PRUNED = 8
CORRECTION = {"bias_correction": {"num_sample": 16, "metric": "cosine-similarity"}}


@dataclass(frozen=True)
class Step:
    """One quant_config that was tried: figures of its worst output over the scoring samples, latency, what was done.

    judged  the user's own measure, None without one
    int16   tensors held in int16, dual: operators with weights in int16, float16: nodes - each beyond the first step's
    gain    dB over the step it builds on, added_us: latency over it;  kept: later steps build on it
    """

    number: int
    what: str
    cosine: float
    sqnr: float
    latency_us: float
    int16: int
    kept: bool
    quant_config: Mapping[str, Any] = field(repr=False)
    judged: float | None = None
    dual: int = 0
    float16: int = 0
    gain: float = 0.0
    added_us: float = 0.0

    @property
    def wide(self) -> int:
        """Everything that is wider than in the first step."""
        return self.int16 + self.dual + self.float16


@dataclass(frozen=True)
class Goal:
    """What is looked for.

    target  of `metric`, None: as good as it gets;  metric: a name of METRICS, or that of the user's measure `judge`
    max_tensors, max_latency_us  limits, None: none
    """

    target: float | None
    metric: str
    judge: Judge | None = None
    max_tensors: int | None = None
    max_latency_us: float | None = None

    def figure(self, step: Step) -> float:
        """The figure that counts; what is NaN is worst."""
        if self.judge is not None:
            return known(step.judged)
        return known(step.cosine if self.metric == "cosine-similarity" else step.sqnr)

    def met(self, step: Step) -> bool:
        return self.target is not None and self.figure(step) >= self.target

    def affordable(self, step: Step) -> bool:
        return self.max_latency_us is None or step.latency_us <= self.max_latency_us


class Tuner:
    """One run of tuning: every step that was tried, and the best."""

    def __init__(self, settings: Config, goal: Goal, data_num: int, scoring: Any, calibration: bool,
                 executor: Executor | None, watch: Watch) -> None:
        self.settings, self.goal, self.watch, self.executor = settings, goal, watch, executor
        self.data_num, self.scoring, self.calibration = data_num, scoring, calibration
        self.steps: list[Step] = []
        # of the many candidates only that of the last kept step stays in memory
        self.current: Candidate | None = None
        self.first: tuple[int, int, int] = (0, 0, 0)
        self.stopped = False
        self.simulated: tuple[float, float] | None = None

    def run(self) -> None:
        """Search. A stop keeps what was tried; one before anything was is raised."""
        self.bench = Workbench(self.settings, self.data_num, self.watch, scoring=self.scoring, judge=self.goal.judge)
        try:
            self._search()
        except Interrupted:
            if not self.steps:
                raise
            self.stopped = True
            return
        best, last = self.best, [s for s in self.steps if s.kept][-1]
        candidate = self.current if best is last else None
        candidate = candidate or self.bench.candidate(parsed(best.quant_config), self.watch)
        outputs = self.bench.simulated(candidate, self.watch)
        self.simulated = (min(a.cosine for a in outputs), min(a.sqnr for a in outputs))

    @property
    def best(self) -> Step:
        """The cheapest kept step that meets the target, else the best one within the latency allowed."""
        kept = [s for s in self.steps if s.kept and self.goal.affordable(s)] or self.steps[:1]
        good = [s for s in kept if self.goal.met(s)]
        if good:
            return min(good, key=lambda s: (s.latency_us, s.wide))
        return max(kept, key=lambda s: (self.goal.figure(s), known(s.sqnr), -s.latency_us))

    def _search(self) -> None:
        with self.watch.stage("tune") as stage:
            user = self.bench.config.calibration.quant.to_dict()
            best = self._try(user, "as configured", None)
            stage.step(best.what)
            if self.calibration:
                for what, quant in calibration_choices(user):
                    if self.goal.met(best):
                        return
                    tried = self._try(quant, what, best)
                    stage.step(what)
                    best = tried if tried.kept else best
            base, taken = best, list[Raise]()
            for step, group in self._raising(best):
                stage.step(step.what)
                if step.kept:
                    best = step
                    taken += group
            if self.goal.met(best) and len(taken) > 1:
                for step in self._pruning(base, best, taken):
                    stage.step(step.what)

    def _raising(self, best: Step) -> Iterator[tuple[Step, list[Raise]]]:
        """Raise what is worth most, single ones first, until the target is met or nothing helps."""
        seen: set[tuple[str, str]] = set()
        done = 0
        for _ in range(ROUNDS):
            if self.goal.met(best):
                return
            order = [r for r in self._order(best) if (r.kind, r.name) not in seen]
            helped = False
            while order and not self.goal.met(best):
                at_a_time = 1 if done < SINGLE_STEPS else 1 + done // 4
                room = at_a_time if self.goal.max_tensors is None else min(at_a_time, self.goal.max_tensors - best.wide)
                if room < 1:
                    return
                group, order = order[:room], order[room:]
                seen.update((r.kind, r.name) for r in group)
                asked = raised_config(best.quant_config, group)
                if asked == best.quant_config or not self._may_afford(best, group):
                    continue
                tried = self._try(asked, words(group), best)
                if tried.kept:
                    best, helped = tried, True
                    done += len(group)
                yield tried, group
            if not helped:
                return

    def _pruning(self, base: Step, best: Step, taken: Sequence[Raise]) -> Iterator[Step]:
        """Take raises back one by one, those that cost most for what they gain first, while the target is met."""
        order = sorted(taken, key=lambda r: r.worth(best.latency_us))[:PRUNED]
        left = list(taken)
        for one in order:
            rest = [r for r in left if r is not one]
            tried = self._try(raised_config(base.quant_config, rest), f"without {words([one])}", best, prune=True)
            if tried.kept:
                best, left = tried, rest
            yield tried

    def _may_afford(self, best: Step, group: Sequence[Raise]) -> bool:
        limit = self.goal.max_latency_us
        return limit is None or best.latency_us + max(r.added_us for r in group) <= limit

    def _try(self, quant: Mapping[str, Any], what: str, best: Step | None, prune: bool = False) -> Step:
        """Measure a quant_config. It is kept if it is better than `best` and within the limits; when pruning, if it
        meets the target and is no slower."""
        candidate = self.bench.candidate(parsed(quant), self.watch)
        counts = _counts(candidate.plan)
        number = len(self.steps)
        if number == 0:
            self.first = counts
        int16, dual, float16 = (a - b for a, b in zip(counts, self.first, strict=True))
        step = Step(number, what, candidate.cosine, candidate.sqnr, candidate.latency_us, int16, best is None, quant,
                    candidate.judged, dual, float16)
        if best is not None:
            step = replace(step, gain=step.sqnr - best.sqnr, added_us=step.latency_us - best.latency_us)
            good = self.goal.met(step) and step.latency_us <= best.latency_us if prune else self._better(
                step, candidate, best)
            room = self.goal.max_tensors is None or step.wide <= self.goal.max_tensors
            step = replace(step, kept=good and room and self.goal.affordable(step))
        if step.kept:
            self.current = candidate
        self.steps.append(step)
        judged = f"{self.goal.metric} {step.judged:.4f}, " if step.judged is not None else ""
        self.watch.log(f"tune {number}: {what}: {judged}cosine {step.cosine:.6f}, {step.sqnr:.2f} dB, "
                       f"{step.latency_us:.1f} us" + ("" if step.kept else ", taken back"))
        return step

    def _better(self, step: Step, candidate: Candidate, best: Step) -> bool:
        """By the user's measure where there is one, then by the worst output, then by the mean of all: what helps
        another output than the worst one is no step back."""
        if step.judged is not None and best.judged is not None and step.judged != best.judged:
            return step.judged > best.judged
        if known(step.sqnr) > known(best.sqnr):
            return True
        assert self.current is not None, "the first step is kept"
        means = [float(np.mean([known(a.sqnr) for a in c.outputs])) for c in (candidate, self.current)]
        return known(step.sqnr) == known(best.sqnr) and means[0] > means[1]

    def _order(self, best: Step) -> list[Raise]:
        """What could be raised in the current candidate, best first."""
        candidate, graph = self.current, self.bench.graph
        assert candidate is not None, "the first step is kept"
        entries = self.bench.config.calibration.quant.nodes
        fixed = {graph.aliases.get(n, n) for n, e in entries.items() if e.qtype is not None or e.inputs}
        what_if = perf.WhatIf(perf.from_plan(graph, candidate.plan), self.bench.config.model.march)
        samples = self.bench.scored.first(min(RANKING_SAMPLES, len(self.bench.scored)))
        return raises(Network(candidate.calibrated.model, graph.model), graph, candidate.plan, fixed, samples,
                      _added(what_if), best.latency_us, self.watch, self.executor)


def _added(what_if: perf.WhatIf) -> Callable[[Mapping[str, str]], float]:
    return lambda change: what_if.effect({n: w for n, w in change.items() if n in what_if.index}).added_us


def _counts(plan: Plan) -> tuple[int, int, int]:
    """Tensors in int16, operators with weights in int16, nodes in float16."""
    return (sum(t.stored.bits == 16 and t.stored.is_integer for s, t in plan.tensors.items() if s == t.slot),
            sum(n.weights is not None and n.weights.bits == 16 for n in plan.nodes.values()),
            sum(n.in_float for n in plan.nodes.values()))


def parsed(quant: Mapping[str, Any]) -> QuantConfig:
    return QuantConfig.parse(copy.deepcopy(dict(quant)))


def known(value: float | None) -> float:
    """NaN, and what there is not, as the worst of all."""
    return -math.inf if value is None or math.isnan(value) else value


def words(group: Sequence[Raise]) -> str:
    """What a step does, by the names of nodes."""
    by_word: dict[str, list[str]] = {}
    for node, word in dict.fromkeys((n, w) for r in group for n, w in r.types.items()):
        by_word.setdefault(word, []).append(node)
    return "; ".join(f"{word} for {', '.join(nodes[:3])}" + (f" and {len(nodes) - 3} more" if len(nodes) > 3 else "")
                     for word, nodes in by_word.items())


def calibration_choices(user: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """The user's quant_config with other calibration settings for the whole model; a method that is named stays."""
    choices = []
    for what, more, corrected in (("bias correction", {}, True), ("asymmetric", {"asymmetric": True}, False),
                                  ("asymmetric, bias correction", {"asymmetric": True}, True)):
        quant = copy.deepcopy(dict(user))
        model = quant.setdefault("model_config", {})
        activation = {"calibration_type": "mse", **model.get("activation", {}), **more}
        if corrected and "weight" in model and not more:
            continue
        model["activation"] = activation
        if corrected:
            model.setdefault("weight", copy.deepcopy(CORRECTION))
        choices.append((what, quant))
    return choices


def raised_config(quant: Mapping[str, Any], group: Sequence[Raise]) -> dict[str, Any]:
    """The quant_config with what a group asks; a wider type that is asked already stays."""
    out = copy.deepcopy(dict(quant))
    nodes = out.setdefault("node_config", {})
    for node, word in ((n, w) for r in group for n, w in r.types.items()):
        held = nodes.get(node, {})
        nodes[node] = {**held, "qtype": raised(held.get("qtype"), word)}
    return out
