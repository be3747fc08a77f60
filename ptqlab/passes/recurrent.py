"""LSTM and GRU written out step by step, in operators that the BPU has, as the vendor's tool does (documented)."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from ptqlab.passes.base import Work, get_int, shape_of

# steps that are written out; beyond, a model of that many nodes helps nobody [our definition]
MOST_STEPS = 64
ACTIVATIONS = {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"]}
GATES = {"LSTM": 4, "GRU": 3}
BACKWARD = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
FLOAT = ir.DataType.FLOAT


@dataclass(frozen=True)
class _Pen:
    """Writes nodes of one direction in front of the recurrent node; every method gives a tensor."""

    work: Work
    node: ir.Node
    prefix: str

    def op(self, kind: str, inputs: Sequence[ir.Value], shape: Sequence[int], name: str, **attributes: int) -> ir.Value:
        attrs = [ir.AttrInt64(key, value) for key, value in attributes.items()]
        return self.work.add_node(kind, inputs, f"{self.prefix}_{name}", before=self.node, shape=shape, dtype=FLOAT,
                                  attributes=attrs).outputs[0]  # fmt: skip

    def constant(self, name: str, array: np.ndarray) -> ir.Value:
        return self.work.add_constant(f"{self.prefix}_{name}", array)

    def part(self, x: ir.Value, start: int, end: int, axis: int, name: str) -> ir.Value:
        """x[start:end] along an axis."""
        bounds = [self.constant(f"{name}_{word}", np.array([n], np.int64))
                  for word, n in (("from", start), ("to", end), ("axis", axis))]  # fmt: skip
        shape = list(shape_of(x))
        shape[axis] = end - start
        return self.op("Slice", [x, *bounds], shape, name)

    def reshaped(self, x: ir.Value, shape: Sequence[int], name: str) -> ir.Value:
        return self.op("Reshape", [x, self.constant(f"{name}_shape", np.array(shape, np.int64))], shape, name)


class SplitRecurrent:
    """Write recurrent layers out.

    Given   LSTM or GRU of at most MOST_STEPS steps, constant weights, the usual activations, no clip, no peepholes, and
            no lengths of sequences of their own
    Result  one MatMul for all inputs; for each step a MatMul of the state, Sigmoid, Tanh, Mul and Add
    """

    def __call__(self, work: Work) -> int:
        return sum(self._split(work, n) for n in list(work.graph) if n.op_type in GATES and n.graph is work.graph)

    def _split(self, work: Work, node: ir.Node) -> int:
        reason = _unfit(work, node)
        if reason:
            return work.refuse(node, reason)
        x = node.inputs[0]
        assert x is not None
        steps, batch, _ = shape_of(x)
        arrays = [work.constant(node.inputs[i] if i < len(node.inputs) else None) for i in (1, 2, 3)]
        run = _lstm if node.op_type == "LSTM" else _gru
        sides: list[tuple[list[ir.Value], list[ir.Value]]] = []
        first: ir.Node | None = None
        for side, backward in enumerate(BACKWARD[_direction(node)]):
            pen = _Pen(work, node, f"{node.name}_{'backward' if backward else 'forward'}")
            w, r, b = (None if a is None else a[side] for a in arrays)
            assert w is not None and r is not None
            projected = _projected(pen, node, x, w, b)
            first = first or projected.producer()
            states = [_state(pen, work, node, index, side) for index in (5, 6)]
            order = range(steps)[::-1] if backward else range(steps)
            rows = [pen.reshaped(pen.part(projected, t, t + 1, 0, f"at{t}"), (batch, w.shape[0]), f"row{t}")
                    for t in order]  # fmt: skip
            hidden, last = run(pen, node, rows, r, b, states)
            sides.append((hidden[::-1] if backward else hidden, last))
        _outputs(_Pen(work, node, str(node.name)), node, sides, steps, batch)
        work.merge(node, first)
        return 1


def _direction(node: ir.Node) -> str:
    attribute = node.attributes.get("direction")
    return "forward" if attribute is None else attribute.as_string().lower()


def _unfit(work: Work, node: ir.Node) -> str | None:
    """Why a recurrent node is left as it is."""
    x, lengths = node.inputs[0], node.inputs[4] if len(node.inputs) > 4 else None
    if x is None or x.dtype != FLOAT:
        return "its input is not float32"
    steps = shape_of(x)[0]
    if get_int(node, "layout", 0):
        return "its batch stands in front of its steps (layout 1)"
    if not 0 < steps <= MOST_STEPS:
        return f"{steps} steps; at most {MOST_STEPS} are written out"
    if any(work.constant(node.inputs[i]) is None for i in (1, 2)) or (
        len(node.inputs) > 3 and node.inputs[3] is not None and work.constant(node.inputs[3]) is None
    ):
        return "its weights are computed"
    given = work.constant(lengths)
    if lengths is not None and (given is None or (given != steps).any()):
        return "sequences have lengths of their own"
    if node.op_type == "LSTM" and len(node.inputs) > 7 and node.inputs[7] is not None:
        return "it has peepholes"
    asked = node.attributes.get("activations")
    usual = [[name.lower() for name in ACTIVATIONS[node.op_type] * sides] for sides in (1, 2)]
    if asked is not None and [name.lower() for name in asked.as_strings()] not in usual:
        return f"activations {', '.join(asked.as_strings())}"
    if "clip" in node.attributes or get_int(node, "input_forget", 0):
        return "it clips, or couples its gates"
    return None


def _projected(pen: _Pen, node: ir.Node, x: ir.Value, w: np.ndarray, b: np.ndarray | None) -> ir.Value:
    """X W^T + Wb (+ Rb, where the gate adds it before anything else): [steps, batch, gates * hidden]."""
    steps, batch, _ = shape_of(x)
    wide = w.shape[0]
    y = pen.op("MatMul", [x, pen.constant("w", np.ascontiguousarray(w.T))], (steps, batch, wide), "input")
    if b is None:
        return y
    bias = b[:wide] + _inner_bias(node, b[wide:])
    return pen.op("Add", [y, pen.constant("b", bias.astype(np.float32))], (steps, batch, wide), "bias")


def _inner_bias(node: ir.Node, rb: np.ndarray) -> np.ndarray:
    """The recurrent bias; that of the hidden gate of a GRU which resets behind the product stays there."""
    if node.op_type == "GRU" and get_int(node, "linear_before_reset", 0):
        hidden = rb.size // 3
        return np.concatenate([rb[: 2 * hidden], np.zeros(hidden, rb.dtype)])
    return rb


def _state(pen: _Pen, work: Work, node: ir.Node, index: int, side: int) -> ir.Value | None:
    """An initial state of a direction, [batch, hidden]; None where it is absent or zero."""
    value = node.inputs[index] if index < len(node.inputs) else None
    if value is None:
        return None
    array = work.constant(value)
    if array is not None and not array.any():
        return None
    _, batch, hidden = shape_of(value)
    return pen.reshaped(pen.part(value, side, side + 1, 0, f"initial{index}"), (batch, hidden), f"state{index}")


Cell = tuple[list[ir.Value], list[ir.Value]]


def _gate(pen: _Pen, z: ir.Value, index: int, hidden: int, kind: str, name: str) -> ir.Value:
    batch = shape_of(z)[0]
    return pen.op(kind, [pen.part(z, index * hidden, (index + 1) * hidden, 1, f"{name}_in")], (batch, hidden), name)


def _lstm(pen: _Pen, node: ir.Node, rows: list[ir.Value], r: np.ndarray, b: np.ndarray | None,
          states: list[ir.Value | None]) -> Cell:  # fmt: skip
    """i, o, f, c = gates of X W + H R;  C = f C + i c;  H = o tanh(C)."""
    h, c = states
    hidden, batch = r.shape[1], shape_of(rows[0])[0]
    size, weight, made = (batch, hidden), pen.constant("r", np.ascontiguousarray(r.T)), []
    for t, row in enumerate(rows):
        z = row
        if h is not None:
            product = pen.op("MatMul", [h, weight], (batch, 4 * hidden), f"state{t}_product")
            z = pen.op("Add", [product, row], (batch, 4 * hidden), f"gates{t}")
        i, o, f = (_gate(pen, z, k, hidden, "Sigmoid", f"{word}{t}") for k, word in enumerate("iof"))
        new = pen.op("Mul", [i, _gate(pen, z, 3, hidden, "Tanh", f"c{t}")], size, f"new{t}")
        kept = None if c is None else pen.op("Mul", [f, c], size, f"kept{t}")
        c = new if kept is None else pen.op("Add", [kept, new], size, f"cell{t}")
        h = pen.op("Mul", [o, pen.op("Tanh", [c], size, f"tanh{t}")], size, f"h{t}")
        made.append(h)
    assert h is not None and c is not None
    return made, [h, c]


def _gru(pen: _Pen, node: ir.Node, rows: list[ir.Value], r: np.ndarray, b: np.ndarray | None,
         states: list[ir.Value | None]) -> Cell:  # fmt: skip
    """z, r = gates of X W + H R;  n = tanh(X W + r (H R) or (r H) R);  H = n + z (H - n)."""
    h, hidden, batch = states[0], r.shape[1], shape_of(rows[0])[0]
    size, late = (batch, hidden), bool(get_int(node, "linear_before_reset", 0))
    gates = pen.constant("r", np.ascontiguousarray(r[: 2 * hidden].T))
    inner = pen.constant("rn", np.ascontiguousarray(r[2 * hidden :].T))
    bias = None if b is None or not late else pen.constant("rb", b[5 * hidden :].astype(np.float32))
    made: list[ir.Value] = []
    for t, row in enumerate(rows):
        both = pen.part(row, 0, 2 * hidden, 1, f"zr{t}_in")
        n = pen.part(row, 2 * hidden, 3 * hidden, 1, f"n{t}_in")
        if h is not None:
            product = pen.op("MatMul", [h, gates], (batch, 2 * hidden), f"zr{t}_product")
            both = pen.op("Add", [product, both], (batch, 2 * hidden), f"zr{t}")
        z, reset = (_gate(pen, both, k, hidden, "Sigmoid", f"{word}{t}") for k, word in enumerate("zr"))
        term: ir.Value | None = None
        if h is not None and not late:
            held = pen.op("Mul", [reset, h], size, f"reset{t}")
            term = pen.op("MatMul", [held, inner], size, f"n{t}_product")
        elif late:
            start = None if h is None else pen.op("MatMul", [h, inner], size, f"n{t}_product")
            if start is not None and bias is not None:
                start = pen.op("Add", [start, bias], size, f"n{t}_bias")
            start = start if start is not None else bias
            term = None if start is None else pen.op("Mul", [reset, start], size, f"reset{t}")
        n = n if term is None else pen.op("Add", [term, n], size, f"n{t}_sum")
        n = pen.op("Tanh", [n], size, f"n{t}")
        gap = pen.op("Neg", [n], size, f"gap{t}") if h is None else pen.op("Sub", [h, n], size, f"gap{t}")
        h = pen.op("Add", [n, pen.op("Mul", [z, gap], size, f"kept{t}")], size, f"h{t}")
        made.append(h)
    assert h is not None
    return made, [h]


def _outputs(pen: _Pen, node: ir.Node, sides: list[Cell], steps: int, batch: int) -> None:
    """Y [steps, sides, batch, hidden], then the last states [sides, batch, hidden], for those that are in use."""
    hidden, count = shape_of(sides[0][0][0])[1], len(sides)

    def every() -> ir.Value:
        rows = [pen.reshaped(side[0][t], (1, 1, batch, hidden), f"y{t}_{i}")
                for t in range(steps) for i, side in enumerate(sides)]  # fmt: skip
        flat = rows[0] if len(rows) == 1 else pen.op("Concat", rows, (len(rows), 1, batch, hidden), "steps", axis=0)
        return pen.reshaped(flat, (steps, count, batch, hidden), "y")

    def last(index: int) -> Callable[[], ir.Value]:
        def make() -> ir.Value:
            rows = [pen.reshaped(states[index], (1, batch, hidden), f"last{index}_{i}")
                    for i, (_, states) in enumerate(sides)]  # fmt: skip
            return rows[0] if count == 1 else pen.op("Concat", rows, (count, batch, hidden), f"last{index}", axis=0)

        return make

    for output, make in zip(node.outputs, (every, last(0), last(1)), strict=False):
        if output.name and (output.uses() or output.is_graph_output()):
            pen.work.replace_output(output, "Identity", [make()], f"{node.name}_{output.name}", before=node)
