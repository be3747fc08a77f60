"""Half precision models are worked on in float32, so that no statistic overflows."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import onnx
import onnx_ir as ir

from ptqlab.errors import Finding, shorten
from ptqlab.graph.checks import walk
from ptqlab.graph.files import Tensors

_HALF = {onnx.TensorProto.FLOAT16: "float16", onnx.TensorProto.BFLOAT16: "bfloat16"}
# attributes that hold an element type
_TYPE_ATTRIBUTES = frozenset({"to", "dtype", "output_dtype", "stash_type"})


def widen_halves(proto: onnx.ModelProto, tensors: Tensors) -> list[Finding]:
    """Turn every float16 and bfloat16 of the model into float32: inputs, outputs, constants, casts; in place.

    The values of constants are unchanged; the model no longer rounds or overflows between nodes. The finding
    names the inputs and outputs whose type changed.
    """
    changed: list[str] = []
    for value in _infos(proto.graph):
        if value.type.tensor_type.elem_type in _HALF:
            if any(value is v for v in (*proto.graph.input, *proto.graph.output)):
                pass
            changed.append(value.name)
            value.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    touched = bool(changed)
    for tensor in proto.graph.initializer:
        if tensor.data_type in _HALF:
            touched = True
            _widen_tensor(tensor, tensors)
    for node in walk(proto.graph.node):
        for attribute in node.attribute:
            if attribute.HasField("t") and attribute.t.data_type in _HALF:
                touched = True
                attribute.t.CopyFrom(onnx.numpy_helper.from_array(_numpy(attribute.t), attribute.t.name))
            if attribute.name in _TYPE_ATTRIBUTES and attribute.i in _HALF:
                touched = True
                attribute.i = onnx.TensorProto.FLOAT
            if attribute.HasField("g"):
                _widen_body(attribute.g)
    if not touched:
        return []
    interface = {v.name for v in (*proto.graph.input, *proto.graph.output)}
    shown = ", ".join(f"'{shorten(n)}'" for n in dict.fromkeys(changed) if n in interface)
    ends = f" Inputs and outputs that are float32 now: {shown}." if shown else ""
    return [
        Finding(
            "PTQ136",
            f"The model is in half precision; it is worked on in float32.{ends}",
            hint="give calibration data in float32 for these inputs",
            severity="note",
        )
    ]


def _infos(graph: onnx.GraphProto) -> Iterable[onnx.ValueInfoProto]:
    yield from graph.input
    yield from graph.output
    yield from graph.value_info


def _widen_body(graph: onnx.GraphProto) -> None:
    for value in _infos(graph):
        if value.type.tensor_type.elem_type in _HALF:
            value.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    for tensor in graph.initializer:
        if tensor.data_type in _HALF:
            tensor.CopyFrom(onnx.numpy_helper.from_array(_numpy(tensor), tensor.name))


def _numpy(tensor: onnx.TensorProto) -> np.ndarray:
    return np.asarray(onnx.numpy_helper.to_array(tensor), np.float32)


def _widen_tensor(tensor: onnx.TensorProto, tensors: Tensors) -> None:
    """Both the protobuf entry (contents or reference) and the array behind it."""
    wide = ir.Tensor(tensors[tensor.name].numpy().astype(np.float32), name=tensor.name)
    tensors[tensor.name] = wide
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        tensor.data_type = onnx.TensorProto.FLOAT
    else:
        tensor.CopyFrom(onnx.numpy_helper.from_array(wide.numpy(), tensor.name))
