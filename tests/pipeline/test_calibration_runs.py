"""Calibration as part of a compile: what is said, what is kept between runs, who does the work."""
from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest
from models import MODELS

import ptqlab
from ptqlab.errors import Interrupted
from ptqlab.events import Event, Watch
from ptqlab.quantize.statistics import Pass
from ptqlab.workers import session_store


@pytest.fixture
def given(tmp_path: Path) -> dict[str, Any]:
    model, feeds = MODELS["mobile_block"]()
    onnx.save(model, tmp_path / "net.onnx")
    data = {name: [x * 0.2, x * 0.1, x * 0.15] for name, x in feeds.items()}
    return {"model": str(tmp_path / "net.onnx"), "march": "nash-e", "calibration_data": data, "progress": False,
            "working_dir": tmp_path / "out", "output_nodes": "fc"}


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Numbers of the samples that the float model was run on."""
    session_store()._entries.clear()  # type: ignore[attr-defined]
    numbers: list[int] = []
    plain = Pass.take

    def take(self: Pass, index: int, sample: Any, into: Any) -> None:
        numbers.append(index)
        plain(self, index, sample, into)

    monkeypatch.setattr(Pass, "take", take)
    return numbers


def test_the_record_tells_every_tensor(given: dict[str, Any]) -> None:
    """What was asked for a tensor, where that stands, what it got and why; the log names the method of the run."""
    logs: list[str] = []
    watch = Watch(lambda e: logs.append(e.text) if e.kind == "log" else None)
    block = {"model_config": {"activation": {"calibration_type": "max", "per_channel": True}},
             "node_config": {"conv1": {"activation": {"calibration_type": "mse", "per_channel": False}}}}
    run = ptqlab.compile(**given, quant_config=block, watch=watch)
    tensors = run.record.calibration["tensors"]
    assert tensors["r0"]["asked"].startswith("mse (node (")
    assert "node_config.conv1.activation.calibration_type" in tensors["r0"]["asked"]
    assert (tensors["r0"]["granted"], tensors["r0"]["reason"]) == ("mse", "")
    assert tensors["x"]["granted"] == "max"
    assert tensors["x"]["reason"] == "one step for all channels: no operator on the BPU writes it"
    assert any(line.startswith("calibration: max") for line in logs)
    assert sum(f.code == "PTQ413" for f in run.record.findings) == 1


def test_the_default_is_told(given: dict[str, Any]) -> None:
    """Log and record say that nothing was configured and what that means."""
    run = ptqlab.compile(**given)
    assert run.record.calibration["method"] == "mse (ptqlab's default)"
    assert run.record.calibration["bias_correction"] == {"samples": 3, "nodes": 4, "inputs": 4}
    told = "biases of 4 nodes corrected from 3 samples for rounded weights, those of 4 also for rounded inputs"
    assert told in run.artifacts["log"].read_text()


def test_the_same_calibration_is_not_done_twice(given: dict[str, Any], taken: list[int]) -> None:
    """A second compile in the session, with other types too, uses what the first has seen; other samples do not."""
    first = ptqlab.compile(**given)
    assert sorted(taken) == [0, 1, 2]
    again = ptqlab.compile(**given)
    assert again.outputs.equals(first.outputs)
    ptqlab.compile(**given, quant_config={"op_config": {"Add": {"qtype": "int16"}}})
    assert len(taken) == 3
    data = {name: [x * 1.5 for x in arrays] for name, arrays in given["calibration_data"].items()}
    ptqlab.compile(**given | {"calibration_data": data})
    assert len(taken) == 6


def test_a_stopped_run_is_continued(given: dict[str, Any], taken: list[int]) -> None:
    """Stopped after two samples of calibration, the next run begins with the third."""
    def stop(event: Event) -> None:
        if event.stage == "calibrate" and event.kind == "step" and event.done == 2:
            watch.stop()

    watch = Watch(stop)
    with pytest.raises(Interrupted):
        ptqlab.compile(**given, watch=watch, executor=1)
    assert taken == [0, 1]
    ptqlab.compile(**given, executor=1)
    assert taken == [0, 1, 2]


def test_the_cache_folder(given: dict[str, Any], taken: list[int], tmp_path: Path) -> None:
    """With cache_mode enable the next process finds the statistics in cache_path; force_overwrite makes them anew."""
    cache = tmp_path / "cache"
    cache.mkdir()
    ptqlab.compile(**given, cache_mode="enable", cache_path=str(cache))
    assert list(cache.iterdir())
    session_store()._entries.clear()  # type: ignore[attr-defined]
    ptqlab.compile(**given, cache_mode="enable", cache_path=str(cache))
    assert len(taken) == 3
    ptqlab.compile(**given, cache_mode="force_overwrite", cache_path=str(cache))
    assert len(taken) == 6


@pytest.mark.parametrize("executor", ["threads", 2, 1])
def test_who_does_the_work_changes_nothing(given: dict[str, Any], executor: Any) -> None:
    """The same outputs and record of calibration by any executor."""
    plain = ptqlab.compile(**given)
    session_store()._entries.clear()  # type: ignore[attr-defined]
    run = ptqlab.compile(**given, executor=executor)
    assert run.outputs.equals(plain.outputs)
    assert run.record.calibration == plain.record.calibration


def test_thresholds_of_an_earlier_run(given: dict[str, Any], tmp_path: Path) -> None:
    """The record of a run, named in `thresholds`, gives its thresholds to another run on other samples."""
    first = ptqlab.compile(**given, quant_config={"model_config": {"activation": {"calibration_type": "max"}}})
    kept = tmp_path / "kept.json"
    kept.write_text(Path(first.artifacts["record"]).read_text())
    data = {name: arrays[:1] for name, arrays in given["calibration_data"].items()}
    run = ptqlab.compile(**given | {"calibration_data": data}, thresholds=str(kept))
    a, b = (r.record.calibration["tensors"] for r in (first, run))
    assert {t: v["threshold"] for t, v in b.items()} == {t: v["threshold"] for t, v in a.items()}
    assert {v["granted"] for v in b.values()} == {"load"}
    assert any(f.code == "PTQ527" for f in run.record.findings)
