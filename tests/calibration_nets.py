"""Small networks and samples for the tests of calibration, and the steps to them."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from core_models import net
from models import init, node, random
from small import planned

from ptqlab.config.quant import QuantConfig
from ptqlab.events import Watch
from ptqlab.graph import FloatGraph
from ptqlab.placement import Ask, Asks
from ptqlab.quantize.calibrate import bins_needed
from ptqlab.quantize.options import SlotOptions, slot_options
from ptqlab.quantize.recipe import Recipe, make_recipe
from ptqlab.quantize.shifts import input_shifts
from ptqlab.quantize.statistics import observe
from ptqlab.stages.calibration import Calibration
from ptqlab.stages.plan import Plan

Feeds = dict[str, np.ndarray]


def mobile(count: int = 4, qtype: str = "int8") -> tuple[FloatGraph, Plan, list[Feeds]]:
    """An inverted residual block with a Gemm at its end, and `count` samples, the last of them with an outlier."""
    nodes = [
        node("Conv", ["x", "w0", "b0"], "c0", "conv0", pads=[1, 1, 1, 1]),
        node("Clip", ["c0", "zero", "six"], "r0", "relu6_0"),
        node("Conv", ["r0", "w1", "b1"], "c1", "conv1", pads=[1, 1, 1, 1], group=8),
        node("Clip", ["c1", "zero", "six"], "r1", "relu6_1"),
        node("Conv", ["r1", "w2", "b2"], "c2", "conv2"), node("Add", ["c2", "x"], "sum", "add"),
        node("ReduceMean", ["sum"], "mean", "mean", axes=[2, 3], keepdims=0),
        node("Gemm", ["mean", "w3", "b3"], "y", "fc"),
    ]
    shapes = {"w0": (8, 4, 3, 3), "b0": (8,), "w1": (8, 1, 3, 3), "b1": (8,), "w2": (4, 8, 1, 1), "b2": (4,),
              "w3": (4, 5), "b3": (5,)}
    inits = [init(name, random(*shape, seed=i, scale=0.3)) for i, (name, shape) in enumerate(shapes.items())]
    feeds = {"x": random(1, 4, 9, 9, seed=50)}
    model = net(nodes, ["y"], [*inits, init("zero", 0.0, np.float32), init("six", 6.0, np.float32)], feeds)[0]
    graph = planned(model)[0]
    asks = Asks({str(n.name): Ask(qtype, level="model") for n in graph.nodes})
    graph, plan = planned(model, asks=asks)
    samples = [{"x": random(1, 4, 9, 9, seed=100 + i)} for i in range(count)]
    samples[-1]["x"].reshape(-1)[0] = 12.0
    return graph, plan, samples


def recipe(graph: FloatGraph, plan: Plan, block: Mapping[str, Any] | None = None, **levels: Any) -> Recipe:
    """The recipe of a quant_config with this model_config and other levels."""
    return make_recipe(graph, plan, QuantConfig.parse({"model_config": dict(block or {}), **levels}))


def options(graph: FloatGraph, plan: Plan, asked: Recipe, samples: Sequence[Feeds]) -> dict[str, SlotOptions]:
    """The thresholds that every candidate of a recipe leads to."""
    seen = observe(graph, bins_needed(plan, asked), samples, len(samples), Watch()).seen
    return {
        slot: slot_options(graph, slot, sources, seen, asked.slots[slot], []) for slot, sources in plan.sources.items()
    }


def with_shifts(graph: FloatGraph, plan: Plan, found: Calibration, samples: list[Feeds]) -> Calibration:
    """The calibration with biases corrected for rounded inputs, too, as if all samples agreed on their mean."""
    shifts = input_shifts(graph, plan, found, samples, len(samples), Watch())
    return replace(found, shifts={name: np.repeat(s.mean(axis=0)[None], 2, axis=0) for name, s in shifts.items()})
