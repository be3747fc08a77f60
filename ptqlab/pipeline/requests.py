"""From the configuration to what placement is asked, with an answer to every request."""

from __future__ import annotations

from dataclasses import replace

from ptqlab.arith.formats import QType
from ptqlab.config import Config, QuantConfig
from ptqlab.config.quant import spread
from ptqlab.errors import Finding, raise_if
from ptqlab.graph import FloatGraph
from ptqlab.ops.spec import Role
from ptqlab.ops.table import spec_of
from ptqlab.pipeline.redundant import redundant_entries
from ptqlab.pipeline.subgraphs import memberships
from ptqlab.placement import Ask, Asks
from ptqlab.placement.capability import TAE_FLOAT
from ptqlab.placement.place import DUAL_TAIL
from ptqlab.quantize import recipe
from ptqlab.quantize.load import read_thresholds
from ptqlab.quantize.recipe import Recipe
from ptqlab.quantize.store import Store
from ptqlab.stages.plan import NodePlan, Plan
from ptqlab.workers import session_store


def make_asks(graph: FloatGraph, config: Config) -> tuple[Asks, list[Finding]]:
    """Requests for every node. Raises PtqError when the quant_config names nodes that do not exist."""
    quant = config.calibration.quant
    types = {str(n.name): n.op_type for n in graph.nodes}
    problems, findings = quant.check_names(
        types, graph.aliases, [str(v) for v in graph.values], {str(n.name): len(n.inputs) for n in graph.nodes}
    )
    raise_if(problems, "quant_config does not fit the model")
    held = memberships(graph, quant)
    findings += redundant_entries(graph, quant, held)
    nodes = {}
    for node in graph.nodes:
        name = str(node.name)
        request = quant.for_node(name, node.op_type, held.get(name, ()), len(node.inputs), graph.aliases)
        # what the type of the node says of its inputs anyway is no request of its own
        inputs = {i: t for i, t in enumerate(request.inputs) if t != spread(request.qtype, node.op_type, i)}
        nodes[name] = Ask(request.qtype, inputs, request.on, request.origin.level)
    return Asks(nodes, output_type(quant, config)), findings


def output_type(quant: QuantConfig, config: Config) -> QType | None:
    """Type asked for the outputs of the model, from model_output_type or `optimization`."""
    if quant.model_output_type is not None:
        return QType(quant.model_output_type.value)
    words = {"set_model_output_int8": QType.INT8, "set_model_output_int16": QType.INT16, "run_fast": QType.INT8}
    return words.get(config.calibration.optimization or "")


def without_effect(plan: Plan, asks: Asks) -> list[Finding]:
    """A finding for each request about a node (or its kind) that the plan could not grant, with the reason."""
    findings = []
    for name, ask in asks.nodes.items():
        if not ask.names_the_node:
            continue
        node = plan.nodes[name]
        if node.rule in ON_CPU_BY_TYPE:
            if node.granted != ask.qtype:
                findings.append(
                    Finding("PTQ402", f"{name}: asked for {ask.qtype}, given {node.granted}. {node.reason}", (name,))
                )
        elif not node.on_bpu and ask.on != "CPU":
            findings.append(
                Finding(
                    "PTQ401",
                    f"{name}: {ask.qtype} was asked for in {ask.level}_config and has no effect. {node.reason}",
                    (name,),
                )
            )
        elif node.granted != ask.qtype and node.rule in NOT_GRANTED:
            findings.append(
                Finding("PTQ402", f"{name}: asked for {ask.qtype}, given {node.granted}. {node.reason}", (name,))
            )
        elif ask.on != "CPU" and (all(t is None for t in node.inputs) or node.reason.startswith("BPU: moves data")):
            findings.append(
                Finding(
                    "PTQ401",
                    f"{name}: {ask.qtype} was asked for in {ask.level}_config and has no effect: "
                    f"{node.op_type} is passive and takes its type from its neighbours",
                    (name,),
                )
            )
    return findings + _model_answers(plan, asks) + _dual_tails(plan)


def _model_answers(plan: Plan, asks: Asks) -> list[Finding]:
    """What became of a type asked for the whole model, in one finding: nodes that got another, counted by rule.

    Nodes that only move data take their types from neighbours, and are not counted.
    """
    asked = [(plan.nodes[n], a) for n, a in asks.nodes.items() if a.level == "model" and a.on != "CPU"]
    other = [(n, a) for n, a in asked if n.granted != a.qtype and spec_of(n.op_type).role is not Role.PASSIVE]
    if not other:
        return []
    by_rule: dict[str, list[NodePlan]] = {}
    for node, _ in other:
        by_rule.setdefault(node.rule, []).append(node)
    parts = []
    for nodes in sorted(by_rule.values(), key=len, reverse=True):
        first = nodes[0]
        more = f" and {len(nodes) - 1} more" if len(nodes) > 1 else ""
        parts.append(f"{first.name}{more} {'got' if first.on_bpu else 'run in'} {first.granted} ({first.reason})")
    message = (
        f"model_config asks for {other[0][1].qtype}; {len(other)} of {len(asked)} nodes are given something else: "
        + "; ".join(parts)
    )
    return [Finding("PTQ405", message, tuple(n.name for n, _ in other), severity="note")]


def _dual_tails(plan: Plan) -> list[Finding]:
    """What becomes of a tail in dual-int16 where high precision is int32, in one finding."""
    tails = tuple(n.name for n in plan.nodes.values() if n.rule == DUAL_TAIL)
    if not tails:
        return []
    message = (
        f"{', '.join(tails)}: the last operator with weights is dual-int16, which has no int32 output on {plan.march}; "
        "its output is int16 in place of high precision."
    )
    hint = "int16 for this node keeps int8 weights and the int32 output"
    return [Finding("PTQ404", message, tails, hint, severity="note")]


# a float type was asked for: the node runs in float on the CPU, which is an effect
ON_CPU_BY_TYPE = ("no-float-unit",)
NOT_GRANTED = (
    "dual-only-tae", "dual-long-sum", "dual-needs-features", "type-not-available", "no-float-here", TAE_FLOAT,
)


def make_recipe(graph: FloatGraph, plan: Plan, config: Config) -> Recipe:
    """What calibration is asked to do. Random data are calibrated by max: nothing else would mean more."""
    calibration = config.calibration
    if calibration.data is None or calibration.calibration_type == "skip":
        return recipe.plain(plan)
    asked = recipe.make_recipe(graph, plan, calibration.quant, memberships(graph, calibration.quant))
    if calibration.thresholds is None:
        return asked
    loaded = read_thresholds(calibration.thresholds)
    return replace(asked, loaded=loaded, loaded_from=calibration.thresholds.name, default=False)


def store(config: Config) -> Store:
    """Where calibration results stay: in this session, and in cache_path where cache_mode asks for it."""
    compiler = config.compiler
    if compiler.cache_mode == "disable" or compiler.cache_path is None:
        return session_store()
    return session_store(compiler.cache_path, fresh=compiler.cache_mode == "force_overwrite")
