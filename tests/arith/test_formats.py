"""Number formats: ranges, words, and which type is the wider."""

from __future__ import annotations

import numpy as np
import pytest

from ptqlab.arith.formats import QType, widest


@pytest.mark.parametrize(
    ("qtype", "low", "high", "dtype", "word"),
    [
        (QType.INT8, -128, 127, np.int8, "si8"),
        (QType.INT16, -32768, 32767, np.int16, "si16"),
        (QType.INT32, -(2**31), 2**31 - 1, np.int32, "si32"),
    ],
)
def test_integer_types_use_their_full_range(qtype: QType, low: int, high: int, dtype: type, word: str) -> None:
    """The range is that of the numpy type, the word that of the node table."""
    assert (qtype.qmin, qtype.qmax, qtype.word, qtype.is_integer) == (low, high, word, True)
    assert qtype.numpy == np.dtype(dtype)


def test_float_types_are_no_integers() -> None:
    """float16 and float32 have bits, a word and a numpy type, but no codes."""
    assert [(t.bits, t.word, t.is_integer, t.numpy.name) for t in (QType.FLOAT16, QType.FLOAT32)] == [
        (16, "f16", False, "float16"),
        (32, "f32", False, "float32"),
    ]


def test_widest_holds_the_codes_of_all() -> None:
    """int16 wins over int8 in any order; float32 over everything."""
    assert widest([QType.INT8, QType.INT16, QType.INT8]) is QType.INT16
    assert widest([QType.INT8]) is QType.INT8
    assert widest([QType.FLOAT16, QType.INT16]) is QType.FLOAT16
    assert widest([QType.FLOAT32, QType.INT32]) is QType.FLOAT32
