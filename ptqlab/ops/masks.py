"""Masks: stand-ins for minus infinity that tell a Softmax to leave positions out.

They would be the largest numbers of their tensor, and an int8 step that holds -1e9 holds nothing else. So they never
enter a threshold: in what calibration sees, they are replaced by a value MASKED below the largest of their row, and the
integer tensor holds them at its lowest code. Measured: with 6 to 10 below the row's maximum an int8 Softmax gives 0
for what is masked and keeps its steps for the rest.
"""
from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import onnx_ir as ir

from ptqlab.errors import Finding
from ptqlab.ops.node import attribute, constant, shape
from ptqlab.ops.spec import Encoding, Lowering

# e^-8 is a third of a step of 1/127 below half a step: masked positions come out as 0 in int8
MASKED = 8.0
# constants from here on are no learned bias in front of a Softmax (Swin masks with -100)
CONSTANT_MASK = -30.0
# so far below its row, a value that is computed is a mask too: e^-60 of a probability is lost in any arithmetic
COMPUTED_MASK = -60.0
# a row with no value above this holds nothing but masked positions (BERT masks with -10000)
EMPTY = -1e3
SOFTMAX = ("Softmax", "LogSoftmax")
MOVERS = frozenset({"Reshape", "Transpose", "Squeeze", "Unsqueeze", "Identity", "Slice"})


def is_mask(array: np.ndarray) -> bool:
    """Whether a constant holds masked positions: far below zero, with nothing far above it."""
    if array.dtype.kind != "f" or not array.size:
        return False
    return bool(array.min() <= CONSTANT_MASK and array.max() < -CONSTANT_MASK)


def masked_tensors(nodes: Iterable[ir.Node]) -> dict[str, float]:
    """Tensors in front of a Softmax that may hold masked positions -> how far below its row a masked value lies."""
    found: dict[str, float] = {}
    for node in nodes:
        if node.op_type not in SOFTMAX:
            continue
        rank = len(shape(node.inputs[0]))
        if attribute(node, "axis", -1) % rank != rank - 1:
            continue
        value, behind = node.inputs[0], []
        while value is not None and (maker := value.producer()) is not None:
            if maker.op_type in ("Where", "Add") and value.name:
                # a mask may stand two Adds before the Softmax, in front of a position bias
                behind.append(value.name)
                if any(is_mask(a) for v in maker.inputs if (a := constant(v)) is not None):
                    found.update(dict.fromkeys(behind, -CONSTANT_MASK))
                found.setdefault(value.name, -COMPUTED_MASK)
            elif maker.op_type not in MOVERS:
                break
            value = next((v for v in maker.inputs if constant(v) is None and v is not None
                          and v.dtype == ir.DataType.FLOAT), None)
    return found


def without_masks(values: np.ndarray, distance: float) -> np.ndarray:
    """Values with what is more than `distance` below the largest of its row (last axis) raised to MASKED below it.

    A row without a value above EMPTY is all masked, and becomes zeros.
    """
    rows = values.max(axis=-1, keepdims=True, initial=-np.inf)
    empty = ~(rows > EMPTY)
    rows = np.where(empty, np.float32(0), rows)
    far = values < rows - np.float32(distance)
    return np.where(empty, np.float32(0), np.where(far, rows - np.float32(MASKED), values))


def tell_mask(ctx: Lowering, node: ir.Node, array: np.ndarray, out: Encoding) -> None:
    """Report a constant that masks positions, where the output's integers cannot hold it.

    What is added to every position alike, such as a mean that is taken off, masks none.
    """
    lowest = (out.low - out.zero_point) * float(out.scale)
    if not is_mask(array) or float(array.min()) >= lowest:
        return
    if node.op_type != "Where" and float(array.max()) <= CONSTANT_MASK:
        return
    ctx.report(Finding(
        "PTQ512",
        f"{node.op_type} {node.name}: its mask of {float(array.min()):.4g} is held as {lowest:.4g}, the lowest code; "
        "the mask did not set the threshold",
        (str(node.name),),
        f"in front of a Softmax the lowest code is {MASKED:g} or more below the largest value of every row, and masked "
        "positions come out as 0; nothing has to be done",
        "note",
    ))
