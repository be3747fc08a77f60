"""Models to protobuf and to disk: one assembly, with the weights inside, beside, or left out."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO

import onnx
import onnx_ir as ir
from onnx_ir import serde

from ptqlab.graph.model import sizes

Placer = Callable[[str, ir.TensorProtocol], onnx.TensorProto | None]

# protobuf cannot hold 2 GiB; leave room for the graph itself
INSIDE_LIMIT = 2 * 1024**3 - 64 * 1024**2
# mapping granularity: external tensors start at multiples of this, so that they can be mapped one by one
ALIGNMENT = 4096
SMALL = 1024


def assemble(
    model: ir.Model, place: Placer, outputs: Sequence[ir.Value] | None = None, *, notes: bool = True
) -> onnx.ModelProto:
    """The model as protobuf; `place(name, tensor)` gives the form of each initializer, None leaves it out.

    outputs  tensors that are the outputs instead of the model's own; their types must be known
    notes    write type and shape of inner tensors
    The same model gives the same bytes.
    """
    proto = onnx.ModelProto(
        ir_version=model.ir_version,
        producer_name=model.producer_name or "",
        producer_version=model.producer_version or "",
    )
    if model.doc_string:
        proto.doc_string = model.doc_string
    for domain, version in sorted(model.opset_imports.items()):
        proto.opset_import.add(domain=domain, version=version)
    for key, text in sorted(model.metadata_props.items()):
        proto.metadata_props.add(key=key, value=text)
    source, graph = model.graph, proto.graph
    graph.name = source.name or "graph"
    for value in source.inputs:
        serde.serialize_value_into(graph.input.add(), value)
    for name, value in source.initializers.items():
        assert value.const_value is not None, f"initializer {name!r} has no contents"
        placed = place(name, value.const_value)
        if placed is not None:
            graph.initializer.append(placed)
    chosen = list(source.outputs if outputs is None else outputs)
    chosen_names = {v.name for v in chosen}
    for node in source:
        serde.serialize_node_into(graph.node.add(), node)
        for value in node.outputs:
            if notes and value.name and value.type is not None and value.name not in chosen_names:
                serde.serialize_value_into(graph.value_info.add(), value)
    for value in chosen:
        serde.serialize_value_into(graph.output.add(), value)
    for function in model.functions.values():
        serde.serialize_function_into(proto.functions.add(), function, create_value_info=model.ir_version >= 10)
    return proto


def embed(name: str, tensor: ir.TensorProtocol) -> onnx.TensorProto:
    """A tensor with its bytes inside, wherever they come from."""
    if tensor.dtype == ir.DataType.STRING:
        proto = serde.serialize_tensor(tensor)
        proto.name = name
        return proto
    return onnx.TensorProto(name=name, data_type=int(tensor.dtype), dims=sizes(tensor.shape), raw_data=tensor.tobytes())


def refer(name: str, tensor: ir.TensorProtocol, location: str, offset: int) -> onnx.TensorProto:
    """A tensor whose bytes stand in the file `location`."""
    proto = onnx.TensorProto(
        name=name,
        data_type=int(tensor.dtype),
        dims=sizes(tensor.shape),
        data_location=onnx.TensorProto.EXTERNAL,
    )
    for key, text in (("location", location), ("offset", str(offset)), ("length", str(tensor.nbytes))):
        proto.external_data.add(key=key, value=text)
    return proto


def to_proto(model: ir.Model) -> onnx.ModelProto:
    """The whole model as one protobuf, weights inside."""
    return assemble(model, embed)


def save(model: ir.Model, path: str | Path, *, inside_limit: int = INSIDE_LIMIT) -> Path:
    """Write the model to `path`, all or nothing; returns the path.

    Weights of more than `inside_limit` bytes in sum go to `<file>.data` beside it, which is written first.
    """
    path = Path(path)
    total = sum(v.const_value.nbytes for v in model.graph.initializers.values() if v.const_value is not None)
    if total <= inside_limit:
        _write(path, lambda handle: handle.write(to_proto(model).SerializeToString(deterministic=True)))
        return path
    data_name = path.name + ".data"
    offsets: dict[str, int] = {}

    def write_data(handle: BinaryIO) -> None:
        position = 0
        for name, value in model.graph.initializers.items():
            tensor = value.const_value
            assert tensor is not None
            if tensor.nbytes <= SMALL:
                continue
            padding = -position % ALIGNMENT
            handle.write(b"\0" * padding)
            offsets[name] = position + padding
            handle.write(memoryview(tensor.tobytes()))
            position = offsets[name] + tensor.nbytes

    _write(path.with_name(data_name), write_data)
    proto = assemble(model, lambda n, t: refer(n, t, data_name, offsets[n]) if n in offsets else embed(n, t))
    _write(path, lambda handle: handle.write(proto.SerializeToString(deterministic=True)))
    return path


def _write(path: Path, fill: Callable[[BinaryIO], object]) -> None:
    """Fill a temporary file in the same folder, then put it in place; nothing is left behind on failure."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as handle:
            fill(handle)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
