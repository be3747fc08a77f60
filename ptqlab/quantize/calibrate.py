"""Calibration: one pass of the float model over the samples gives a threshold to every slot of the plan."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import replace

import numpy as np

from ptqlab.errors import Finding
from ptqlab.events import Watch
from ptqlab.graph import FloatGraph
from ptqlab.quantize.balance import unbalanced
from ptqlab.quantize.channels import find_channels
from ptqlab.quantize.confirm import confirmed, confirmed_order, confirmed_weights, granted, reach_of
from ptqlab.quantize.correction import judge
from ptqlab.quantize.diagnosis import diagnose
from ptqlab.quantize.encode import is_weighted
from ptqlab.quantize.layerwise import layerwise
from ptqlab.quantize.load import with_loaded
from ptqlab.quantize.methods import Method
from ptqlab.quantize.options import LARGE_THRESHOLD, SAFE_THRESHOLD, SlotOptions, few_values, large, place, slot_options
from ptqlab.quantize.parallel import SampleSet
from ptqlab.quantize.recipe import Correction, Recipe, plain
from ptqlab.quantize.search import modelwise
from ptqlab.quantize.shifts import input_shifts
from ptqlab.quantize.statistics import Statistics, observe
from ptqlab.quantize.steep import steep
from ptqlab.quantize.store import Store
from ptqlab.quantize.thresholds import SMALLEST_KL_COUNT
from ptqlab.stages.calibration import Calibration
from ptqlab.stages.plan import Plan

__all__ = ["LARGE_THRESHOLD", "SAFE_THRESHOLD", "Statistics", "calibrate", "needed_tensors", "observe"]


def needed_tensors(plan: Plan) -> tuple[str, ...]:
    """Tensors whose values set a threshold: those that survive fusion and sharing."""
    return tuple(dict.fromkeys(t for slot in plan.sources for t in plan.sources[slot]))


def bins_needed(plan: Plan, recipe: Recipe) -> dict[str, int]:
    """Tensor -> bins of its histogram; 0 where smallest and largest value are enough."""
    return {
        tensor: max((m.bins for m in recipe.slots[slot].methods), default=0)
        for slot, sources in plan.sources.items()
        for tensor in sources
    }


def weighted_nodes(graph: FloatGraph, plan: Plan) -> list[str]:
    """Nodes with integer weights."""
    return [group.main for group in plan.groups.values() if is_weighted(graph, plan, group.main)]


def calibrate(
    graph: FloatGraph,
    plan: Plan,
    samples: SampleSet,
    total: int,
    watch: Watch,
    recipe: Recipe | None = None,
    executor: Executor | None = None,
    store: Store | None = None,
) -> Calibration:
    """Thresholds of every slot, and input means where biases are to be corrected.

    Without a recipe the method is "max": T = max |x| over all samples and all tensors of the slot.
    """
    recipe = recipe or plain(plan)
    correction = recipe.correction
    channels = find_channels(graph, plan) if _asks_per_channel(recipe) else None
    statistics = observe(
        graph, bins_needed(plan, recipe), samples, total, watch,
        corrected=weighted_nodes(graph, plan) if correction else (),
        with_means=correction.num_sample if correction else 0,
        trailing={} if channels is None else channels.trailing,
        executor=executor,
        store=store,
    )
    findings = list(recipe.findings)
    options = {
        slot: slot_options(
            graph, slot, sources, statistics.seen, recipe.slots[slot], findings, reach_of(slot, channels, statistics)
        )
        for slot, sources in plan.sources.items()
    }
    if recipe.loaded:
        options, told = with_loaded(plan, options, recipe.loaded, recipe.loaded_from)
        findings += told
        one = {s: replace(ask, methods=ask.methods[: len(options[s].thresholds)]) for s, ask in recipe.slots.items()}
        recipe = replace(recipe, slots=one)
    thresholds = {slot: o.thresholds[0] for slot, o in options.items()}
    scarce = {slot: o.count for slot, o in options.items() if 0 < o.count < SMALLEST_KL_COUNT and _has_kl(o)}
    if scarce:
        findings.append(few_values(scarce))
    means = {name: np.sum(arrays, axis=0) / len(arrays) for name, arrays in statistics.means.items()}
    answers: dict[str, object] = {}
    if means and correction:
        answers["bias_correction"] = {"samples": min(correction.num_sample, statistics.samples), "nodes": len(means)}
    found = Calibration(thresholds, total, describe(recipe), tuple(findings), means, answers=answers)
    if recipe.search == "layerwise":
        found, choices = layerwise(graph, plan, recipe, options, found, samples, total, watch, executor, store)
        answers |= {"search": recipe.search, "metric": recipe.metric, "choices": [c.to_dict() for c in choices]}
    elif recipe.search:
        found, scores = modelwise(graph, plan, recipe, options, found, samples, total, watch, executor, store)
        answers |= {"search": recipe.search, "metric": recipe.metric, "scores": [s.to_dict() for s in scores]}
    elif any(t.channels for t in found.thresholds.values()):
        found, told_scores = confirmed(graph, plan, found, options, total, recipe, samples, watch, executor)
        answers |= told_scores
    if recipe.search or channels is not None:
        found = replace(found, method=_chosen(found, recipe), answers=answers)
    if recipe.weights != "max":
        found = confirmed_weights(graph, plan, found, recipe, samples, total, watch, executor)
    if correction and correction.inputs and found.means:
        count = min(correction.num_sample, statistics.samples)
        shifts = input_shifts(graph, plan, found, samples, count, watch, executor, store)
        found = _with_shifts(found, shifts, watch)
    if correction and correction.metric and found.means:
        found = _judged(graph, plan, found, correction, samples, watch, executor)
    if correction and correction.order == "sequential" and found.means:
        found = confirmed_order(graph, plan, found, correction, recipe, samples, total, watch, executor)
    uneven = unbalanced(graph, plan, found.thresholds, statistics.seen)
    noticed = granted(found, recipe) + diagnose(graph, plan, recipe, statistics, found.thresholds)
    noticed += steep(graph, plan, found.thresholds)
    found = replace(found, findings=(*found.findings, *_large(graph, plan, found), *uneven, *noticed))
    return found.verify()


def _asks_per_channel(recipe: Recipe) -> bool:
    return any(m.by_channel for ask in recipe.slots.values() for m in ask.methods)


def _with_shifts(found: Calibration, shifts: Mapping[str, np.ndarray], watch: Watch) -> Calibration:
    """Biases are corrected for rounded inputs, too, where the samples agree on what these do."""
    answer = {**found.answers["bias_correction"], "inputs": len(shifts)}
    watch.log(f"biases of {answer['nodes']} nodes corrected from {answer['samples']} samples for rounded weights, "
              f"those of {len(shifts)} also for rounded inputs where the samples agree (ptqlab's default)")
    return replace(found, shifts=shifts, answers={**found.answers, "bias_correction": answer})


def _judged(
    graph: FloatGraph, plan: Plan, found: Calibration, correction: Correction, samples: SampleSet, watch: Watch,
    executor: Executor | None,
) -> Calibration:
    """Bias corrections that the metric does not confirm are taken back."""
    kept, decisions = judge(graph, plan, found, correction, samples, watch, executor)
    refused = {d.node: [d.without, d.corrected] for d in decisions if not d.kept}
    answer = {
        "samples": correction.num_sample, "metric": correction.metric, "nodes": len(kept.means), "refused": refused,
    }
    return replace(kept, answers={**kept.answers, "bias_correction": answer})


def _large(graph: FloatGraph, plan: Plan, found: Calibration) -> list[Finding]:
    return [
        large(*place(graph, slot, plan.sources[slot]), t.value)
        for slot, t in found.thresholds.items() if t.value > LARGE_THRESHOLD
    ]


def _chosen(found: Calibration, recipe: Recipe) -> str:
    """What a search or a trial chose, in words, with the number of tensors where they differ."""
    counts: dict[str, int] = {}
    for slot, threshold in found.thresholds.items():
        if (len(recipe.slots[slot].methods) > 1 or not recipe.search) and "all-zero" not in threshold.tags:
            counts[threshold.method] = counts.get(threshold.method, 0) + 1
    by_count = sorted(counts.items(), key=lambda item: -item[1])
    words = ", ".join(f"{word} for {n} tensors" if len(counts) > 1 else word for word, n in by_count)
    return f"{words} ({recipe.search} search)" if recipe.search else words


def _has_kl(options: SlotOptions) -> bool:
    return any(method.name == "kl" for method in options.asked)


def describe(recipe: Recipe) -> str:
    """The methods of a run in words."""
    words = dict.fromkeys(m.word for ask in recipe.slots.values() for m in ask.methods)
    text = ", ".join(words) or Method("max").word
    return f"{text} (ptqlab's default)" if recipe.default else text
