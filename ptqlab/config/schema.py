"""JSON Schemas of the compile YAML and of quant_config, for editors; made from the tables of fields."""

from __future__ import annotations

from typing import Any

from ptqlab.config.fields import EXTRAS_TOLERATED, GROUPS, OPTIONAL_GROUPS, Field
from ptqlab.config.quant_fields import (
    ACTIVATION,
    CORRECTION_ORDERS,
    DEFAULT_METRIC,
    DEVICES,
    DUAL,
    METRICS,
    OUTPUT_TYPES,
    QTYPES,
    TOP_ALIASES,
    WEIGHT_METHODS,
    ActivationField,
)

DIALECT = "https://json-schema.org/draft/2020-12/schema"
Schema = dict[str, Any]
REQUIRED = {"model_parameters": ["march"]}


def block(properties: Schema, description: str = "", extra: Any = False, **more: Any) -> Schema:
    out: Schema = {"type": "object", "properties": properties, "additionalProperties": extra, **more}
    return out | ({"description": description} if description else {})


def config_schema() -> Schema:
    """JSON Schema of the compile YAML."""
    groups = {}
    for group, fields in GROUPS.items():
        groups[group] = block({f.key: field_schema(f) for f in fields}, extra=group == EXTRAS_TOLERATED)
        groups[group] |= {"required": REQUIRED[group]} if group in REQUIRED else {}
        if group in OPTIONAL_GROUPS:
            groups[group]["type"] = ["object", "null"]
    out = block(groups, "compile configuration", required=["model_parameters"])
    return {"$schema": DIALECT, "title": "ptqlab / hb_compile configuration", **out}


def field_schema(row: Field) -> Schema:
    """Schema of one key; a key may also be left empty."""
    span = {k: v for k, v in (("minimum", row.low), ("maximum", row.high)) if v is not None}
    word = "|".join(row.allowed)
    entry = r"(None|[-+0-9.eE ,]+)"
    by_kind: dict[str, Schema] = {
        "bool": {"type": ["boolean", "null"]},
        "int": {"type": ["integer", "null"], **span},
        "float": {"type": ["number", "null"], **span},
        "auto_int": {"anyOf": [{"type": "integer", **span}, {"enum": ["none", "auto", None]}]},
        "choice": {"enum": [*row.allowed, "", None]},
        "choices": {"type": ["string", "null"], "pattern": rf"^(\s*({word})\s*(;\s*({word})\s*)*;?)?$"},
        "shapes": {"type": ["string", "null"], "pattern": r"^(\s*\d+(x\d+)*\s*(;\s*\d+(x\d+)*\s*)*;?|None)?$"},
        "vectors": {"type": ["string", "number", "null"], "pattern": rf"^({entry}(;{entry})*;?)?$"},
        "mapping": {"type": ["object", "null"], "additionalProperties": {"enum": list(row.allowed)} if word else True},
        "node_info": {"type": ["string", "object", "null"]},
        "quant_config": {"anyOf": [{"type": ["string", "null"]}, quant_config_schema()]},
    }
    text = f"{row.rule}. Allowed: {row.expected}" + (f". {row.key} {row.deprecated}" if row.deprecated else "")
    text += ". Kept for the vendor's tool; the estimate does not depend on it" if row.carried else ""
    out = by_kind.get(row.kind, {"type": ["string", "null"]}) | {"description": text}
    if row.deprecated:
        out["deprecated"] = True
    return out | ({"default": row.default} if row.default not in (None, "") else {})


def quant_config_schema() -> Schema:
    """JSON Schema of quant_config (canonical form and the accepted aliases)."""
    metric = block({"metric": {"enum": list(METRICS), "default": DEFAULT_METRIC}})
    samples: Schema = {"type": "integer", "minimum": 1, "default": 1}
    order: Schema = {"enum": list(CORRECTION_ORDERS), "default": "local"}
    correction = block({"num_sample": samples, **metric["properties"], "order": order})
    layer = block(
        {"topk": {"type": "integer", "minimum": 1}, "qtype": {"enum": list(QTYPES)}, **metric["properties"]},
        required=["topk", "qtype"],
    )
    activation = block({f.key: activation_schema(f) for f in ACTIVATION})
    aliases: Schema = {
        "activation": activation,
        "weight": block(
            {"calibration_type": {"enum": list(WEIGHT_METHODS)}, "bias_correction": correction}, "absent: off"
        ),
        "modelwise_search": metric,
        "layerwise_search": metric,
        "search": block({"layer": layer}),
    }
    assert set(aliases) == set(TOP_ALIASES)
    model = {"all_node_type": {"enum": list(QTYPES)}, "model_output_type": {"enum": list(OUTPUT_TYPES)}, **aliases}
    asked = {"enum": [*QTYPES, DUAL, "int32"]}
    entry = {"qtype": asked, "activation": activation, "ON": {"enum": list(DEVICES)}}
    per_input = {r"^(input|InputType)\d+$": {"enum": [*QTYPES, "int32"]}}
    names = {"type": "array", "items": {"type": "string"}, "minItems": 1}
    node = block(entry, patternProperties=per_input)
    ends = {"inputs": names, "outputs": names}
    subgraph = block({**ends, **entry}, patternProperties=per_input, required=["inputs", "outputs"])
    levels = {
        "model_config": block(model, "whole model", extra=block(model, "the same under a free name")),
        "op_config": block({}, "by operator type", extra=node),
        "subgraph_config": block({}, "by free name", extra=subgraph),
        "node_config": block({}, "by node name; the finest level wins", extra=node),
    }
    return {"$schema": DIALECT, "title": "quant_config", **block({**levels, **aliases})}


def activation_schema(row: ActivationField) -> Schema:
    kinds: dict[str, Schema] = {
        "choice": {"enum": list(row.allowed)},
        "bool": {"type": "boolean"},
        "int": {"type": "integer", "minimum": row.low, "maximum": row.high},
        "float": {"type": "number", "minimum": row.low, "maximum": row.high},
    }
    one = kinds[row.kind]
    many = {"anyOf": [one, {"type": "array", "items": one, "minItems": 1}]} if row.is_list else one
    return many | {"description": row.rule}
