"""From what the user gives to a parsed protobuf and its weights; hostile until checked."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import onnx
import onnx_ir as ir

from ptqlab.errors import Problem, PtqError, raise_if, shorten
from ptqlab.graph.checks import proto_bodies, walk
from ptqlab.graph.model import sizes
from ptqlab.graph.saving import SMALL, assemble, embed, refer
from ptqlab.graph.tensors import TensorReader

PROTOBUF_LIMIT = 2 * 1024**3
TITLE = "Loading the model"
Tensors = dict[str, ir.TensorProtocol]


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
    _check_suffix(path)
    return _with_tensors(_parse(_read_bytes(path), str(path)), path)


def read_artifact(path: str | os.PathLike[str]) -> Parsed:
    """Parse an ONNX protobuf of whatever suffix (`.bc`, `.hbm`); the caller checks what it says. PtqError as `read`."""
    path = Path(path)
    return _with_tensors(_parse(_read_bytes(path), str(path)), path)


def _check_suffix(path: Path) -> None:
    where = shorten(path)
    if path.suffix.lower() in (".caffemodel", ".prototxt"):
        raise PtqError(
            Problem(
                "PTQ102",
                where,
                "a Caffe model",
                "an ONNX model (.onnx)",
                "convert it to ONNX first; Caffe is not read yet",
            ),
            TITLE,
        )
    if path.suffix.lower() != ".onnx":
        raise PtqError(Problem("PTQ102", where, f"suffix '{shorten(path.suffix)}'", "an ONNX model (.onnx)"), TITLE)


def _read_bytes(path: Path) -> bytes:
    where = shorten(path)
    if not path.is_file():
        there = "a folder" if path.is_dir() else "no such file"
        others = sorted(p.name for p in path.parent.glob("*.onnx"))[:5] if path.parent.is_dir() else []
        hint = f"in that folder: {', '.join(map(shorten, others))}" if others else f"looked from {Path.cwd()}"
        raise PtqError(Problem("PTQ101", where, there, "an ONNX model (.onnx)", hint), TITLE)
    size = path.stat().st_size
    if size >= PROTOBUF_LIMIT:
        raise PtqError(
            Problem(
                "PTQ104",
                where,
                f"{size} bytes in one protobuf",
                f"less than {PROTOBUF_LIMIT} bytes",
                "save it with external data (onnx.save(..., save_as_external_data=True))",
            ),
            TITLE,
        )
    try:
        return path.read_bytes()
    except OSError as error:
        raise PtqError(
            Problem("PTQ101", where, f"cannot be read: {error.strerror}", "a readable file"), TITLE
        ) from None


def _parse(data: bytes, where: str) -> onnx.ModelProto:
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(data)
    except Exception as error:  # protobuf raises its own DecodeError, and others on bad text or nesting
        reason = (
            f"{len(data)} bytes that are no protobuf of a model ({type(error).__name__}); starts with {data[:24]!r}"
        )
    else:
        if proto.HasField("graph") and (proto.graph.node or proto.graph.output):
            return proto
        reason = "an empty file" if not data else f"no graph in it; starts with {data[:24]!r}"
    hint = (
        "the file looks like a git-lfs pointer: fetch the real one with `git lfs pull`"
        if data.startswith(b"version https://git-lfs")
        else "check that the file is complete (nesting of more than about 100 levels is refused, too)"
    )
    raise PtqError(Problem("PTQ103", shorten(where), reason, "an ONNX model", hint), TITLE)


def _with_tensors(proto: onnx.ModelProto, path: Path | None) -> Parsed:
    """Check every stored tensor, take the weights out of the protobuf, leave references to them."""
    reader = TensorReader(path.parent if path is not None else None)
    tensors: Tensors = {}
    entries = []
    for tensor in proto.graph.initializer:
        found = reader.read(tensor)
        if found is not None:
            tensors[tensor.name] = found
            small = found.nbytes <= SMALL and not isinstance(found, ir.ExternalTensor)
            entries.append(tensor if small else refer(tensor.name, found, "", 0))
    for node in walk(proto.graph.node):
        for attribute in node.attribute:
            for tensor in [*([attribute.t] if attribute.HasField("t") else []), *attribute.tensors]:
                found = reader.read(tensor)
                if isinstance(found, ir.ExternalTensor):
                    tensor.CopyFrom(embed(tensor.name, found))
        for body in proto_bodies(node):
            for tensor in body.initializer:
                found = reader.read(tensor)
                if isinstance(found, ir.ExternalTensor):
                    tensor.CopyFrom(embed(tensor.name, found))
    raise_if(reader.problems, TITLE)
    kept = [onnx.TensorProto.FromString(t.SerializeToString()) for t in entries]
    del proto.graph.initializer[:]
    proto.graph.initializer.extend(kept)
    return Parsed(proto, tensors, path)


def attach(proto: onnx.ModelProto, tensors: Tensors) -> ir.Model:
    """The model in memory, its constants being `tensors`."""
    model = ir.from_proto(proto)
    for name, value in model.graph.initializers.items():
        tensor = tensors[name]
        tensor.name = name
        value.const_value = tensor
        value.dtype = tensor.dtype
        value.shape = ir.Shape(sizes(tensor.shape))
    return model
