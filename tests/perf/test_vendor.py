"""The vendor's field names, and the lines of the console."""

from __future__ import annotations

import json

import pytest
from perf.common import chain, table

from ptqlab.perf import estimate, performance_json, summary_lines
from ptqlab.perf.vendor import ENGINES, intervals

SUMMARY = {
    "performance": {"FPS", "latency (us)", "latency (ms)", "latency (us) by segments"},
    "DDR access data": {
        "DDR megabytes per run",
        "loaded bytes per run",
        "stored bytes per run",
        "min memory requirement",
        "input memory",
        "output memory",
        "static memory",
        "dynamic memory",
        "intermediate memory",
        "temporary memory",
    },
    "interval info": {
        "interval number",
        "interval time (ms)",
        "interval computing unit utilization",
        "interval ddr loading bandwidth (megabytes/s)",
        "interval ddr storing bandwidth (megabytes/s)",
    },
    "model info": {
        "BPU march",
        "BPU core number",
        "compiling HBDK version",
        "compiling options",
        "double int8 macs",
        "feature int16 weight int8 macs",
        "feature int8 weight int16 macs",
        "double int16 macs",
        "original conv ops",
    },
}


def test_field_names() -> None:
    """Every documented field is there under its name, and the whole is JSON."""
    found = json.loads(json.dumps(performance_json(estimate(chain(), "nash-e", model="chain"), "O2")))
    assert {key: set(value) for key, value in found["summary"].items() if isinstance(value, dict)} == SUMMARY
    assert set(found) == {"summary", "coreSummaryGroup", "details", "ptqlab"}
    layers = found["summary"]["layer details"]
    assert [layer["layer name"] for layer in layers] == ["stem", "a", "b", "add", "pool", "tail"]
    assert set(layers[0]) == {
        "layer name",
        "active period of time",
        "computing cost (no DDR)",
        "load cost",
        "store cost",
        "origin ops",
    }
    assert layers[0]["computing cost (no DDR)"].endswith("% of model)")
    assert found["summary"]["model info"]["compiling options"] == "O2"
    assert {bar["inst_type"] for bar in found["details"][0]} <= set(ENGINES)
    assert set(found["details"][0][0]) == {"inst_type", "source_layer_names", "start_time (us)", "working_time (us)"}
    assert found["ptqlab"]["rests on"]


def test_figures_agree_with_the_estimate() -> None:
    """The static figures are the BPU part alone; one entry for each core."""
    found = estimate(table("YOLOv8n").layers, "nash-p", core_num=2)
    told = performance_json(found)
    performance = told["summary"]["performance"]
    assert performance["latency (us)"] == round(found.latency_us, 1)
    assert performance["FPS"] == pytest.approx(1e6 / found.latency_us, abs=0.01)
    assert len(told["coreSummaryGroup"]) == len(told["details"]) == 2
    access = told["summary"]["DDR access data"]
    assert access["min memory requirement"] == access["static memory"] + access["dynamic memory"]


def test_intervals_keep_the_amounts() -> None:
    """Utilization and bandwidth, summed over the intervals, are the work and the bytes of the run."""
    found = estimate(table("YOLO11n").layers, "nash-e")
    cut = intervals(found, 7)
    assert len(cut.utilization) == len(cut.loading) == len(cut.storing) == 7
    assert sum(cut.utilization) * cut.length_us == pytest.approx(sum(c.tae_us for c in found.layers))
    assert sum(cut.loading) * cut.length_us == pytest.approx(found.memory.static + found.memory.input)
    assert sum(cut.storing) * cut.length_us == pytest.approx(found.memory.output)
    assert max(cut.utilization) <= 1


def test_console_lines() -> None:
    """The three lines that users know, and what the figures rest on."""
    lines = summary_lines(estimate(table("MobileNetV2").layers, "nash-e"))
    assert lines[0].startswith("FPS (1 core): ")
    assert lines[1].startswith("latency: 0.2") and lines[1].endswith(" us)")
    assert lines[2] == "BPU conv original OPs per run: 601,548,544"
    assert any(line.startswith("rests on: Fitted to ") for line in lines)
    assert not any("CPU operators" in line for line in lines)
