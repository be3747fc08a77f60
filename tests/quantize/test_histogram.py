"""Histograms: exact counts, whatever the order, the chunks and the process."""
from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptqlab.quantize import histogram as module
from ptqlab.quantize.histogram import LOWEST_EXPONENT, Histogram

QUICK = settings(derandomize=True, max_examples=40, deadline=None, database=None)


def counted(samples: list[np.ndarray], bins: int) -> Histogram:
    made = Histogram(bins)
    for values in samples:
        made.add(values, float(values.min()), float(values.max()))
    return made


def assert_same(a: Histogram, b: Histogram) -> None:
    assert a.exponent == b.exponent
    assert np.array_equal(a.positive, b.positive)
    below = [np.zeros(a.bins, np.int64) if h.negative is None else h.negative for h in (a, b)]
    assert np.array_equal(*below)


@QUICK
@given(st.integers(0, 2**32 - 1), st.sampled_from([2, 16, 256]), st.booleans())
def test_counts_equal_a_plain_loop(seed: int, bins: int, negative: bool) -> None:
    """Every count is that of truncating x / width in exact arithmetic, over samples of very different ranges."""
    random = np.random.default_rng(seed)
    samples = [random.standard_normal(50) * 10.0 ** random.integers(-4, 4) for _ in range(4)]
    samples = [(s if negative else np.abs(s)).astype(np.float32) for s in samples]
    made = counted(samples, bins)
    codes = [int(float(x) / made.width) for x in np.concatenate(samples)]
    for code in range(bins):
        assert made.positive[code] == sum(c == code for c in codes)
        if code:
            assert (0 if made.negative is None else made.negative[code]) == sum(c == -code for c in codes)
    assert made.count == 200


@QUICK
@given(st.integers(0, 2**32 - 1), st.permutations(range(6)), st.integers(1, 5))
def test_order_and_merging_do_not_matter(seed: int, order: list[int], cut: int) -> None:
    """Any order of the samples, and any split between two histograms that are merged, gives the same counts."""
    random = np.random.default_rng(seed)
    samples = [(random.standard_normal(30) * 4.0 ** random.integers(-5, 5)).astype(np.float32) for _ in range(6)]
    whole = counted(samples, 64)
    assert_same(counted([samples[i] for i in order], 64), whole)
    for first, second in ((order[:cut], order[cut:]), (order[cut:], order[:cut])):
        merged = counted([samples[i] for i in first], 64)
        merged.merge(counted([samples[i] for i in second], 64))
        assert_same(merged, whole)


def test_golden_counts() -> None:
    """8 bins over [0, 4), worked out by hand: width 0.5; then a 5.0 doubles the range and pairs are added up."""
    made = counted([np.array([0.0, 0.4, -0.4, 0.5, 3.9, -1.2], np.float32)], 8)
    assert made.width == 0.5
    assert made.positive.tolist() == [3, 1, 0, 0, 0, 0, 0, 1]
    assert made.negative is not None
    assert made.negative.tolist() == [0, 0, 1, 0, 0, 0, 0, 0]
    made.add(np.array([5.0], np.float32), 5.0, 5.0)
    assert made.width == 1.0
    assert made.positive.tolist() == [4, 0, 0, 1, 0, 1, 0, 0]
    assert made.negative.tolist() == [0, 1, 0, 0, 0, 0, 0, 0]
    assert made.magnitudes().tolist() == [4, 1, 0, 1, 0, 1, 0, 0]


def test_chunks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values beyond the chunk size are counted as if there were no chunks."""
    values = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
    whole = counted([values], 128)
    monkeypatch.setattr(module, "CHUNK", 64)
    assert_same(counted([values], 128), whole)


def test_extreme_values() -> None:
    """The largest and smallest float32, zeros and a range that starts at zeros are all counted, without overflow."""
    top = np.finfo(np.float32).max
    made = counted([np.zeros(3, np.float32), np.array([1e-45, -1e-45], np.float32), np.array([top, -top])], 16)
    assert made.count == 7
    assert made.positive[0] == 5
    assert made.positive[15] == 1
    assert made.negative is not None and made.negative[15] == 1
    assert counted([np.zeros(3, np.float32)], 16).exponent == LOWEST_EXPONENT


def test_nothing_counted() -> None:
    """An empty array changes nothing, and merging an empty histogram either way keeps the other."""
    empty, filled = Histogram(16), counted([np.array([1.0, 2.0], np.float32)], 16)
    empty.add(np.zeros(0, np.float32), 0.0, 0.0)
    assert empty.exponent is None and empty.width == 0.0
    copy = filled.copy()
    copy.merge(empty)
    assert_same(copy, filled)
    empty.merge(filled)
    assert_same(empty, filled)
