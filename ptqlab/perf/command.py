"""`ptqlab perf --layers FILE... --march M`: estimates from layer tables."""
from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ptqlab.perf.estimate import estimate
from ptqlab.perf.table import read_layers


def cli_rows(files: Sequence[str | Path], march: str, *, core_num: int = 1,
             older_runtime: bool = False) -> list[dict[str, object]]:
    """One row for each layer table, ready for JSON: model, march, latency_us, board_latency_us, runtime_us,
    fps_1_thread, fps_2_threads, backed_by_board.

    Raises PtqError for a file that is no layer table, an unknown march or too many cores.
    """
    rows: list[dict[str, object]] = []
    for file in files:
        table = read_layers(file)
        found = estimate(table.layers, march, model=table.model, core_num=core_num, older_runtime=older_runtime)
        rows.append({
            "model": table.model, "march": march,
            "latency_us": round(found.latency_us, 2), "board_latency_us": round(found.board_latency_us, 2),
            "runtime_us": round(found.runtime_us, 2), "fps_1_thread": round(found.fps_1_thread, 3),
            "fps_2_threads": round(found.fps_2_threads, 3), "backed_by_board": found.backed_by_board,
        })
    return rows
