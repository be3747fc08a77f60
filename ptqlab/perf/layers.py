"""Layers from a plan and its graph: one for each BPU operator and each node on the CPU."""
from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import onnx_ir as ir

from ptqlab.arith.formats import QType, widest
from ptqlab.graph import FloatGraph
from ptqlab.ops.node import attribute, shape
from ptqlab.ops.table import spec_of
from ptqlab.perf.layer import TAE_OPS, Layer, linked
from ptqlab.perf.work import PASSES
from ptqlab.stages.plan import Group, Plan

CLAMP_NAMES = {(0.0, math.inf): "relu", (0.0, 6.0): "relu6"}
ELEMENTWISE = frozenset(op for op, p in PASSES.items() if p.table and op not in ("Softmax", "LogSoftmax")) | {
    "Add", "Sub", "Mul", "Div", "Relu", "Clip", "Neg", "Abs"}


@dataclass(frozen=True)
class _Unit:
    """Nodes that become one layer. `act` is the activation a table computes at its end."""

    main: ir.Node
    nodes: tuple[ir.Node, ...]
    output: str
    group: Group | None
    act: str = ""


def from_plan(graph: FloatGraph, plan: Plan) -> tuple[Layer, ...]:
    """Layers in order of execution.

    An activation of one variable behind a TAE operator (Sigmoid and Mul of SiLU, the nodes of Gelu, ...) is a look-up
    table on the way out of the TAE and belongs to its layer (our definition).
    """
    order = {str(n.name): i for i, n in enumerate(graph.nodes)}
    units = [_Unit(graph.node(g.main), tuple(graph.node(m) for m in g.members), g.output, g)
             for g in plan.groups.values()]
    units += [_Unit(n, (n,), _output(n), None) for n in graph.nodes if not plan.nodes[str(n.name)].on_bpu]
    units.sort(key=lambda u: max(order[str(n.name)] for n in u.nodes))
    units = _fuse_activations(graph, plan, units)
    writer = {str(o.name): i for i, u in enumerate(units) for n in u.nodes for o in n.outputs}
    inputs = {str(v.name): -1 - i for i, v in enumerate(graph.inputs)}
    return linked(_layer(graph, plan, unit, writer | inputs) for unit in units)


def _output(node: ir.Node) -> str:
    return str(node.outputs[0].name)


def _layer(graph: FloatGraph, plan: Plan, unit: _Unit, origin: Mapping[str, int]) -> Layer:
    main, inside = unit.main, {str(o.name) for n in unit.nodes for o in n.outputs}
    reads = [v for n in unit.nodes for v in _activations(n) if str(v.name) not in inside]
    plans = [plan.nodes[str(n.name)] for n in unit.nodes]
    outputs = [v for v in _last(unit).outputs if v.name]
    decided = plan.nodes[str(main.name)]
    stored = plan.tensors.get(unit.output)
    fixed = spec_of(main).fixed_types
    features = [t for i, t in enumerate(decided.inputs) if t is not None and i not in fixed]
    weights = main.inputs[1].const_value if main.op_type in TAE_OPS and main.inputs[1] is not None else None
    convolution = main.op_type in ("Conv", "ConvTranspose")
    return Layer(
        name=str(main.name), op=main.op_type, act=_act(unit),
        add=unit.group is not None and unit.group.residual is not None,
        inputs=tuple(shape(v) for v in reads), outputs=tuple(shape(v) for v in outputs),
        sources=tuple(origin[str(v.name)] for v in reads), kernel=_kernel(main),
        stride=tuple(attribute(main, "strides", [])), group=attribute(main, "group", 1) if convolution else 1,
        macs=macs(main), weights=math.prod(shape(main.inputs[1])) if weights is not None else 0,
        reads=sum(math.prod(shape(v)) for v in reads), writes=sum(math.prod(shape(v)) for v in outputs),
        net_out=any(v.is_graph_output() for v in outputs), tail=any(p.tail for p in plans),
        qtype=widest(features) if features else stored.stored if stored else QType.INT8,
        output_qtype=decided.output or (stored.stored if stored else QType.INT8),
        weight_qtype=QType.INT16 if decided.granted == "dual-int16" else QType.INT8,
        device=decided.device.value, segment=decided.segment,
        nodes=tuple(dict.fromkeys(str(n.name) for n in unit.nodes)),
    )


