"""The page of `info`: everything a model file says of itself, in the order of hb_model_info."""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from ptqlab.pipeline.info import ModelInfo
from ptqlab.report.page import Page
from ptqlab.report.words import say
from ptqlab.stages.record import TensorInfo

INTERFACE_COLUMNS = ("NAME", "TYPE", "SHAPE", "DATA_TYPE")


def info_page(info: ModelInfo, *, encodings: bool = False) -> Page:
    """Versions, parameters by group, inputs and outputs, removable nodes, memory, operators, integer tensors."""
    march = f", {info.march}" if info.march else ""
    segments = f", {say('segments', n=info.segments)}" if info.segments else ""
    page = Page(f"{info.path.name}: {info.kind}{march}{segments}")
    page.heading(say("versions"))
    for name, version in info.versions.items():
        page.line(f"{name}: {version or '--'}")
    for group, values in info.settings.items():
        if isinstance(values, Mapping):
            page.heading(f"{group} info")
            for key, value in values.items():
                page.line(f"{key}: {plain(value)}")
    page.heading(say("interface"))
    rows = [_interface("input", t) for t in info.inputs] + [_interface("output", t) for t in info.outputs]
    if any(facts["scale_data"] for facts in info.interface.values()):
        page.table((*INTERFACE_COLUMNS, "SCALE", "ZERO POINT"),
                   [(*row, *_quantization(info.interface[row[0]])) for row in rows], ("SCALE", "ZERO POINT"))
    else:
        page.table(INTERFACE_COLUMNS, rows)
    if info.kind in ("bc", "hbm"):
        page.heading(say("removable"))
        page.table(("Node Name", "Node Type"), info.removable)
    page.heading(say("memory"))
    page.table(("memory", "bytes"), [(name, f"{size:,}") for name, size in info.memory.items()], ("bytes",))
    page.heading(say("operators"))
    page.line(", ".join(f"{op} {count}" for op, count in info.operators.items()) or say("none"))
    if encodings:
        page.heading(say("encodings"))
        page.table(("Tensor", "Stored as", "Type", "Scale", "Zero point"),
                   [(name, str(e["tensor"]), str(e["type"]), _scale(e["scale"]), str(e["zero_point"]))
                    for name, e in info.encodings.items()], ("Scale", "Zero point"))
        if info.encodings:
            page.line("x = (q - zero point) * scale;  q = clamp(round(x / scale + zero point))")
            page.line(f'ptqlab.Runtime("{info.path.name}").real(name, q), .codes(name, x)')
    return page


def info_dict(info: ModelInfo) -> dict[str, Any]:
    """The same as plain data for JSON."""
    held = asdict(info) | {"path": str(info.path)}
    held["removable"] = [{"node": name, "type": kind} for name, kind in info.removable]
    held["encodings"] = {name: dict(e) | {"scale": np.asarray(e["scale"]).tolist(), "zero_point": int(e["zero_point"])}
                         for name, e in info.encodings.items()}
    return held


def plain(value: Any) -> str:
    """A value of the configuration on one line."""
    return ";".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _interface(kind: str, tensor: TensorInfo) -> tuple[str, str, str, str]:
    shape = "[" + ", ".join("?" if d < 0 else str(d) for d in tensor.shape) + "]"
    return tensor.name, kind, shape, tensor.dtype.upper()


def _quantization(facts: Mapping[str, Any]) -> tuple[str, str]:
    """Scale and zero point of an input or output, empty where it holds real numbers."""
    if not facts["scale_data"]:
        return "", ""
    return _scale(facts["scale_data"]), str(facts["zero_point_data"][0])


def _scale(scale: Any) -> str:
    values = np.asarray(scale).reshape(-1)
    if len(values) == 1:
        return f"{values[0]:.9g}"
    return f"{values.min():.9g} .. {values.max():.9g} ({len(values)} channels)"
