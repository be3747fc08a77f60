"""One type for the nodes of a function that one table computes, whichever of them was asked for it."""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ptqlab.arith.formats import QType, widest
from ptqlab.placement.asks import Ask, Asks
from ptqlab.placement.capability import Verdict
from ptqlab.placement.regions import Regions
from ptqlab.stages.plan import Group

LEVELS = ("default", "model", "op", "subgraph", "node")


def settle_types(groups: Mapping[str, Group], regions: Regions, asks: Asks) -> Regions:
    """Regions in which the nodes of such a function read one type: the widest asked for at the finest level."""
    verdicts = dict(regions.verdicts)
    for group in groups.values():
        if group.source is None:
            continue
        decider = max(group.members, key=lambda m: (_level(asks.of(m)), _type(verdicts[m]).bits))
        qtype = _type(verdicts[decider])
        for member in group.members:
            if set(verdicts[member].inputs) - {None} != {qtype}:
                verdicts[member] = _changed(verdicts[member], qtype, decider)
    return replace(regions, verdicts=verdicts)


def _level(ask: Ask) -> int:
    return LEVELS.index(ask.level)


def _type(verdict: Verdict) -> QType:
    return widest([t for t in verdict.inputs if t is not None])


def _changed(verdict: Verdict, qtype: QType, decider: str) -> Verdict:
    reason = f"BPU ({verdict.spec.engine.value}): {qtype.value}, as asked for {decider}, which the same table computes."
    inputs = tuple(None if t is None else qtype for t in verdict.inputs)
    return replace(verdict, inputs=inputs, granted=qtype.value, rule="function-type", reason=reason)
