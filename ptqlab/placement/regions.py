"""Head, tail and middle of the graph: which able nodes really run on the BPU.

Anchors are the operators that give the BPU its reason to run: TAE operators, and vector operators that the
configuration names. From them follow the tail rule and the fate of passive operators (FAQ of the vendor).
"""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import onnx_ir as ir

from ptqlab.arith.formats import QType
from ptqlab.graph import FloatGraph, outer_values
from ptqlab.ops.reduce import index_cast, is_index_cast
from ptqlab.ops.spec import Role
from ptqlab.placement.asks import Asks
from ptqlab.placement.capability import Verdict

AFTER_TAIL = (
    "CPU: it follows {tail}, the last operator with weights, which puts out {type}. "
    "Name it in quant_config, or set model_output_type to int8 or int16, to keep it on the BPU at lower precision."
)
PASSIVE_HEAD = (
    "CPU: it only moves data and stands at the head of the graph, before any operator that carries a threshold. "
    "A type set on it has no effect; a unit conv in front would give it a threshold (unit_conv)."
)
PASSIVE_TAIL = (
    "CPU: it only moves data and no operator behind it carries a threshold. "
    "A type set on it has no effect; a unit conv behind it would give it a threshold (unit_conv)."
)


@dataclass(frozen=True)
class Regions:
    """Names of the nodes on the BPU, those that are high-precision tails, and verdicts changed on the way.

    int16_tails  last operators whose output is int16, since dual-int16 has no int32 output (documented)
    """

    on_bpu: frozenset[str]
    tails: frozenset[str]
    verdicts: Mapping[str, Verdict]
    int16_tails: frozenset[str]


@dataclass
class _Walk:
    """Forward and backward reachability over the nodes of a graph."""

    graph: FloatGraph
    verdicts: dict[str, Verdict]
    asks: Asks
    anchors: set[str] = field(default_factory=set)

    def preds(self, node: ir.Node) -> list[ir.Node]:
        return [p for v in outer_values(node) if (p := v.producer()) is not None]

    def succs(self, node: ir.Node) -> list[ir.Node]:
        return [c for out in node.outputs if out.name for c in self.graph.consumers(out.name)]

    def able(self, node: ir.Node) -> bool:
        return self.verdicts[str(node.name)].able

    def active(self, node: ir.Node) -> bool:
        return self.able(node) and self.verdicts[str(node.name)].spec.role is Role.ACTIVE


def find_regions(graph: FloatGraph, verdicts: Mapping[str, Verdict], asks: Asks, tail_word: str) -> Regions:
    """Apply the tail rule, then the rule for passive operators. `tail_word` names the tail's output type."""
    walk = _Walk(graph, dict(verdicts), asks)
    _pair_indices(walk)
    walk.anchors = {str(n.name) for n in graph.nodes if _is_anchor(walk, n)}
    before, behind = _anchor_reach(walk)
    on_bpu: set[str] = set()
    tails: set[str] = set()
    int16_tails: set[str] = set()
    for node in graph.nodes:
        name = str(node.name)
        if not walk.active(node):
            continue
        free = walk.verdicts[name].spec.native or name in walk.anchors or name in behind
        if name in before and not free:
            narrow = before[name] in int16_tails
            output = "int16, as dual-int16 has no int32 output" if narrow else f"{tail_word} at high precision"
            _move_to_cpu(walk, name, "after-tail", AFTER_TAIL.format(tail=before[name], type=output))
            continue
        on_bpu.add(name)
        if walk.verdicts[name].spec.is_tae and name not in behind and not asks.forces_tail:
            narrow = walk.verdicts[name].dual and tail_word == QType.INT32.value
            (int16_tails if narrow else tails).add(name)
    _place_passive(walk, on_bpu, tails)
    return Regions(frozenset(on_bpu), frozenset(tails), walk.verdicts, frozenset(int16_tails))


def _pair_indices(walk: _Walk) -> None:
    """ArgMax or ArgMin and the Cast behind it run together: where one of them may not, the other does not either."""
    for node in walk.graph.nodes:
        cast = index_cast(node) if node.op_type in ("ArgMax", "ArgMin") else None
        if cast is not None and walk.able(node) != walk.able(cast):
            left, gone = (node, cast) if walk.able(node) else (cast, node)
            reason = f"CPU: it runs where {gone.name} does, which is on the CPU."
            _move_to_cpu(walk, str(left.name), "follows-index", reason)


def _is_anchor(walk: _Walk, node: ir.Node) -> bool:
    if not walk.active(node):
        return False
    ask = walk.asks.of(str(node.name))
    named = ask.names_the_node or ask.on == "BPU"
    spec = walk.verdicts[str(node.name)].spec
    # an index that leaves in a type of the BPU is what the model was cut for there
    index = spec.plain_output and (node.op_type in ("ArgMax", "ArgMin") or is_index_cast(node))
    return spec.is_tae or index or named or walk.asks.forces_tail


def _anchor_reach(walk: _Walk) -> tuple[dict[str, str], set[str]]:
    """(node -> nearest anchor upstream), (nodes with an anchor somewhere downstream)."""
    before: dict[str, str] = {}
    for node in walk.graph.nodes:
        for pred in walk.preds(node):
            name = str(pred.name)
            if name in walk.anchors:
                before[str(node.name)] = name
            elif name in before:
                before.setdefault(str(node.name), before[name])
    behind: set[str] = set()
    for node in reversed(walk.graph.nodes):
        if any(str(s.name) in walk.anchors or str(s.name) in behind for s in walk.succs(node)):
            behind.add(str(node.name))
    return before, behind


def _move_to_cpu(walk: _Walk, name: str, rule: str, reason: str) -> None:
    verdict = walk.verdicts[name]
    nothing = (None,) * len(verdict.inputs)
    walk.verdicts[name] = replace(verdict, able=False, granted="float32", inputs=nothing, rule=rule, reason=reason)


def _place_passive(walk: _Walk, on_bpu: set[str], tails: set[str]) -> None:
    """A passive node runs on the BPU between a quantized producer and a quantized reader, else on the CPU."""
    passive = [
        n for n in walk.graph.nodes
        if walk.able(n) and walk.verdicts[str(n.name)].spec.role is Role.PASSIVE
    ]
    names = {str(n.name) for n in passive}
    fed: set[str] = set()
    for node in passive:
        if any((p := str(pred.name)) in fed or (p in on_bpu and p not in tails) for pred in walk.preds(node)):
            fed.add(str(node.name))
    read: set[str] = set()
    for node in reversed(passive):
        if any((s := str(succ.name)) in read or (s in on_bpu and s not in names) for succ in walk.succs(node)):
            read.add(str(node.name))
    for node in passive:
        name = str(node.name)
        if name in fed and name in read:
            on_bpu.add(name)
        elif name in read:
            _move_to_cpu(walk, name, "passive-head", PASSIVE_HEAD)
        else:
            _move_to_cpu(walk, name, "passive-tail", PASSIVE_TAIL)
