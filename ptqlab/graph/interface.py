"""Inputs and outputs of the model: which there are, static shapes, cutting at chosen nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx

from ptqlab.errors import Finding, Problem, nearest, raise_if, shorten
from ptqlab.graph.names import reads

TITLE = "Loading the model"


def drop_listed_initializers(graph: onnx.GraphProto) -> None:
    """Old exporters list every constant among the inputs, too; a constant is no input."""
    stored = {t.name for t in graph.initializer}
    kept = [v for v in graph.input if v.name not in stored]
    if len(kept) < len(graph.input):
        kept = [onnx.ValueInfoProto.FromString(v.SerializeToString()) for v in kept]
        del graph.input[:]
        graph.input.extend(kept)


def fix_shapes(graph: onnx.GraphProto, shapes: Mapping[str, Sequence[int]] | None) -> list[Problem]:
    """Make every input static, in place; `shapes` (input name -> sizes) fills what the file leaves open."""
    shapes = dict(shapes or {})
    names = [v.name for v in graph.input]
    if list(shapes) == [""] and len(names) == 1:  # the only input may go unnamed
        shapes = {names[0]: shapes[""]}
    problems = []
    for name in shapes:
        if name not in names:
            near = nearest(name, names)
            problems.append(
                Problem(
                    "PTQ115",
                    f"input_shape of '{shorten(name)}'",
                    "no input of that name",
                    f"{'nearest' if near else 'inputs'}: {', '.join(shorten(n) for n in near or names)}",
                )
            )
    for value in graph.input:
        if not value.type.HasField("tensor_type"):
            continue  # refused with the types
        problem = _fix(value, shapes.get(value.name))
        if problem is not None:
            problems.append(problem)
    return problems


def _fix(value: onnx.ValueInfoProto, given: Sequence[int] | None) -> Problem | None:
    tensor = value.type.tensor_type
    stated = [d.dim_value if d.dim_value > 0 else None for d in tensor.shape.dim] if tensor.HasField("shape") else None
    words = _words(value)
    where = f"input '{shorten(value.name)}'"
    if given is None:
        if stated is not None and None not in stated:
            return None
        example = "x".join(str(d or 1) for d in stated) if stated is not None else "1x3x224x224"
        return Problem(
            "PTQ114",
            where,
            f"dynamic shape {words}",
            "sizes for every dimension",
            f"set input_shape, for example {example} (-i {shorten(value.name)} {example})",
        )
    sizes = [int(d) for d in given]
    if any(d < 1 for d in sizes):
        return Problem(
            "PTQ115", f"input_shape of '{shorten(value.name)}'", "x".join(map(str, sizes)), "sizes of 1 or more"
        )
    if stated is not None and len(sizes) != len(stated):
        return Problem(
            "PTQ115",
            f"input_shape of '{shorten(value.name)}'",
            f"{'x'.join(map(str, sizes))} ({len(sizes)} dimensions)",
            f"{len(stated)} dimensions, as {words} in the model",
        )
    if stated is not None and any(s is not None and s != d for s, d in zip(stated, sizes, strict=True)):
        return Problem(
            "PTQ115",
            f"input_shape of '{shorten(value.name)}'",
            "x".join(map(str, sizes)),
            f"the fixed sizes of the model, {words}",
            "export the model with dynamic sizes to change them",
        )
    tensor.shape.ClearField("dim")
    for size in sizes:
        tensor.shape.dim.add(dim_value=size)
    return None


def _words(value: onnx.ValueInfoProto) -> str:
    tensor = value.type.tensor_type
    if not tensor.HasField("shape"):
        return "of unknown rank"
    return (
        "["
        + ",".join(str(d.dim_value) if d.dim_value > 0 else shorten(d.dim_param) or "?" for d in tensor.shape.dim)
        + "]"
    )


def cut_outputs(graph: onnx.GraphProto, output_nodes: Sequence[str], aliases: Mapping[str, str]) -> list[Finding]:
    """The outputs of `output_nodes`, in that order, become the outputs; what they do not need goes, in place."""
    by_name = {n.name: n for n in graph.node}
    problems = []
    chosen: list[str] = []
    for name in output_nodes:
        node = by_name.get(aliases.get(name, name))
        if node is None:
            near = nearest(name, by_name)
            problems.append(
                Problem(
                    "PTQ118",
                    f"output_nodes: '{shorten(name)}'",
                    "no node of that name",
                    f"nearest: {', '.join(shorten(n) for n in near)}" if near else "names of nodes",
                )
            )
        else:
            chosen.extend(o for o in node.output if o and o not in chosen)
    raise_if(problems, TITLE)
    kept = {v.name: v.SerializeToString() for v in (*graph.value_info, *graph.output)}
    outputs = [onnx.ValueInfoProto.FromString(kept[n]) if n in kept else onnx.ValueInfoProto(name=n) for n in chosen]
    del graph.output[:]
    graph.output.extend(outputs)
    before = len(graph.node)
    needed, nodes = set(chosen), []
    for node in reversed(graph.node):
        if needed.intersection(node.output):
            nodes.append(onnx.NodeProto.FromString(node.SerializeToString()))
            needed.update(reads(node))
    del graph.node[:]
    graph.node.extend(reversed(nodes))
    return [
        Finding(
            "PTQ139",
            f"Cut at output_nodes: {len(chosen)} outputs, {before - len(nodes)} of {before} nodes left out.",
            severity="note",
        )
    ]


def unused_inputs(graph: onnx.GraphProto) -> list[Finding]:
    """Inputs that feed nothing stay in the interface and are told."""
    used = {n for node in graph.node for n in reads(node)} | {v.name for v in graph.output}
    return [
        Finding(
            "PTQ133",
            f"Input '{shorten(v.name)}' feeds nothing; it stays in the interface, its data are ignored.",
            hint="export the model without it",
        )
        for v in graph.input
        if v.name not in used
    ]
