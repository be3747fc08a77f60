"""What the configuration asks of nodes, in the form placement reads."""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ptqlab.arith.formats import QType


@dataclass(frozen=True)
class Ask:
    """A request for one node.

    qtype    type of its features: "int8", "int16", "float16", "float32", "dual-int16"
    inputs   input index -> type, where one input is asked for on its own
    on       "CPU" or "BPU" where the placement itself is asked for
    level    where the type comes from: "default", "model", "op", "subgraph" or "node"
    """

    qtype: str = "int8"
    inputs: Mapping[int, str] = field(default_factory=dict)
    on: str | None = None
    level: str = "default"

    @property
    def names_the_node(self) -> bool:
        """Whether the request is about this node or its kind, and not about the model as a whole."""
        return self.level in ("op", "subgraph", "node")


@dataclass(frozen=True)
class Asks:
    """All requests: `nodes` by name (absent: the default), `output` the type asked for at the model's outputs.

    `output` int8 or int16 forces the tail onto the BPU; None and float32 leave it at high precision.
    """

    nodes: Mapping[str, Ask] = field(default_factory=dict)
    output: QType | None = None

    def of(self, node: str) -> Ask:
        return self.nodes.get(node, Ask())

    @property
    def forces_tail(self) -> bool:
        return self.output in (QType.INT8, QType.INT16)
