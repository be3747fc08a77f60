"""Observers: smallest and largest finite value, in any order and any split."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from small import MANY

from ptqlab.quantize.observe import Observer, Seen, merged

VALUES = st.lists(st.floats(-1e6, 1e6, width=32) | st.sampled_from([np.nan, np.inf, -np.inf]), max_size=8)


def observer(*batches: list[float]) -> Observer:
    made = Observer()
    for batch in batches:
        made.add(np.array(batch, np.float32))
    return made


def facts(o: Observer) -> tuple[float, float, int, int]:
    return o.low, o.high, o.not_finite, o.count


@MANY
@given(st.lists(VALUES, max_size=4))
def test_what_is_seen_is_that_of_all_values_at_once(batches: list[list[float]]) -> None:
    """Low, high and counts equal those of numpy over everything that is finite."""
    values = np.array([v for b in batches for v in b], np.float32)
    finite = values[np.isfinite(values)]
    got = observer(*batches)
    assert (got.count, got.not_finite) == (values.size, values.size - finite.size)
    assert got.seen == bool(finite.size)
    if finite.size:
        assert (got.low, got.high, got.largest) == (finite.min(), finite.max(), np.abs(finite).max())
    else:
        assert got.largest == 0.0


@MANY
@given(VALUES, VALUES, VALUES)
def test_merging_is_exact_in_any_order(a: list[float], b: list[float], c: list[float]) -> None:
    """Observers of parts, merged in any order, are the observer of the whole."""
    whole = facts(observer(a, b, c))
    for order in ((a, b, c), (c, a, b)):
        assert facts(merged(observer(part) for part in order)) == whole


def test_samples_are_kept_in_two_halves() -> None:
    """Even samples go to one half, odd ones to the other; the whole is both."""
    seen = Seen()
    for index, value in enumerate([1.0, -5.0, 3.0]):
        seen.add(index, np.array([value], np.float32))
    assert (seen.even.low, seen.even.high, seen.odd.low, seen.odd.high) == (1.0, 3.0, -5.0, -5.0)
    assert (seen.whole.low, seen.whole.high, seen.whole.count) == (-5.0, 3.0, 3)
    assert (seen.even.count, seen.odd.count) == (2, 1), "looking at the whole changes no half"


def test_an_empty_tensor_and_rank_0_are_observed() -> None:
    """No element changes nothing; a number alone is its own range."""
    got = Observer()
    got.add(np.zeros((0, 3), np.float32))
    got.add(np.array(2.5, np.float32))
    assert facts(got) == (2.5, 2.5, 0, 1)
