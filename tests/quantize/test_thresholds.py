"""Methods of calibration against brute force on the values themselves."""
from __future__ import annotations

import numpy as np
import pytest

from ptqlab.arith.formats import QType
from ptqlab.arith.rounding import fake_quantize
from ptqlab.quantize import thresholds
from ptqlab.quantize.histogram import Histogram
from ptqlab.quantize.observe import Observer
from ptqlab.quantize.thresholds import KL_FLOOR, Table, kl, mse_range, mse_threshold, percentile
from ptqlab.stages.calibration import asymmetric, symmetric

RANDOM = np.random.default_rng(0)
N = 40_000
SHAPES = {
    "normal": RANDOM.standard_normal(N),
    "relu": np.maximum(RANDOM.standard_normal(N), 0),
    "laplace": RANDOM.laplace(size=N),
    "swish": (lambda z: z / (1 + np.exp(-z)))(3 * RANDOM.standard_normal(N)),
    "shifted": RANDOM.standard_normal(N) + 5,
    "negative": -np.abs(RANDOM.standard_normal(N)),
    "outliers": np.concatenate([RANDOM.standard_normal(N), [60.0, -40.0]]),
}


def seen(values: np.ndarray, bins: int = 4096) -> Observer:
    observer = Observer(histogram=Histogram(bins))
    observer.add(values.astype(np.float32))
    return observer


def unseen(values: np.ndarray) -> np.ndarray:
    """What the next value beyond the largest may be on a side of few: 999 quantiles of the exponential tail."""
    quantiles = -np.log1p(-np.arange(0.5, 999) / 999)
    tails = []
    for sign in (1, -1):
        side = np.sort(sign * values[sign * values > 0])[::-1]
        if 1 < side.size < thresholds.FEW / 2 and side[0] != side[1]:
            last = side[: max(1, int(min(64, side.size / 10)))]
            tails.append(sign * (side[0] + (last - last[-1]).mean() * quantiles))
    return np.concatenate(tails) if tails else np.zeros(0)


def error(values: np.ndarray, threshold: float | tuple[float, float], qtype: QType) -> float:
    """Sum of the squared errors of the values seen and of one more on either side, computed on them."""
    e = symmetric(threshold, qtype) if isinstance(threshold, float) else asymmetric(*threshold, qtype)

    def squares(given: np.ndarray) -> float:
        x = given.astype(np.float32)
        return float(((fake_quantize(x, e.scale, e.zero_point, e.low, e.high).astype(np.float64) - x) ** 2).sum())

    return squares(values) + squares(unseen(values)) / 999


@pytest.mark.parametrize("name", SHAPES)
def test_percentile_is_the_quantile(name: str) -> None:
    """Within one bin of numpy's quantile of |x|; 1.0 gives the exact maximum."""
    observer = seen(SHAPES[name])
    assert observer.histogram is not None
    for share in (0.5, 0.9, 0.999, 0.9999):
        wanted = np.quantile(np.abs(SHAPES[name]), share, method="inverted_cdf")
        width = observer.histogram.width
        assert abs(percentile(observer, share) - max(wanted, width)) <= 1.01 * width
    assert percentile(observer, 1.0) == observer.largest


def test_percentile_of_zeros_is_a_range_all_the_same() -> None:
    """Where nearly everything is zero the percentile is the first bin's width and never 0."""
    observer = seen(np.concatenate([np.zeros(9999), [8.0]]))
    assert observer.histogram is not None
    assert percentile(observer, 0.99) == observer.histogram.width > 0


@pytest.mark.parametrize("qtype", [QType.INT8, QType.INT16])
@pytest.mark.parametrize("count", [N + 2, 3000])
@pytest.mark.parametrize("name", SHAPES)
def test_mse_threshold_beats_a_grid(name: str, count: int, qtype: QType) -> None:
    """No threshold of a grid of 100, up to twice the largest value, has a squared error more than 0.5 % smaller than
    the one that was found; 15 % of few values in int16, where almost all of it comes from the one beyond."""
    values = SHAPES[name][-count:]
    found = mse_threshold(seen(values), qtype)
    largest = float(np.abs(values.astype(np.float32)).max())
    grid = [error(values, float(t), qtype) for t in np.linspace(0.04, 2, 100) * largest]
    assert 0 < found <= 2 * largest
    assert error(values, found, qtype) <= (1.15 if count == 3000 and qtype is QType.INT16 else 1.005) * min(grid)


@pytest.mark.parametrize("count", [N + 2, 3000])
@pytest.mark.parametrize("name", SHAPES)
def test_mse_range_beats_a_grid_of_both_ends(name: str, count: int) -> None:
    """As above with both ends free and the zero point rounded, on a grid of 20 x 20 ranges, within 1 %."""
    values = SHAPES[name][-count:]
    found = mse_range(seen(values), QType.INT8)
    low, high = min(0.0, float(values.min())), max(0.0, float(values.max()))
    assert 2 * low <= found[0] <= 0 <= found[1] <= 2 * high
    parts = np.linspace(0.05, 1.5, 20)
    grid = [error(values, (float(a * low), float(b * high)), QType.INT8) for a in parts for b in parts]
    assert error(values, found, QType.INT8) <= 1.01 * min(grid)


