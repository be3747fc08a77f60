"""The only door to onnxruntime.

Weights are never copied into the protobuf that onnxruntime parses: the model is handed over as a skeleton whose
tensors refer to buffers in memory (the numpy arrays of the model itself, mapped files included). Measured on a
random resnet18: 49 ms of CPU against 230 ms for one protobuf with everything inside, 12 ms against 115 ms without
optimisation; an aligned weight file gives the same (48 and 3 ms) but needs a place on disk.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime

from ptqlab.errors import Problem, PtqError, nearest, raise_if, shorten
from ptqlab.graph.saving import SMALL, assemble, embed, refer, save

_RUN_NODE = re.compile(r"while running (\S+) node\. Name:'(.*?)' Status Message: (.*)", re.DOTALL)
_BUILD_NODE = re.compile(r"Node ?(?:\(|:|name:)\s*'?([^)'\n]*?)'?[)\n ]\s*(?:Op \((\w+)\))?")

_TITLE = "Running the model"
# onnxruntime takes no single tensor of 2 GiB from memory; the weights then go through a temporary folder
BUFFER_LIMIT = 2 * 1024**3
Dims: TypeAlias = tuple[int | str | None, ...]


class Session:
    """A model ready to run. `run(None, feeds)` gives the outputs in order; feeds are bound by name.

    input_names, output_names  in the order of the model
    raw                        the onnxruntime session, for io-binding; None when every output is an input or constant
    """

    def __init__(
        self,
        raw: Any,
        output_names: Sequence[str],
        constants: Mapping[str, np.ndarray],
        inputs: Mapping[str, tuple[Dims | None, np.dtype]],
        where: str,
    ) -> None:
        self.raw = raw
        self.output_names = tuple(output_names)
        self.input_names = tuple(inputs)
        self._inputs = inputs
        self._constants = constants
        self._where = where
        self._computed = frozenset(o.name for o in raw.get_outputs()) if raw is not None else frozenset()
        self._needed = tuple(i.name for i in raw.get_inputs()) if raw is not None else ()

    def run(self, names: Sequence[str] | None, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """Arrays of the outputs `names` (None: all). PtqError when a feed or a name does not fit, or a node fails."""
        wanted = list(self.output_names if names is None else names)
        self.check_feeds(feeds)
        known = set(self.output_names)
        raise_if(
            [_unknown("output", n, self.output_names, self._where) for n in wanted if n not in known],
            _TITLE,
        )
        computed = [n for n in wanted if n in self._computed]
        arrays: dict[str, np.ndarray] = {}
        if computed:
            try:
                results = self.raw.run(computed, {n: feeds[n] for n in self._needed})
            except Exception as error:
                raise runtime_error(error, self._where) from None
            arrays = dict(zip(computed, results, strict=True))
        return [arrays[n] if n in arrays else np.array(self._constants.get(n, feeds.get(n))) for n in wanted]

    def check_feeds(self, feeds: Mapping[str, np.ndarray]) -> None:
        """Refuse feeds of a wrong name, type or shape, all at once."""
        problems = [_unknown("input", n, self.input_names, self._where) for n in feeds if n not in self._inputs]
        for name, (shape, dtype) in self._inputs.items():
            if name not in feeds:
                problems.append(
                    Problem("PTQ120", f"input '{shorten(name)}'", "no data given", f"{dtype} {_dims(shape)}")
                )
                continue
            array = feeds[name]
            fits = shape is None or (
                len(shape) == np.ndim(array)
                and all(not isinstance(d, int) or d == n for d, n in zip(shape, np.shape(array), strict=True))
            )
            if np.asarray(array).dtype != dtype or not fits:
                problems.append(
                    Problem(
                        "PTQ120",
                        f"input '{shorten(name)}'",
                        f"{np.asarray(array).dtype} {_dims(np.shape(array))}",
                        f"{dtype} {_dims(shape)}",
                        "give the data in the type and shape of the input",
                    )
                )
        raise_if(problems, _TITLE)


def session(
    model: ir.Model | bytes | Path, *, outputs: Sequence[str] | None = None, optimise: bool = True, threads: int = 1
) -> Session:
    """Make a session on the CPU.

    model     in memory, as bytes, or a path (weights beside it are found)
    outputs   names of the tensors that are computed, any of the graph's; what they do not need is left out.
              None: the outputs of the model
    optimise  let onnxruntime rewrite the graph; off where every tensor must be what the graph says
    Raises PtqError when a name is unknown or onnxruntime refuses the model (naming the node where it does).
    """
    where = str(model) if isinstance(model, Path) else "the model"
    memory = _in_memory(model)
    graph = memory.graph
    names = [str(v.name) for v in graph.outputs] if outputs is None else list(dict.fromkeys(outputs))
    values = {str(o.name): o for node in graph for o in node.outputs if o.name}
    idle = {str(v.name) for v in graph.inputs} | set(graph.initializers)
    raise_if(
        [_unknown("tensor", n, [*values, *idle], where) for n in names if n not in values and n not in idle],
        "Making a session",
    )

    computed = [values[n] for n in names if n in values]
    constants = {n: _numpy(graph.initializers[n]) for n in names if n in graph.initializers}
    inputs = {str(v.name): (_shape_of(v), _dtype(v)) for v in graph.inputs if str(v.name) not in graph.initializers}
    raw = None
    if computed:
        buffers: dict[str, np.ndarray] = {}
        proto = assemble(memory, placer(buffers), computed, notes=False)
        raw = raw_session(proto.SerializeToString(), buffers, optimise=optimise, threads=threads, where=where)
    return Session(raw, names, constants, inputs, where)


def _in_memory(model: ir.Model | bytes | Path) -> ir.Model:
    """The model itself, parsed if need be. PtqError when it does not parse."""
    if isinstance(model, ir.Model):
        return model
    try:
        return ir.load(model) if isinstance(model, Path) else ir.from_proto(onnx.ModelProto.FromString(model))
    except Exception as error:
        where = shorten(model) if isinstance(model, Path) else "the given bytes"
        raise PtqError(Problem("PTQ103", where, f"no ONNX model: {shorten(error)}", "an ONNX model"), _TITLE) from None


def raw_session(
    skeleton: bytes, buffers: Mapping[str, np.ndarray], *, optimise: bool, threads: int, where: str, arena: bool = True
) -> Any:
    """An onnxruntime session of a protobuf whose external data are `buffers` (location -> uint8 array).

    arena  keep the memory of one run for the next; of hundreds of sessions that is a lot to keep
    """
    options = onnxruntime.SessionOptions()
    options.enable_cpu_mem_arena = arena
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    levels = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if optimise else levels.ORT_DISABLE_ALL
    if any(a.nbytes >= BUFFER_LIMIT for a in buffers.values()):
        with tempfile.TemporaryDirectory(prefix="ptqlab-") as folder:
            for name, array in buffers.items():
                array.tofile(Path(folder) / name)
            options.add_session_config_entry("session.model_external_initializers_file_folder_path", folder)
            return _create(skeleton, options, where)
    # onnxruntime reads the buffers until the session exists: the lists must outlive the call below
    names, arrays = list(buffers), list(buffers.values())
    if names:
        options.add_external_initializers_from_files_in_memory(names, arrays, [a.nbytes for a in arrays])
    return _create(skeleton, options, where)


def _create(skeleton: bytes, options: onnxruntime.SessionOptions, where: str) -> onnxruntime.InferenceSession:
    try:
        return onnxruntime.InferenceSession(skeleton, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise runtime_error(error, where) from None


def placer(buffers: dict[str, np.ndarray], prefix: str = "w") -> Any:
    """A placer for `assemble` that leaves large tensors in `buffers` (location -> uint8 array)."""

    def place(name: str, tensor: ir.TensorProtocol) -> onnx.TensorProto:
        if tensor.nbytes <= SMALL or tensor.dtype == ir.DataType.STRING:
            return embed(name, tensor)  # small tensors carry shapes that onnxruntime wants to see
        array = tensor.numpy()
        if array.nbytes != tensor.nbytes or array.dtype.byteorder == ">":
            return embed(name, tensor)  # packed 4-bit types
        location = f"{prefix}{len(buffers)}"
        buffers[location] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        return refer(name, tensor, location, 0)

    return place


def runtime_error(error: Exception, where: str) -> PtqError:
    """What onnxruntime said, as a refusal that names the node where it does."""
    text = str(error)
    run, build = _RUN_NODE.search(text), _BUILD_NODE.search(text)
    if run:
        place, said = f"node '{shorten(run.group(2))}' ({run.group(1)})", run.group(3)
    elif build:
        op = f" ({build.group(2)})" if build.group(2) else ""
        place, said = f"node '{shorten(build.group(1))}'{op}", text
    else:
        place, said = shorten(where), text
    return PtqError(
        Problem("PTQ117", place, f"onnxruntime: {shorten(said, 400)}", "a model that onnxruntime can run"),
        _TITLE,
    )


def _unknown(kind: str, name: str, known: Sequence[str], where: str) -> Problem:
    near = nearest(name, known)
    some = ", ".join(shorten(n) for n in (near or list(known)[:5]))
    return Problem(
        "PTQ120", shorten(where), f"unknown {kind} '{shorten(name)}'", f"{'nearest' if near else 'known'}: {some}"
    )


def _numpy(value: ir.Value) -> np.ndarray:
    assert value.const_value is not None, f"{value.name!r} has no contents"
    return value.const_value.numpy()


def _dtype(value: ir.Value) -> np.dtype:
    assert value.dtype is not None, f"{value.name!r} has no type"
    return value.dtype.numpy()


def _shape_of(value: ir.Value) -> Dims | None:
    return None if value.shape is None else tuple(d if isinstance(d, int) else d.value for d in value.shape)


def _dims(shape: Sequence[object] | None) -> str:
    if shape is None:
        return "of any shape"
    return "[" + ",".join(str(d) if d is not None else "?" for d in shape) + "]"


def save_runnable(model: ir.Model, path: Path) -> None:
    """Write a changed model once onnxruntime has taken it. PtqError, and nothing written, when it does not."""
    session(model)
    save(model, path)
