"""Thresholds of an earlier run or of a quantization-aware training, taken instead of calibrated ones.

    .json   a record of ptqlab (`<prefix>_record.json`), or {tensor: T} and {tensor: [low, high]} for asymmetric ranges
    .onnx   a calibrated model of ptqlab, or any model with QuantizeLinear on activations (the range of its codes)

Names are tensors of the optimized graph. What the file does not name is calibrated as the configuration says.
"""
from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

from ptqlab.errors import Finding, Problem, PtqError, nearest, shorten
from ptqlab.ops.calibration_node import DOMAIN
from ptqlab.ops.node import constant, input_value
from ptqlab.quantize.calibrated import SLOT
from ptqlab.quantize.methods import Found
from ptqlab.quantize.options import SlotOptions
from ptqlab.stages.plan import Plan

TITLE = "The thresholds cannot be loaded"
LARGEST_FILE = 64 << 20
NAMED = 5


def read_thresholds(path: Path) -> dict[str, Found]:
    """Tensor -> threshold of a file. Raises PtqError with every entry that is none."""
    if not path.is_file():
        raise _refused(path, "there is no such file", "a .json or .onnx file with thresholds")
    if path.suffix == ".onnx":
        found, problems = _of_model(path)
    elif path.suffix == ".json":
        found, problems = _of_json(path)
    else:
        raise _refused(path, f"a file that ends in {path.suffix or 'nothing'}", ".json or .onnx")
    if problems:
        raise PtqError(problems, TITLE)
    if not found:
        raise _refused(path, "no thresholds in it", "tensors with thresholds")
    return found


def _refused(path: Path, found: str, expected: str) -> PtqError:
    return PtqError(Problem("PTQ528", str(path), found, expected), TITLE)


def _of_json(path: Path) -> tuple[dict[str, Found], list[Problem]]:
    if path.stat().st_size > LARGEST_FILE:
        raise _refused(path, f"{path.stat().st_size >> 20} MiB", "thresholds, a few bytes per tensor")
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise _refused(path, f"not JSON: {shorten(error)}", "JSON") from None
    if isinstance(data, dict) and isinstance(data.get("calibration"), dict):
        tensors = data["calibration"].get("tensors", {})
        data = {
            name: t.get("range") or t.get("threshold") for name, t in tensors.items() if isinstance(t, dict)
        } if isinstance(tensors, dict) else {}
    if not isinstance(data, dict):
        raise _refused(path, f"a {type(data).__name__}", "an object of tensors")
    found: dict[str, Found] = {}
    problems: list[Problem] = []
    for name, value in data.items():
        loaded = _loaded(value)
        if loaded is None:
            problems.append(Problem("PTQ528", f"{path}: {shorten(name)}", shorten(json.dumps(value)),
                                    "a positive number T, or [low, high] with low <= 0 <= high"))
        else:
            found[name] = loaded
    return found, problems


def _loaded(value: Any) -> Found | None:
    if _is_number(value):
        return Found(float(value)) if value > 0 else None
    if isinstance(value, list) and len(value) == 2 and all(_is_number(v) for v in value):
        low, high = float(value[0]), float(value[1])
        if low <= 0 <= high and low < high:
            return Found(max(-low, high), (low, high))
    return None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and abs(value) < 3e38


def _of_model(path: Path) -> tuple[dict[str, Found], list[Problem]]:
    try:
        model = ir.load(path)
    except Exception as error:
        raise _refused(path, f"no ONNX model: {shorten(error)}", "an ONNX model") from None
    found: dict[str, Found] = {}
    problems: list[Problem] = []
    for node in model.graph:
        try:
            entry = _of_node(node)
        except (KeyError, ValueError, TypeError, IndexError) as error:
            where = f"{path}: node {shorten(node.name)}"
            problems.append(Problem("PTQ528", where, shorten(error), "one scale per tensor"))
            continue
        if entry is not None:
            found.setdefault(*entry)
    return found, problems


