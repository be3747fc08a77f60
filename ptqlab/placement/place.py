"""Placement as a short list of steps, each in a module of its own."""
from __future__ import annotations

from dataclasses import replace

from ptqlab.graph import FloatGraph
from ptqlab.placement.asks import Asks
from ptqlab.placement.capability import Verdict, judge
from ptqlab.placement.floats import spread_floats
from ptqlab.placement.functions import settle_types
from ptqlab.placement.grouping import make_groups
from ptqlab.placement.regions import Regions, find_regions
from ptqlab.placement.segments import number_segments
from ptqlab.placement.slots import make_slots
from ptqlab.platforms import Platform
from ptqlab.stages.plan import Device, Group, NodePlan, Plan

# rule of the last operator with weights where it is dual-int16 on a platform whose tail is int32
DUAL_TAIL = "dual-int16-tail"


def place(graph: FloatGraph, platform: Platform, asks: Asks | None = None) -> Plan:
    """The plan of an optimized graph on a platform for what the configuration asks."""
    asks = asks or Asks()
    verdicts = {str(n.name): judge(n, asks.of(str(n.name)), platform) for n in graph.nodes}
    regions = find_regions(graph, verdicts, asks, platform.tail_type.value)
    regions, floats = spread_floats(graph, regions, asks.forces_tail)
    groups = make_groups(graph, regions.on_bpu, regions.tails, floats)
    regions = settle_types(groups, regions, asks)
    tensors, sources = make_slots(
        graph, groups, regions.tails | floats.keys(), regions.verdicts, asks.output if asks.forces_tail else None
    )
    segments = number_segments(graph, regions.on_bpu)
    member_of = {member: group for group in groups.values() for member in group.members}
    nodes = {
        str(n.name): replace(
            _node_plan(str(n.name), n.op_type, regions, asks, segments, member_of.get(str(n.name)), platform),
            output=floats.get(str(n.name)),
        )
        for n in graph.nodes
    }
    return Plan(platform.march, nodes, groups, tensors, sources).verify()


def _node_plan(
    name: str, op_type: str, regions: Regions, asks: Asks, segments: dict[str, int], group: Group | None,
    platform: Platform,
) -> NodePlan:
    verdict: Verdict = regions.verdicts[name]
    asked = asks.of(name)
    on_bpu = name in regions.on_bpu
    tail = name in regions.tails
    reason, rule = verdict.reason, verdict.rule
    if name in regions.int16_tails:
        reason += " Last operator with weights: dual-int16 has no int32 output, so its output is int16."
        rule = DUAL_TAIL
    elif tail:
        reason += f" Last operator with weights: its output is {platform.tail_type.value} at high precision."
    elif group is not None and group.main != name:
        reason = f"BPU: computed inside {group.main}, with no quantizer between. " + reason
    return NodePlan(
        name,
        op_type,
        Device.BPU if on_bpu else Device.CPU,
        _asked_word(asked.qtype, dict(asked.inputs)),
        verdict.granted,
        verdict.inputs,
        rule,
        reason,
        segments.get(name),
        group.main if group else name,
        tail,
        verdict.weights,
    )


def _asked_word(qtype: str, inputs: dict[int, str]) -> str:
    if not inputs:
        return qtype
    return qtype + " (" + ", ".join(f"input{i} {t}" for i, t in sorted(inputs.items())) + ")"
