"""The axis on which cosines near 1 can be told apart: how many nines a cosine has."""
from __future__ import annotations

import math

MOST_NINES = 7.0


def nines(cosine: float) -> float:
    """-log10(1 - cosine): 0.9 -> 1, 0.99 -> 2, 0.999 -> 3. Seven nines and better count as seven; 0 -> 0,
    -1 -> -0.3."""
    return min(MOST_NINES, -math.log10(max(1.0 - cosine, 10.0 ** -MOST_NINES)))


def ticks(low: float, high: float) -> list[tuple[float, str]]:
    """Positions and labels that fall into `low`..`high`, both in nines."""
    marks = [(nines(-1.0), "-1"), (0.0, "0"), (nines(0.5), "0.5")]
    marks += [(float(n), f"{1 - 10.0 ** -n:.{n}f}") for n in range(1, int(MOST_NINES))]
    marks.append((MOST_NINES, "1"))
    return [(at, label) for at, label in marks if low <= at <= high]


def span(values: list[float]) -> tuple[float, float]:
    """A range, in nines, that shows all `values` (in nines) with whole ticks around them."""
    if not values:
        return 0.0, 4.0
    low = min(*values, MOST_NINES - 1)
    bottom = math.floor(low) if low >= 1 else (0.0 if low >= 0 else nines(-1.0))
    return float(bottom) - 0.15, float(min(MOST_NINES, math.ceil(max(values) + 1e-9))) + 0.15
