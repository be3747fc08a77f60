"""What a cell of the grid may hold, and why an edit has no effect: answers of the operator table and of the plan."""
from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import onnx_ir as ir

from ptqlab.arith.formats import QType
from ptqlab.config.quant import asked_type_fits
from ptqlab.config.quant_fields import ACTIVATION_BY_KEY, DEVICES, DUAL, METHODS, QTYPES
from ptqlab.graph import FloatGraph
from ptqlab.ops.spec import Role
from ptqlab.ops.table import spec_of
from ptqlab.pipeline.whatif import Placed
from ptqlab.placement.capability import TAE_FLOAT, grant_type
from ptqlab.platforms import platform
from ptqlab.quantize.recipe import made_inside
from ptqlab.report.words import say, spoken

Options = tuple[str | bool, ...]
SWITCH: Options = (True, False)
#: rule of the plan for a float type that sends its node to the CPU: an effect, though not the type
FLOAT_ON_CPU = "no-float-unit"
#: rule of the plan for a node whose placement was asked for
ASKED_CPU = "asked-cpu"


@cache
def allowed_types(op_type: str, march: str) -> Options:
    """Types that can be asked of an operator and have an effect; none for what moves data or has no kernel."""
    spec, target = spec_of(op_type), platform(march)
    if spec.role is not Role.ACTIVE or spec.native:
        return ()
    found = []
    for word in (*QTYPES, DUAL):
        granted, _, rule = grant_type(word, spec, target)
        on_cpu = rule == FLOAT_ON_CPU and word == "float32"
        fits = granted is not None and granted.value == (QType.INT16 if word == DUAL else word)
        if asked_type_fits(word, op_type) and (fits or on_cpu or rule == TAE_FLOAT):
            found.append(word)
    return tuple(found)


def options(key: str, op_type: str | None, march: str) -> Options:
    """Values that a setting of a row can take; () where it can take none. `op_type` None: a row of many operators."""
    if key == "qtype":
        return (*QTYPES, DUAL) if op_type is None else allowed_types(op_type, march)
    if key.startswith("input"):
        # one input has a type of its own; that both are int16 is a word for the whole node
        return tuple(t for t in (allowed_types(op_type, march) if op_type else QTYPES) if t != DUAL)
    if key == "ON":
        return DEVICES
    if key == "calibration_type":
        return METHODS
    return SWITCH if key in ("per_channel", "asymmetric") else ()


def quantized_inputs(node: ir.Node) -> tuple[int, ...]:
    """Inputs that have a type: activations, and the weights of an operator that multiplies two operands."""
    spec = spec_of(node)
    weights = (1,) if spec.is_tae and len(node.inputs) > 1 else ()
    return tuple(sorted({*spec.feature_indices(node), *weights}))


def refusal(node: str, key: str, value: object, after: Placed, graph: FloatGraph) -> str:
    """Why a setting of one node has no effect, in the words of the plan; "" where it has one."""
    if value is None:
        return ""
    plan = after.plan.nodes[node]
    if key == "ON":
        return f"{node}: {spoken(plan.reason)}" if value == "BPU" and not plan.on_bpu else ""
    if key in ACTIVATION_BY_KEY:
        return _no_threshold(node, after)
    if plan.rule == ASKED_CPU:
        return f"{node}: {spoken(plan.reason)}"
    if key == "qtype":
        told = [spoken(f.message) for f in after.findings if f.code in ("PTQ401", "PTQ402") and node in f.nodes]
        return told[0] if told else reads_nothing(node, after, graph)
    if why := reads_nothing(node, after, graph):
        return why
    index = int(key.removeprefix("input"))
    given = plan.inputs[index] or (plan.weights if spec_of(plan.op_type).is_tae and index == 1 else None)
    if plan.output is not None or not plan.on_bpu or (given is not None and given.value == value):
        return ""
    if given is None:
        return say("grid_no_tensor", node=node, index=index, reason=spoken(plan.reason))
    return say("grid_not_given", node=node, index=index, asked=value, given=given.value, reason=spoken(plan.reason))


def reads_nothing(node: str, placed: Placed, graph: FloatGraph) -> str:
    """Why the type of a node that is computed inside another has no effect: it is that of what a node reads."""
    plan = placed.plan.nodes[node]
    if not plan.on_bpu or plan.group == node:
        return ""
    values = graph.node(node).inputs
    reads = [v for v, t in zip(values, plan.inputs, strict=True)
             if v is not None and t is not None and not made_inside(graph, placed.plan, node, str(v.name))]
    return "" if reads else say("grid_reads_nothing", node=node, reason=spoken(plan.reason))


def _no_threshold(node: str, placed: Placed) -> str:
    """Why the calibration settings of a node decide on no threshold."""
    if any(ask.node == node for ask in placed.recipe.slots.values()):
        return ""
    told = [spoken(f.message) for f in placed.findings if f.code == "PTQ412" and f.nodes[0] == node]
    reason = spoken(placed.plan.nodes[node].reason)
    return told[0] if told else say("grid_no_threshold", node=node, reason=reason)


def refusals(
    nodes: Sequence[str], key: str, value: object, after: Placed, graph: FloatGraph
) -> dict[str, str]:
    """node -> why the setting has no effect, for those where it has none."""
    found = {node: refusal(node, key, value, after, graph) for node in nodes}
    return {node: why for node, why in found.items() if why}
