"""The axis of nines."""
import pytest

from ptqlab.report.scale import MOST_NINES, nines, span, ticks


@pytest.mark.parametrize(("cosine", "at"), [(0.0, 0.0), (0.9, 1.0), (0.99, 2.0), (0.999, 3.0), (1.0, MOST_NINES),
                                            (1.0000001, MOST_NINES), (-1.0, -0.30103)])
def test_nines(cosine, at):
    """One more nine is one more step; what exceeds 1 by rounding is 1."""
    assert nines(cosine) == pytest.approx(at, abs=1e-5)


def test_ticks_are_read_as_cosines():
    """The labels are the cosines themselves, only those in range."""
    assert [label for _, label in ticks(-0.4, 8)] == [
        "-1", "0", "0.5", "0.9", "0.99", "0.999", "0.9999", "0.99999", "0.999999", "1"]
    assert ticks(1.5, 3.5) == [(2.0, "0.99"), (3.0, "0.999")]


@pytest.mark.parametrize("cosines", [[], [0.99], [1.0], [0.2, 0.9999], [-0.5, 0.3], [0.9, 0.99]])
def test_span_shows_every_value_between_two_ticks(cosines):
    """Whatever the values, they lie inside the range and at least two ticks label it."""
    values = [nines(c) for c in cosines]
    low, high = span(values)
    assert all(low < v < high for v in values)
    assert len(ticks(low, high)) >= 2
