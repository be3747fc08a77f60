"""How well two colours can be told apart."""
from __future__ import annotations


def contrast(one: str, other: str) -> float:
    """The contrast ratio of WCAG 2 of two #rrggbb colours."""
    def light(colour):
        parts = [int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted((light(one), light(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)
