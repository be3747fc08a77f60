"""The form of an entry of THE operator table: everything known of one ONNX operator.

A rule is a small function whose docstring is the rule in words: the same sentence is the reason in the node
table, the tooltip in the grid and the line of the published operator table.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

import numpy as np
import onnx_ir as ir

from ptqlab.arith.formats import QType
from ptqlab.arith.rounding import quantize
from ptqlab.errors import Finding
from ptqlab.platforms import Platform


class Role(StrEnum):
    """active: carries its own thresholds; passive: inherits them from a neighbour; float: has no BPU kernel."""

    ACTIVE = "active"
    PASSIVE = "passive"
    FLOAT = "float"


class Engine(StrEnum):
    """Unit of the BPU that runs the operator (documented)."""

    TAE = "TAE"
    VAE = "VAE"
    AAE = "AAE"
    TRANS = "TRANS"
    CPU = "CPU"


# A rule returns None where the node keeps it, else what the node has.
Rule = Callable[[ir.Node, Platform], str | None]


def sentence(rule: Rule) -> str:
    """The rule in words: the first paragraph of its docstring."""
    text = (rule.__doc__ or "").strip().split("\n\n")[0]
    return " ".join(text.split())


@dataclass(frozen=True)
class Encoding:
    """How integers stand for real numbers: x = (q - zero_point) * scale, scale a float32 scalar."""

    qtype: QType
    scale: np.float32
    zero_point: int = 0

    @property
    def low(self) -> int:
        return self.qtype.qmin

    @property
    def high(self) -> int:
        return self.qtype.qmax

    def code(self, value: float) -> int:
        """The code of a real number as the quantizer gives it; infinities give the ends of the range."""
        return int(quantize(np.asarray(value, np.float32), self.scale, self.zero_point, self.low, self.high))


@dataclass(frozen=True)
class WeightEncoding:
    """Integer weights of one node: codes and the float32 scale of each output channel (one entry per channel).

    factors     steps of the input's channels, shaped to multiply the weights as the node holds them; the codes stand
                for weight * factors. None where the input has one step

    correction  what was added to the float bias of each channel for the mean error of the output, float64; None where
                biases are not corrected. `bias` holds it already.
    own         the part of it that is for rounding the weights; the rest is for rounding the input
    """

    codes: np.ndarray
    scale: np.ndarray
    bias: np.ndarray
    correction: np.ndarray | None = None
    factors: np.ndarray | None = None
    own: np.ndarray | None = None

    @property
    def qtype(self) -> QType:
        """int8, or int16 for dual-int16."""
        return QType(self.codes.dtype.name)


@dataclass(frozen=True)
class Operand:
    """An integer tensor as an operator reads it: the value in the integer graph and its encoding."""

    value: ir.Value
    encoding: Encoding


class Lowering(Protocol):
    """What the table's `lower` functions may ask of the driver that builds the integer graph."""

    def read(self, node: ir.Node, index: int) -> Operand:
        """Input `index` of a node as integers of the type the plan grants it."""

    def residual(self, node: ir.Node) -> Operand | None:
        """The tensor that the group of a main node adds to the accumulator."""

    def constant(self, node: ir.Node, index: int) -> np.ndarray | None:
        """A constant input as an array, None where it is absent or not constant."""

    def plain(self, node: ir.Node, index: int) -> ir.Value:
        """Input `index` of a node as it stands: a bool condition, indices; what is never quantized."""

    def weights(self, node: ir.Node) -> WeightEncoding:
        """Weights and bias of a TAE operator as integers; the bias includes what the group adds to it."""

    def weight_type(self, node: ir.Node) -> QType:
        """Type of the constant operand of a TAE operator."""

    def output(self, node: ir.Node) -> Encoding | None:
        """Encoding of what the node's group writes; None for a high-precision tail."""

    def channels(self, node: ir.Node) -> np.ndarray | None:
        """Factors of the output's step per channel, None where all have one step."""

    def bounds(self, node: ir.Node) -> tuple[int, int]:
        """Codes to which the group clamps its output (fused Relu or Clip included)."""

    def write(self, node: ir.Node, op: str, inputs: Mapping[str, ir.Value | np.ndarray],
              attributes: Mapping[str, Any], notes: Mapping[str, str] | None = None) -> None:
        """Append integer operator `op` as the producer of what the node's group writes; `notes` go to its metadata."""

    def write_plain(self, node: ir.Node, op: str, inputs: Mapping[str, ir.Value | np.ndarray],
                    attributes: Mapping[str, Any]) -> None:
        """Append integer operator `op` whose output is no activation: it keeps its values, and its tensor's name."""

    def keep(self, node: ir.Node) -> None:
        """Append the node itself, on tensors that are never quantized."""

    def write_tail(self, node: ir.Node, op: str, inputs: Mapping[str, ir.Value | np.ndarray],
                   attributes: Mapping[str, Any], scale: np.ndarray) -> None:
        """Append a tail operator and the Dequantize that turns its int32 accumulator into float32."""

    def report(self, finding: Finding) -> None:
        """Tell the user something about a node that only shows when its integers are made."""

    def move(self, node: ir.Node, inputs: list[ir.Value | np.ndarray | None], output: int = 0, op: str = "",
             attributes: Mapping[str, Any] | None = None) -> None:
        """Append the node itself, as a standard ONNX operator on integers; None where an operand is left out.

        `op` and `attributes` where another operator makes the output with the number `output` of the node.
        """


Lower = Callable[[Lowering, ir.Node], None]


@dataclass(frozen=True)
class OpSpec:
    """One ONNX operator.

    op_type     ONNX name, domain ""
    role        active, passive or float
    engine      unit of the BPU
    features    indices of the inputs that are activations; None means all
    qtypes      types of its features on the BPU
    fixed_types  input index -> the one type that this feature has, whatever is asked
    rules       what a node must keep to run on the BPU
    lower       how it becomes integer operators; None where it stays in float
    plain_output  what it writes is no activation but indices, in a type of their own
    native  it computes on integers of the model as they are
    int16_families  families of platforms that have its int16 form; None: all
    fusable     it can be computed inside the TAE operator before it (Relu, Clip, Add)
    source      where the entry comes from: "documented", "log", "our definition"
    note        what a reader of the published table should know; the reason on the CPU for float operators
    """

    op_type: str
    role: Role
    engine: Engine
    features: tuple[int, ...] | None = None
    qtypes: tuple[QType, ...] = (QType.INT8, QType.INT16)
    fixed_types: Mapping[int, QType] = field(default_factory=dict)
    rules: tuple[Rule, ...] = ()
    lower: Lower | None = None
    plain_output: bool = False
    native: bool = False
    int16_families: tuple[str, ...] | None = None
    fusable: bool = False
    source: str = "our definition"
    note: str = ""

    def types_on(self, platform: Platform) -> tuple[QType, ...]:
        """Types of its features on a platform."""
        if self.int16_families is None or platform.family in self.int16_families:
            return self.qtypes
        return tuple(t for t in self.qtypes if t is not QType.INT16)

    @property
    def is_tae(self) -> bool:
        return self.engine is Engine.TAE

    def feature_indices(self, node: ir.Node) -> tuple[int, ...]:
        """Inputs of this node that carry activations: present, and not constant."""
        wanted = range(len(node.inputs)) if self.features is None else self.features
        return tuple(
            i for i in wanted
            if i < len(node.inputs) and (v := node.inputs[i]) is not None and v.const_value is None
        )
