"""Thresholds by Kullback-Leibler divergence, in closed form over prefix sums.

For a threshold after bin i (i from `levels` to the number of bins) the reference P is the histogram up to bin i with
everything beyond added to its last bin; Q is the histogram up to bin i brought to `levels` groups of neighbouring
bins and spread evenly over those bins of a group where P is not zero. The i with the smallest KL(P || Q) wins.

    KL(i) = 1/N * [ sum_b P_b log P_b  -  sum_g P_g log(Q_g / Z_g) ]  -  log N  +  log N_i

with P_g, Q_g the counts of group g in P and in the histogram, Z_g its bins that are not zero in P, N all counts and
N_i those up to bin i. Group g holds the bins floor(g i / levels) to floor((g + 1) i / levels) - 1.
"""
from __future__ import annotations

import numpy as np

BLOCK = 256


def divergences(counts: np.ndarray, levels: int, first: int = 0) -> np.ndarray:
    """KL(P || Q) for the thresholds after bin i = first .. counts.size; float64 [counts.size - first + 1].

    counts  histogram of |x| from 0 on, at least `levels` bins. Infinite where P has mass that Q has not.
    first   first threshold to look at, `levels` at least (and where it is not given)
    """
    n, first = counts.size, max(first, levels)
    assert n >= first, f"{n} bins for {levels} levels from bin {first} on"
    c = counts.astype(np.float64)
    total = c.sum()
    log_c = np.log(np.where(c > 0, c, 1.0))
    mass, bins, entropy = (np.concatenate([[0.0], np.cumsum(a)]) for a in (c, c > 0, c * log_c))
    edges = np.arange(levels + 1)
    result = np.empty(n - first + 1)
    for start in range(first, n + 1, BLOCK):
        i = np.arange(start, min(start + BLOCK, n + 1))
        bounds = edges[None, :] * i[:, None] // levels
        q = np.diff(mass[bounds], axis=1)
        z = np.diff(bins[bounds], axis=1)
        p = q.copy()
        outside, last = total - mass[i], c[i - 1]
        p[:, -1] += outside
        z[:, -1] += (last == 0) & (outside > 0)
        with_last = np.where(last + outside > 0, last + outside, 1.0)
        own = entropy[i] - last * log_c[i - 1] + with_last * np.log(with_last) * (last + outside > 0)
        ratio = np.where(q > 0, q / np.where(z > 0, z, 1.0), 1.0)
        cross = (p * np.log(ratio)).sum(axis=1)
        missing = (p[:, -1] > 0) & (q[:, -1] == 0)
        inside = np.where(mass[i] > 0, mass[i], 1.0)
        kl = (own - cross) / total - np.log(total) + np.log(inside)
        result[start - first : start - first + i.size] = np.where(missing | (mass[i] == 0), np.inf, kl)
    return result


def best_bin(counts: np.ndarray, levels: int, first: int = 0) -> int:
    """Number of bins, `first` at least, up to the threshold of smallest divergence; of equal ones the largest."""
    if counts.size <= max(levels, first) or not counts.any():
        return int(counts.size)
    found = divergences(counts, levels, first)
    return int(counts.size) - int(np.argmin(found[::-1]))
