"""`.bc` and `.hbm`: integer models as ONNX files with a ptqlab block in their metadata.

Both hold the same integer graph; `.hbm` adds the schedule of segments. They are written by ptqlab for its
simulator and say so: a board does not load them. Any ONNX viewer does, and onnxruntime runs a `.bc` as it is,
because every integer operator comes with a model-local function. Reading takes nothing on trust: operators,
types and schedule are checked against ptqlab's own tables, the functions in the file are not used.
"""
from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import onnx_ir as ir

from ptqlab.arith.formats import QType
from ptqlab.arith.requantize import LARGEST_RATIO, MULTIPLIER_BITS, SMALLEST_RATIO
from ptqlab.config.fields import GROUPS
from ptqlab.errors import Problem, PtqError, raise_if, shorten
from ptqlab.graph import outer_values, save
from ptqlab.graph.files import attach, read_artifact
from ptqlab.graph.topology import check_topology, check_types
from ptqlab.ops.integer import DOMAIN, INTEGER_OPS
from ptqlab.ops.integer.movers import STANDARD
from ptqlab.ops.spec import Engine, Role
from ptqlab.ops.table import spec_of
from ptqlab.stages.quantized import IntegerTensor, QuantizedModel
from ptqlab.stages.schedule import is_floating, schedule

FORMAT = 1
KIND, VERSION, INTEGERS, ABOUT = "ptqlab.kind", "ptqlab.format", "ptqlab.integers", "ptqlab.about"
DEVICE = "ptqlab.device"
KINDS = ("bc", "hbm")
# operands of integer operators that are numbers and never computed; multipliers and shifts are, too
CONSTANTS = ("weight", "bias", "window", "axes", "pads")
# kinds of configuration fields that are paths, or may be
PATHS = ("file", "folder", "folders", "quant_config")
# what `arith.requantize.fixed_point` gives
RATIOS = {
    "multiplier": (-(1 << MULTIPLIER_BITS), 1 << MULTIPLIER_BITS),
    # one more at the lower end: just below the largest ratio the multiplier rounds up to the next power of two
    "shift": (MULTIPLIER_BITS - int(np.log2(LARGEST_RATIO)) - 1, MULTIPLIER_BITS - int(np.log2(SMALLEST_RATIO))),
}
NOTE = "written by ptqlab for its BPU simulator; not loadable on a board"
# elements: 16 GiB of float32, far beyond what a BPU holds
LARGEST_TENSOR = 1 << 32
REMEDY = "compile the model again with this version of ptqlab"


@dataclass(frozen=True)
class Artifact:
    """A quantized model as read from a file, and what the file says about itself."""

    quantized: QuantizedModel
    kind: str
    about: Mapping[str, Any]


def write_quantized(quantized: QuantizedModel, path: Path, kind: str, about: Mapping[str, Any]) -> None:
    """Write a `.bc` (kind "bc") or `.hbm` (kind "hbm"); `about` is JSON data: march, settings, versions.

    Of files and folders in the settings only the last name is written: such a model is handed on to others.
    """
    model = quantized.model
    integers = {
        tensor: {"name": t.name, "type": t.qtype.value, "zero_point": t.zero_point,
                 "scale": [float(s) for s in t.scale.ravel()], "shape": list(t.scale.shape)}
        for tensor, t in quantized.integers.items()
    }
    parts = [{"device": p.device, "segment": p.segment, "nodes": list(p.nodes)} for p in quantized.parts]
    block = _shareable(about) | {"note": NOTE}
    if kind == "hbm":
        block["schedule"] = parts
    model.metadata_props.update({
        KIND: kind, VERSION: str(FORMAT), INTEGERS: json.dumps(integers), ABOUT: json.dumps(block, ensure_ascii=False),
    })
    save(model, path)


def _shareable(about: Mapping[str, Any]) -> dict[str, Any]:
    """`about` without the folders of the machine it was made on."""
    settings = about.get("settings")
    if not isinstance(settings, Mapping):
        return dict(about)
    short = {
        group: {key: _last_names(group, key, value) for key, value in values.items()}
        if isinstance(values, Mapping) else values for group, values in settings.items()
    }
    return dict(about) | {"settings": short}


def _last_names(group: str, key: str, value: Any) -> Any:
    """A value of the configuration, every path in it cut to its last name."""
    kind = next((f.kind for f in GROUPS.get(group, ()) if f.key == key), "")
    if kind not in PATHS or not isinstance(value, str):
        return value
    return ";".join(PurePath(part.strip().replace("\\", "/")).name for part in value.split(";"))


