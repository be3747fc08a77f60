"""Which nodes of the BPU write float: those granted it, and movers behind them."""
from __future__ import annotations

from dataclasses import replace

import onnx_ir as ir

from ptqlab.arith.formats import QType, widest
from ptqlab.graph import FloatGraph
from ptqlab.ops.spec import Role
from ptqlab.placement.capability import Verdict
from ptqlab.placement.regions import Regions

MOVES_FLOATS = "BPU: moves data, and what it reads is {type}."


def spread_floats(graph: FloatGraph, regions: Regions, forces_tail: bool) -> tuple[Regions, dict[str, QType]]:
    """The regions with the verdicts of movers brought up to date, and node -> float type that it writes.

    A mover moves floats where anything it reads is float on the BPU: rounding that to integers would lose what the
    float type was asked for [our definition]. A high-precision tail is float32 as it is, and a TAE operator whose
    output was asked for in integers (`forces_tail`) gives these.
    """
    verdicts = dict(regions.verdicts)
    floats: dict[str, QType] = {}
    for node in graph.nodes:
        name = str(node.name)
        verdict = verdicts[name]
        if name not in regions.on_bpu or name in regions.tails:
            continue
        if verdict.spec.role is Role.PASSIVE and not verdict.spec.plain_output:
            read = [floats[p] for p in _producers(node, verdict) if p in floats]
            if read:
                floats[name] = widest(read)
                verdicts[name] = _moving(verdict, floats[name])
        elif verdict.output is not None and not (
            forces_tail and verdict.spec.is_tae and any(o.is_graph_output() for o in node.outputs)
        ):
            floats[name] = verdict.output
    return replace(regions, verdicts=verdicts), floats


def _producers(node: ir.Node, verdict: Verdict) -> list[str]:
    """Names of the nodes that make what a mover moves."""
    return [
        str(made.name) for value, qtype in zip(node.inputs, verdict.inputs, strict=True)
        if qtype is not None and value is not None and (made := value.producer()) is not None
    ]


def _moving(verdict: Verdict, qtype: QType) -> Verdict:
    inputs = tuple(None if t is None else qtype for t in verdict.inputs)
    reason = MOVES_FLOATS.format(type=qtype.value)
    return replace(verdict, inputs=inputs, granted=qtype.value, reason=reason, output=qtype)