def _of_node(node: ir.Node) -> tuple[str, Found] | None:
    """What a quantizer of an activation says of its tensor; None for other nodes and for weights."""
    x = input_value(node, 0)
    if x is None or x.const_value is not None:
        return None
    if node.domain == DOMAIN and node.attributes["kind"].as_string() == "activation":
        name = node.metadata_props.get(SLOT, str(x.name))
        scale, zero_point = node.attributes["scales"].as_floats(), node.attributes["zero_point"].as_int()
        low, high = node.attributes["low"].as_int(), node.attributes["high"].as_int()
        threshold = float(node.attributes["thresholds"].as_floats()[0])
        return name, _range(np.asarray(scale), zero_point, low, high, threshold)
    if node.op_type == "QuantizeLinear":
        scale_, zero = constant(input_value(node, 1)), constant(input_value(node, 2))
        if scale_ is None:
            raise ValueError("its scale is computed")
        info = np.iinfo(np.uint8 if zero is None else zero.dtype)
        offset = 0 if zero is None else int(zero.reshape(-1)[0])
        return str(x.name), _range(np.asarray(scale_), offset, int(info.min), int(info.max), None)
    return None


def _range(scale: np.ndarray, zero_point: int, low: int, high: int, threshold: float | None) -> Found:
    if scale.size != 1:
        raise ValueError(f"{scale.size} scales")
    step = float(scale.reshape(-1)[0])
    if not (math.isfinite(step) and step > 0):
        raise ValueError(f"scale {step}")
    if zero_point == 0 and low < 0:
        return Found(threshold or high * step)
    bounds = ((low - zero_point) * step, (high - zero_point) * step)
    return Found(max(-bounds[0], bounds[1]), bounds)


def with_loaded(
    plan: Plan, options: Mapping[str, SlotOptions], loaded: Mapping[str, Found], where: str
) -> tuple[dict[str, SlotOptions], list[Finding]]:
    """The options with loaded thresholds alone where the file names a tensor of the slot, and what is to be said.

    Where a file names several tensors of a slot, the slot's own name counts, then the widest range.
    """
    by_slot: dict[str, dict[str, Found]] = {}
    for name, value in loaded.items():
        if name in plan.tensors:
            by_slot.setdefault(plan.tensors[name].slot, {})[name] = value
    result = dict(options)
    for slot, given in by_slot.items():
        chosen = given.get(slot) or max(given.values(), key=lambda v: v.value)
        base = options[slot].thresholds[0]
        if "all-zero" in base.tags:
            base = replace(base, tags=tuple(t for t in base.tags if t != "all-zero"))
        low, high = chosen.bounds or (-chosen.value, chosen.value)
        clipped = options[slot].clipped(low, high)
        threshold = replace(base, value=chosen.value, bounds=chosen.bounds, channels=(), trailing=0, method="load",
                            note="", clipped=clipped)
        result[slot] = replace(options[slot], asked=options[slot].asked[:1], thresholds=(threshold,), trial=())
    return result, _findings(plan, by_slot, loaded, where)


def _findings(plan: Plan, by_slot: Mapping[str, object], loaded: Mapping[str, Found], where: str) -> list[Finding]:
    findings = []
    strange = [n for n in loaded if n not in plan.tensors]
    if strange:
        near = nearest(strange[0], plan.tensors)
        named = ", ".join(shorten(n) for n in strange[:NAMED]) + (f" and {len(strange) - NAMED} more"
                                                                   if len(strange) > NAMED else "")
        findings.append(Finding(
            "PTQ527", f"{where}: {len(strange)} thresholds are of no tensor that is quantized here: {named}", (),
            f"nearest to the first: {', '.join(near)}" if near else ""))
    rest = len(plan.sources) - len(by_slot)
    findings.append(Finding(
        "PTQ527", f"{where}: thresholds of {len(by_slot)} tensors loaded, {rest} calibrated", severity="note"))
    return findings
