"""From thresholds to encodings: scales of all slots, integer weights of all operators with weights."""
from __future__ import annotations

from dataclasses import replace

import numpy as np

from ptqlab.errors import Finding
from ptqlab.graph import FloatGraph
from ptqlab.ops.node import has_weights
from ptqlab.ops.spec import WeightEncoding
from ptqlab.ops.table import spec_of
from ptqlab.quantize.channels import along_input
from ptqlab.quantize.weights import encode_weights
from ptqlab.stages.calibration import Calibration, Encodings, encoding
from ptqlab.stages.plan import Plan


def encode_slots(plan: Plan, calibration: Calibration) -> Encodings:
    """Encodings of every slot in its stored type; no weights."""
    thresholds = {slot: t.value for slot, t in calibration.thresholds.items()}
    bounds = {slot: t.bounds for slot, t in calibration.thresholds.items() if t.bounds is not None}
    slots = {slot: encoding(thresholds[slot], bounds.get(slot), plan.tensors[slot].stored) for slot in thresholds}
    channels = {slot: s for slot, t in calibration.thresholds.items() if (s := t.steps) is not None}
    return Encodings(slots, {}, (), thresholds, bounds, channels)


def encode(graph: FloatGraph, plan: Plan, calibration: Calibration) -> Encodings:
    """Encodings of every slot in its stored type and of every weight."""
    encodings = encode_slots(plan, calibration)
    weights: dict[str, WeightEncoding] = {}
    findings: list[Finding] = []
    wide: dict[str, int] = {}
    broken: list[str] = []
    for group in plan.groups.values():
        node, node_plan = graph.node(group.main), plan.nodes[group.main]
        qtype = node_plan.inputs[0] if node_plan.inputs else None
        if qtype is None or not is_weighted(graph, plan, group.main):
            continue
        slot = plan.tensors[str(node.inputs[0].name)].slot  # type: ignore[union-attr]
        x, steps = encodings.view(slot, qtype), encodings.channels.get(slot)
        added = None
        if group.bias_add is not None:
            add = graph.node(group.bias_add)
            added = next(a for v in add.inputs if (a := graph.constant(v)) is not None)
        constants = [graph.constant(v) for v in node.inputs[1:3]]
        if any(a is not None and not np.isfinite(a).all() for a in [*constants, added]):
            broken.append(group.main)
        mean = calibration.means.get(group.main)
        if mean is not None and not np.isfinite(mean).all():  # told already: values that are NaN or Inf
            mean = None
        shift = calibration.shifts.get(group.main) if mean is not None else None
        assert node_plan.weights is not None, f"{group.main} has weights without a type"
        factors = None if steps is None else along_input(node, steps)
        weights[group.main], widened = encode_weights(
            node, added, x, mean, node_plan.weights, factors, calibration.weights,
            calibration.corrections.get(group.main), shift,
        )
        if widened:
            wide[group.main] = len(widened)
    if broken:
        findings.append(_not_finite(broken))
    if wide:
        findings.append(_widened(wide))
    return replace(encodings, weights=weights, findings=tuple(findings))


def is_weighted(graph: FloatGraph, plan: Plan, node: str) -> bool:
    """Whether a node on the BPU has integer weights."""
    return plan.nodes[node].on_bpu and spec_of(plan.nodes[node].op_type).is_tae and has_weights(graph.node(node))


def _not_finite(nodes: list[str]) -> Finding:
    """One finding for all operators whose weights or bias hold NaN or Inf."""
    named = ", ".join(nodes[:5]) + (f" and {len(nodes) - 5} more" if len(nodes) > 5 else "")
    return Finding(
        "PTQ519",
        f"weights or bias of {named} hold NaN or Inf; those numbers count as 0",
        tuple(nodes),
        "look at the float model: it was exported broken, or its training diverged",
    )


def _widened(wide: dict[str, int]) -> Finding:
    """One finding for all channels whose weight scale was widened so that the bias fits its 32 bits."""
    named = ", ".join(f"{node} ({count})" for node, count in list(wide.items())[:5])
    more = f" and {len(wide) - 5} more operators" if len(wide) > 5 else ""
    return Finding(
        "PTQ510",
        f"{sum(wide.values())} channels have a bias that does not fit 32 bits beside weights this small; their weight "
        f"scale was widened, so that their weights use fewer codes: {named}{more}",
        tuple(wide),
        "channels with almost no weights (pruned, or left over from folding a BatchNormalization) lose nothing by it",
        "note",
    )
