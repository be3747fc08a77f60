"""Methods as values: their words, their product, and the range each makes of a tensor."""
from __future__ import annotations

import numpy as np
import pytest

from ptqlab.arith.formats import QType
from ptqlab.config.quant import ActivationConfig
from ptqlab.quantize.histogram import BINS, Histogram
from ptqlab.quantize.methods import MOST_BINS, Method, apply, product
from ptqlab.quantize.observe import Observer


@pytest.mark.parametrize(("method", "word"), [
    (Method("max"), "max"),
    (Method("max", 0.99995), "max-percentile:percentile=0.99995"),
    (Method("max", 0.99995, per_channel=True), "max-percentile:percentile=0.99995,per_channel=True"),
    (Method("kl", num_bin=2048, asymmetric=True), "kl:num_bin=2048,asymmetric=True"),
    (Method("mse", asymmetric=True), "mse:asymmetric=True"),
])
def test_words(method: Method, word: str) -> None:
    """Methods are named as the vendor's logs name them."""
    assert method.word == word


def test_the_product_of_all_lists() -> None:
    """Lists multiply, but a method only by the keys it knows: percentiles for max, bins for kl."""
    asked = ActivationConfig(("max", "kl"), (512, 1024), 4096, (1.0, 0.999), (False,), (False, True))
    found = product(asked)
    assert [m.word for m in found] == [
        "max", "max:asymmetric=True",
        "max-percentile:percentile=0.999", "max-percentile:percentile=0.999,asymmetric=True",
        "kl:num_bin=512", "kl:num_bin=512,asymmetric=True", "kl:num_bin=1024", "kl:num_bin=1024,asymmetric=True",
    ]
    assert found[4].max_num_bin == 4096


def test_nothing_named() -> None:
    """Without a calibration_type the method is mse; a search that is asked for goes over max, percentile and kl."""
    assert [m.word for m in product(ActivationConfig(), named=False)] == ["mse"]
    searched = product(ActivationConfig(), named=False, searched=True)
    assert [m.word for m in searched] == ["max", "max-percentile:percentile=0.99995", "kl:num_bin=1024"]


@pytest.mark.parametrize(("method", "bins"), [
    (Method("max"), 0),
    (Method("max", 0.999), BINS),
    (Method("mse"), BINS),
    (Method("kl", num_bin=1024), BINS),
    (Method("kl", num_bin=2048), BINS),
    (Method("kl", num_bin=4096), 8192),
    (Method("kl", num_bin=10**6, max_num_bin=10**7), MOST_BINS),
])
def test_bins(method: Method, bins: int) -> None:
    """max needs no histogram; kl one whose upper half alone holds num_bin bins, within a limit."""
    assert method.bins == bins


def seen(*values: float) -> Observer:
    observer = Observer(histogram=Histogram())
    observer.add(np.array(values, np.float32))
    return observer


@pytest.mark.parametrize("name", ["max", "kl", "mse"])
def test_asymmetric_ranges_hold_zero(name: str) -> None:
    """A range of one sign is widened to 0, so that padding and zeros are codes; T tells its larger end."""
    for values in ((3.0, 5.0, 4.0), (-3.0, -5.0, -4.0)):
        found = apply(Method(name, asymmetric=True), seen(*values), QType.INT8)
        assert found.bounds is not None
        assert min(found.bounds) <= 0.0 <= max(found.bounds)
        assert found.value == max(map(abs, found.bounds)) == pytest.approx(5.0, rel=0.02)


def test_a_percentile_cuts_both_ends_of_an_asymmetric_range() -> None:
    """T is the quantile of |x|; the range ends at -T or where the values end."""
    observer = seen(*np.linspace(-1, 9, 1001), 100.0)
    threshold = apply(Method("max", 0.999), observer, QType.INT8).value
    bounds = apply(Method("max", 0.999, asymmetric=True), observer, QType.INT8).bounds
    assert bounds == (-1.0, threshold)
    assert 8.9 < threshold < 9.2


def test_max_is_exact() -> None:
    """No histogram is needed, and T is the largest magnitude to the bit."""
    observer = Observer()
    observer.add(np.array([0.1, -0.3], np.float32))
    assert apply(Method("max"), observer, QType.INT8).value == float(np.float32(0.3))
    wanted = (-float(np.float32(0.3)), float(np.float32(0.1)))
    assert apply(Method("max", asymmetric=True), observer, QType.INT8).bounds == wanted
