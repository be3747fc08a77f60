"""Steps per channel and other steps of weights, on trial: kept only if samples that did not set them confirm them."""
from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import replace
from typing import Any

from ptqlab.arith.metrics import METRICS
from ptqlab.errors import Finding
from ptqlab.events import Watch
from ptqlab.graph import FloatGraph
from ptqlab.quantize.channels import Channels
from ptqlab.quantize.heldout import scores
from ptqlab.quantize.options import Reach, SlotOptions
from ptqlab.quantize.parallel import SampleSet
from ptqlab.quantize.recipe import Correction, Recipe
from ptqlab.quantize.sequential import sequential_corrections
from ptqlab.quantize.statistics import Statistics
from ptqlab.stages.calibration import Calibration
from ptqlab.stages.plan import Plan

JUDGES = 16


def reach_of(slot: str, channels: Channels | None, statistics: Statistics) -> Reach | None:
    """What is known of the channels of a slot; None where nobody asked for steps per channel."""
    if channels is None:
        return None
    if slot not in channels.trailing:
        return Reach(why_not=channels.reasons[slot])
    rows = statistics.channels[slot]
    limit = channels.limits.get(slot, float("inf"))
    return Reach(rows.max(axis=0), rows[0], channels.trailing[slot], limit, weights=channels.weights[slot])


def granted(found: Calibration, recipe: Recipe) -> list[Finding]:
    """One note on the tensors that keep one step though steps per channel were asked for, by reason."""
    asked = [slot for slot, ask in recipe.slots.items() if all(m.by_channel for m in ask.methods)]
    kept = [t for slot in asked if not (t := found.thresholds[slot]).channels and "all-zero" not in t.tags]
    if not kept:
        return []
    reasons: dict[str, int] = {}
    for threshold in kept:
        words = threshold.note.split("one step for all channels: ")[-1]
        # the node that reads it is in the table of tensors
        reason = "a reader takes one step for all channels" if " reads it " in words else words
        reasons[reason] = reasons.get(reason, 0) + 1
    named = "; ".join(f"{n}: {reason}" for reason, n in sorted(reasons.items(), key=lambda item: -item[1]))
    message = (f"{_by_channel(recipe)} was asked for {len(asked)} tensors; {len(kept)} keep one step for all channels "
               f"({named})")
    return [Finding("PTQ413", message, severity="note")]


def confirmed(
    graph: FloatGraph, plan: Plan, found: Calibration, options: Mapping[str, SlotOptions], total: int, recipe: Recipe,
    samples: SampleSet, watch: Watch, executor: Executor | None = None,
) -> tuple[Calibration, dict[str, Any]]:
    """The calibration with its steps per channel, or without them where they do not help, and both scores.

    The samples of even number set the steps for the trial, those of odd number are scored. One sample alone confirms
    nothing, and then what was asked is given.
    """
    odd = range(1, total, 2)
    if not odd:
        return found, {}
    without, trial = dict(found.thresholds), dict(found.thresholds)
    for slot, threshold in found.thresholds.items():
        if threshold.channels:
            trial[slot] = options[slot].tried(0)
            note = "one step for all channels: samples that did not set the steps came out no better with them"
            without[slot] = replace(threshold, channels=(), trailing=0, note=note,
                                    method=replace(options[slot].asked[0], per_channel=False, equalization=False).word)
    plain = replace(found, thresholds=without)
    both = [replace(found, thresholds=trial), plain]
    a, b = scores(graph, plan, both, samples, odd, recipe.metric, watch, executor)
    kept = METRICS[recipe.metric].better(a, b)
    word = _by_channel(recipe)
    watch.log(f"{word}: {recipe.metric} {a:.6g} with, {b:.6g} without, on samples that did not set the steps: "
              + ("kept" if kept else "taken back"))
    answer = {word: {"metric": recipe.metric, "with": a, "without": b, "kept": kept}}
    return (found if kept else plain), answer


def _by_channel(recipe: Recipe) -> str:
    """The key that steps per channel were asked with."""
    methods = [m for ask in recipe.slots.values() for m in ask.methods]
    words = [key for key in ("per_channel", "equalization") if any(getattr(m, key) for m in methods)]
    return " and ".join(words)


def confirmed_weights(
    graph: FloatGraph, plan: Plan, found: Calibration, recipe: Recipe, samples: SampleSet, total: int, watch: Watch,
    executor: Executor | None = None,
) -> Calibration:
    """The calibration with the asked steps of weights where the outputs come nearer with them; both scores are told.

    Steps of weights do not depend on samples, so any may judge; JUDGES of them do.
    """
    changed = replace(found, weights=recipe.weights)
    a, b = scores(graph, plan, [changed, found], samples, range(min(total, JUDGES)), recipe.metric, watch, executor)
    kept = METRICS[recipe.metric].better(a, b)
    watch.log(f"weights by {recipe.weights}: {recipe.metric} {a:.6g} with, {b:.6g} without: "
              + ("kept" if kept else "taken back"))
    answer = {"method": recipe.weights, "metric": recipe.metric, "with": a, "without": b, "kept": kept}
    return replace(changed if kept else found, answers={**found.answers, "weights": answer})


def confirmed_order(
    graph: FloatGraph, plan: Plan, found: Calibration, asked: Correction, recipe: Recipe, samples: SampleSet,
    total: int, watch: Watch, executor: Executor | None = None,
) -> Calibration:
    """The calibration with sequential corrections where they beat the local ones on samples that set neither.

    Judged on samples n .. 2n - 1 for corrections from samples 0 .. n - 1; on the same samples where there are fewer.
    """
    count = min(asked.num_sample, total)
    first = count if total >= 2 * count else 0
    corrections = sequential_corrections(graph, plan, found, samples, count, watch, executor)
    changed = replace(found, corrections=corrections)
    judges = range(first, first + count)
    a, b = scores(graph, plan, [changed, found], samples, judges, recipe.metric, watch, executor)
    kept = METRICS[recipe.metric].better(a, b)
    watch.log(f"sequential bias correction: {recipe.metric} {a:.6g}, local {b:.6g}: "
              + ("kept" if kept else "the local one is kept"))
    answer = {"metric": recipe.metric, "sequential": a, "local": b, "kept": kept}
    return replace(changed if kept else found, answers={**found.answers, "sequential": answer})
