"""Small runs in onnxruntime during loading and folding: what constants give, and what shapes come out."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime

from ptqlab.errors import Problem, PtqError, shorten
from ptqlab.graph.files import Tensors
from ptqlab.graph.session import raw_session, runtime_error

# a run with zeros is not worth more memory than this
RUN_LIMIT = 4 * 1024**3
# nor more time: a Loop may never end
RUN_SECONDS = 60.0


def run_constants(
    nodes: Iterable[onnx.NodeProto], wanted: Sequence[str], feeds: Mapping[str, np.ndarray], opset: int
) -> list[np.ndarray]:
    """Arrays of the tensors `wanted`, computed by `nodes` (in topological order) from constants.

    The constants enter as inputs, so nothing large is copied. PtqError when onnxruntime cannot run a node.
    """
    proto = onnx.ModelProto(ir_version=9)
    proto.opset_import.add(domain="", version=opset)
    proto.graph.name = "constants"
    for name, array in feeds.items():
        element = int(ir.DataType.from_numpy(array.dtype))
        proto.graph.input.append(onnx.helper.make_tensor_value_info(name, element, list(array.shape)))
    proto.graph.node.extend(nodes)
    proto.graph.output.extend(onnx.ValueInfoProto(name=n) for n in wanted)
    session = raw_session(proto.SerializeToString(), {}, optimise=False, threads=1, where="constants")
    return _run(session, wanted, feeds, "constants")


def run_with_zeros(
    proto: onnx.ModelProto, nodes: Sequence[onnx.NodeProto], tensors: Tensors, wanted: Sequence[str]
) -> dict[str, np.ndarray]:
    """Arrays of the tensors `wanted` when every input of `proto` is zero and its nodes are `nodes`.

    PtqError when the model is too large or does not end.
    """
    feeds: dict[str, np.ndarray] = {}
    inputs = {v.name: v.type.tensor_type for v in proto.graph.input}
    sizes = {n: [d.dim_value for d in t.shape.dim] for n, t in inputs.items()}
    dtypes = {n: ir.DataType(t.elem_type).numpy() for n, t in inputs.items()}
    if sum(math.prod(sizes[n]) * dtypes[n].itemsize for n in inputs) > RUN_LIMIT:
        limit = f"inputs of less than {RUN_LIMIT} bytes to find it by a run"
        raise _without_shape(wanted[0], "a shape that depends on data", limit)
    feeds = {n: np.zeros(sizes[n], dtypes[n]) for n in inputs}
    light = onnx.ModelProto()
    light.CopyFrom(proto)
    buffers: dict[str, np.ndarray] = {}
    for tensor in light.graph.initializer:
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            location = f"w{len(buffers)}"
            buffers[location] = np.ascontiguousarray(tensors[tensor.name].numpy()).reshape(-1).view(np.uint8)
            tensor.external_data[0].value = location
    del light.graph.node[:]
    light.graph.node.extend(nodes)
    del light.graph.value_info[:]
    del light.graph.output[:]
    light.graph.output.extend(onnx.ValueInfoProto(name=n) for n in wanted)
    session = raw_session(light.SerializeToString(), buffers, optimise=False, threads=1, where="the model")
    arrays = dict(zip(wanted, _run(session, wanted, feeds, "the model"), strict=True))
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray):
            raise _without_shape(name, "a sequence or optional", "a tensor")
    return arrays


def _run(
    session: onnxruntime.InferenceSession, wanted: Sequence[str], feeds: Mapping[str, np.ndarray], where: str
) -> list[np.ndarray]:
    options = onnxruntime.RunOptions()
    timer = threading.Timer(RUN_SECONDS, lambda: setattr(options, "terminate", True))
    timer.daemon = True
    timer.start()
    try:
        needed = {i.name for i in session.get_inputs()}
        return list(session.run(list(wanted), {n: a for n, a in feeds.items() if n in needed}, options))
    except Exception as error:
        if options.terminate:
            raise _without_shape(wanted[0], f"no result after {RUN_SECONDS:g} seconds", "a run that ends") from None
        raise runtime_error(error, where) from None
    finally:
        timer.cancel()


def _without_shape(name: str, found: str, expected: str) -> PtqError:
    hint = "cut the model before it with output_nodes"
    return PtqError(Problem("PTQ116", f"tensor '{shorten(name)}'", found, expected, hint), "Shape inference")
