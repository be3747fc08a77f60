"""The plan: where each node runs, in which type, and why. Made by `ptqlab.placement`, read by everything after.

A plan knows names only - no arrays, no graph - so that many plans can share one graph.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from ptqlab.arith.formats import QType


class Device(StrEnum):
    BPU = "BPU"
    CPU = "CPU"


@dataclass(frozen=True)
class NodePlan:
    """What was decided for one node of the optimized graph.

    asked     type asked for ("int8", "dual-int16", ...), granted  type given ("float32" on the CPU)
    inputs    granted type of each input; None for inputs that are no quantized activation
    rule      id of the rule that decided; `reason` is its sentence with what this node has
    segment   number of the BPU segment, None on the CPU
    group     name of the main node of the BPU operator that computes this node; its own name when alone
    tail      the accumulator leaves at high precision (int32 on nash-e/m, float32 on nash-b/h/p)
    weights   type of the constant operand of a TAE operator: int8, or int16 for dual-int16; None where there is none
    output    float type that it writes: of the vector unit's float arithmetic, or of a TAE operator asked for float;
              None for integers and tails
    """

    name: str
    op_type: str
    device: Device
    asked: str
    granted: str
    inputs: tuple[QType | None, ...]
    rule: str
    reason: str
    segment: int | None
    group: str
    tail: bool = False
    weights: QType | None = None
    output: QType | None = None

    @property
    def on_bpu(self) -> bool:
        return self.device is Device.BPU

    @property
    def in_float(self) -> bool:
        """The vector unit of the BPU computes it in float."""
        return any(t is not None and not t.is_integer for t in self.inputs)

    @property
    def in_integers(self) -> bool:
        """The BPU computes it on integers; what it writes may be float (`output`)."""
        return self.on_bpu and not self.in_float

    @property
    def writes_integers(self) -> bool:
        """What it writes are codes on the BPU, or a tail's accumulator."""
        return self.in_integers and self.output is None


@dataclass(frozen=True)
class Group:
    """One BPU operator: the nodes it computes together, with no quantizer between them.

    main      the node that gives the operator its name
    members   all node names in topological order, `main` included
    output    tensor that the operator writes
    residual  (node, input index) of the tensor that is added to the accumulator, or None
    bias_add  node whose constant operand joins the bias, or None
    low, high bounds of a fused Relu / Clip; None where there is none
    source    tensor of which the members together are a function, computed by one table; None for every other group
    """

    main: str
    members: tuple[str, ...]
    output: str
    residual: tuple[str, int] | None = None
    bias_add: str | None = None
    low: float | None = None
    high: float | None = None
    source: str | None = None


@dataclass(frozen=True)
class TensorPlan:
    """How a tensor stands in the BPU's memory.

    slot    name of the tensor whose threshold it shares (movers pass thresholds on)
    stored  type it is written in: the widest that a reader of the slot asks for
    """

    name: str
    slot: str
    stored: QType


@dataclass(frozen=True)
class Plan:
    """Placement and types of a whole graph.

    nodes    by name, in topological order;  groups  by main node;  tensors  those held as integers on the BPU
    sources  slot -> the tensors whose values set its threshold
    """

    march: str
    nodes: Mapping[str, NodePlan]
    groups: Mapping[str, Group]
    tensors: Mapping[str, TensorPlan]
    sources: Mapping[str, tuple[str, ...]]

    @property
    def segments(self) -> int:
        """Number of BPU segments."""
        return len({n.segment for n in self.nodes.values() if n.segment is not None})

    def group_of(self, node: str) -> Group:
        return self.groups[self.nodes[node].group]

    def verify(self) -> Plan:
        """Check what every later stage relies on; returns the plan."""
        for name, group in self.groups.items():
            assert name == group.main and name in group.members, f"group {name} does not hold its main node"
            for member in group.members:
                assert self.nodes[member].on_bpu, f"{member} is in a BPU operator but not on the BPU"
                assert self.nodes[member].group == name, f"{member} does not know its group {name}"
        for node in self.nodes.values():
            assert node.reason, f"{node.name} has no reason"
            if node.on_bpu:
                assert node.segment is not None and node.group in self.groups, f"{node.name} is in no segment or group"
            else:
                assert node.granted == "float32" and node.segment is None, f"{node.name} on the CPU is not float"
        for tensor in self.tensors.values():
            assert self.tensors[tensor.slot].stored is tensor.stored, f"{tensor.name} differs from its slot in type"
            assert self.sources.get(tensor.slot), f"slot {tensor.slot} has no source"
        return self
