"""Branches of very different size that share one threshold: the small one loses its codes, and no cosine shows it."""
from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ptqlab.errors import Finding
from ptqlab.graph import FloatGraph
from ptqlab.ops.spec import Role
from ptqlab.ops.table import spec_of
from ptqlab.quantize.observe import Seen
from ptqlab.stages.calibration import Threshold
from ptqlab.stages.plan import Plan

# with fewer codes than this on either side of zero a branch cannot reach 30 dB
FEW_CODES = 16


def unbalanced(
    graph: FloatGraph, plan: Plan, thresholds: Mapping[str, Threshold], seen: Mapping[str, Seen],
) -> list[Finding]:
    """One finding for each mover on the BPU that joins a branch with too few codes to another one."""
    findings: list[Finding] = []
    for node in graph.nodes:
        name = str(node.name)
        if not plan.nodes[name].on_bpu or spec_of(node).role is not Role.PASSIVE or len(node.inputs) < 2:
            continue
        held = plan.tensors.get(plan.group_of(name).output)
        if held is None:  # bool tensors
            continue
        threshold = thresholds[held.slot]
        step = threshold.value / held.stored.qmax
        poor = [
            (str(value.name), largest) for value in dict.fromkeys(node.inputs)
            if value is not None and (largest := _largest(plan, thresholds, seen, str(value.name))) is not None
            and 0 < largest < FEW_CODES * step
        ]
        if poor:
            findings.append(_few_codes(node.op_type, name, threshold.value, step, poor))
    return findings


def _largest(
    plan: Plan, thresholds: Mapping[str, Threshold], seen: Mapping[str, Seen], tensor: str
) -> float | None:
    """Largest magnitude of an operand; that of its slot where it was not observed itself."""
    if tensor in seen:
        return seen[tensor].whole.largest
    held = plan.tensors.get(tensor)
    if held is None or "all-zero" in thresholds[held.slot].tags:
        return None
    return thresholds[held.slot].value


def _few_codes(op_type: str, name: str, threshold: float, step: float, poor: list[tuple[str, float]]) -> Finding:
    branches = ", ".join(
        f"{tensor} reaches {largest:.4g}, {int(largest / step + 0.5)} codes, {_best(largest, step)} at best"
        for tensor, largest in poor
    )
    return Finding(
        "PTQ513",
        f"{op_type} {name}: its operands share the threshold {threshold:.4g}, which leaves the small ones almost "
        f"nothing: {branches}",
        (name,),
        "int16 on this node, or let the branches leave the model without it: the cosine of the joined tensor hides the "
        "small branch",
    )


def _best(largest: float, step: float) -> str:
    """Signal of a constant of that size against rounding noise of step^2 / 12."""
    return f"SQNR {10 * np.log10(12 * largest**2 / step**2):.0f} dB"
