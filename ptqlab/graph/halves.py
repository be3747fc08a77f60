"""Half precision models are worked on in float32, so that no statistic overflows."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir

from ptqlab.errors import Finding, shorten
from ptqlab.graph.checks import proto_bodies, walk
from ptqlab.graph.files import Tensors

_HALF = frozenset({onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16})
# attributes that hold an element type
_TYPE_ATTRIBUTES = frozenset({"to", "dtype", "output_dtype", "stash_type"})


def widen_halves(proto: onnx.ModelProto, tensors: Tensors) -> list[Finding]:
    """Turn every float16 and bfloat16 of the model into float32: inputs, outputs, constants, casts; in place.

    The values of constants are unchanged; the model no longer rounds or overflows between nodes. The finding
    names the inputs and outputs whose type changed.
    """
    graph = proto.graph
    interface = [v.name for v in (*graph.input, *graph.output) if v.type.tensor_type.elem_type in _HALF]
    touched = _widen_infos(graph)
    for tensor in graph.initializer:
        if tensor.data_type in _HALF:
            touched += 1
            _widen_tensor(tensor, tensors)
    for node in walk(graph.node):
        for attribute in node.attribute:
            if attribute.HasField("t") and attribute.t.data_type in _HALF:
                touched += 1
                attribute.t.CopyFrom(onnx.numpy_helper.from_array(_numpy(attribute.t), attribute.t.name))
            if attribute.name in _TYPE_ATTRIBUTES and attribute.i in _HALF:
                touched += 1
                attribute.i = onnx.TensorProto.FLOAT
        for body in proto_bodies(node):
            touched += _widen_body(body)
    if not touched:
        return []
    if not interface:
        return [Finding("PTQ136", "Half precision inside the model is worked on in float32.", severity="note")]
    shown = ", ".join(f"'{shorten(n)}'" for n in dict.fromkeys(interface))
    text = (
        f"The model is in half precision; it is worked on in float32. Inputs and outputs that are float32 now: {shown}."
    )
    return [Finding("PTQ136", text, hint="give calibration data in float32 for these inputs", severity="note")]


def _widen_infos(graph: onnx.GraphProto) -> int:
    halves = [v for v in (*graph.input, *graph.output, *graph.value_info) if v.type.tensor_type.elem_type in _HALF]
    for value in halves:
        value.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    return len(halves)


def _widen_body(graph: onnx.GraphProto) -> int:
    halves = [t for t in graph.initializer if t.data_type in _HALF]
    for tensor in halves:
        tensor.CopyFrom(onnx.numpy_helper.from_array(_numpy(tensor), tensor.name))
    return len(halves) + _widen_infos(graph)


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
