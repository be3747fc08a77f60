"""From what the user gives to a parsed protobuf and its weights; hostile until checked."""
from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir

from ptqlab.errors import Problem, PtqError, raise_if, shorten
from ptqlab.graph.saving import SMALL, assemble, refer

PROTOBUF_LIMIT = 2 * 1024**3
TITLE = "Loading the model"
Tensors = dict[str, ir.TensorProtocol]

# bytes per element of the types whose stored length can be checked; the 4-bit types are packed
_KNOWN_TYPES = {int(t) for t in ir.DataType if t not in (ir.DataType.UNDEFINED, ir.DataType.STRING)}
_TYPED_FIELDS = {
    onnx.TensorProto.FLOAT: "float_data", onnx.TensorProto.COMPLEX64: "float_data",
    onnx.TensorProto.DOUBLE: "double_data", onnx.TensorProto.COMPLEX128: "double_data",
    onnx.TensorProto.INT64: "int64_data", onnx.TensorProto.UINT32: "uint64_data", onnx.TensorProto.UINT64: "uint64_data",
}


@dataclass
class Parsed:
    """A protobuf without the bytes of its large weights, the weights by name, and where it came from."""

    proto: onnx.ModelProto
    tensors: Tensors
    path: Path | None


def read(source: str | os.PathLike[str] | bytes | onnx.ModelProto | ir.Model) -> Parsed:
    """Parse a path, bytes, a ModelProto or an onnx_ir model. The source is left as it is.

    PtqError: no such file, wrong suffix, no ONNX model, weights that are missing, outside the model's folder or
    of a wrong length (all of them at once).
    """
    if isinstance(source, ir.Model):
        tensors = {name: v.const_value for name, v in source.graph.initializers.items() if v.const_value is not None}
        large = {name for name, tensor in tensors.items() if tensor.nbytes > SMALL}
        proto = assemble(source, lambda n, t: refer(n, t, "", 0) if n in large else ir.serde.serialize_tensor(t))
        return Parsed(proto, tensors, None)
    if isinstance(source, onnx.ModelProto):
        proto = onnx.ModelProto()
        proto.CopyFrom(source)
        return _with_tensors(proto, None)
    if isinstance(source, bytes):
        return _with_tensors(_parse(source, "the given bytes"), None)
    path = Path(source)
    return _with_tensors(_parse(_read_bytes(path), str(path)), path)


def _read_bytes(path: Path) -> bytes:
    where = shorten(path)
    if path.suffix.lower() in (".caffemodel", ".prototxt"):
        raise PtqError(Problem("PTQ102", where, "a Caffe model", "an ONNX model (.onnx)",
                               "convert it to ONNX first; Caffe is not read yet"), TITLE)
    if path.suffix.lower() != ".onnx":
        raise PtqError(Problem("PTQ102", where, f"suffix '{shorten(path.suffix)}'", "an ONNX model (.onnx)"), TITLE)
    if not path.is_file():
        there = "a folder" if path.is_dir() else "no such file"
        others = sorted(p.name for p in path.parent.glob("*.onnx"))[:5] if path.parent.is_dir() else []
        hint = f"in that folder: {', '.join(map(shorten, others))}" if others else f"looked from {Path.cwd()}"
        raise PtqError(Problem("PTQ101", where, there, "an ONNX model (.onnx)", hint), TITLE)
    size = path.stat().st_size
    if size >= PROTOBUF_LIMIT:
        raise PtqError(Problem("PTQ104", where, f"{size} bytes in one protobuf", f"less than {PROTOBUF_LIMIT} bytes",
                               "save it with external data (onnx.save(..., save_as_external_data=True))"), TITLE)
    try:
        return path.read_bytes()
    except OSError as error:
        raise PtqError(Problem("PTQ101", where, f"cannot be read: {error.strerror}", "a readable file"), TITLE) from None


def _parse(data: bytes, where: str) -> onnx.ModelProto:
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(data)
    except Exception as error:  # protobuf raises its own DecodeError, and others on bad text or nesting
        reason = f"{len(data)} bytes that are no protobuf of a model ({type(error).__name__}); starts with {data[:24]!r}"
    else:
        if proto.HasField("graph") and (proto.graph.node or proto.graph.output):
            return proto
        reason = "an empty file" if not data else f"no graph in it; starts with {data[:24]!r}"
    hint = "the file looks like a git-lfs pointer: fetch the real one with `git lfs pull`" if data.startswith(
        b"version https://git-lfs") else "check that the file is complete (nesting of more than about 100 levels is refused, too)"
    raise PtqError(Problem("PTQ103", shorten(where), reason, "an ONNX model", hint), TITLE)


def _with_tensors(proto: onnx.ModelProto, path: Path | None) -> Parsed:
    """Check every stored tensor, take the weights out of the protobuf, leave references to them."""
    problems: list[Problem] = []
    missing: dict[str, list[str]] = {}
    tensors: Tensors = {}
    folder = path.parent if path is not None else None
    kept = []
    for tensor in proto.graph.initializer:
        found = _checked(tensor, folder, problems, missing)
        if found is not None:
            tensors[tensor.name] = found
            kept.append(tensor if found.nbytes <= SMALL and not isinstance(found, ir.ExternalTensor)
                        else refer(tensor.name, found, "", 0))
    for node in _all_nodes(proto.graph.node):
        for attribute in node.attribute:
            for tensor in (attribute.t, *attribute.tensors) if attribute.HasField("t") else attribute.tensors:
                found = _checked(tensor, folder, problems, missing)
                if found is not None and isinstance(found, ir.ExternalTensor):
                    tensor.CopyFrom(onnx.TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims,
                                                     raw_data=found.tobytes()))
    for file, names in missing.items():
        shown = ", ".join(f"'{shorten(n)}'" for n in names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        problems.append(Problem("PTQ105", shorten(path or "the model"), f"file '{shorten(file)}' does not exist; tensor {shown} lies in it",
                                "the data file beside the model", "put the data file into the folder of the model"))
    raise_if(problems, TITLE)
    del proto.graph.initializer[:]
    proto.graph.initializer.extend(kept)
    return Parsed(proto, tensors, path)


def _all_nodes(nodes: Iterable[onnx.NodeProto]) -> Iterable[onnx.NodeProto]:
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs) if attribute.HasField("g") else attribute.graphs:
                yield from _all_nodes(graph.node)


