"""A Transpose in front of an input, for those who feed images the other way round (the FAQ's recipe as one call)."""

from __future__ import annotations

from pathlib import Path

import onnx_ir as ir

from ptqlab.errors import Problem, PtqError, nearest, shorten
from ptqlab.graph.files import attach, read
from ptqlab.graph.names import unique
from ptqlab.graph.session import save_runnable

#: layout of the new input -> perm of the Transpose that gives the model what it had
PERMS = {"NHWC": [0, 3, 1, 2], "NCHW": [0, 2, 3, 1]}
TITLE = "Inserting a Transpose"


def insert_transpose(model: str | Path, input: str, to: str = "NHWC", *, output: str | Path) -> Path:
    """Write `model` with a Transpose behind one of its inputs, which is then fed in layout `to`; returns `output`.

    input   name of a 4-D input; it keeps its name, its type and its sizes, in the new order
    to      "NHWC" for a model that has NCHW, "NCHW" for one that has NHWC
    output  path of the new model, not that of the old one

    The rest of the model is as it was. What feeds the input - calibration data as well - must be transposed, too.
    Raises PtqError with every problem of the call, and when onnxruntime does not open the result.
    """
    path, target = Path(model), Path(output)
    parsed = read(path)
    made = attach(parsed.proto, parsed.tensors)
    inputs = {str(v.name): v for v in made.graph.inputs if v.name not in made.graph.initializers}
    problems = []
    if to not in PERMS:
        problems.append(Problem("PTQ121", "to", repr(shorten(to)), " or ".join(PERMS)))
    if target.resolve() == path.resolve():
        problems.append(Problem("PTQ121", "output", str(target), "another path than that of the model"))
    if input not in inputs:
        near = nearest(input, inputs)
        problems.append(
            Problem("PTQ121", "input", repr(shorten(input)), f"one of {', '.join(map(shorten, inputs))}",
                    f"did you mean {near[0]}?" if near else "")
        )  # fmt: skip
    elif (shape := inputs[input].shape) is None or len(shape) != 4:
        found = "an unknown shape" if shape is None else f"{len(shape)} dimensions"
        problems.append(Problem("PTQ121", f"input '{shorten(input)}'", found, "4 dimensions"))
    elif inputs[input].is_graph_output():
        problems.append(
            Problem("PTQ121", f"input '{shorten(input)}'", "it is an output of the model as well", "an input alone")
        )
    if problems:
        raise PtqError(problems, TITLE)
    _insert(made, inputs[input], PERMS[to])
    save_runnable(made, target)
    return target


def _insert(model: ir.Model, old: ir.Value, perm: list[int]) -> None:
    """Put a new input of the same name before `old`, which becomes the result of the Transpose."""
    graph = model.graph
    taken = {str(v.name) for n in graph.all_nodes() for v in (*n.inputs, *n.outputs) if v is not None}
    taken |= {str(v.name) for v in graph.inputs} | set(graph.initializers)
    nodes = {str(n.name) for n in graph.all_nodes()}
    name = str(old.name)
    assert old.shape is not None
    sizes: list[int | str | ir.SymbolicDim] = [old.shape[0]] * 4
    for index, axis in enumerate(perm):
        sizes[axis] = old.shape[index]
    fed = ir.Value(name=name, shape=ir.Shape(sizes), type=old.type, doc_string=old.doc_string)
    transpose = ir.Node("", "Transpose", [fed], [ir.AttrInt64s("perm", perm)], name=unique(f"{name}_transpose", nodes))
    result = transpose.outputs[0]
    result.name, result.shape, result.type = unique(f"{name}_transposed", taken), old.shape, old.type
    for user, index in list(old.uses()):
        user.replace_input_with(index, result)
    graph.inputs[list(graph.inputs).index(old)] = fed
    first = next(iter(graph), None)
    if first is None:
        graph.append(transpose)
    else:
        graph.insert_before(first, transpose)
