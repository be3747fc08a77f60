"""Agreement of two tensors, summed over samples, against float64 numpy on everything at once."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ptqlab.arith.metrics import CHUNK, Agreement

QUICK = settings(derandomize=True, max_examples=40, deadline=None, database=None)
VALUES = st.floats(-100, 100, width=32)


def agreement(*pairs: tuple[np.ndarray, np.ndarray], distances: bool = True) -> Agreement:
    made = Agreement()
    for a, b in pairs:
        made.add(a, b, distances=distances)
    return made


@QUICK
@given(
    st.lists(
        st.tuples(arrays(np.float32, 12, elements=VALUES), arrays(np.float32, 12, elements=VALUES)),
        min_size=1,
        max_size=3,
    )
)
def test_every_figure_equals_the_one_over_all_samples_at_once(pairs: list[tuple[np.ndarray, np.ndarray]]) -> None:
    """cosine, MSE, SQNR, L1, L2 and Chebyshev are those of the concatenated samples in float64."""
    a = np.concatenate([p[0] for p in pairs]).astype(np.float64)
    b = np.concatenate([p[1] for p in pairs]).astype(np.float64)
    got, d = agreement(*pairs), a - b
    if a.any() and b.any():
        assert got.cosine == pytest.approx(a @ b / np.linalg.norm(a) / np.linalg.norm(b), abs=1e-6)
    assert got.mse == pytest.approx((d @ d) / a.size, rel=1e-6)
    assert got.l1 == pytest.approx(np.abs(d).mean(), rel=1e-6)
    assert got.l2 == pytest.approx(np.linalg.norm(d) / a.size, rel=1e-6)
    assert got.chebyshev == np.abs(d).max()
    if a.any() and d.any():
        assert got.sqnr == pytest.approx(10 * np.log10((a @ a) / (d @ d)), rel=1e-5, abs=1e-4)
    assert got.samples == len(pairs) and got.count == a.size


def test_chunks_of_a_large_tensor_are_all_counted() -> None:
    """A tensor of several chunks and a rest gives the sums of the whole."""
    rng = np.random.default_rng(3)
    a = rng.standard_normal(3 * CHUNK + 17).astype(np.float32)
    b = a + rng.standard_normal(a.size).astype(np.float32) * np.float32(0.1)
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    expected = wide_a @ wide_b / np.linalg.norm(wide_a) / np.linalg.norm(wide_b)
    assert agreement((a, b), distances=False).cosine == pytest.approx(expected, abs=2e-7)


def test_all_zero_pairs_agree_and_half_zero_pairs_do_not() -> None:
    """Both all zero: 1.0 and marked; exactly one all zero: 0.0."""
    zero, one = np.zeros(4, np.float32), np.ones(4, np.float32)
    both = agreement((zero, zero))
    assert both.cosine == 1.0 and both.all_zero and both.sqnr == math.inf
    for pair in ((zero, one), (one, zero)):
        half = agreement(pair)
        assert half.cosine == 0.0 and not half.all_zero
    assert agreement((zero, one)).sqnr == -math.inf


def test_chunks_of_zeros_take_no_second_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """A whole chunk of zeros, on either side, has lost no bits: only sums that did are made again in float64."""
    looks: list[int] = []
    plain = Agreement._careful
    monkeypatch.setattr(Agreement, "_careful", lambda self, p, q: (looks.append(1), plain(self, p, q))[1])
    zeros, ones = np.zeros(2 * CHUNK, np.float32), np.ones(2 * CHUNK, np.float32)
    made = agreement((zeros, zeros), (zeros, ones), (ones, zeros))
    assert (made.aa, made.bb, made.ab, looks) == (2.0 * CHUNK, 2.0 * CHUNK, 0.0, [])
    tiny = np.full(4, 1e-20, np.float32)
    assert agreement((tiny, tiny)).cosine == pytest.approx(1.0) and looks == [1]


def test_equal_tensors_have_no_error() -> None:
    """Equal signals: cosine 1, SQNR inf, distances 0."""
    x = np.array([1, -2, 3], np.float32)
    same = agreement((x, x.copy()))
    assert (same.cosine, same.sqnr, same.l1, same.l2, same.chebyshev) == (pytest.approx(1.0), math.inf, 0, 0, 0)


def test_large_and_opposite_values_stay_in_range() -> None:
    """Activations near 1e15 do not overflow the norm, and the cosine never leaves [-1, 1]."""
    x = np.full(8, 1e15, np.float32)
    assert agreement((x, x)).cosine == pytest.approx(1.0)
    assert -1.0 <= agreement((x, -x)).cosine <= -1.0 + 1e-6


def test_without_distances_the_error_comes_from_the_dot_products() -> None:
    """MSE and SQNR are then good to float32 dot products, and never negative."""
    a = np.linspace(-1, 1, 1000, dtype=np.float32)
    b = a + np.float32(0.01)
    got = agreement((a, b), distances=False)
    assert got.mse == pytest.approx(1e-4, rel=1e-2)
    assert agreement((a, a), distances=False).squared_error >= 0.0


def test_integer_tensors_and_scalars_count_as_numbers() -> None:
    """int64 outputs and 0-d tensors are compared like any other."""
    got = agreement((np.array(3, np.int64), np.array(3, np.int64)))
    assert got.count == 1 and got.cosine == pytest.approx(1.0)


def test_an_empty_tensor_changes_nothing_but_the_number_of_samples() -> None:
    """No element: the tensor counts as all zero, and no figure divides by zero."""
    empty = np.zeros((0, 3), np.float32)
    got = agreement((empty, empty))
    assert (got.cosine, got.mse, got.l1, got.l2, got.chebyshev) == (1.0, 0.0, 0.0, 0.0, 0.0)


def test_elements_whose_reference_is_not_finite_are_left_out_and_counted() -> None:
    """The -Inf of a mask says nothing of accuracy, whatever stands there in the result."""
    a = np.array([1, -np.inf, 2, -np.inf], np.float32)
    b = np.array([1, -np.inf, 2, -10], np.float32)
    got = agreement((a, b))
    assert got.not_finite == 2
    assert (got.cosine, got.l1, got.chebyshev) == (pytest.approx(1.0), 0.0, 0.0)


@pytest.mark.parametrize("broken", [np.nan, np.inf, -np.inf])
def test_a_result_that_is_not_finite_makes_every_figure_nan_or_infinite(broken: float) -> None:
    """One NaN or Inf where the reference is finite: the cosine is NaN and no distance looks small."""
    a, b = np.ones(4, np.float32), np.array([1, 1, broken, 1], np.float32)
    got = agreement((a, b), (a, a))
    assert math.isnan(got.cosine)
    assert not math.isfinite(got.l1) and not math.isfinite(got.chebyshev) and not math.isfinite(got.l2)
    assert math.isnan(agreement((a, b), distances=False).mse)


def test_values_whose_square_leaves_float32_are_summed_in_float64() -> None:
    """1e25 is a float32 and its square is not; the cosine is exact all the same."""
    a, b = np.array([1e25, 0], np.float32), np.array([1e25, 1e25], np.float32)
    assert agreement((a, b)).cosine == pytest.approx(1 / math.sqrt(2))


def test_values_whose_square_vanishes_in_float32_are_no_zeros() -> None:
    """1e-30 squared is 0 in float32: the tensor is not all zero for it, and opposite signs still oppose."""
    x = np.full(4, 1e-30, np.float32)
    assert not agreement((x, x), distances=False).all_zero
    assert agreement((x, -x), distances=False).cosine == pytest.approx(-1.0)
    assert agreement((x, np.ones(4, np.float32))).cosine == pytest.approx(1.0)
