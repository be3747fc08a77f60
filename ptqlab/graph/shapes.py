"""Types and shapes of every tensor: inferred by the standard's rules, by a run where the rules end."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from ptqlab.errors import Finding, Problem, PtqError, shorten
from ptqlab.graph.files import Tensors, attach
from ptqlab.graph.session import raw_session, runtime_error

TITLE = "Shape inference"
_FAILED = re.compile(r"\(op_type:([^,]*), node name: (.*?)\): (.*)")
# a run with zeros is not worth more memory than this
_RUN_LIMIT = 4 * 1024**3

Types = dict[str, tuple[int, tuple[int | None, ...] | None]]


class ShapeInferenceError(PtqError):
    """Shapes that do not fit together. `.model` is the model as far as it came, to be saved for diagnosis."""

    model: ir.Model | None = None


def infer(proto: onnx.ModelProto, tensors: Tensors) -> list[Finding]:
    """Write type and shape of every node output into value_info and outputs, in place.

    Stated shapes are not trusted: they are dropped first and compared afterwards. Inputs must be static.
    Raises ShapeInferenceError naming the node and the shapes of its inputs.
    """
    graph = proto.graph
    stated = _shapes([*graph.value_info, *graph.output])
    del graph.value_info[:]
    for output in graph.output:
        output.ClearField("type")
    findings: list[Finding] = []
    try:
        inferred = _infer(proto, strict=True)
    except onnx.shape_inference.InferenceError as error:
        inferred = _infer(proto, strict=False)
        refused = _inference_error(str(error), proto, _known(inferred), tensors)
        try:
            _build(proto, tensors, [])
        except PtqError:
            raise refused from None
        findings.append(
            Finding(
                "PTQ135", f"Shape inference failed, but the model runs: {refused.problems[0].found}", severity="note"
            )
        )
    known = _known(inferred)
    gaps = [o for node in graph.node for o in node.output if o and not _complete(known.get(o))]
    if gaps:
        known.update(_run(proto, tensors, gaps))
        owners = tuple(n.name for n in graph.node if set(n.output) & set(gaps))
        findings.append(
            Finding(
                "PTQ135",
                f"The shapes of {len(gaps)} tensors depend on data; they were taken from a run with zeros.",
                owners,
                "see that these shapes are the same for every input",
            )
        )
    outputs = {o.name for o in graph.output}
    for node in graph.node:
        for name in node.output:
            if name and name not in outputs:
                _set(graph.value_info.add(name=name), known[name])
    inputs = _shapes(graph.input) | {t.name: (t.data_type, tuple(t.dims)) for t in graph.initializer}
    for output in graph.output:
        _set(output, known[output.name] if output.name in known else inputs[output.name])
    findings.extend(_lies(stated, known))
    return findings


def _infer(proto: onnx.ModelProto, *, strict: bool) -> onnx.ModelProto:
    """The standard's inference; constants that were taken out of the protobuf take part as inputs."""
    light = onnx.ModelProto()
    light.CopyFrom(proto)
    kept = [t for t in proto.graph.initializer if t.data_location != onnx.TensorProto.EXTERNAL]
    for tensor in proto.graph.initializer:
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            light.graph.input.append(
                onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims))
            )
    del light.graph.initializer[:]
    light.graph.initializer.extend(kept)
    return onnx.shape_inference.infer_shapes(light, check_type=strict, strict_mode=strict, data_prop=True)


def _shapes(values: Iterable[onnx.ValueInfoProto]) -> Types:
    found: Types = {}
    for value in values:
        tensor = value.type.tensor_type
        if value.type.HasField("tensor_type"):
            dims = tuple(d.dim_value if d.HasField("dim_value") else None for d in tensor.shape.dim)
            found[value.name] = tensor.elem_type, dims if tensor.HasField("shape") else None
    return found


def _known(inferred: onnx.ModelProto) -> Types:
    return _shapes([*inferred.graph.value_info, *inferred.graph.output])


def _complete(entry: tuple[int, tuple[int | None, ...] | None] | None) -> bool:
    return entry is not None and entry[0] != 0 and entry[1] is not None and None not in entry[1]


def _set(value: onnx.ValueInfoProto, entry: tuple[int, tuple[int | None, ...] | None]) -> None:
    code, dims = entry
    assert dims is not None, f"no shape of {value.name!r}"
    value.type.CopyFrom(onnx.helper.make_tensor_type_proto(code, list(dims)))


