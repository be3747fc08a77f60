"""From the configuration to what placement is asked, with an answer to every request."""

from __future__ import annotations

from collections.abc import Sequence

from ptqlab.arith.formats import QType
from ptqlab.config import Config, QuantConfig
from ptqlab.errors import Finding, raise_if
from ptqlab.graph import FloatGraph
from ptqlab.pipeline.subgraphs import memberships
from ptqlab.placement import Ask, Asks
from ptqlab.stages.plan import Plan


def make_asks(graph: FloatGraph, config: Config) -> tuple[Asks, list[Finding]]:
    """Requests for every node. Raises PtqError when the quant_config names nodes that do not exist."""
    quant = config.calibration.quant
    types = {str(n.name): n.op_type for n in graph.nodes}
    problems, findings = quant.check_names(types, graph.aliases, [str(v) for v in graph.values])
    raise_if(problems, "quant_config does not fit the model")
    held = memberships(graph, quant)
    nodes = {}
    for node in graph.nodes:
        name = str(node.name)
        request = quant.for_node(name, node.op_type, held.get(name, ()), len(node.inputs), graph.aliases)
        inputs = {i: t for i, t in enumerate(request.inputs) if t != request.qtype and request.qtype != "dual-int16"}
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
        if not node.on_bpu and ask.on != "CPU":
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
        elif all(t is None for t in node.inputs) or node.reason.startswith("BPU: moves data"):
            findings.append(
                Finding(
                    "PTQ401",
                    f"{name}: {ask.qtype} was asked for in {ask.level}_config and has no effect: "
                    f"{node.op_type} is passive and takes its type from its neighbours",
                    (name,),
                )
            )
    return findings


NOT_GRANTED = ("dual-not-modelled", "dual-only-tae", "type-not-available")


def calibration_answers(config: Config, requests: Sequence[str] = ()) -> list[Finding]:
    """What of the calibration settings is answered by something else in this version."""
    quant = config.calibration.quant
    activation = quant.for_node("", "").activation
    asked = [t for t in activation.calibration_type if t not in ("max", "skip", "")]
    findings = []
    if asked:
        findings.append(_answered(f"calibration_type {', '.join(asked)}", "max thresholds"))
    if any(p != 1.0 for p in activation.max_percentile):
        findings.append(_answered(f"max_percentile {', '.join(map(str, activation.max_percentile))}", "max thresholds"))
    for key, values in (("per_channel", activation.per_channel), ("asymmetric", activation.asymmetric)):
        if any(values):
            findings.append(_answered(f"{key} for activations", "one symmetric threshold per tensor"))
    for key, setting in (("bias_correction", quant.bias_correction), ("search", quant.search)):
        if setting:
            findings.append(_answered(key, f"no {key}"))
    return findings


def _answered(asked: str, given: str) -> Finding:
    return Finding("PTQ411", f"{asked} was asked for; this version of ptqlab does not have it yet and gives {given}.")
