"""How an integer operator writes itself as standard ONNX operators.

The same `emit` of an operator serves twice. `FunctionEmitter` makes the body of the model-local function that
lets any onnxruntime run a `.bc` as it is: tensors keep their integer types and attributes stay references.
`FastEmitter` writes straight into one graph in which integers travel as float32 (exact up to 2^24), so that
ordinary convolutions do the work; there attributes and weights are known numbers and the exactness bound of
every accumulation is checked against them.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

FLOAT, DOUBLE = ir.DataType.FLOAT, ir.DataType.DOUBLE
INT32, INT64, UINT8 = ir.DataType.INT32, ir.DataType.INT64, ir.DataType.UINT8


class Reference:
    """Stands for "the attribute of the surrounding function with this name"."""

    def __init__(self, name: str) -> None:
        self.name = name


class Emitter:
    """Common part: append standard nodes to a graph under construction.

    `inputs` are the operator's input values by name; `attributes` its attributes (numbers where known).
    """

    fast = False

    def __init__(self, inputs: Mapping[str, ir.Value], attributes: Mapping[str, Any]) -> None:
        self.inputs = inputs
        self.attributes = attributes
        self.nodes: list[ir.Node] = []

    def op(self, op_type: str, *inputs: ir.Value | None, **attributes: Any) -> ir.Value:
        """Append one standard operator with one output and return the output."""
        attrs = [self._attribute(name, value) for name, value in attributes.items() if value is not None]
        node = ir.Node("", op_type, list(inputs), attributes=attrs, num_outputs=1)
        self.nodes.append(node)
        return node.outputs[0]

    def _attribute(self, name: str, value: Any) -> ir.Attr:
        if isinstance(value, Reference):
            return ir.RefAttr(name, value.name, _reference_type(name))
        if isinstance(value, ir.DataType):
            return ir.AttrInt64(name, int(value))
        return ir.convenience.convert_attribute(name, value)

    def input(self, name: str) -> ir.Value:
        """An input of the operator in its own type."""
        return self.inputs[name]

    def cast(self, value: ir.Value, to: Any) -> ir.Value:
        return self.op("Cast", value, to=to)

    def const(self, array: np.ndarray | np.generic) -> ir.Value:
        raise NotImplementedError

    def attr(self, name: str) -> Any:
        """Value of an attribute of the operator, to hand on as an attribute of a standard node."""
        raise NotImplementedError

    def integer(self, name: str, to: ir.DataType) -> ir.Value:
        """An integer attribute of the operator as a scalar tensor."""
        raise NotImplementedError

    def real(self, name: str) -> ir.Value:
        """A float attribute of the operator as a float32 scalar tensor."""
        raise NotImplementedError

    def codes(self, name: str, to: ir.DataType = FLOAT) -> ir.Value:
        """An integer input as whole numbers in float32, or in float64 for DOUBLE."""
        raise NotImplementedError

    def saturate(self, value: ir.Value) -> ir.Value:
        """float64 whole numbers to the operator's output: clamp to [low, high], convert to its type."""
        clipped = self.op("Clip", self.cast(value, FLOAT), self.integer("low", FLOAT), self.integer("high", FLOAT))
        return self.store(clipped)

    def store(self, value: ir.Value) -> ir.Value:
        """float32 codes to the form in which this graph hands integers on."""
        raise NotImplementedError

    def known(self, name: str) -> np.ndarray | None:
        """The array behind a constant input, None where it cannot be known."""
        return None

    def ratio(self, multiplier: str, shift: str, guard: int = 0) -> ir.Value:
        """m * 2^-(s - guard) as float64; a product of two exact factors, so exact."""
        m, s = self.input(multiplier), self.input(shift)
        exponent = self.op("Sub", self.const(np.float64(guard)), self.cast(s, DOUBLE))
        return self.op("Mul", self.cast(m, DOUBLE), self.op("Pow", self.const(np.float64(2)), exponent))


def _reference_type(name: str) -> ir.AttributeType:
    kinds = {
        "value_float": ir.AttributeType.FLOAT,
        "value_floats": ir.AttributeType.FLOATS,
        "mode": ir.AttributeType.STRING,
    }
    lists = ("strides", "pads", "dilations", "kernel_shape", "value_ints")
    return ir.AttributeType.INTS if name in lists else kinds.get(name, ir.AttributeType.INT)


