"""Stored tensors: checked for size, and mapped when they lie in a file beside the model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir

from ptqlab.errors import Problem, shorten

_KNOWN_TYPES = {int(t) for t in ir.DataType if t not in (ir.DataType.UNDEFINED, ir.DataType.STRING)}
_TYPED_FIELDS = {
    onnx.TensorProto.FLOAT: "float_data",
    onnx.TensorProto.COMPLEX64: "float_data",
    onnx.TensorProto.DOUBLE: "double_data",
    onnx.TensorProto.COMPLEX128: "double_data",
    onnx.TensorProto.INT64: "int64_data",
    onnx.TensorProto.UINT32: "uint64_data",
    onnx.TensorProto.UINT64: "uint64_data",
}
_COMPLEX = (onnx.TensorProto.COMPLEX64, onnx.TensorProto.COMPLEX128)


class _Wrong(Exception):
    """Carries what is wrong with one tensor up to `read`."""


class TensorReader:
    """Reads tensors of one model; what is wrong is gathered, not raised.

    folder  where external data may lie, with its subfolders; None when the model came without a path
    """

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder.resolve() if folder is not None else None
        self._problems: list[Problem] = []
        self._missing: dict[str, list[str]] = {}

    @property
    def problems(self) -> list[Problem]:
        """All problems so far; tensors that miss the same file are one problem."""
        return self._problems + [_missing_file(file, names) for file, names in self._missing.items()]

    def read(self, tensor: onnx.TensorProto) -> ir.TensorProtocol | None:
        """The tensor in memory or mapped; None when something is wrong with it."""
        try:
            return self._read(tensor)
        except _Wrong as error:
            self._problems.append(Problem("PTQ105", f"tensor '{shorten(tensor.name)}'", *error.args))
            return None

    def _read(self, tensor: onnx.TensorProto) -> ir.TensorProtocol | None:
        if tensor.data_type == onnx.TensorProto.STRING:
            return ir.serde.deserialize_tensor(tensor)  # refused later, with all that has a wrong type
        if tensor.data_type not in _KNOWN_TYPES:
            raise _Wrong(f"element type {tensor.data_type}", "an ONNX tensor type")
        if any(d < 0 for d in tensor.dims) or tensor.HasField("segment"):
            raise _Wrong(f"shape {list(tensor.dims)}", "a whole tensor with sizes of 0 or more")
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            return self._external(tensor)
        return self._inside(tensor)

    def _inside(self, tensor: onnx.TensorProto) -> ir.TensorProtocol:
        dtype, count = ir.DataType(tensor.data_type), _count(tensor)
        raw = tensor.HasField("raw_data")
        if raw:
            stored, wanted, what = len(tensor.raw_data), _nbytes(tensor), "bytes"
        else:
            stored = len(getattr(tensor, _TYPED_FIELDS.get(tensor.data_type, "int32_data")))
            wanted, what = (_nbytes(tensor) if dtype.bitwidth < 8 else count), "values"
            wanted *= 2 if tensor.data_type in _COMPLEX else 1
        if stored != wanted:
            described = f"{stored} {what} for shape {list(tensor.dims)} of {dtype.name}"
            raise _Wrong(described, f"{wanted} {what}", "the file is damaged; export the model again")
        if dtype.bitwidth < 8:
            return ir.serde.deserialize_tensor(tensor)
        if raw:
            array = np.frombuffer(tensor.raw_data, dtype.numpy().newbyteorder("<")).reshape(tensor.dims)
        else:
            array = onnx.numpy_helper.to_array(tensor)
        return ir.Tensor(array, dtype=dtype, name=tensor.name)

    def _external(self, tensor: onnx.TensorProto) -> ir.TensorProtocol | None:
        """A mapped tensor whose file lies inside the model's folder and is long enough."""
        entries = {e.key: e.value for e in tensor.external_data}
        location = entries.get("location", "")
        told = f"external data in '{shorten(location)}'"
        if self.folder is None:
            raise _Wrong(told, "a path, beside which the data are found", "give the path of the model")
        offset, length = _number(entries.get("offset", "0")), _number(entries.get("length", str(_nbytes(tensor))))
        if offset is None or length is None:
            span = f"offset {shorten(entries.get('offset'))}, length {shorten(entries.get('length'))}"
            raise _Wrong(span, "whole numbers")
        if not _is_plain(location):
            raise _Wrong(told, "a relative path inside the folder of the model")
        file = self.folder / location
        if self.folder not in file.resolve().parents:
            leads = f"{told}, which leads to {shorten(file.resolve())}"
            hint = "copy the data file into the folder of the model"
            raise _Wrong(leads, f"a file inside {shorten(self.folder)}", hint)
        if not file.is_file():
            self._missing.setdefault(str(file), []).append(tensor.name)
            return None
        status = file.stat()
        if status.st_nlink > 1:  # onnx_ir maps none of these: the file may be somebody else's
            raise _Wrong(f"{told}, which has {status.st_nlink} hard links", "a file of its own", "copy it")
        if length != _nbytes(tensor):
            described = f"{length} bytes for shape {list(tensor.dims)} of {ir.DataType(tensor.data_type).name}"
            raise _Wrong(described, f"{_nbytes(tensor)} bytes")
        if offset < 0 or offset + length > status.st_size:
            span = f"bytes {offset} to {offset + length} of '{shorten(location)}', which has {status.st_size}"
            raise _Wrong(span, "bytes inside the file", "it is cut short, or belongs to another model")
        dtype, shape = ir.DataType(tensor.data_type), ir.Shape(tensor.dims)
        return ir.ExternalTensor(
            location, offset, length, dtype, shape=shape, name=tensor.name, base_dir=str(self.folder)
        )


def _missing_file(file: str, names: list[str]) -> Problem:
    shown = ", ".join(f"'{shorten(n)}'" for n in names[:3])
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return Problem(
        "PTQ105",
        f"tensor {shown}{more}",
        f"the data file '{shorten(file)}' does not exist",
        "the data file beside the model",
        "put it into the folder of the model",
    )


def _count(tensor: onnx.TensorProto) -> int:
    count = 1
    for size in tensor.dims:
        count *= size
    return count


def _nbytes(tensor: onnx.TensorProto) -> int:
    return -(-_count(tensor) * ir.DataType(tensor.data_type).bitwidth // 8)


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else None


def _is_plain(location: str) -> bool:
    """A relative path without a way up, on any system."""
    parts = location.replace("\\", "/").split("/")
    return bool(location) and "\0" not in location and ".." not in parts and parts[0] != "" and ":" not in parts[0]
