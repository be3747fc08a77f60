"""The tables of fields are whole, and what is made from them is too."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from ptqlab import config
from ptqlab.config.fields import GROUPS, field_of
from ptqlab.config.image_types import INPUT_SOURCES, INPUT_TYPES, default_source
from ptqlab.config.reference import markdown
from ptqlab.config.yaml_reader import read_yaml

from .test_config_loading import FULL
from .test_quant_config import GUIDE

ALL = [f for fields in GROUPS.values() for f in fields]


def test_every_key_is_explained() -> None:
    """Each key stands once, has a rule in both languages, and says what is expected."""
    assert len({f.key for f in ALL}) == len(ALL) == 61
    for field in ALL:
        assert field.rule
        assert field.expected
        assert any(ord(c) > 0x2E80 for c in field.zh) or field.zh.startswith("hbdk3")


def test_types_of_inputs_agree() -> None:
    """Every run-time type exists, feeds itself, and has a source that takes it, its default among them."""
    for kind in INPUT_TYPES.values():
        assert set(kind.runs_as) <= set(INPUT_TYPES)
        assert not kind.runs_as or kind.word in kind.runs_as
        assert kind.word in INPUT_SOURCES[default_source(kind.word)]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_reference_lists_every_key(language: str) -> None:
    """The documentation page has a row for every key and every table row the same number of cells."""
    page = markdown(language)
    assert all(f"`{f.key}`" in page for f in ALL)
    for table in page.split("\n\n"):
        rows = [line.replace("\\|", "") for line in table.splitlines() if line.startswith("|")]
        assert len({row.count("|") for row in rows}) <= 1


def validator(schema: dict[str, Any]) -> jsonschema.Draft202012Validator:
    jsonschema.Draft202012Validator.check_schema(schema)
    json.dumps(schema)
    return jsonschema.Draft202012Validator(schema)


def test_schema_takes_good_files() -> None:
    """The fullest configuration, a template and the published quant_config are valid by the schemas."""
    for text in (FULL, config.template("full"), config.template("simple")):
        assert list(validator(config.config_schema()).iter_errors(read_yaml(text, "c").data)) == []
    assert list(validator(config.quant_config_schema()).iter_errors(json.loads(json.dumps(GUIDE)))) == []


@pytest.mark.parametrize(
    ("group", "key", "value"),
    [
        ("model_parameters", "march", "nash-x"),
        ("model_parameters", "wroking_dir", "out"),
        ("model_parameters", "remove_node_type", "Quantize;Conv"),
        ("model_parameters", "enable_vpu", "true"),
        ("input_parameters", "input_type_rt", "nv12;nv13"),
        ("input_parameters", "input_shape", "1x3x?x8"),
        ("input_parameters", "input_batch", 0),
        ("input_parameters", "mean_value", "a b"),
        ("calibration_parameters", "max_percentile", 0.4),
        ("calibration_parameters", "quant_config", {"nodes_config": {}}),
        ("compiler_parameters", "optimize_level", "O3"),
        ("compiler_parameters", "input_source", {"x": "camera"}),
        ("compiler_parameters", "max_l2m_size", "all"),
    ],
)
def test_schema_refuses_what_the_loader_refuses(group: str, key: str, value: object) -> None:
    """An editor with the schema marks the mistakes that the loader would refuse."""
    data: dict[str, Any] = {"model_parameters": {"onnx_model": "net.onnx", "march": "nash-e"}}
    data[group] = data.get(group, {}) | {key: value}
    assert list(validator(config.config_schema()).iter_errors(data))


def test_schema_of_quant_config_refuses() -> None:
    """Unknown keys and types at each level are marked."""
    schema = validator(config.quant_config_schema())
    for bad in (
        {"nodes_config": {}},
        {"node_config": {"n": {"qtype": "int4"}}},
        {"op_config": {"Conv": {"dtype": "int8"}}},
        {"subgraph_config": {"h": {"qtype": "int8"}}},
        {"model_config": {"activation": {"num_bin": 3}}},
        {"model_config": {"free": {"bad": 1}}},
    ):
        assert list(schema.iter_errors(bad)), bad


def test_limits_of_the_table_hold_in_the_loader() -> None:
    """The row of a key gives its allowed values: a spot check that the loader reads the same table."""
    assert field_of("compiler_parameters", "optimize_level").allowed == ("O0", "O1", "O2")
    assert field_of("calibration_parameters", "max_percentile").expected == "a number from 0.5 to 1"