@pytest.mark.parametrize("name", SHAPES)
def test_table_errors_are_those_of_the_bins(name: str) -> None:
    """The sum over prefix sums equals the plain sum over bins, each at its centre."""
    table = Table.of(seen(SHAPES[name], 256).histogram)  # type: ignore[arg-type]
    assert N <= table.counts.sum() <= SHAPES[name].size + 2 + 1e-9
    steps = np.array([2.5, 4.0, 9.3]) * table.width
    got = table.errors(steps, np.full(3, -6), np.full(3, 5))
    for step, value in zip(steps, got, strict=True):
        ratio = table.centres / step
        codes = np.clip(np.sign(ratio) * np.floor(np.abs(ratio) + 0.5), -6, 5)
        wanted = float((table.counts * (table.centres - codes * step) ** 2).sum())
        assert value == pytest.approx(wanted, rel=1e-9)


def test_few_values_tell_too_small_a_range() -> None:
    """From 2000 values of a tail the error on 200 000 others is smaller than with the least error on the 2000."""
    random = np.random.default_rng(5)
    few, others = random.exponential(size=2000), random.exponential(size=200_000)
    e = symmetric(mse_threshold(seen(few), QType.INT8), QType.INT8)
    found = float(((fake_quantize(others, e.scale, 0, e.low, e.high) - others) ** 2).mean())
    own = []
    for t in np.linspace(0.5, 1, 50) * few.max():
        e = symmetric(float(t), QType.INT8)
        own.append([float(((fake_quantize(x, e.scale, 0, e.low, e.high) - x) ** 2).mean()) for x in (few, others)])
    assert found < 0.8 * min(own)[1]


@pytest.mark.parametrize("top", [6.0, 1.0])
def test_nothing_lies_beyond_a_bound(top: float) -> None:
    """Where several values end at the same place (a Clip, grey levels), no threshold lies above it."""
    values = np.minimum(np.random.default_rng(6).exponential(top, 3000), top)
    assert mse_threshold(seen(values), QType.INT16) <= top
    assert mse_range(seen(values), QType.INT16)[1] <= top


def test_kl_is_guarded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search does not see the first bin, begins at percentile 0.999, and it is said when it stays there."""
    looked_at: list[np.ndarray] = []

    def least(counts: np.ndarray, levels: int, first: int) -> int:
        looked_at.append(counts.copy())
        return first

    observer = seen(np.concatenate([np.zeros(200_000), np.abs(RANDOM.standard_normal(2000))]))
    assert kl(observer, QType.INT8, 1024, 16384)[1] == ""
    monkeypatch.setattr(thresholds, "best_bin", least)
    observer = seen(SHAPES["laplace"])
    assert observer.histogram is not None
    value, note = kl(observer, QType.INT8, 1024, 16384)
    floor, width = percentile(observer, KL_FLOOR), observer.histogram.width
    assert floor <= value < floor + 4 * width
    assert note == f"held at percentile {KL_FLOOR}"
    assert looked_at[0][0] == 0 and looked_at[0][1] > 0


@pytest.mark.parametrize(("asked", "most", "least"), [(1024, 16384, 1024), (2048, 16384, 2048), (1024, 600, 300)])
def test_kl_bins(monkeypatch: pytest.MonkeyPatch, asked: int, most: int, least: int) -> None:
    """num_bin to 2 * num_bin bins cover the range, and never more than max_num_bin."""
    sizes: list[int] = []
    monkeypatch.setattr(thresholds, "best_bin", lambda counts, *_: sizes.append(counts.size) or counts.size)
    for top in (1.01, 1.5, 1.99):
        kl(seen(np.linspace(0, top, 5000)), QType.INT8, asked, most)
    assert all(least <= size <= min(2 * asked, most) for size in sizes)


def test_kl_leaves_int16_whole() -> None:
    """65536 codes are more than any histogram here has bins: nothing is cut off, and that is said."""
    observer = seen(SHAPES["laplace"])
    value, note = kl(observer, QType.INT16, 1024, 16384)
    assert value == observer.largest
    assert "more codes" in note


@pytest.mark.parametrize("value", [0.25, -0.25, 1e-30, 3e38])
def test_one_value_only(value: float) -> None:
    """A constant tensor gives a usable range by every method, at both ends of float32 too."""
    observer = seen(np.full(100, value, np.float32))
    size = abs(float(np.float32(value)))
    assert mse_threshold(observer, QType.INT8) == pytest.approx(size, rel=0.01)
    low, high = mse_range(observer, QType.INT8)
    assert (low, high) == pytest.approx((min(0.0, np.float32(value)), max(0.0, np.float32(value))), rel=0.01)
    assert kl(observer, QType.INT8, 1024, 16384)[0] == pytest.approx(size, rel=0.01)
    assert percentile(observer, 0.9999) == pytest.approx(size, rel=0.01)
