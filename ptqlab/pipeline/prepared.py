"""The graph that a configuration is about: optimized, with the unit convs that it asks for."""
from __future__ import annotations

from ptqlab.config import Config
from ptqlab.errors import Finding, raise_if
from ptqlab.events import Watch
from ptqlab.graph import FloatGraph
from ptqlab.passes import optimize
from ptqlab.passes.unit_conv import PREFIX, unfit, unknown, with_unit_convs
from ptqlab.placement import place
from ptqlab.platforms import platform

WHERE = "calibration_parameters.unit_conv"
# rules of nodes that the BPU could run and does not, for want of a threshold or of something behind that reads it there
SERVED = ("passive-head", "passive-tail", "after-tail")


def prepared(graph: FloatGraph, config: Config, watch: Watch | None = None) -> FloatGraph:
    """`graph` optimized, and a unit conv beside the nodes of `unit_conv`; the answers are findings of the result.

    A unit conv costs precision, so it is put only beside nodes that run on the CPU for want of a threshold.
    Raises PtqError for names that no node has and for tensors that no convolution takes.
    """
    optimized = optimize(graph, watch)
    asked = config.calibration.unit_conv
    if not asked:
        return optimized
    names = {name: optimized.aliases.get(name, name) for name in asked}
    raise_if([unknown(optimized, name, WHERE) for name, n in names.items() if n not in optimized],
             "unit_conv does not fit the model")  # fmt: skip
    target = platform(config.model.march)
    plan = place(optimized, target)
    wanted = [n for n in dict.fromkeys(names.values()) if plan.nodes[n].rule in SERVED]
    raise_if([why for n in wanted if (why := unfit(optimized.node(n)))], "unit_conv does not fit the model")
    made, placed = with_unit_convs(optimized, wanted)
    after = place(made, target)
    findings = []
    for name in dict.fromkeys(names.values()):
        if name not in placed:
            findings.append(_refused(name, plan.nodes[name].reason, on_bpu=plan.nodes[name].on_bpu))
            continue
        granted = after.nodes[name]
        on = "it runs on the BPU now" if granted.on_bpu else f"it stays on the CPU all the same ({granted.reason})"
        findings.append(Finding(
            "PTQ446", f"unit_conv for {name}: {PREFIX}{name} stands {placed[name]} it; {on}", (name,),
            "" if granted.on_bpu else "take it out of unit_conv", "note" if granted.on_bpu else "warning",
        ))  # fmt: skip
    return FloatGraph(made.model, made.aliases, (*made.findings, *findings), made.source)


def _refused(name: str, reason: str, *, on_bpu: bool) -> Finding:
    why = "it runs on the BPU without one" if on_bpu else f"it would not bring the node to the BPU. {reason}"
    hint = "a type in node_config changes its precision" if on_bpu else ""
    return Finding("PTQ446", f"unit_conv for {name}: none was put there, as {why}", (name,), hint)
