"""Platforms: the march words, variants, and what the rules of placement read from them."""

from __future__ import annotations

import pytest

from ptqlab.arith.formats import QType
from ptqlab.errors import PtqError
from ptqlab.platforms import MARCHES, PLATFORMS, platform


@pytest.mark.parametrize(
    ("march", "tail", "floats", "stride"),
    [
        ("nash-e", QType.INT32, (), 32),
        ("nash-m", QType.INT32, (), 32),
        ("nash-b", QType.FLOAT32, (QType.FLOAT16, QType.FLOAT32), 32),
        ("nash-h", QType.FLOAT32, (QType.FLOAT16, QType.FLOAT32), 64),
        ("nash-p", QType.FLOAT32, (QType.FLOAT16, QType.FLOAT32), 64),
    ],
)
def test_the_documented_differences(march: str, tail: QType, floats: tuple[QType, ...], stride: int) -> None:
    """Tail type, float vector unit and nv12 stride of each documented march."""
    found = platform(march)
    assert (found.march, found.tail_type, found.float_types, found.nv12_stride) == (march, tail, floats, stride)
    assert found.integer_types == (QType.INT8, QType.INT16)


def test_variants_follow_their_family_and_say_so() -> None:
    """A variant has the figures of its family under its own name, with a note that this is a choice."""
    for name in ("nash-b-lite", "nash-b-plus", "nash-starry-p"):
        variant = PLATFORMS[name]
        family = PLATFORMS[variant.family]
        for figure in ("tail_type", "float_types", "tops", "cores", "nv12_stride"):
            assert getattr(variant, figure) == getattr(family, figure)
        assert variant.march == name and variant.family in variant.note


def test_an_unknown_march_is_refused_with_the_nearest_and_the_list() -> None:
    """The refusal names the place, the word, every march and the one that was meant."""
    with pytest.raises(PtqError) as caught:
        platform("nashe", where="model_parameters.march")
    assert str(caught.value) == (
        "1 problem\nPTQ202  model_parameters.march\n    found     'nashe'\n"
        f"    expected  {', '.join(MARCHES)}\n    do        did you mean nash-e?"
    )


def test_a_word_like_no_march_gets_the_boards_instead() -> None:
    """A board name tells which march to write."""
    with pytest.raises(PtqError, match="S100 is nash-e"):
        platform("RDK")