def _lies(stated: Types, known: Types) -> list[Finding]:
    """Shapes and types in the file that contradict what the nodes compute."""
    wrong = []
    for name, (code, dims) in stated.items():
        if name not in known:
            continue
        true_code, true = known[name]
        assert true is not None
        other = dims is not None and (
            len(dims) != len(true) or any(d not in (None, 0, t) for d, t in zip(dims, true, strict=True))
        )
        if other or code not in (0, true_code):
            wrong.append(
                f"'{shorten(name)}' stated {_words(dims)}, is {_words(true)}"
                if other
                else f"'{shorten(name)}' stated with another type"
            )
    if not wrong:
        return []
    more = f", and {len(wrong) - 5} more" if len(wrong) > 5 else ""
    return [
        Finding(
            "PTQ134",
            f"The file states shapes that are wrong; the computed ones count: {'; '.join(wrong[:5])}{more}.",
            hint="export the model again",
        )
    ]


def _words(dims: tuple[int | None, ...] | None) -> str:
    return "no shape" if dims is None else "[" + ",".join("?" if d is None else str(d) for d in dims) + "]"


def _inference_error(text: str, proto: onnx.ModelProto, known: Types, tensors: Tensors) -> ShapeInferenceError:
    """One problem for each node the inference complains of, with the shapes it reads."""
    known = known | _shapes(proto.graph.input)
    known.update({t.name: (t.data_type, tuple(t.dims)) for t in proto.graph.initializer})
    nodes = {n.name: n for n in proto.graph.node}
    problems = []
    for op_type, name, reason in _FAILED.findall(text):
        node = nodes.get(name)
        shapes = (
            ", ".join(f"'{shorten(i)}' {_words(known[i][1] if i in known else None)}" for i in node.input if i)
            if node
            else ""
        )
        problems.append(
            Problem(
                "PTQ116",
                f"node '{shorten(name)}' ({shorten(op_type)})",
                f"inputs {shapes}: {_reason(reason)}",
                "inputs whose types and shapes fit together",
                "look at the node in shape_inference_fail.onnx",
            )
        )
    if not problems:
        problems.append(Problem("PTQ116", "the model", _reason(text), "types and shapes that fit together"))
    error = ShapeInferenceError(problems, TITLE)
    error.model = attach(proto, tensors)
    return error


def _reason(text: str) -> str:
    return shorten(re.sub(r"\[\w*Error\]\s*", "", text), 300)


def _build(proto: onnx.ModelProto, tensors: Tensors, outputs: list[str]) -> Any:
    """An onnxruntime session without any rewriting; `outputs` are computed beside the model's own."""
    light = onnx.ModelProto()
    light.CopyFrom(proto)
    buffers: dict[str, np.ndarray] = {}
    for tensor in light.graph.initializer:
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            location = f"w{len(buffers)}"
            buffers[location] = np.ascontiguousarray(tensors[tensor.name].numpy()).reshape(-1).view(np.uint8)
            tensor.external_data[0].value = location
    present = {o.name for o in light.graph.output}
    light.graph.output.extend(onnx.ValueInfoProto(name=n) for n in outputs if n not in present)
    return raw_session(light.SerializeToString(), buffers, optimise=False, threads=1, where="the model")


def _run(proto: onnx.ModelProto, tensors: Tensors, gaps: list[str]) -> Types:
    """Types and shapes of `gaps` from one run with zeros."""
    inputs: dict[str, tuple[np.dtype, list[int]]] = {}
    for value in proto.graph.input:
        tensor = value.type.tensor_type
        inputs[value.name] = ir.DataType(tensor.elem_type).numpy(), [d.dim_value for d in tensor.shape.dim]
    if sum(dtype.itemsize * math.prod(dims) for dtype, dims in inputs.values()) > _RUN_LIMIT:
        limit = f"inputs of less than {_RUN_LIMIT} bytes to find it by a run"
        raise _without_shape(gaps[0], "a shape that depends on data", limit)
    session = _build(proto, tensors, gaps)
    try:
        results = session.run(gaps, {n: np.zeros(dims, dtype) for n, (dtype, dims) in inputs.items()})
    except Exception as error:
        raise ShapeInferenceError(runtime_error(error, "the model").problems, TITLE) from None
    found: Types = {}
    for name, array in zip(gaps, results, strict=True):
        if not isinstance(array, np.ndarray):
            raise _without_shape(name, "a sequence or optional", "a tensor")
        found[name] = int(ir.DataType.from_numpy(array.dtype)), array.shape
    return found


def _without_shape(name: str, found: str, expected: str) -> ShapeInferenceError:
    hint = "cut the model before it with output_nodes"
    return ShapeInferenceError(Problem("PTQ116", f"tensor '{shorten(name)}'", found, expected, hint), TITLE)
