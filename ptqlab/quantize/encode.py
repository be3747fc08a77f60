"""From thresholds to encodings: scales of all slots, integer weights of all operators with weights."""
from __future__ import annotations

from ptqlab.errors import Finding
from ptqlab.graph import FloatGraph
from ptqlab.ops.spec import WeightEncoding
from ptqlab.ops.table import spec_of
from ptqlab.quantize.weights import encode_weights
from ptqlab.stages.calibration import Calibration, Encodings, symmetric
from ptqlab.stages.plan import Plan


def encode(graph: FloatGraph, plan: Plan, calibration: Calibration) -> Encodings:
    """Encodings of every slot in its stored type and of every weight."""
    thresholds = {slot: t.value for slot, t in calibration.thresholds.items()}
    slots = {slot: symmetric(thresholds[slot], plan.tensors[slot].stored) for slot in thresholds}
    encodings = Encodings(slots, {}, (), thresholds)
    weights: dict[str, WeightEncoding] = {}
    findings: list[Finding] = []
    for group in plan.groups.values():
        node, node_plan = graph.node(group.main), plan.nodes[group.main]
        qtype = node_plan.inputs[0] if node_plan.inputs else None
        if qtype is None or not is_weighted(plan, group.main):
            continue
        x = encodings.view(plan.tensors[str(node.inputs[0].name)].slot, qtype)  # type: ignore[union-attr]
        added = None
        if group.bias_add is not None:
            add = graph.node(group.bias_add)
            added = next(a for v in add.inputs if (a := graph.constant(v)) is not None)
        weights[group.main], widened = encode_weights(node, added, x)
        if widened:
            findings.append(Finding(
                "PTQ510", f"{group.main}: the bias of channel {', '.join(map(str, widened[:8]))}"
                f"{' and more' if len(widened) > 8 else ''} does not fit 32 bits at the natural scale; the weight scale "
                "of the channel was widened, which costs weight precision", (group.main,),
                "int16 features make the input step smaller and the matter worse; look at the size of the bias"))
    return Encodings(slots, weights, tuple(findings), thresholds)


def is_weighted(plan: Plan, node: str) -> bool:
    """Whether a node on the BPU has integer weights."""
    return plan.nodes[node].on_bpu and spec_of(plan.nodes[node].op_type).is_tae
