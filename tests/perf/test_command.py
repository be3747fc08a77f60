"""Rows for `ptqlab perf --layers`."""

from __future__ import annotations

import json

import pytest
from perf.common import DATA

from ptqlab.errors import PtqError
from ptqlab.perf import cli_rows


def test_rows() -> None:
    """One row a file, ready for JSON, with the figures the command prints."""
    files = [DATA / "board_layers" / f"{name}.jsonl.gz" for name in ("YOLOv8n", "YOLOv8s")]
    rows = cli_rows(files, "nash-m")
    assert json.loads(json.dumps(rows)) == rows
    assert [row["model"] for row in rows] == ["YOLOv8n", "YOLOv8s"]
    assert set(rows[0]) == {
        "model",
        "march",
        "latency_us",
        "board_latency_us",
        "runtime_us",
        "fps_1_thread",
        "fps_2_threads",
        "backed_by_board",
    }
    assert rows[0]["latency_us"] < rows[0]["board_latency_us"] < rows[1]["board_latency_us"]  # type: ignore[operator]


def test_options_and_refusals() -> None:
    """The older runtime is cheaper; a file that is none and a march that is none are refused."""
    file = DATA / "board_layers" / "MobileNetV2.jsonl.gz"
    new, old = cli_rows([file], "nash-e")[0], cli_rows([file], "nash-e", older_runtime=True)[0]
    assert new["latency_us"] == old["latency_us"] and new["runtime_us"] > old["runtime_us"]  # type: ignore[operator]
    with pytest.raises(PtqError):
        cli_rows([DATA / "board_latency_fit.csv"], "nash-e")
    with pytest.raises(PtqError, match="nash-z"):
        cli_rows([file], "nash-z")