def read_quantized(path: Path) -> Artifact:
    """Read a `.bc` or `.hbm`. Raises PtqError for anything else, naming what is wrong."""
    damaged = f"{path.name} is damaged"
    try:
        parsed = read_artifact(path)
    except PtqError as error:
        if any(str(path) in p.where for p in error.problems):
            raise
        raise PtqError(error.problems, damaged) from None  # the problems name tensors, this says of which file
    model, where = parsed.proto, str(path)
    props = {p.key: p.value for p in model.metadata_props}
    if KIND not in props:
        raise PtqError(
            Problem(
                "PTQ610",
                where,
                "an ONNX model without ptqlab's block",
                "a .bc or .hbm written by ptqlab",
                "a float .onnx runs in ptqlab.Runtime too; a vendor's .bc or .hbm does not",
            )
        )
    if props.get(VERSION) != str(FORMAT):
        raise PtqError(
            Problem("PTQ611", where, f"format {shorten(props.get(VERSION, 'missing'))}", f"format {FORMAT}", REMEDY)
        )
    raise_if([*check_types(model), *check_topology(model)], damaged)
    try:
        loaded = attach(model, parsed.tensors)
    except ir.serde.SerdeError as error:
        found = f"a graph that cannot be read: {shorten(error.__cause__ or error)}"
        raise PtqError(Problem("PTQ612", where, found, "a graph that ptqlab wrote", REMEDY), damaged) from None
    raise_if(_problems(loaded, where), damaged)
    try:
        integers = {str(k): _integer_tensor(v) for k, v in json.loads(props[INTEGERS]).items()}
        about = json.loads(props[ABOUT])
        if not isinstance(about, dict) or props[KIND] not in KINDS:
            raise TypeError(f"kind {props[KIND]!r} with a block of {type(about).__name__}")
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise PtqError(
            Problem("PTQ612", where, f"unreadable metadata: {shorten(error)}", "the block ptqlab wrote", REMEDY),
            damaged,
        ) from None
    known = {str(o.name) for n in loaded.graph for o in n.outputs} | {v.name for v in loaded.graph.inputs}
    raise_if(
        [
            Problem("PTQ612", f"{where}: tensor {shorten(k)}", f"no tensor '{shorten(t.name)}'", "its codes", REMEDY)
            for k, t in integers.items() if t.name not in known
        ],
        damaged,
    )
    # whatever functions the file brings, an operator does what this version of ptqlab says
    loaded.functions.clear()
    used = {n.op_type for n in loaded.graph if n.domain == DOMAIN}
    for function in (op.function() for name, op in INTEGER_OPS.items() if name in used):
        loaded.functions[function.identifier()] = function
    parts = schedule(loaded.graph, lambda n: n.metadata_props[DEVICE])
    return Artifact(QuantizedModel(loaded, integers, parts).verify(), props[KIND], about)


def _integer_tensor(data: Mapping[str, Any]) -> IntegerTensor:
    scale = np.asarray(data["scale"], np.float32).reshape(data["shape"])
    return IntegerTensor(str(data["name"]), QType(data["type"]), scale, int(data["zero_point"]))


def _problems(model: ir.Model, where: str) -> list[Problem]:
    """Nodes that ptqlab would not have written."""
    problems = [
        Problem("PTQ612", f"{where}: input {shorten(v.name)}", "no fixed shape", "a fixed shape", REMEDY)
        for v in model.graph.inputs if v.shape is None or not v.shape.is_static()
    ]
    for value in model.graph.inputs:
        if value.shape is not None and value.shape.is_static():
            problems += _size_problems(value, f"{where}: input {shorten(value.name)}")
    names: set[str] = set()
    done: set[ir.Node] = set()
    for node in model.graph:
        label = f"{where}: node {shorten(node.name)}"
        if not node.name or node.name in names:
            problems.append(Problem("PTQ612", label, "a missing or repeated node name", "distinct names", REMEDY))
        names.add(str(node.name))
        late = [str(v.name) for v in outer_values(node) if (made := v.producer()) is not None and made not in done]
        if late:
            problems.append(Problem("PTQ612", label, f"it stands before what makes {shorten(', '.join(late))}",
                                    "nodes in the order in which they run", REMEDY))
        done.add(node)
        device = node.metadata_props.get(DEVICE)
        if device not in ("BPU", "CPU") or (node.domain == DOMAIN and device != "BPU"):
            problems.append(Problem("PTQ612", label, f"device {shorten(device)}", "BPU or CPU", REMEDY))
        problems += [
            Problem("PTQ612", label, f"output {shorten(out.name)} without type or fixed shape", "both", REMEDY)
            for out in node.outputs if out.name and not _is_whole(out)
        ]
        problems += [p for out in node.outputs if out.name and _is_whole(out) for p in _size_problems(out, label)]
        if node.domain == DOMAIN:
            problems += _operator_problems(node, label)
        elif node.domain:
            problems.append(
                Problem(
                    "PTQ612",
                    label,
                    f"operator {shorten(node.op_type)} of domain {shorten(node.domain)}",
                    f"standard ONNX operators and domain {DOMAIN}",
                    REMEDY,
                )
            )
        elif node.metadata_props.get(DEVICE) == "BPU" and node.op_type not in STANDARD and not _in_float(node):
            problems.append(
                Problem("PTQ612", label, f"{shorten(node.op_type)} on the BPU", ", ".join(sorted(STANDARD)), REMEDY)
            )
    return problems


