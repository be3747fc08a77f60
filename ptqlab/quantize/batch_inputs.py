"""Splitting the batch of an input into inputs of their own, as pyramid and resizer inputs need it (documented).

Input `x` with batch N becomes `x_0` .. `x_<N-1>` [our definition of the names], each quantized alone and joined again.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from ptqlab.ops.integer import DOMAIN
from ptqlab.ops.node import shape
from ptqlab.quantize.rewrite import Rewriter
from ptqlab.stages.quantized import QuantizedModel


def with_separate_batch(quantized: QuantizedModel, names: Sequence[str]) -> QuantizedModel:
    """The model with each of these inputs split along axis 0; an input with batch 1 stays as it is."""
    work = Rewriter(quantized)
    for name in names:
        _split(work, name)
    return work.done()


def separated_names(name: str, batch: int) -> list[str]:
    """Names of the inputs that take the place of `name`."""
    return [f"{name}_{i}" for i in range(batch)]


def _split(work: Rewriter, name: str) -> None:
    index, old = next((i, v) for i, v in enumerate(work.graph.inputs) if v.name == name)
    batch, *rest = shape(old)
    if batch == 1:
        return
    parts = [
        ir.Value(name=work.fresh(part), shape=ir.Shape((1, *rest)), type=old.type)
        for part in separated_names(name, batch)
    ]
    work.graph.inputs[index : index + 1] = parts
    old.name = work.fresh(f"{name}_batch")
    for user, _ in list(old.uses()):
        if user.domain == DOMAIN and user.op_type == "Quantize":
            _join_codes(work, user, parts)
    if old.uses() or old.is_graph_output():
        assert old.dtype is not None
        joined = work.standard(
            "Concat",
            f"{name}_join",
            list(parts),
            {"axis": 0},
            name,
            (batch, *rest),
            old.dtype,
            next(iter(work.graph), None),
        )
        work.replace_uses(old, joined)


def _join_codes(work: Rewriter, quantizer: ir.Node, parts: Sequence[ir.Value]) -> None:
    out, scale = quantizer.outputs[0], quantizer.inputs[1]
    assert scale is not None and out.dtype is not None
    attributes = {a.name: a.value for a in quantizer.attributes.values()}
    codes = []
    for part in parts:
        codes.append(
            work.operator(
                "Quantize",
                f"{part.name}_quantize",
                {"x": part, "scale": scale},
                attributes,
                work.fresh(f"{part.name}_quantized"),
                shape(part),
                out.dtype,
                quantizer,
            )
        )
    name = str(out.name)
    out.name = work.fresh(f"{name}_replaced")
    joined = work.standard(
        "Concat", f"{name}_join", codes, {"axis": 0}, name, shape(out), out.dtype, quantizer
    )
    work.replace_uses(out, joined)
    work.graph.remove(quantizer, safe=True)
