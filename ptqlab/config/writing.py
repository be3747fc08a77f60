"""`Config` back to the structure of the YAML, and to YAML text."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from ptqlab.config.kinds import joined_names
from ptqlab.config.values import CompilerParameters, Config, ModelParameters
from ptqlab.config.yaml_reader import write_yaml


def as_dict(cfg: Config) -> dict[str, dict[str, Any]]:
    """Required keys and everything that differs from its default; `load` of it gives an equal configuration."""
    groups = {
        "model_parameters": model_group(cfg),
        "input_parameters": input_group(cfg),
        "calibration_parameters": calibration_group(cfg),
        "compiler_parameters": compiler_group(cfg),
    }
    return {name: block for name, block in groups.items() if block}


def as_yaml(cfg: Config) -> str:
    return write_yaml(as_dict(cfg))


def model_group(cfg: Config) -> dict[str, Any]:
    model = cfg.model
    out: dict[str, Any] = {
        "onnx_model": str(model.onnx_model),
        "march": model.march,
        "working_dir": str(model.working_dir),
        "output_model_file_prefix": model.output_model_file_prefix,
    }
    for key in ("output_nodes", "remove_node_type", "remove_node_name", "debug_mode"):
        if getattr(model, key):
            out[key] = joined_names(getattr(model, key))
    defaults = {f.name: f.default for f in fields(ModelParameters)}
    return out | {k: getattr(model, k) for k in ("enable_vpu", "enable_spu") if getattr(model, k) != defaults[k]}


def number(value: float) -> str:
    """Shortest text that reads back as the same float."""
    return repr(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)


def vector(values: tuple[float, ...] | None) -> str:
    return "None" if values is None else " ".join(number(v) for v in values)


def input_group(cfg: Config) -> dict[str, Any]:
    out: dict[str, Any] = {}
    inputs = cfg.inputs
    if any(i.name for i in inputs):
        out["input_name"] = joined_names(i.name for i in inputs)
    if inputs and cfg.types_given:
        out["input_type_rt"] = ";".join(i.type_rt for i in inputs)
        out["input_type_train"] = ";".join(i.type_train for i in inputs)
        if any(i.is_image for i in inputs):
            out["input_layout_train"] = ";".join(i.layout_train or "NCHW" for i in inputs)
        if any(i.space_and_range != "regular" for i in inputs):
            out["input_space_and_range"] = ";".join(i.space_and_range for i in inputs)
    if inputs and all(i.shape for i in inputs):
        out["input_shape"] = ";".join("x".join(map(str, i.shape or ())) for i in inputs)
    elif any(i.shape for i in inputs):
        out["input_shape"] = {i.name: "x".join(map(str, i.shape)) for i in inputs if i.shape}
    for key, name in (("mean_value", "mean"), ("scale_value", "scale")):
        if any(getattr(i, name) is not None for i in inputs):
            out[key] = ";".join(vector(getattr(i, name)) for i in inputs)
    if cfg.input_batch is not None:
        out["input_batch"] = cfg.input_batch
    if cfg.separate_batch:
        out["separate_batch"] = True
    if cfg.separate_name:
        out["separate_name"] = joined_names(cfg.separate_name)
    return out


def calibration_group(cfg: Config) -> dict[str, Any]:
    given = cfg.calibration
    out: dict[str, Any] = {}
    if given.folders:
        out["cal_data_dir"] = ";".join(str(p) for p in given.folders.values())
    if given.calibration_type:
        out["calibration_type"] = given.calibration_type
    if given.per_channel:
        out["per_channel"] = True
    if given.max_percentile is not None:
        out["max_percentile"] = given.max_percentile
    for key in ("run_on_cpu", "run_on_bpu", "unit_conv"):
        if getattr(given, key):
            out[key] = joined_names(getattr(given, key))
    if given.optimization:
        out["optimization"] = given.optimization
    if given.recipe:
        out["recipe"] = given.recipe
    if given.thresholds is not None:
        out["thresholds"] = str(given.thresholds)
    quant = given.quant.to_dict()
    if quant:
        out["quant_config"] = quant
    return out


def compiler_group(cfg: Config) -> dict[str, Any]:
    given = cfg.compiler
    default = CompilerParameters()
    keys = [f.name for f in fields(CompilerParameters) if f.name not in ("cache_path", "balance_factor")]
    out = {
        k: v for k in keys if (v := getattr(given, k)) != getattr(default, k) or k in ("compile_mode", "optimize_level")
    }
    if given.compile_mode == "balance":
        out["balance_factor"] = given.balance_factor
    if given.cache_path is not None:
        out["cache_path"] = str(given.cache_path)
    if "max_l2m_size" in out and out["max_l2m_size"] is None:
        out["max_l2m_size"] = "none"
    return out
