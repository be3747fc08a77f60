"""Several nodes that are together a function of one tensor, as exporters write Gelu, Swish, Mish: what they compute.

A BPU operator with a table can compute such a function at once; its table holds the composition, so that nothing
between the nodes is rounded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from ptqlab.ops.functions import FUNCTIONS
from ptqlab.ops.node import attribute, constant, shape

Member = Callable[[ir.Node, Sequence[np.ndarray]], np.ndarray]


def _of_table(node: ir.Node, inputs: Sequence[np.ndarray]) -> np.ndarray:
    return FUNCTIONS[node.op_type].at(inputs[0], node)


def _power(node: ir.Node, inputs: Sequence[np.ndarray]) -> np.ndarray:
    return np.power(inputs[0], inputs[1])


def _sigmoid_line(node: ir.Node, inputs: Sequence[np.ndarray]) -> np.ndarray:
    return np.clip(attribute(node, "alpha", 0.2) * inputs[0] + attribute(node, "beta", 0.5), 0.0, 1.0)


def _clip(node: ir.Node, inputs: Sequence[np.ndarray]) -> np.ndarray:
    return np.clip(inputs[0], *inputs[1:])


def _leaky(node: ir.Node, inputs: Sequence[np.ndarray]) -> np.ndarray:
    return np.where(inputs[0] < 0, attribute(node, "alpha", 0.01) * inputs[0], inputs[0])


# functions that may be infinite, with which arithmetic could make a NaN: they end a composed function or stand alone
ENDS = ("Exp", "Log", "Reciprocal")
# functions with a table; all others are finite and defined everywhere, so that nothing composed of them is ever NaN
CURVES = (
    "Elu", "Erf", "HardSwish", "Mish", "Selu", "Sigmoid", "Softplus", "Softsign", "Sqrt", "Swish", "Tanh", *ENDS,
)  # fmt: skip
ARITHMETIC: dict[str, Member] = {
    "Abs": lambda node, x: np.abs(x[0]),
    "Add": lambda node, x: x[0] + x[1],
    "Clip": _clip,
    "Div": lambda node, x: x[0] / x[1],
    "HardSigmoid": _sigmoid_line,
    "LeakyRelu": _leaky,
    "Mul": lambda node, x: x[0] * x[1],
    "Neg": lambda node, x: -x[0],
    "Pow": _power,
    "Relu": lambda node, x: np.maximum(x[0], 0.0),
    "Sub": lambda node, x: x[0] - x[1],
}
MEMBERS: dict[str, Member] = {**dict.fromkeys(CURVES, _of_table), **ARITHMETIC}
LARGEST_POWER = 4


@dataclass(frozen=True)
class Composed:
    """Nodes in topological order that compute `output` from `source` alone, element by element."""

    source: ir.Value
    members: tuple[ir.Node, ...]

    @property
    def output(self) -> ir.Value:
        return self.members[-1].outputs[0]

    def at(self, x: np.ndarray) -> np.ndarray:
        """Values at real x, float64."""
        known: dict[ir.Value, np.ndarray] = {self.source: x}
        for node in self.members:
            inputs = [known[v] if v in known else _number(v) for v in node.inputs if v is not None]
            known[node.outputs[0]] = MEMBERS[node.op_type](node, inputs)
        return np.broadcast_to(known[self.output], x.shape)

    @property
    def is_curve(self) -> bool:
        """Whether it is more than a chain of straight pieces: a table function, or a product of two computed ones."""
        return any(
            n.op_type in CURVES
            or n.op_type in ENDS
            or (n.op_type == "Mul" and not any(constant(v) is not None for v in n.inputs))
            for n in self.members
        )


def _number(value: ir.Value) -> np.ndarray:
    array = constant(value)
    assert array is not None and array.size == 1, "constants of a composed function are numbers"
    return np.asarray(array, np.float64).reshape(())


def composed(last: ir.Node, usable: Callable[[ir.Node], bool]) -> Iterator[Composed]:
    """Ever larger composed functions that end with `last`, found backwards; of members, each is `usable`.

    Nothing outside reads a tensor between the members, and all tensors have the shape of the output.
    """
    if not _fits(last, last) or not usable(last):
        return
    members: dict[ir.Node, None] = {last: None}
    while True:
        open_ends = _open_ends(members)
        if len(open_ends) == 1 and len(members) > 1:
            yield Composed(next(iter(open_ends)), tuple(reversed(members)))
        node = _next(open_ends, members, last, usable)
        if node is None:
            return
        members[node] = None


def largest(last: ir.Node, usable: Callable[[ir.Node], bool]) -> Composed | None:
    """The largest composed function that ends with `last`; None where it would be `last` alone."""
    *_, found = None, *composed(last, usable)
    return found


def _open_ends(members: Mapping[ir.Node, None]) -> dict[ir.Value, None]:
    """Computed tensors that members read and no member makes."""
    return {
        v: None for n in members for v in n.inputs
        if v is not None and constant(v) is None and v.producer() not in members
    }


def _next(open_ends: Mapping[ir.Value, None], members: Mapping[ir.Node, None], last: ir.Node,
          usable: Callable[[ir.Node], bool]) -> ir.Node | None:
    """A producer of an open end that only members read, so that members stay in topological order."""
    for value in open_ends:
        node = value.producer()
        if node is None or node.graph is not last.graph or value.is_graph_output():
            continue
        if all(user in members for user, _ in value.uses()) and _inner(node, last) and usable(node):
            return node
    return None


def _inner(node: ir.Node, last: ir.Node) -> bool:
    """Whether a node may stand in front of others."""
    return node.op_type not in ENDS and _fits(node, last)


def _fits(node: ir.Node, last: ir.Node) -> bool:
    """Whether a node computes element by element, of one or two tensors of the shape of the output, and numbers."""
    if node.op_type not in MEMBERS or node.domain not in ("", "ai.onnx"):
        return False
    wanted = shape(last.outputs[0])
    for value in node.inputs:
        array = None if value is None else constant(value)
        if array is not None and array.size != 1:
            return False
        if value is not None and array is None and shape(value) != wanted:
            return False
    if shape(node.outputs[0]) != wanted or node.outputs[0].dtype != ir.DataType.FLOAT:
        return False
    return _is_finite(node)


def _is_finite(node: ir.Node) -> bool:
    """Div by a number other than 0, Pow by a small whole number, Clip between numbers: never NaN."""
    numbers = [constant(v) for v in node.inputs[1:]]
    if node.op_type == "Clip":
        return len(numbers) == 2 and all(number is not None for number in numbers)
    if node.op_type == "Div":
        return numbers[0] is not None and float(numbers[0].reshape(())) != 0
    if node.op_type == "Pow":
        power = None if numbers[0] is None else float(numbers[0].reshape(()))
        return power is not None and power in range(1, LARGEST_POWER + 1)
    return True