def _activations(node: ir.Node) -> list[ir.Value]:
    """Inputs that are computed or fed, each use once."""
    return [v for v in node.inputs if v is not None and v.name and v.const_value is None]


def _last(unit: _Unit) -> ir.Node:
    return next(n for n in unit.nodes if any(str(o.name) == unit.output for o in n.outputs))


def _act(unit: _Unit) -> str:
    if unit.act or unit.group is None or unit.main.op_type not in TAE_OPS or unit.group.low is None:
        return unit.act
    high = math.inf if unit.group.high is None else unit.group.high
    return CLAMP_NAMES.get((unit.group.low, high), "clip")


def _kernel(node: ir.Node) -> tuple[int, ...]:
    if node.op_type in ("Conv", "ConvTranspose"):
        return shape(node.inputs[1])[2:]
    return tuple(attribute(node, "kernel_shape", []))


def macs(node: ir.Node) -> int:
    """Multiply-accumulates of a TAE operator, without padding; 0 for every other."""
    if node.op_type not in TAE_OPS:
        return 0
    read, weight, written = shape(node.inputs[0]), shape(node.inputs[1]), shape(node.outputs[0])
    if node.op_type == "Conv":
        return math.prod(written) * math.prod(weight[1:])
    if node.op_type == "ConvTranspose":
        return math.prod(read) * math.prod(weight[1:])
    inner = read[0] if node.op_type == "Gemm" and attribute(node, "transA", 0) else read[-1]
    return math.prod(written) * inner


def _fuse_activations(graph: FloatGraph, plan: Plan, units: list[_Unit]) -> list[_Unit]:
    """Join each TAE operator with the function of one variable that alone reads it."""
    by_node = {str(n.name): i for i, u in enumerate(units) for n in u.nodes}
    gone: set[int] = set()
    result: dict[int, _Unit] = {}
    for index, unit in enumerate(units):
        if unit.group is None or unit.main.op_type not in TAE_OPS or plan.nodes[str(unit.main.name)].tail:
            continue
        joined = _function_behind(graph, units, by_node, index)
        if joined:
            last = units[joined[-1]]
            ops = {n.op_type for j in joined for n in units[j].nodes}
            result[joined[-1]] = replace(unit, nodes=(*unit.nodes, *(n for j in joined for n in units[j].nodes)),
                                         output=last.output, act=_function_name(ops))
            gone |= {index, *joined}
    return [result.get(i, u) for i, u in enumerate(units) if i not in gone or i in result]


def _function_name(ops: set[str]) -> str:
    if ops == {"Sigmoid", "Mul"}:
        return "silu"
    if "Erf" in ops:
        return "gelu"
    if ops == {"HardSigmoid", "Mul"}:
        return "hardswish"
    if ops <= {"Add", "Sub", "Mul", "Div", "Neg"}:
        return "scale"
    return "_".join(sorted(o.lower() for o in ops))


def _function_behind(graph: FloatGraph, units: list[_Unit], by_node: Mapping[str, int], index: int) -> list[int]:
    """Units that together compute a function of one variable of a unit's output, and that alone read it."""
    start = units[index].output
    known, members = {start}, [index]
    best: list[int] = []
    reading = _readers(graph, by_node, start)
    while reading:
        follow = min(reading)
        unit = units[follow]
        if not _of_one_variable(unit, known):
            break
        members.append(follow)
        known.add(unit.output)
        reading = {r for tensor in known for r in _readers(graph, by_node, tensor)} - set(members)
        inner = known - {unit.output}
        closed = all(_readers(graph, by_node, t) <= set(members) and not graph.values[t].is_graph_output()
                     for t in inner)
        if closed and not _readers(graph, by_node, unit.output) & set(members):
            best = members[1:]
    return best if any(units[i].main.op_type not in ("Relu", "Clip") for i in best) else []


def _of_one_variable(unit: _Unit, known: set[str]) -> bool:
    if unit.group is not None and unit.group.source is not None:
        return unit.group.source in known
    if unit.group is None or len(unit.nodes) > 1 or unit.main.op_type not in ELEMENTWISE:
        return False
    constants: Iterable[ir.Value] = (v for v in unit.main.inputs if v is not None and v.const_value is not None)
    return (all(str(v.name) in known for v in _activations(unit.main))
            and all(math.prod(shape(v)) == 1 for v in constants))


def _readers(graph: FloatGraph, by_node: Mapping[str, int], tensor: str) -> set[int]:
    return {by_node[str(n.name)] for n in graph.consumers(tensor)}