def _checked(tensor: onnx.TensorProto, folder: Path | None, problems: list[Problem],
             missing: dict[str, list[str]]) -> ir.TensorProtocol | None:
    """The tensor in memory or mapped; None when a problem was noted (or it is a string, judged with the types)."""
    where = f"tensor '{shorten(tensor.name)}'"
    if tensor.data_type == onnx.TensorProto.STRING:
        return ir.serde.deserialize_tensor(tensor)
    if tensor.data_type not in _KNOWN_TYPES:
        problems.append(Problem("PTQ105", where, f"element type {tensor.data_type}", "an ONNX tensor type"))
        return None
    dims = list(tensor.dims)
    if any(d < 0 for d in dims) or tensor.HasField("segment"):
        problems.append(Problem("PTQ105", where, f"shape {dims}", "a whole tensor with sizes of 0 or more"))
        return None
    dtype = ir.DataType(tensor.data_type)
    count = 1
    for d in dims:
        count *= d
    nbytes = -(-count * dtype.bitwidth // 8)
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        return _external(tensor, dtype, dims, nbytes, folder, problems, missing)
    if tensor.HasField("raw_data"):
        if len(tensor.raw_data) != nbytes:
            problems.append(Problem("PTQ105", where, f"{len(tensor.raw_data)} bytes for shape {dims} of {dtype.name}",
                                    f"{nbytes} bytes", "export the model again; the file is damaged"))
            return None
        if dtype.bitwidth < 8:
            return ir.serde.deserialize_tensor(tensor)
        array = np.frombuffer(tensor.raw_data, dtype.numpy().newbyteorder("<")).reshape(dims)
        return ir.Tensor(array, dtype=dtype, name=tensor.name)
    stored = len(getattr(tensor, _TYPED_FIELDS.get(tensor.data_type, "int32_data")))
    per_element = 2 if tensor.data_type in (onnx.TensorProto.COMPLEX64, onnx.TensorProto.COMPLEX128) else 1
    wanted = count * per_element if dtype.bitwidth >= 8 else nbytes
    if stored != wanted:
        problems.append(Problem("PTQ105", where, f"{stored} values for shape {dims} of {dtype.name}", f"{wanted} values",
                                "export the model again; the file is damaged"))
        return None
    return ir.Tensor(onnx.numpy_helper.to_array(tensor), dtype=dtype, name=tensor.name) if dtype.bitwidth >= 8 \
        else ir.serde.deserialize_tensor(tensor)


def _external(tensor: onnx.TensorProto, dtype: ir.DataType, dims: list[int], nbytes: int, folder: Path | None,
              problems: list[Problem], missing: dict[str, list[str]]) -> ir.TensorProtocol | None:
    """A mapped tensor whose file lies inside the model's folder and is long enough."""
    where = f"tensor '{shorten(tensor.name)}'"
    entries = {e.key: e.value for e in tensor.external_data}
    location = entries.get("location", "")

    def refuse(found: str, expected: str, hint: str = "") -> None:
        problems.append(Problem("PTQ105", where, found, expected, hint))

    if folder is None:
        return refuse(f"external data in '{shorten(location)}'", "a path, where external data can be found",
                      "give the path of the model instead of its bytes")
    try:
        offset, length = int(entries.get("offset", "0")), int(entries.get("length", str(nbytes)))
    except ValueError:
        return refuse(f"offset {shorten(entries.get('offset'))}, length {shorten(entries.get('length'))}", "whole numbers")
    parts = Path(location.replace("\\", "/")).parts
    if not location or "\0" in location or Path(location).is_absolute() or ".." in parts or ":" in location[:3]:
        return refuse(f"external data at '{shorten(location)}'", "a relative path inside the folder of the model")
    file = folder / location
    home = folder.resolve()
    if home not in file.resolve().parents:
        return refuse(f"external data at '{shorten(location)}', which leads to {shorten(file.resolve())}",
                      f"a file inside {shorten(home)}", "copy the data file into the folder of the model")
    if not file.is_file():
        missing.setdefault(str(file), []).append(tensor.name)
        return None
    status = file.stat()
    if status.st_nlink > 1:
        return refuse(f"'{shorten(location)}' has {status.st_nlink} hard links", "a data file of its own", "copy the data file")
    if length != nbytes:
        return refuse(f"length {length} for shape {dims} of {dtype.name}", f"{nbytes} bytes")
    if offset < 0 or offset + length > status.st_size:
        return refuse(f"bytes {offset} to {offset + length} of '{shorten(location)}', which has {status.st_size}",
                      "bytes inside the file", "the data file is cut short or belongs to another model")
    return ir.ExternalTensor(location, offset, nbytes, dtype, shape=ir.Shape(dims), name=tensor.name, base_dir=str(folder.resolve()))
