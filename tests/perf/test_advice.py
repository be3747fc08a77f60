"""Advice on slow layers."""

from __future__ import annotations

import pytest
from perf.common import chain, conv, other, table, with_types

from ptqlab.arith.formats import QType
from ptqlab.perf import advice, estimate
from ptqlab.perf.layer import Layer, linked
from ptqlab.perf.words import _WORDS, LANGUAGES, say


def told(*layers: Layer, lang: str = "en") -> dict[str, tuple[tuple[str, ...], tuple[str, ...]]]:
    made = linked(layers)
    return {a.layer: (a.causes, a.remedies) for a in advice(made, estimate(made, "nash-e"), 0.0, lang)}


@pytest.mark.parametrize(
    ("layer", "cause", "remedy"),
    [
        (conv("x", -1, 256, 256), "0.60 GMACs", "fewer channels, a smaller map"),
        (conv("x", -1, 512, 512, side=128), "2359 kB of weights do not stay", "up to 524 kB stay"),
        (conv("x", -1, 17, 80, side=80), "47 % of its MACs are padding", "multiples of 16"),
        (conv("x", -1, 256, 256, side=64, group=256), "depthwise", "group convolution"),
        (conv("x", -1, 16, 64, side=128, kernel=1, act="silu"), "silu looks every element up", "Relu6 or Clip"),
        (conv("x", -1, 512, 512, side=7), "2359 kB of weights arrive later", "a batch shares the load"),
        (conv("x", -1, 64, 64, side=64, kernel=1, tail=True), "its result goes to DDR", "int8 at the output"),
        (
            other("x", "Add", (-1, -2), (1, 64, 128, 128)),
            "Add goes over all its elements",
            "fold it into a convolution",
        ),
        (other("x", "Sin", (-1,), device="CPU"), "runs on the CPU", "unit conv"),
        (with_types(conv("x", -1, 256, 256), QType.INT16), "int16 features", "int8 where"),
    ],
)
def test_cause_and_remedy(layer: Layer, cause: str, remedy: str) -> None:
    """Each cause of a slow layer is named, with what to do about it."""
    causes, remedies = told(layer)["x"]
    assert any(cause in c for c in causes), causes
    assert any(remedy in r for r in remedies), remedies


def test_limits() -> None:
    """By default layers above 5 % of the model, slowest first; all on the CPU, whatever they take."""
    layers = table("YOLO11m").layers
    found = estimate(layers, "nash-e")
    short = advice(layers, found)
    assert [a.us for a in short] == sorted((a.us for a in short), reverse=True)
    assert all(a.share > 0.05 for a in short)
    assert len(advice(layers, found, 10.0)) > len(short) > 0
    small = chain()
    assert "probabilities" in {a.layer for a in advice(small, estimate(small, "nash-e"), 1e9)}


def test_both_languages_know_every_word() -> None:
    """A word has the same places to fill in both languages, and an unknown language falls back to English."""
    from string import Formatter

    for key, pair in _WORDS.items():
        fields = [{name for _, name, _, _ in Formatter().parse(text) if name} for text in pair]
        assert len(pair) == len(LANGUAGES) and fields[0] == fields[1], key
    assert say("advice", "fr") == say("advice", "en") != say("advice", "zh")
    causes, remedies = told(other("x", "Sin", (-1,), device="CPU"), lang="zh")["x"]
    assert causes == ("运行在 CPU 上",) and "unit conv" in remedies[0]
