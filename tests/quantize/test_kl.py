"""The closed form of the KL search against the plain loop it stands for."""
from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ptqlab.quantize.kl import best_bin, divergences

QUICK = settings(derandomize=True, max_examples=40, deadline=None, database=None)


def plain_loop(counts: np.ndarray, levels: int) -> np.ndarray:
    """KL(P || Q) written as it is told: clip, group, spread, compare."""
    result = []
    for i in range(levels, counts.size + 1):
        p = counts[:i].astype(float)
        p[-1] += counts[i:].sum()
        q = np.zeros(i)
        for group in range(levels):
            first, last = group * i // levels, (group + 1) * i // levels
            filled = p[first:last] != 0
            if filled.any():
                q[first:last][filled] = counts[first:last].sum() / filled.sum()
        if q.sum() == 0 or (q[p > 0] == 0).any():
            result.append(np.inf)
            continue
        p, q = p / p.sum(), q / q.sum()
        result.append(float((p[p > 0] * np.log(p[p > 0] / q[p > 0])).sum()))
    return np.array(result)


@QUICK
@given(st.integers(0, 2**32 - 1), st.integers(4, 9), st.integers(0, 300))
def test_closed_form_equals_the_loop(seed: int, levels: int, more: int) -> None:
    """Sparse, dense and heavy-tailed histograms, within 1e-9, infinities included; also across blocks of 256."""
    random = np.random.default_rng(seed)
    counts = random.integers(0, 50, levels + more) * random.integers(0, 2, levels + more)
    counts[random.integers(counts.size)] += 1000
    wanted = plain_loop(counts, levels)
    np.testing.assert_allclose(divergences(counts, levels), wanted, atol=1e-9, rtol=1e-9)
    first = levels + more // 2
    np.testing.assert_allclose(divergences(counts, levels, first), wanted[more // 2 :], atol=1e-9, rtol=1e-9)


def test_golden_divergence() -> None:
    """Two levels over [4, 0, 2, 2], worked out by hand.

    i = 2: P = [4, 4], Q = [4, 0]: infinite.  i = 3: P = [4, 0, 4], groups {0} and {1, 2}: Q = [4, 0, 2] / 6, so
    KL = 1/2 log((1/2) / (4/6)) + 1/2 log((1/2) / (2/6)).  i = 4: groups {0, 1} and {2, 3}: Q = P, KL = 0.
    """
    wanted = [np.inf, 0.5 * np.log(0.75) + 0.5 * np.log(1.5), 0.0]
    np.testing.assert_allclose(divergences(np.array([4, 0, 2, 2]), 2), wanted, atol=1e-12)
    assert best_bin(np.array([4, 0, 2, 2]), 2) == 4


def test_nothing_to_cut() -> None:
    """With no more bins than levels, or nothing counted, the whole range stays."""
    assert best_bin(np.ones(128, np.int64), 128) == 128
    assert best_bin(np.zeros(300, np.int64), 128) == 300
    assert best_bin(np.ones(1, np.int64), 128) == 1


def test_outliers_are_cut() -> None:
    """The far tail of a bell is left outside, while a flat histogram keeps its range."""
    bell = (1e5 * np.exp(-((np.arange(2400) / 150.0) ** 2))).astype(np.int64)
    bell[600::100] = 1
    assert best_bin(bell, 128) < 800
    assert best_bin(np.full(1000, 7, np.int64), 128) > 900
