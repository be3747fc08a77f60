"""Any value at any key: a refusal, or a configuration that can be written and read again. Never another exception."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from ptqlab import config
from ptqlab.config.fields import GROUPS
from ptqlab.config.yaml_reader import read_yaml
from ptqlab.errors import PtqError

from .test_config_loading import FULL
from .test_quant_config import GUIDE

STRANGE: list[Any] = [
    None, "", " ", ";", "a;;b", "None", "none;None", True, False, 0, -1, 2.5, 1e308, float("nan"), float("inf"), 10**30,
    [], {}, [[]], [None], {"": {}}, {"a": None}, {"a": {"b": {"c": 1}}}, "1x", "1x1", "1e400", "nan nan", "\0", "\n",
    "a" * 5000, "~nobody/x", "../x", "{", "[]", "{}", "img;state;x", "rgb;rgb", "nv12", (1, 2), b"x", object(),
]  # fmt: skip
GRAPH = {"img": ((1, 3, 224, 224), "float32"), "state": ((1, 64), "float32")}


def survives(data: dict[str, Any]) -> bool:
    """True where the configuration is accepted: then it is whole, and reads back equal, bound and unbound."""
    try:
        cfg = config.load(data)
    except PtqError:
        return False
    assert cfg.model.onnx_model.is_file()
    assert cfg.model.march
    assert config.load(cfg.to_dict()) == cfg
    try:
        bound = config.bind(cfg, GRAPH)
    except PtqError:
        return False
    assert config.load(bound.to_dict()) == bound
    return True


@pytest.mark.parametrize("group", GROUPS)
def test_any_value_at_any_key(group: str, folder: Path) -> None:
    """Every key of the group with every strange value, in an otherwise good configuration."""
    good = read_yaml(FULL, "full").data
    assert survives(good)
    accepted = 0
    for field in GROUPS[group]:
        for value in STRANGE:
            data = copy.deepcopy(good)
            data.setdefault(group, {})[field.key] = value
            accepted += survives(data)
    assert accepted > 0


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [p for k, v in inner for p in ((*path, k), *places(v, (*path, k)))]


def test_any_value_anywhere_in_quant_config() -> None:
    """Every place of the published template with every strange value: refused, or written and read back equal."""
    results = set()
    for path in places(GUIDE):
        for value in STRANGE:
            data: Any = copy.deepcopy(GUIDE)
            at = data
            for key in path[:-1]:
                at = at[key]
            at[path[-1]] = value
            try:
                quant = config.QuantConfig.parse(data)
            except PtqError:
                results.add("refused")
                continue
            assert config.QuantConfig.parse(quant.to_dict()) == quant
            results.add("accepted")
    assert results == {"refused", "accepted"}
