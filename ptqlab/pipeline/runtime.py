"""Running an artifact on arrays: `.onnx` in onnxruntime, `.bc` and `.hbm` in the BPU simulator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import onnx_ir as ir

from ptqlab.artifacts.models import Artifact, read_quantized
from ptqlab.errors import Problem, PtqError, nearest, raise_if, shorten
from ptqlab.graph import Session, session
from ptqlab.pipeline.row_stride import nv12_alignment, plane_inputs, row_stride, without_padding
from ptqlab.pipeline.tensor_facts import TensorFacts, tensor_facts
from ptqlab.simulate import FastExecutor, ReferenceExecutor
from ptqlab.stages.record import TensorInfo

ENGINES = ("fast", "reference", "onnxruntime")
SUFFIXES = (".onnx", ".bc", ".hbm")


class _Runner(Protocol):
    def __call__(self, feeds: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]: ...


class Runtime:
    """A model file ready to run.

    path      `.onnx` (original, optimized, calibrated, ptq), `.bc` or `.hbm`
    engine    for `.bc` and `.hbm`: "fast" (default), "reference" (plain numpy kernels, slow), or "onnxruntime"
              (the file's own model-local functions); all three give the same bits
    threads   of onnxruntime

    `input_names`, `output_names`, `inputs`, `outputs` (name, dtype, shape) and `run`. Bind by name: the order of
    inputs may differ from one artifact to the next. `output_nodes`: output -> the node that puts it out.
    `input_info`, `output_info`: shape, type, scale and zero point under the names of hbm_infer; `real` and `codes` go
    from the codes of an integer input or output to real numbers and back.
    Planes of an nv12 image (`<name>_y`, `<name>_uv`) may have rows padded to the platform's stride, 32 or 64 bytes.
    `settings`: the configuration that an artifact was compiled with, {} for a float model.
    Raises PtqError for a missing or damaged file, an unknown engine, and feeds of a wrong name, dtype or shape.
    """

    def __init__(self, path: str | Path, *, engine: str = "fast", threads: int = 1) -> None:
        self.path = Path(path)
        problems = []
        if engine not in ENGINES:
            near = nearest(engine, ENGINES, 1)
            problems.append(
                Problem(
                    "PTQ620", "engine", repr(engine), ", ".join(ENGINES), f"did you mean {near[0]}?" if near else ""
                )
            )
        if self.path.suffix not in SUFFIXES:
            problems.append(Problem("PTQ621", str(path), f"suffix {self.path.suffix!r}", ", ".join(SUFFIXES)))
        elif not self.path.is_file():
            problems.append(Problem("PTQ101", str(path), "no such file", "a model file", "look at run.artifacts"))
        raise_if(problems, "Opening a model")
        self._artifact: Artifact | None = None
        self.settings: Mapping[str, Any] = {}
        if self.path.suffix == ".onnx":
            self._open_float(threads)
        else:
            self._open_quantized(engine, threads)

    def _open_float(self, threads: int) -> None:
        runner = session(self.path, threads=threads)
        self._check = runner
        self.input_names, self.output_names = list(runner.input_names), list(runner.output_names)
        model = ir.load(self.path)
        self.inputs, self.outputs = (
            _infos(model.graph.inputs, self.input_names),
            _infos(model.graph.outputs, self.output_names),
        )
        self.output_nodes = _producers(model.graph.outputs)
        self._run: _Runner = lambda feeds: dict(zip(self.output_names, runner.run(None, feeds), strict=True))

    def _open_quantized(self, engine: str, threads: int) -> None:
        self._artifact = read_quantized(self.path)
        settings = self._artifact.about.get("settings")
        self.settings = settings if isinstance(settings, Mapping) else {}
        quantized = self._artifact.quantized
        graph = quantized.model.graph
        self.input_names = [str(v.name) for v in graph.inputs]
        self.output_names = [str(v.name) for v in graph.outputs]
        self.inputs, self.outputs = _infos(graph.inputs, self.input_names), _infos(graph.outputs, self.output_names)
        self.output_nodes = _producers(graph.outputs)
        types = {i.name: (tuple(i.shape), np.dtype(i.dtype)) for i in self.inputs}
        self._check = Session(None, self.output_names, {}, types, str(self.path))
        if engine == "onnxruntime":
            runner = session(quantized.model, optimise=False, threads=threads)
            self._run = lambda feeds: dict(zip(self.output_names, runner.run(None, feeds), strict=True))
        else:
            kind = FastExecutor if engine == "fast" else ReferenceExecutor
            self._run = kind(quantized, threads=threads).run

    @cached_property
    def _planes(self) -> dict[str, tuple[int, ...]]:
        """nv12 inputs whose rows may be padded -> their shapes."""
        if self._artifact is None:
            return {}
        names = plane_inputs(self._artifact.quantized.model.graph)
        return {i.name: i.shape for i in self.inputs if i.name in names and len(i.shape) == 4}

    @cached_property
    def _alignment(self) -> int:
        return nv12_alignment("" if self._artifact is None else str(self._artifact.about.get("march", "")))

    def without_padding(self, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The feeds, padded rows of nv12 planes cut to the width of the image. PtqError where a row stride is wrong."""
        return without_padding(feeds, self._planes, self._alignment)

    @cached_property
    def _facts(self) -> dict[str, TensorFacts]:
        integers = {} if self._artifact is None else self._artifact.quantized.integers
        rows = {name: row_stride(shape, self._alignment) for name, shape in self._planes.items()}
        return {
            i.name: tensor_facts(i.name, i.shape, i.dtype, integers, rows.get(i.name))
            for i in (*self.inputs, *self.outputs)
        }

    @property
    def input_info(self) -> dict[str, dict[str, Any]]:
        """Input -> valid_shape, stride, tensor_type, quanti_type, quantizeAxis, scale_data, zero_point_data."""
        return {name: self._facts[name].to_dict() for name in self.input_names}

    @property
    def output_info(self) -> dict[str, dict[str, Any]]:
        """The same of every output."""
        return {name: self._facts[name].to_dict() for name in self.output_names}

    def real(self, name: str, values: np.ndarray) -> np.ndarray:
        """What an array of an input or output stands for: (codes - zero point) * scale; itself where it is real."""
        return self._known(name).real(values)

    def codes(self, name: str, values: np.ndarray) -> np.ndarray:
        """The codes of an integer input for real numbers: clamp(round(x / scale + zero point)). Others as they are."""
        return self._known(name).codes(values)

    def _known(self, name: str) -> TensorFacts:
        if name not in self._facts:
            raise PtqError(
                Problem("PTQ120", f"tensor '{shorten(name)}'", "no such input or output", ", ".join(self._facts)),
                "Running the model",
            )
        return self._facts[name]

    def run(self, names: Sequence[str] | None, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """Arrays of the outputs `names`, or of all outputs in order for None. Feeds are bound by name."""
        unknown = [n for n in names or () if n not in self.output_names]
        raise_if(
            [Problem("PTQ120", f"output '{n}'", "no such output", ", ".join(self.output_names)) for n in unknown],
            "Running the model",
        )
        feeds = self.without_padding(feeds)
        self._check.check_feeds(feeds)
        try:
            results = self._run(feeds)
        except PtqError:
            raise
        except Exception as error:
            # a hostile file can be wrong in more ways than reading it can see
            raise PtqError(
                Problem(
                    "PTQ623",
                    str(self.path),
                    f"it cannot be run: {type(error).__name__}: {shorten(error)}",
                    "a file as ptqlab wrote it",
                    "compile the model again; if the file is new, this is a bug in ptqlab",
                ),
                "Running the model",
            ) from error
        return [results[n] for n in (self.output_names if names is None else names)]

    @property
    def encodings(self) -> dict[str, dict[str, Any]]:
        """For `.bc`, `.hbm`: tensor of the optimized graph -> its integers: "tensor", "type", "scale", "zero_point"."""
        if self._artifact is None:
            raise PtqError(
                Problem(
                    "PTQ622", str(self.path), "a float model", "a .bc or .hbm", "float models have no integer tensors"
                )
            )
        return {
            name: {"tensor": t.name, "type": t.qtype.value, "scale": t.scale, "zero_point": t.zero_point}
            for name, t in self._artifact.quantized.integers.items()
        }

    def __repr__(self) -> str:
        def words(infos: list[TensorInfo]) -> str:
            return ", ".join(f"{i.name} {i.dtype} {list(i.shape)}" for i in infos)

        return f"Runtime({self.path.name}: {words(self.inputs)} -> {words(self.outputs)})"


def _infos(values: Sequence[ir.Value], names: Sequence[str]) -> list[TensorInfo]:
    infos = []
    for value in values:
        if value.name in names:
            dtype = "float32" if value.dtype is None else str(value.dtype.numpy())
            shape = () if value.shape is None else tuple(int(d) if isinstance(d, int) else -1 for d in value.shape)
            infos.append(TensorInfo(str(value.name), dtype, shape))
    return infos


def _producers(values: Sequence[ir.Value]) -> dict[str, str]:
    return {str(v.name): str(p.name) for v in values if (p := v.producer()) is not None and p.name}
