"""Scaling by a real ratio with integers: multipliers, shifts, and `rescale` against exact rationals."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ptqlab.arith.requantize import LARGEST_RATIO, SMALLEST_RATIO, clamp, fixed_point, rescale
from ptqlab.placement import Ask, Asks

QUICK = settings(derandomize=True, max_examples=100, deadline=None, database=None)
RATIOS = st.floats(SMALLEST_RATIO, LARGEST_RATIO, exclude_max=True)


def exact(value: int, multiplier: int, shift: int) -> int:
    """floor(v * m * 2^-s + 1/2) in rationals; for s <= 0 the product is whole."""
    product = Fraction(value * multiplier) / Fraction(2) ** shift
    return int((product + Fraction(1, 2)).__floor__()) if shift > 0 else int(product)


@pytest.mark.parametrize(
    ("ratio", "multiplier", "shift"),
    [
        (1.0, 1 << 14, 14),
        (0.5, 1 << 14, 15),
        (0.75, 3 << 13, 15),
        (-1.0, -(1 << 14), 14),
        (3.0, 3 << 13, 13),
        (1 / 3, 21845, 16),  # 2^16 / 3 = 21845.33
        (1 - 2.0**-20, 1 << 14, 14),  # rounds up to 2^15: carried to 2^14 and one shift less
        (-(1 - 2.0**-20), -(1 << 14), 14),
        (2.0**19, 1 << 14, -5),
        (0.0, 0, 1),
    ],
)
def test_known_ratios(ratio: float, multiplier: int, shift: int) -> None:
    """Multiplier and shift of ratios that can be worked out by hand, the carry to 2^15 included."""
    m, s = fixed_point(ratio)
    assert (int(m), int(s)) == (multiplier, shift)
    assert m.dtype == s.dtype == np.int32


@QUICK
@given(RATIOS, st.sampled_from([1, -1]))
def test_the_ratio_is_met_within_2_to_the_minus_15(size: float, sign: int) -> None:
    """|m * 2^-s / ratio - 1| <= 2^-15, |m| in [2^14, 2^15), for both signs."""
    m, s = (int(a) for a in fixed_point(sign * size))
    assert 1 << 14 <= abs(m) < 1 << 15
    met = Fraction(m) / Fraction(2) ** s
    assert abs(met / Fraction(sign * size) - 1) <= Fraction(1, 1 << 15)


def test_an_array_of_ratios_keeps_its_shape() -> None:
    """Each ratio of an array is converted as it would be alone."""
    ratios = np.array([[0.1, -2.0], [1e-30, 0.0]])
    m, s = fixed_point(ratios)
    assert m.shape == s.shape == (2, 2)
    assert [(int(a), int(b)) for a, b in zip(m.ravel(), s.ravel(), strict=True)] == [
        tuple(int(v) for v in fixed_point(float(r))) for r in ratios.ravel()
    ]


def test_a_vanishing_ratio_is_zero_for_every_accumulator() -> None:
    """Just below the smallest ratio the multiplier is 0, and rightly so: 2^38 - 1 would not reach half a step."""
    m, s = fixed_point(SMALLEST_RATIO * (1 - 1e-9))
    assert (int(m), int(s)) == (0, 1)
    assert ((1 << 38) - 1) * SMALLEST_RATIO * (1 - 1e-9) < 0.5
    assert int(fixed_point(SMALLEST_RATIO)[0]) != 0


@pytest.mark.parametrize("ratio", [2.0**20, -(2.0**20), float("inf"), float("nan")])
def test_a_ratio_out_of_range_is_refused(ratio: float) -> None:
    """2^20 and more, Inf and NaN raise, also when only one of an array is wrong."""
    with pytest.raises(ValueError, match="ratio outside"):
        fixed_point(np.array([0.5, ratio]))


@QUICK
@given(st.integers(-(2**38) + 1, 2**38 - 1), RATIOS, st.sampled_from([1, -1]))
@example(1, 0.5, 1).via("tie +0.5")
@example(-1, 0.5, 1).via("tie -0.5")
@example(-3, 0.5, 1).via("tie -1.5")
@example(12345, 2.0**19, -1).via("left shift")
@example(7, 2.0**14, 1).via("shift 0")
@example((1 << 38) - 1, SMALLEST_RATIO, 1).via("smallest ratio")
def test_rescale_is_floor_of_the_exact_product_and_a_half(value: int, size: float, sign: int) -> None:
    """rescale equals floor(v * m / 2^s + 1/2) in rational arithmetic wherever the result is no wild overflow."""
    if abs(value) * size >= 2.0**40:
        value = value % 1000  # a left shift of a large value is out of the domain: see the saturation test below
    m, s = fixed_point(sign * size)
    got = int(rescale(np.array([value]), m, s)[0])
    assert got == exact(value, int(m), int(s))


def test_ties_round_up_on_both_sides() -> None:
    """Half up: 0.5 -> 1, -0.5 -> 0, 1.5 -> 2, -1.5 -> -1; not away from zero, not to even."""
    m, s = fixed_point(0.5)
    assert rescale(np.array([1, -1, 3, -3]), m, s).tolist() == [1, 0, 2, -1]


def test_multiplier_and_shift_per_channel_broadcast() -> None:
    """[C, 1] multipliers and shifts work against [C, n] values, left and right shifts side by side."""
    m, s = fixed_point(np.array([[0.5], [2.0**16]]))
    assert rescale(np.array([[4, 6], [1, 2]]), m, s).tolist() == [[2, 3], [2**16, 2**17]]


def test_clamp_saturates_and_converts() -> None:
    """Values beyond the bounds become the bounds, in the dtype asked for."""
    got = clamp(np.array([-(2**40), -3, 300, 2**40]), -5, 127, np.dtype(np.int8))
    assert got.tolist() == [-5, -3, 127, 127]
    assert got.dtype == np.int8


@pytest.mark.parametrize("rounding", [0.5, 0.25])
def test_the_rounding_is_switched_in_one_place(rounding: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """ROUND = 1/4 rounds up from 3/4 on: 7 / 2 is 3 and not 4; reference, fast path and functions follow together."""
    from core_models import EDGES
    from models import MODELS
    from small import engines_agree, stages

    from ptqlab.arith import requantize

    monkeypatch.setattr(requantize, "ROUND", rounding)
    one = np.int64(1 << 14)
    assert rescale(np.array([7, -7]), one, np.int64(15)).tolist() == ([4, -3] if rounding == 0.5 else [3, -4])
    for name, (build, asked) in {
        "conv": (EDGES["residual_from_cpu"], "int16"),
        "norm": (MODELS["attention"], "int8"),
        "elementwise": (MODELS["arithmetic"], "int8"),
        "block": (MODELS["mobile_block"], "dual-int16"),
    }.items():
        model, feeds = build()
        asks = Asks({n.name: Ask(asked, level="node") for n in model.graph.node})
        got = engines_agree(stages(model, feeds, asks=asks).integer, feeds)
        assert got, name


@pytest.mark.parametrize("bits", [12, 15])
def test_the_width_of_the_multiplier_is_one_number(bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """12 bits: every multiplier is below 2^12, its ratio within 2^-12, and every engine follows."""
    from core_models import EDGES
    from small import engines_agree, stages

    from ptqlab.arith import requantize

    monkeypatch.setattr(requantize, "MULTIPLIER_BITS", bits)
    m, s = fixed_point(np.array([0.3, 1.7e-5]))
    assert (m < 1 << bits).all() and np.allclose(m * 2.0**-s, [0.3, 1.7e-5], rtol=2.0**-bits)
    model, feeds = EDGES["residual_from_cpu"]()
    engines_agree(stages(model, feeds).integer, feeds)
