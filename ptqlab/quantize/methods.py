"""Methods of activation calibration as values: what a configuration may name, and its product of lists."""
from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from ptqlab.arith.formats import QType
from ptqlab.config.quant import ActivationConfig
from ptqlab.quantize import thresholds
from ptqlab.quantize.histogram import BINS
from ptqlab.quantize.observe import Observer

# the histogram has no more bins than this, whatever num_bin asks for: 1 MB per tensor and half
MOST_BINS = 1 << 16
# searched when a search is asked for and no calibration_type (an older manual's candidates; the vendor's are unknown)
SEARCHED = (("max", 1.0), ("max", 0.99995), ("kl", 1.0))
DEFAULT = "mse"


@dataclass(frozen=True)
class Method:
    """One way to find a threshold; one candidate of a search.

    name        "max", "kl" or "mse"
    percentile  of max: T is this quantile of |x|
    num_bin, max_num_bin  of kl
    per_channel, equalization  a step per channel, see `quantize.channels`; where both are asked, equalization's
    asymmetric  a range with a zero point instead of a symmetric threshold
    """

    name: str
    percentile: float = 1.0
    num_bin: int = 1024
    max_num_bin: int = 16384
    per_channel: bool = False
    asymmetric: bool = False
    equalization: bool = False

    @property
    def by_channel(self) -> bool:
        """Whether channels are to have steps of their own."""
        return self.per_channel or self.equalization

    @property
    def word(self) -> str:
        """The method as logs write it: max, max-percentile:percentile=0.99995, kl:num_bin=1024,asymmetric=True."""
        if self.name == "max":
            word = "max" if self.percentile >= 1.0 else f"max-percentile:percentile={self.percentile:g}"
        else:
            word = f"kl:num_bin={self.num_bin}" if self.name == "kl" else self.name
        options = [f"{k}=True" for k in ("per_channel", "equalization", "asymmetric") if getattr(self, k)]
        if not options:
            return word
        return word + ("," if ":" in word else ":") + ",".join(options)

    @property
    def bins(self) -> int:
        """Bins of the histogram it needs, a power of two; 0 when smallest and largest value are enough."""
        if self.name == "max" and self.percentile >= 1.0:
            return 0
        if self.name != "kl":
            return BINS
        # the largest value lies in the upper half of the range, so twice as many bins leave num_bin in use
        wanted = min(self.num_bin, self.max_num_bin)
        return min(MOST_BINS, max(BINS, 2 << (wanted - 1).bit_length()))


@dataclass(frozen=True)
class Found:
    """What a method makes of a tensor: threshold T, the range where it is asymmetric, and what held it back."""

    value: float
    bounds: tuple[float, float] | None = None
    note: str = ""


def product(asked: ActivationConfig, named: bool = True, searched: bool = False) -> tuple[Method, ...]:
    """The candidates that an activation block spans, in the order of its lists, equal ones once.

    named     calibration_type was given; else another key may imply it (max_percentile: max, num_bin: kl)
    searched  a search was asked for, so that no calibration_type stands for a list of methods
    """
    names: list[str] = list(asked.calibration_type)
    kinds: list[tuple[str, float, int]] = []
    if not named and searched and not names:
        kinds = [(name, p, asked.num_bin[0]) for name, p in SEARCHED]
    for name in names or ([] if kinds else [DEFAULT]):
        percentiles = asked.max_percentile if name == "max" else (1.0,)
        bins = asked.num_bin if name == "kl" else (1024,)
        kinds += [(name, p, b) for p, b in itertools.product(percentiles, bins)]
    methods = [
        Method(name, p, b, asked.max_num_bin if name == "kl" else 16384, per_channel and not equalized, asymmetric,
               equalized)
        for (name, p, b), per_channel, equalized, asymmetric in itertools.product(
            kinds, asked.per_channel, asked.equalization, asked.asymmetric)
    ]
    return tuple(dict.fromkeys(methods))


def apply(method: Method, seen: Observer, qtype: QType) -> Found:
    """Threshold of a tensor that is not all zero, for codes of type `qtype`."""
    if method.name == "mse" and method.asymmetric:
        return _range(*thresholds.mse_range(seen, qtype), "")
    if method.name == "mse":
        return Found(_float32(thresholds.mse_threshold(seen, qtype)))
    note = ""
    if method.name == "kl":
        value, note = thresholds.kl(seen, qtype, min(method.num_bin, MOST_BINS), method.max_num_bin)
    else:
        value = thresholds.percentile(seen, method.percentile)
    if not method.asymmetric:
        return Found(_float32(value), None, note)
    # a symmetric T cuts both ends of what was seen (our definition for max, percentile and kl)
    return _range(max(seen.low, -value), min(seen.high, value), note)


def _range(low: float, high: float, note: str) -> Found:
    """A range that holds 0, so that padding and zeros are exact."""
    bounds = (_float32(min(low, 0.0)), _float32(max(high, 0.0)))
    return Found(max(-bounds[0], bounds[1]), bounds, note)


def _float32(value: float) -> float:
    return float(np.float32(value))