class FunctionEmitter(Emitter):
    """Body of the model-local function of one integer operator."""

    def const(self, array: np.ndarray | np.generic) -> ir.Value:
        return self.op("Constant", value=ir.tensor(np.asarray(array)))

    def attr(self, name: str) -> Any:
        return Reference(name)

    def integer(self, name: str, to: ir.DataType) -> ir.Value:
        return self.cast(self.op("Constant", value_int=Reference(name)), to)

    def real(self, name: str) -> ir.Value:
        return self.op("Constant", value_float=Reference(name))

    def codes(self, name: str, to: ir.DataType = FLOAT) -> ir.Value:
        return self.cast(self.inputs[name], to)

    def store(self, value: ir.Value) -> ir.Value:
        return self.cast(value, Reference("to"))


@dataclass(frozen=True)
class Operand:
    """What the fast path knows of a computed input.

    value        its codes as float32, or itself where it is no tensor of codes
    wide         gives its codes as float64
    low, high    bounds of its codes
    """

    value: ir.Value
    wide: Callable[[], ir.Value]
    low: int
    high: int
    shape: tuple[int, ...]


class FastEmitter(Emitter):
    """Writes into the one graph of the fast path: float32 carries the integers, float64 where they are read as such.

    unclipped  result of a `saturate` -> the float64 whole numbers that it clamped, for readers that want float64
    """

    fast = True

    def __init__(
        self,
        operands: Mapping[str, Operand],
        attributes: Mapping[str, Any],
        arrays: Mapping[str, np.ndarray],
        constant: Callable[[np.ndarray], ir.Value],
    ) -> None:
        super().__init__({name: operand.value for name, operand in operands.items()}, attributes)
        self.operands = operands
        self.arrays = arrays
        self._constant = constant
        self.unclipped: dict[ir.Value, ir.Value] = {}

    def input(self, name: str) -> ir.Value:
        return self.const(self.arrays[name]) if name in self.arrays else self.inputs[name]

    def const(self, array: np.ndarray | np.generic) -> ir.Value:
        return self._constant(np.asarray(array))

    def attr(self, name: str) -> Any:
        return self.attributes.get(name)

    def integer(self, name: str, to: ir.DataType) -> ir.Value:
        return self.const(np.asarray(self.attributes[name], dtype=to.numpy()))

    def real(self, name: str) -> ir.Value:
        return self.const(np.float32(self.attributes[name]))

    def codes(self, name: str, to: ir.DataType = FLOAT) -> ir.Value:
        if name in self.arrays:
            return self.const(self.arrays[name].astype(to.numpy()))
        return self.operands[name].wide() if to == DOUBLE else self.inputs[name]

    def saturate(self, value: ir.Value) -> ir.Value:
        result = super().saturate(value)
        self.unclipped[result] = value
        return result

    def saturate_floored(self, value: ir.Value) -> ir.Value:
        """saturate(floor(value)) for |value| < 2^31 and low >= 0: the cast truncates, what is below 0 is clamped."""
        clipped = self.op("Clip", self.cast(self.cast(value, INT32), FLOAT), self.integer("low", FLOAT),
                          self.integer("high", FLOAT))
        self.unclipped[clipped] = self.op("Floor", value)
        return clipped

    def store(self, value: ir.Value) -> ir.Value:
        return value

    def known(self, name: str) -> np.ndarray | None:
        return self.arrays.get(name)

    def span(self, name: str, zero_point: int) -> tuple[int, int]:
        """Smallest and largest x - zero_point that an input can have; 0, which padding stands for, included."""
        if name in self.arrays:
            low, high = int(self.arrays[name].min(initial=0)), int(self.arrays[name].max(initial=0))
        else:
            low, high = self.operands[name].low, self.operands[name].high
        return min(low - zero_point, 0), max(high - zero_point, 0)

    def factor(self, multiplier: str, shift: str, guard: int = 0) -> np.ndarray:
        """m * 2^-(s - guard), float64."""
        m, s = self.arrays[multiplier], self.arrays[shift]
        return np.ldexp(m.astype(np.float64), guard - s.astype(np.int64))

    def ratio(self, multiplier: str, shift: str, guard: int = 0) -> ir.Value:
        return self.const(self.factor(multiplier, shift, guard))


def function_body(
    domain: str, name: str, emit: Any, inputs: Sequence[str], attributes: Mapping[str, ir.AttributeType],
    opset: int,
) -> ir.Function:
    """The model-local function of an operator: `emit(FunctionEmitter)` between named inputs and output `y`."""
    assert "y" not in inputs, "y is the name of the output"
    values = {i: ir.Value(name=i) for i in inputs}
    emitter = FunctionEmitter(values, {})
    result = emit(emitter)
    result.name = "y"
    graph = ir.Graph(
        list(values.values()), [result], nodes=emitter.nodes, opset_imports={"": opset}, name=name,
    )
    parameters = [ir.Attr(a, kind, None) for a, kind in attributes.items()]
    return ir.Function(domain, name, graph=graph, attributes=parameters)
