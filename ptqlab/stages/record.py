"""What is told of a finished run: rows, findings, artifacts. Plain values, saved and read as JSON.

Everything a view shows comes from here, so that a saved record can be shown again without a model.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from ptqlab.errors import Finding, Problem, PtqError

RECORD_VERSION = 1


@dataclass(frozen=True)
class NodeRow:
    """One node of the optimized graph, in topological order.

    node, node_type      name and ONNX operator type
    on                   "BPU" or "CPU"
    subgraph             "id(0)" for a BPU segment, "--" on the CPU
    threshold            of the node's first quantized input; None where it has none
    calibrated_cosine    float graph against calibrated graph at the node's output; None where not compared
    quantized_cosine     float graph against the integer simulation; None where not compared
    output_data_type     si8, si16, si32, f16, f32, or the ONNX type name of an integer tensor
    asked, granted       type asked for by the configuration / given ("int8", "int16", "float32", ...)
    reason               sentence that explains placement and type
    rule                 id of the placement rule behind the reason
    fused_into           name of the node this one is computed in, "" when it is its own BPU operator
    tags                 words such as "all-zero"
    output               name of the node's first output tensor
    """

    node: str
    node_type: str
    on: str
    subgraph: str
    threshold: float | None
    calibrated_cosine: float | None
    quantized_cosine: float | None
    output_data_type: str
    asked: str
    granted: str
    reason: str
    rule: str = ""
    fused_into: str = ""
    tags: tuple[str, ...] = ()
    output: str = ""


@dataclass(frozen=True)
class OutputRow:
    """One output tensor of the model; distances are those of the integer simulation to the float model.

    sqnr      signal to quantization noise in dB
    l1        mean of |d|;  l2  sqrt(sum d^2) / N;  chebyshev  max of |d|   (N elements over all samples)
    """

    tensor: str
    calibrated_cosine: float | None
    quantized_cosine: float | None
    sqnr: float | None
    l1: float | None
    l2: float | None
    chebyshev: float | None


@dataclass(frozen=True)
class TensorInfo:
    """An input or output of an artifact: name, ONNX element type word ("float32", "int8"), static shape."""

    name: str
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Record:
    """All that is known of one compile run.

    model, march       name prefix of the artifacts, platform
    kind               what was run: "compile", "check" (placement only) or "fast-perf"
    segments           number of BPU segments
    complete           False when the run was stopped or `skip` ended it before the last stage
    samples            number of calibration samples (0: calibration was skipped, random data)
    settings           the configuration as resolved, for the artifacts and `info`
    quant_config       the quant_config in force, as the vendor's JSON structure
    calibration        what calibration chose: {"method": ..., ...}
    artifacts          key -> file name relative to the working directory
    timings            stage -> seconds
    versions           {"ptqlab": ..., "onnxruntime": ..., ...}
    perf               record of the performance estimate; empty when none was made
    """

    model: str
    march: str
    nodes: tuple[NodeRow, ...]
    outputs: tuple[OutputRow, ...]
    findings: tuple[Finding, ...]
    inputs: tuple[TensorInfo, ...] = ()
    output_infos: tuple[TensorInfo, ...] = ()
    kind: str = "compile"
    segments: int = 0
    complete: bool = True
    samples: int = 0
    settings: Mapping[str, Any] = field(default_factory=dict)
    quant_config: Mapping[str, Any] = field(default_factory=dict)
    calibration: Mapping[str, Any] = field(default_factory=dict)
    artifacts: Mapping[str, str] = field(default_factory=dict)
    timings: Mapping[str, float] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    perf: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> str:
        data = asdict(self) | {
            "record_version": RECORD_VERSION,
            "findings": [f.to_dict() for f in self.findings],
        }
        return json.dumps(_writable(data), indent=1, ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_json(cls, text: str, where: str = "record") -> Record:
        """Read what `to_json` wrote. Raises PtqError when the text is no record of this version."""
        try:
            data = json.loads(text)
        except json.JSONDecodeError as error:
            raise PtqError(Problem("PTQ601", where, f"not JSON: {error}", "a record written by ptqlab")) from None
        version = data.get("record_version") if isinstance(data, dict) else None
        if version != RECORD_VERSION:
            raise PtqError(
                Problem(
                    "PTQ602",
                    where,
                    f"record version {version!r}",
                    f"version {RECORD_VERSION}",
                    "compile again with this version of ptqlab",
                )
            )
        known = {f.name for f in fields(cls)}
        plain = {k: v for k, v in data.items() if k in known}
        try:
            rows = [_read(row, NODE_FIGURES) for row in data["nodes"]]
            plain["nodes"] = tuple(NodeRow(**{**row, "tags": tuple(row.get("tags", ()))}) for row in rows)
            plain["outputs"] = tuple(OutputRow(**_read(row, OUTPUT_FIGURES)) for row in data["outputs"])
            plain["findings"] = tuple(Finding.from_dict(f) for f in data["findings"])
            for key in ("inputs", "output_infos"):
                plain[key] = tuple(TensorInfo(i["name"], i["dtype"], tuple(i["shape"])) for i in data[key])
            return cls(**plain)
        except (KeyError, TypeError) as error:
            raise PtqError(
                Problem("PTQ601", where, f"incomplete record: {error}", "a record written by ptqlab")
            ) from None

    @classmethod
    def load(cls, path: Path) -> Record:
        return cls.from_json(path.read_text(encoding="utf-8"), str(path))


# Infinity and NaN are no JSON: they are written as words, in figures that can be either.
WORDS = ("inf", "-inf", "nan")
NODE_FIGURES = ("threshold", "calibrated_cosine", "quantized_cosine")
OUTPUT_FIGURES = ("calibrated_cosine", "quantized_cosine", "sqnr", "l1", "l2", "chebyshev")


def _writable(value: Any) -> Any:
    """The same data with floats that JSON does not have as words."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {k: _writable(v) for k, v in value.items()}
    return [_writable(v) for v in value] if isinstance(value, (list, tuple)) else value


def _read(row: Mapping[str, Any], figures: tuple[str, ...]) -> dict[str, Any]:
    return {k: float(v) if k in figures and v in WORDS else v for k, v in row.items()}
