"""search.layer: the nodes that hurt the outputs most get a better type.

Each tensor is rounded alone in the float model, as calibrated, and ranked by the search's metric at the outputs
(`quantize.effects`). The readers of the worst tensors, up to `topk` nodes, become node_config entries of the wanted
type; nodes that have an entry of their own keep it. [topk, qtype and metric are documented, the ranking is ours]
"""
from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import replace
from typing import Any

from ptqlab.arith.metrics import METRICS
from ptqlab.config import QuantConfig
from ptqlab.config.quant import Entry, Setting
from ptqlab.events import Watch
from ptqlab.graph import FloatGraph
from ptqlab.quantize.effects import slot_effects
from ptqlab.quantize.encode import encode_slots
from ptqlab.quantize.parallel import SampleSet
from ptqlab.quantize.recipe import slot_readers
from ptqlab.stages.calibration import Calibration
from ptqlab.stages.plan import Plan


def raised(
    quant: QuantConfig, graph: FloatGraph, plan: Plan, calibration: Calibration, samples: SampleSet, watch: Watch,
    executor: Executor | None = None,
) -> tuple[QuantConfig, dict[str, Any]]:
    """The quant_config with the raised nodes, and the ranking behind it for the record."""
    search = quant.layer_search
    assert search is not None
    metric = METRICS[search.metric]
    effects = slot_effects(graph, plan, encode_slots(plan, calibration), samples, len(samples), watch, executor)
    scores = {slot: metric.score(agreements) for slot, agreements in effects.items()}
    ranked = sorted(scores, key=lambda slot: scores[slot], reverse=not metric.higher)
    readers = slot_readers(graph, plan)
    nodes = dict.fromkeys(name for slot in ranked for name in readers.get(slot, {}))
    chosen = [name for name in nodes if not _has_type(quant, name, graph.aliases)][: search.topk]
    setting = Setting(search.qtype, search.origin)
    entries = {name: Entry(qtype=setting).over(quant.node_entry(name, graph.aliases) or Entry()) for name in chosen}
    shown = ", ".join(chosen[:5]) + (f" and {len(chosen) - 5} more" if len(chosen) > 5 else "")
    watch.log(f"layer search: {search.qtype} for {len(chosen)} nodes: {shown}")
    answer = {"topk": search.topk, "qtype": search.qtype, "metric": search.metric, "nodes": chosen,
              "ranking": {slot: scores[slot] for slot in ranked}}
    return replace(quant, nodes={**quant.nodes, **entries}, layer_search=None), answer


def _has_type(quant: QuantConfig, node: str, aliases: Mapping[str, str]) -> bool:
    own = quant.node_entry(node, aliases)
    return own is not None and (own.qtype is not None or bool(own.inputs))