def _size_problems(value: ir.Value, label: str) -> list[Problem]:
    """A tensor of a static shape that no machine holds, or of a negative size."""
    sizes = [] if value.shape is None else [int(d) for d in value.shape if isinstance(d, int)]
    if all(size >= 0 for size in sizes) and math.prod(sizes) <= LARGEST_TENSOR:
        return []
    return [Problem("PTQ612", label, f"{shorten(value.name)} of shape {sizes}", f"at most {LARGEST_TENSOR} elements",
                    REMEDY)]


def _in_float(node: ir.Node) -> bool:
    """Whether the float vector unit has a node: a cast between floats, or an operator that the table gives it."""
    spec = spec_of(node.op_type)
    known = node.op_type == "Cast" or spec.role is Role.PASSIVE or (
        spec.role is Role.ACTIVE and spec.engine is Engine.VAE)
    return known and is_floating(node)


def _is_whole(value: ir.Value) -> bool:
    typed = value.dtype not in (None, ir.DataType.UNDEFINED)
    return typed and value.shape is not None and value.shape.is_static()


def _operator_problems(node: ir.Node, label: str) -> list[Problem]:
    spec = INTEGER_OPS.get(node.op_type)
    if spec is None:
        return [
            Problem(
                "PTQ612",
                label,
                f"unknown integer operator {shorten(node.op_type)}",
                "an operator of this version",
                REMEDY,
            )
        ]
    problems = []
    if len(node.inputs) != len(spec.inputs):
        problems.append(
            Problem(
                "PTQ612", label, f"{len(node.inputs)} inputs", f"{len(spec.inputs)}: {', '.join(spec.inputs)}", REMEDY
            )
        )
    computed = [
        i for i, v in zip(spec.inputs, node.inputs, strict=False)
        if v is None or (v.const_value is None and (i in CONSTANTS or i.endswith(("multiplier", "shift"))))
    ]
    if computed:
        problems.append(Problem("PTQ612", label, f"missing or computed operands: {', '.join(computed)}",
                                "every operand, these as constants", REMEDY))
    wrong = [a for a, kind in spec.attributes.items() if a not in node.attributes or node.attributes[a].type != kind]
    if wrong:
        problems.append(Problem("PTQ612", label, f"attributes missing or of another type: {', '.join(wrong)}",
                                ", ".join(spec.attributes), REMEDY))
    return problems or _number_problems(node, spec.inputs, label)


def _number_problems(node: ir.Node, names: tuple[str, ...], label: str) -> list[Problem]:
    """Clamps outside of the output's type, multipliers and shifts that no ratio has: executors would not agree."""
    problems = []
    attributes = {a.name: a.value for a in node.attributes.values()}
    out = node.outputs[0]
    if "low" in attributes and _is_whole(out) and out.dtype is not None and out.dtype.numpy().kind == "i":
        limits = np.iinfo(out.dtype.numpy())
        # a Clip whose lower bound lies above the upper one gives the upper one everywhere [ONNX]
        if not all(limits.min <= attributes[end] <= limits.max for end in ("low", "high")):
            found = f"a clamp from {attributes['low']} to {attributes['high']}"
            problems.append(Problem("PTQ612", label, found, f"within {limits.min} to {limits.max}", REMEDY))
    for name, value in zip(names, node.inputs, strict=True):
        limit = next((r for suffix, r in RATIOS.items() if name.endswith(suffix)), None)
        if limit is None or value is None or value.const_value is None:
            continue
        array = value.const_value.numpy()
        if array.dtype.kind != "i" or (array.size and not limit[0] <= array.min() <= array.max() <= limit[1]):
            problems.append(Problem("PTQ612", label, f"{name} of {array.dtype} out of range",
                                    f"integers from {limit[0]} to {limit[1]}", REMEDY))
    return problems
