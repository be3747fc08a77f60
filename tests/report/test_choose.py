"""What comes first in a view."""
from dataclasses import replace

import pytest
from records import HOSTILE, NAN_NODE, digits_record

from ptqlab.report import words
from ptqlab.report.choose import headline, partial, worst_nodes


@pytest.fixture(autouse=True)
def english(monkeypatch):
    monkeypatch.setitem(words._state, "language", "en")


def test_worst_first():
    """NaN is worst, then rising cosine; fused and uncompared nodes are no entries of their own."""
    rows = worst_nodes(digits_record(), 100)
    assert [r.node for r in rows[:2]] == [NAN_NODE, HOSTILE]
    assert not any(r.fused_into or r.quantized_cosine is None for r in rows)
    assert [r.quantized_cosine for r in rows[1:]] == sorted(r.quantized_cosine for r in rows[1:])


def test_headline():
    """Counts of a run, and a clear word where calibration was skipped."""
    assert headline(digits_record()) == "digits on nash-e: 24 nodes: 21 BPU, 3 CPU; 50 calibration samples"
    assert "random data, accuracy figures mean nothing" in headline(replace(digits_record(), samples=0))


def test_why_partial():
    """A complete run says nothing; a partial one says what ended it."""
    record = digits_record()
    assert partial(record) == ""
    assert partial(replace(record, complete=False)) == "Partial result: the run ended after stage 'quantize'."
    assert "'--'" in partial(replace(record, complete=False, timings={}))
