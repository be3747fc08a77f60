"""The record of a run as JSON."""

import json
import math
from dataclasses import replace

from ptqlab.stages.record import OutputRow, Record


def record_with(sqnr: float) -> Record:
    """A record whose one output has this SQNR."""
    row = OutputRow("y", 1.0, math.nan, sqnr, 0.0, 0.0, 0.0)
    return Record("net", "nash-e", nodes=(), outputs=(row,), findings=(), perf={"left": [math.inf, 1.5]})


def test_the_text_is_json_that_any_reader_takes() -> None:
    """Infinity and NaN, which JSON does not have, never reach the file."""

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    data = json.loads(record_with(math.inf).to_json(), parse_constant=refuse)
    assert data["outputs"][0]["sqnr"] == "inf"
    assert data["perf"]["left"] == ["inf", 1.5]


def test_figures_come_back_as_they_were() -> None:
    """An infinite SQNR and a NaN cosine are read back as numbers."""
    back = Record.from_json(record_with(-math.inf).to_json()).outputs[0]
    assert back.sqnr == -math.inf
    assert math.isnan(back.quantized_cosine or 0.0)
    assert replace(back, quantized_cosine=None) == OutputRow("y", 1.0, None, -math.inf, 0.0, 0.0, 0.0)
