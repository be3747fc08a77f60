"""Element types that can be worked with, and tensors that are produced exactly once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import onnx

from ptqlab.errors import Problem, nearest, shorten
from ptqlab.graph.checks import node_label, proto_bodies, walk

ARRAY_TYPES = {
    onnx.TensorProto.FLOAT: "float32",
    onnx.TensorProto.FLOAT16: "float16",
    onnx.TensorProto.BFLOAT16: "bfloat16",
    onnx.TensorProto.DOUBLE: "float64",
    onnx.TensorProto.BOOL: "bool",
    onnx.TensorProto.INT8: "int8",
    onnx.TensorProto.INT16: "int16",
    onnx.TensorProto.INT32: "int32",
    onnx.TensorProto.INT64: "int64",
    onnx.TensorProto.UINT8: "uint8",
    onnx.TensorProto.UINT16: "uint16",
    onnx.TensorProto.UINT32: "uint32",
    onnx.TensorProto.UINT64: "uint64",
}
ALLOWED_TYPES = "a tensor of float, integer or bool elements"


def check_types(proto: onnx.ModelProto) -> list[Problem]:
    """Inputs, constants and what bodies of If and Loop hold are arrays of numbers."""
    found = [*_wrong_interface(proto.graph), *_wrong_nodes(proto.graph)]
    return [Problem("PTQ112", where, what, ALLOWED_TYPES, hint) for where, what, hint in found]


def _wrong_interface(graph: onnx.GraphProto) -> Iterator[tuple[str, str, str]]:
    stored = {t.name for t in graph.initializer}
    for value in graph.input:
        kind, code = value.type.WhichOneof("value"), value.type.tensor_type.elem_type
        if value.name in stored or (kind == "tensor_type" and code in ARRAY_TYPES):
            continue
        what = f"tensor of {_type_name(code)}" if kind == "tensor_type" else (kind or "no type").removesuffix("_type")
        yield f"input '{shorten(value.name)}'", what, "cut the model behind it, or export it with a tensor there"
    for tensor in graph.initializer:
        if tensor.data_type not in ARRAY_TYPES:
            yield f"tensor '{shorten(tensor.name)}'", _type_name(tensor.data_type), ""
    for sparse in graph.sparse_initializer:
        yield f"tensor '{shorten(sparse.values.name)}'", "sparse", "store it densely"


def _wrong_nodes(graph: onnx.GraphProto) -> Iterator[tuple[str, str, str]]:
    for node in walk(graph.node):
        for body in proto_bodies(node):
            codes = {v.type.tensor_type.elem_type for v in (*body.input, *body.output, *body.value_info)} - {0}
            for code in sorted(codes | {t.data_type for t in body.initializer}):
                if code not in ARRAY_TYPES:
                    yield node_label(node), f"tensor of {_type_name(code)} in its body", ""
        for attribute in node.attribute:
            text = node.op_type == "Constant" and attribute.name.startswith("value_string")
            odd = attribute.HasField("t") and attribute.t.data_type not in ARRAY_TYPES
            if text or odd or attribute.HasField("sparse_tensor"):
                yield node_label(node), "a constant of text or sparse elements", ""


def _type_name(code: int) -> str:
    return (
        onnx.TensorProto.DataType.Name(code).lower() if code in onnx.TensorProto.DataType.values() else f"type {code}"
    )


def check_topology(proto: onnx.ModelProto) -> list[Problem]:
    """Every tensor that is read is produced, and produced once; outputs exist."""
    problems: list[Problem] = []
    graph = proto.graph
    outer: dict[str, str] = {}
    for name in [*(v.name for v in graph.input), *(t.name for t in graph.initializer)]:
        outer[name] = f"input '{shorten(name)}'"
    _check_scope(graph, outer, problems)
    twice = _repeated(v.name for v in graph.input) | _repeated(t.name for t in graph.initializer)
    problems.extend(
        Problem("PTQ110", f"tensor '{shorten(n)}'", "listed twice among the inputs or constants", "one of that name")
        for n in sorted(twice)
    )
    repeated = _repeated(v.name for v in graph.output)
    problems.extend(
        Problem("PTQ110", f"output '{shorten(n)}'", "listed twice among the outputs", "one output of that name")
        for n in sorted(repeated)
    )
    if not graph.output:
        problems.append(Problem("PTQ109", "the model", "no output", "at least one output"))
    return problems


def _check_scope(graph: onnx.GraphProto, outer: dict[str, str], problems: list[Problem]) -> None:
    here = dict(outer)
    for node in graph.node:
        for name in node.output:
            if not name:
                continue
            if name in here:
                problems.append(
                    Problem(
                        "PTQ110",
                        f"tensor '{shorten(name)}'",
                        f"produced by {node_label(node)} and by {here[name]}",
                        "one producer for each tensor",
                    )
                )
            here.setdefault(name, node_label(node))
    for node in graph.node:
        for index, name in enumerate(node.input):
            if name and name not in here:
                problems.append(
                    Problem(
                        "PTQ109",
                        node_label(node),
                        f"input {index} reads tensor '{shorten(name)}', which nothing produces",
                        "an input, a constant or the output of a node",
                        _near(name, here),
                    )
                )
        for body in proto_bodies(node):
            inner = dict(here)
            for name in [*(v.name for v in body.input), *(t.name for t in body.initializer)]:
                inner.setdefault(name, f"input '{shorten(name)}' of a body")
            _check_scope(body, inner, problems)
    for value in graph.output:
        if value.name not in here:
            problems.append(
                Problem(
                    "PTQ109",
                    f"output '{shorten(value.name)}'",
                    "nothing produces it",
                    "an input, a constant or the output of a node",
                    _near(value.name, here),
                )
            )


def _near(name: str, known: Iterable[str]) -> str:
    near = nearest(name, known)
    return f"nearest names: {', '.join(shorten(n) for n in near)}" if near else ""


def _repeated(names: Iterable[str]) -> set[str]:
    seen: set[str] = set()
    return {n for n in names if n in seen or seen.add(n)}  # type: ignore[func-returns-value]
