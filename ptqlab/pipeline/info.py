"""`info`: what an artifact says of itself."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

from ptqlab.artifacts.models import read_quantized
from ptqlab.errors import Problem, PtqError
from ptqlab.graph.files import attach, read
from ptqlab.ops.calibration_node import DOMAIN as CALIBRATION_DOMAIN
from ptqlab.pipeline.row_stride import nv12_alignment, plane_inputs, row_stride
from ptqlab.pipeline.tensor_facts import tensor_facts
from ptqlab.quantize.removal import removable_nodes
from ptqlab.stages.quantized import IntegerTensor
from ptqlab.stages.record import TensorInfo

SUFFIXES = (".onnx", ".bc", ".hbm")


@dataclass(frozen=True)
class ModelInfo:
    """Facts of one model file.

    kind        "float onnx", "calibrated onnx", "bc" or "hbm"
    settings    the configuration it was compiled with, by group; empty for a float model
    versions    of what made it; for a float model opset and ir_version
    removable   (node, operator type) that remove_node_name / remove_node_type could take out now
    encodings   integer tensor -> type, scale (float32, one or per channel), zero_point
    interface   input or output -> its facts under the names of hbm_infer (see pipeline.tensor_facts)
    memory      bytes: input, output, static (constants), intermediate (all other tensors, none reused)
    operators   operator type -> how many nodes
    """

    path: Path
    kind: str
    march: str
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    removable: tuple[tuple[str, str], ...] = ()
    encodings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    interface: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    memory: Mapping[str, int] = field(default_factory=dict)
    operators: Mapping[str, int] = field(default_factory=dict)
    segments: int = 0


def model_info(path: str | Path) -> ModelInfo:
    """Facts of an `.onnx`, `.bc` or `.hbm`. PtqError when the file is missing, damaged or of another kind."""
    path = Path(path)
    if path.suffix not in SUFFIXES:
        raise PtqError(
            Problem("PTQ621", str(path), f"suffix {path.suffix!r}", ", ".join(SUFFIXES)), "Looking at a model"
        )
    if path.suffix == ".onnx":
        parsed = read(path)
        model = attach(parsed.proto, parsed.tensors)
        calibrated = any(n.domain == CALIBRATION_DOMAIN for n in model.graph)
        return ModelInfo(
            path,
            "calibrated onnx" if calibrated else "float onnx",
            "",
            *_interface(model),
            interface=_facts(model, {}, None),
            versions={
                "opset": str(model.graph.opset_imports.get("", "")),
                "ir_version": str(model.ir_version),
                "producer": f"{model.producer_name or ''} {model.producer_version or ''}".strip(),
            },
            memory=_memory(model),
            operators=_operators(model.graph),
        )
    artifact = read_quantized(path)
    model, about = artifact.quantized.model, artifact.about
    march = str(about.get("march", ""))
    return ModelInfo(
        path,
        artifact.kind,
        march,
        *_interface(model),
        interface=_facts(model, artifact.quantized.integers, nv12_alignment(march)),
        settings=_groups(about.get("settings")),
        versions={str(k): str(v) for k, v in _mapping(about.get("versions")).items()},
        removable=tuple((str(n.name), n.op_type) for n, _ in removable_nodes(model)),
        encodings={
            name: {"tensor": t.name, "type": t.qtype.value, "scale": t.scale, "zero_point": t.zero_point}
            for name, t in artifact.quantized.integers.items()
        },
        memory=_memory(model),
        operators=_operators(model.graph),
        segments=len({p.segment for p in artifact.quantized.parts if p.device == "BPU"}),
    )


def _facts(
    model: ir.Model, integers: Mapping[str, IntegerTensor], alignment: int | None
) -> dict[str, Mapping[str, Any]]:
    """Facts of inputs and outputs; `alignment` of nv12 rows, None for a float model."""
    planes = plane_inputs(model.graph) if alignment else frozenset()
    out: dict[str, Mapping[str, Any]] = {}
    for info in (i for infos in _interface(model) for i in infos):
        row = row_stride(info.shape, alignment) if alignment and info.name in planes else None
        out[info.name] = tensor_facts(info.name, info.shape, info.dtype, integers, row).to_dict()
    return out


def _groups(settings: Any) -> dict[str, Mapping[str, Any]]:
    """The groups of the configuration; what a damaged file holds in their place is left out."""
    return {str(group): values for group, values in _mapping(settings).items() if isinstance(values, Mapping)}


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _interface(model: ir.Model) -> tuple[tuple[TensorInfo, ...], tuple[TensorInfo, ...]]:
    constants = set(model.graph.initializers)
    inputs = [v for v in model.graph.inputs if v.name not in constants]
    return tuple(_tensor(v) for v in inputs), tuple(_tensor(v) for v in model.graph.outputs)


def _tensor(value: ir.Value) -> TensorInfo:
    dtype = "?" if value.dtype is None else str(value.dtype.numpy())
    return TensorInfo(str(value.name), dtype, _shape(value))


def _shape(value: ir.Value) -> tuple[int, ...]:
    """-1 stands for a size that is not known."""
    return () if value.shape is None else tuple(d if isinstance(d, int) else -1 for d in value.shape)


def _memory(model: ir.Model) -> dict[str, int]:
    graph = model.graph
    outputs = set(graph.outputs)
    made = [o for n in graph for o in n.outputs if o.name and o not in outputs]
    return {
        "input": _bytes(v for v in graph.inputs if v.name not in graph.initializers),
        "output": _bytes(outputs),
        "static": sum(int(v.const_value.nbytes) for v in graph.initializers.values() if v.const_value is not None),
        "intermediate": _bytes(made),
    }


def _bytes(values: Iterable[ir.Value]) -> int:
    """Bytes of tensors whose size is known; others count as nothing."""
    total = 0
    for value in values:
        if value.dtype is not None and value.shape is not None and -1 not in _shape(value):
            total += math.prod(_shape(value)) * np.dtype(value.dtype.numpy()).itemsize
    return total


def _operators(graph: ir.Graph) -> dict[str, int]:
    counts: dict[str, int] = {}
    for node in graph:
        counts[node.op_type] = counts.get(node.op_type, 0) + 1
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
