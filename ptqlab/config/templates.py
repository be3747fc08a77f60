"""YAML templates as hb_config_generator gives them: simple and full, commented in English and Chinese.

The keys, their order and the comments come from the table of fields; a model given as plain data fills the values in.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

from ptqlab.config.fields import GROUPS, Field
from ptqlab.config.kinds import joined_names
from ptqlab.config.values import InputParameters
from ptqlab.config.yaml_reader import read_yaml

KINDS = ("simple", "full")
PLAIN = re.compile(r"[A-Za-z./][\w./-]*")  # text that needs no quotes, unless YAML reads it as something else
# Starting values of a template where they are not the default (those of the vendor's generator).
START: dict[str, Any] = {
    "onnx_model": "./model.onnx",
    "march": "nash-e",
    "input_type_rt": "nv12",
    "input_type_train": "bgr",
    "input_layout_train": "NCHW",
    "cal_data_dir": "./calibration_data_dir",
    "quant_config": {},
}


def infer_input(name: str, shape: Sequence[int]) -> InputParameters:
    """What an input most likely is: an image of even size with 3 channels is bgr fed as nv12, all else a featuremap."""
    layout = ""
    if len(shape) == 4:
        layout = "NCHW" if shape[1] == 3 else "NHWC" if shape[3] == 3 else ""
    height_width = shape[2:4] if layout == "NCHW" else shape[1:3]
    if not layout or any(d % 2 for d in height_width):
        return InputParameters(name, shape=tuple(shape))
    return InputParameters(name, "nv12", "bgr", layout, shape=tuple(shape), source="pyramid")


def template(
    kind: str = "simple",
    model: str | None = None,
    march: str | None = None,
    inputs: Mapping[str, Sequence[int]] | None = None,
) -> str:
    """Text of a template.

    kind    "simple" or "full"
    model   path of the float model; inputs  name -> shape, in the model's order
    """
    assert kind in KINDS, kind
    values = dict(START) | ({"march": march} if march else {})
    if model:
        values |= {"onnx_model": model, "output_model_file_prefix": PurePath(model).stem}
    if inputs:
        values |= input_values([infer_input(name, shape) for name, shape in inputs.items()])
    lines = ["# Configuration for ptqlab and hb_compile / ptqlab 与 hb_compile 的编译配置"]
    for group, fields in GROUPS.items():
        keys = {f.key for f in fields if f.template == "simple" or (f.template and kind == "full")}
        if inputs and len(inputs) > 1 and group == "input_parameters":
            keys.add("input_name")  # several inputs need their names
        rows = [f for f in fields if f.key in keys]
        if not rows:
            continue
        lines += ["", f"{group}:"]
        for row in rows:
            lines += field_lines(row, values)
    return "\n".join(lines) + "\n"


def input_values(inputs: Sequence[InputParameters]) -> dict[str, str]:
    """Lists of input_parameters and the calibration folders, one entry per input."""

    def join(words: Sequence[str]) -> str:
        return ";".join(words)

    several, folder = len(inputs) > 1, START["cal_data_dir"]
    return {
        "input_name": joined_names(i.name for i in inputs),
        "input_shape": join(["x".join(map(str, i.shape or ())) for i in inputs]),
        "input_type_rt": join([i.type_rt for i in inputs]),
        "input_type_train": join([i.type_train for i in inputs]),
        "input_layout_train": join([i.layout_train or "NCHW" for i in inputs]),
        "cal_data_dir": join([f"{folder}/{i.name}" if several else folder for i in inputs]),
    }


def field_lines(row: Field, values: Mapping[str, Any]) -> list[str]:
    """Comments in both languages and the key with its value; keys without a value stay empty."""
    words = ", ".join(row.allowed) if row.allowed else row.expected if row.kind in ("shapes", "vectors") else ""
    allowed = f" ({words})" if words else ""
    value = values.get(row.key, row.default)
    return ["", f"  # {row.rule}{allowed}", f"  # {row.zh}", f"  {row.key}:{written(value)}"]


def written(value: Any) -> str:
    """A value as YAML behind the colon; JSON text is YAML."""
    if value is None:
        return ""
    plain = isinstance(value, str) and PLAIN.fullmatch(value) and read_yaml(value, "").data == value
    return f" {value}" if plain else f" {json.dumps(value, ensure_ascii=False)}"
