"""Sin and Cos of many periods brought into one: r = x - 2 pi round(x / 2 pi), as nodes of the float model.

A code of an operand that reaches +-1000 rad stands for a large part of a period, and a table of 64 segments cannot
follow hundreds of waves. In one period the operand reaches +-pi and int8 codes lie 0.025 rad apart. The reduction
itself needs the whole range and must not be quantized: float32 in the vector unit of nash-b, nash-h and nash-p, the CPU
of platforms without one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx_ir as ir

from ptqlab.errors import Problem, PtqError, nearest, shorten
from ptqlab.graph.files import attach, read
from ptqlab.graph.names import unique
from ptqlab.graph.session import save_runnable

TITLE = "Reducing periods"
PERIODIC = ("Sin", "Cos")
# 2 pi = COARSE + FINE; COARSE has so few bits that a multiple of it up to 2^15 is exact in float32 (Cody and Waite)
COARSE = 6.28125
FINE = 2 * math.pi - COARSE


def reduce_periods(model: str | Path, nodes: Sequence[str] | None = None, *, output: str | Path) -> tuple[str, ...]:
    """Write `model` with the operand of Sin and Cos brought to -pi .. pi; returns the names of the new nodes.

    nodes   names of Sin and Cos nodes; None: all there are
    output  path of the new model, not that of the old one

    The values are those of the old model to float32 precision, for operands of up to 2^15 periods. The new nodes must
    not be quantized: name them in run_on_cpu, or as float32 in quant_config where the platform has a float unit.
    Raises PtqError with every problem of the call, and when onnxruntime does not open the result.
    """
    path, target = Path(model), Path(output)
    parsed = read(path)
    made = attach(parsed.proto, parsed.tensors)
    known = {str(n.name): n for n in made.graph if n.op_type in PERIODIC and n.domain in ("", "ai.onnx") and n.name}
    wanted = list(known) if nodes is None else list(dict.fromkeys(nodes))
    problems = [
        Problem("PTQ122", "nodes", repr(shorten(n)), f"a Sin or Cos: {', '.join(map(shorten, known)) or '(none)'}",
                f"did you mean {near[0]}?" if (near := nearest(n, known)) else "")
        for n in wanted if n not in known
    ]  # fmt: skip
    if not wanted:
        problems.append(Problem("PTQ122", str(path), "no Sin and no Cos that has a name", "one at least"))
    if target.resolve() == path.resolve():
        problems.append(Problem("PTQ122", "output", str(target), "another path than that of the model"))
    if problems:
        raise PtqError(problems, TITLE)
    added = _Reduction(made)
    for name in wanted:
        added.before(known[name])
    save_runnable(made, target)
    return tuple(added.names)


class _Reduction:
    """Inserts the nodes; an operand that several nodes share is reduced once."""

    def __init__(self, model: ir.Model) -> None:
        self.graph = model.graph
        self.taken = {str(v.name) for n in self.graph.all_nodes() for v in (*n.inputs, *n.outputs) if v is not None}
        self.taken |= {str(v.name) for v in self.graph.inputs} | set(self.graph.initializers)
        self.nodes = {str(n.name) for n in self.graph.all_nodes()}
        self.names: list[str] = []
        self._made: dict[ir.Value, ir.Value] = {}

    def before(self, node: ir.Node) -> None:
        x = node.inputs[0]
        assert x is not None, "ONNX wants an operand"
        if x not in self._made:
            turns = self._node(node, "Round", self._node(node, "Mul", x, 1 / (2 * math.pi)))
            rest = self._node(node, "Sub", x, self._node(node, "Mul", turns, COARSE))
            self._made[x] = self._node(node, "Sub", rest, self._node(node, "Mul", turns, FINE))
        node.replace_input_with(0, self._made[x])

    def _node(self, before: ir.Node, op: str, a: ir.Value, b: ir.Value | float | None = None) -> ir.Value:
        stem = f"{before.name}_period_{len(self.names)}"
        operands = [a]
        if isinstance(b, float):
            name = unique(f"{stem}_constant", self.taken)
            tensor = ir.tensor(np.float32(b), name=name)
            constant = ir.Value(name=name, shape=ir.Shape(()), type=ir.TensorType(tensor.dtype), const_value=tensor)
            self.graph.initializers[name] = constant
            operands.append(constant)
        elif b is not None:
            operands.append(b)
        node = ir.Node("", op, operands, name=unique(stem, self.nodes), num_outputs=1)
        out = node.outputs[0]
        out.name, out.shape, out.type = unique(f"{stem}_out", self.taken), a.shape, a.type
        self.graph.insert_before(before, node)
        self.names.append(str(node.name))
        return out
