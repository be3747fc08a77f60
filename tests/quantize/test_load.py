"""Thresholds from files: records, JSON, calibrated models, models with QuantizeLinear; and what is no threshold."""
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from calibration_nets import mobile, recipe
from onnx import TensorProto, helper, numpy_helper

from ptqlab.errors import PtqError
from ptqlab.events import Watch
from ptqlab.graph import save
from ptqlab.quantize.calibrate import calibrate
from ptqlab.quantize.calibrated import calibrated_model
from ptqlab.quantize.encode import encode, encode_slots
from ptqlab.quantize.load import read_thresholds
from ptqlab.quantize.methods import Found
from ptqlab.quantize.recipe import Recipe


def written(folder: Path, data: Any, name: str = "t.json") -> Path:
    path = folder / name
    path.write_text(data if isinstance(data, str) else json.dumps(data), encoding="utf-8")
    return path


def with_file(found: Recipe, path: Path) -> Recipe:
    from dataclasses import replace

    return replace(found, loaded=read_thresholds(path), loaded_from=path.name)


@pytest.mark.parametrize("asymmetric", [False, True])
@pytest.mark.parametrize("form", ["record", "model"])
def test_an_earlier_run_is_taken_as_it_was(form: str, asymmetric: bool, tmp_path: Path) -> None:
    """Record and calibrated model of a run give the encodings of that run again, on other samples too."""
    graph, plan, samples = mobile(3)
    asked = recipe(graph, plan, {"activation": {"calibration_type": "mse", "asymmetric": asymmetric}})
    first = calibrate(graph, plan, samples, 3, Watch(), asked)
    if form == "record":
        path = written(tmp_path, {"calibration": first.to_dict()})
    else:
        path = save(calibrated_model(graph, plan, encode(graph, plan, first)).model, tmp_path / "c.onnx")
    other = [{"x": 9 * s["x"]} for s in samples[:1]]
    again = calibrate(graph, plan, other, 1, Watch(), with_file(recipe(graph, plan), path))
    assert {t.method for t in again.thresholds.values()} == {"load"}
    for slot, e in encode_slots(plan, first).slots.items():
        got = encode_slots(plan, again).slots[slot]
        assert (got.qtype, got.zero_point) == (e.qtype, e.zero_point)
        assert float(got.scale) == pytest.approx(float(e.scale), rel=1e-6)
    assert again.thresholds["x"].clipped > 0


def test_missing_tensors_are_calibrated_and_strange_names_are_told(tmp_path: Path) -> None:
    """What the file does not name gets the configured method; a name of nothing is reported with the nearest."""
    graph, plan, samples = mobile(2)
    path = written(tmp_path, {"r0": 2.5, "sum": [-1, 3], "summ": 1.0})
    found = calibrate(graph, plan, samples, 2, Watch(), with_file(recipe(graph, plan), path))
    assert (found.thresholds["r0"].value, found.thresholds["r0"].method) == (2.5, "load")
    assert (found.thresholds["sum"].bounds, found.thresholds["sum"].value) == ((-1.0, 3.0), 3.0)
    assert found.thresholds["x"].method == "mse"
    told = [f for f in found.findings if f.code == "PTQ527"]
    assert [f.severity for f in told] == ["warning", "note"]
    assert "summ" in told[0].message and "sum" in told[0].hint
    assert told[1].message == "t.json: thresholds of 2 tensors loaded, 3 calibrated"


def test_a_loaded_threshold_is_no_candidate(tmp_path: Path) -> None:
    """Searches leave loaded tensors alone."""
    graph, plan, samples = mobile(3)
    path = written(tmp_path, {"r1": 2.0})
    for block in ({}, {"layerwise_search": {}}):
        asked = recipe(graph, plan, {"activation": {"calibration_type": ["kl", "max", "mse"]}} | block)
        found = calibrate(graph, plan, samples, 3, Watch(), with_file(asked, path))
        assert found.thresholds["r1"].value == 2.0


def test_quantize_linear(tmp_path: Path) -> None:
    """uint8 with zero point 0 reaches 255 steps up, int8 with zero point 0 is symmetric, others are ranges."""
    constants = {"s": np.float32(0.1), "zu": np.uint8(0), "zi": np.int8(0), "zo": np.int8(-28)}
    nodes = [helper.make_node("QuantizeLinear", [x, "s", z], [f"{x}_q"], name=x)
             for x, z in (("a", "zu"), ("b", "zi"), ("c", "zo"))]
    nodes.append(helper.make_node("QuantizeLinear", ["d", "s"], ["d_q"], name="d"))
    graph = helper.make_graph(
        nodes, "q", [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2]) for n in "abcd"],
        [helper.make_tensor_value_info("a_q", TensorProto.UINT8, [2])],
        [numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()])
    path = tmp_path / "qat.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    found = read_thresholds(path)
    s = float(np.float32(0.1))
    assert found == {
        "a": Found(255 * s, (0.0, 255 * s)), "b": Found(127 * s), "c": Found(155 * s, (-100 * s, 155 * s)),
        "d": Found(255 * s, (0.0, 255 * s)),
    }


@pytest.mark.parametrize(("text", "said"), [
    ("{", "not JSON"),
    ("[" * 100_000, "not JSON"),
    ("[1]", "a list"),
    ("{}", "no thresholds in it"),
    ('{"x": 0}', "x"),
    ('{"x": NaN}', "x"),
    ('{"x": 1e39}', "x"),
    ('{"x": true}', "x"),
    ('{"x": [1, 2]}', "x"),
    ('{"x": [0, 0]}', "x"),
    ('{"x": "1"}', "x"),
    ('{"calibration": {"tensors": 3}}', "no thresholds in it"),
])
def test_nonsense_is_refused(text: str, said: str, tmp_path: Path) -> None:
    """The refusal names file, entry and what is allowed."""
    with pytest.raises(PtqError) as refused:
        read_thresholds(written(tmp_path, text))
    assert refused.value.problems[0].code == "PTQ528"
    assert said in str(refused.value)


def test_every_bad_entry_is_told(tmp_path: Path) -> None:
    """All bad entries at once."""
    with pytest.raises(PtqError) as refused:
        read_thresholds(written(tmp_path, {"a": -1, "b": 2, "c": None}))
    assert [p.where.rpartition(" ")[2] for p in refused.value.problems] == ["a", "c"]


@pytest.mark.parametrize("name", ["t.txt", "t.onnx", "missing.json"])
def test_other_files_are_refused(name: str, tmp_path: Path) -> None:
    """A wrong suffix, a file that is no model, a file that is not there."""
    if not name.startswith("missing"):
        (tmp_path / name).write_bytes(b"\x00nonsense")
    with pytest.raises(PtqError):
        read_thresholds(tmp_path / name)
