"""Why a quantizer hurts, and what to do: one function per cause, whose docstring is the sentence users read.

A cause looks at the facts of one quantizer and answers with what it found, or None. The first cause of `CAUSES` that
answers is the one that is told: specific ones stand before general ones.
"""
from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ptqlab.debug.network import Quantizer

FAR = 8.0
CORRECTION = {"num_sample": 16, "metric": "cosine-similarity"}


@dataclass(frozen=True)
class Remedy:
    """What to do. `nodes`: node name -> what node_config says of it; `model`: what model_config says;
    `data`: calibrate again, with data as these."""

    what: str
    nodes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    data: bool = False
    model: Mapping[str, Any] = field(default_factory=dict)

    def applied(self, quant_config: Mapping[str, Any]) -> dict[str, Any]:
        """The quant_config with the remedy in its node_config and model_config."""
        out = copy.deepcopy(dict(quant_config))
        for node, says in self.nodes.items():
            held = out.setdefault("node_config", {}).setdefault(node, {})
            for key, value in says.items():
                held[key] = {**held.get(key, {}), **value} if isinstance(value, dict) else value
        for key, value in self.model.items():
            held = out.setdefault("model_config", {})
            held[key] = {**held.get(key, {}), **value} if isinstance(value, dict) else value
        return out


@dataclass(frozen=True)
class Facts:
    """What is known of one quantizer.

    x        values it rounds, float32, samples along axis 0;  ops: types of the active nodes that read them
    readers  those nodes; where there is none, the one that writes the values, and `written` is True
    writers  the node that writes the values, none for inputs and constants
    on_input the tensor is an input of the model
    others   largest |value| of each tensor that shares the threshold, by name
    operand  largest |value| of the other operand, where the reader is an Add or Sub; None else
    joined   the values go through a Concat;  index: they are made of whole numbers, or whole numbers are made of them
    shift    of weights: share of the error they cause at their node that is a shift of the channels' means
    """

    quantizer: Quantizer
    x: np.ndarray
    readers: tuple[str, ...]
    ops: tuple[str, ...]
    on_input: bool = False
    others: Mapping[str, float] = field(default_factory=dict)
    operand: float | None = None
    joined: bool = False
    index: bool = False
    shift: float = 0.0
    written: bool = False
    writers: tuple[str, ...] = ()

    @property
    def largest(self) -> float:
        return float(np.max(np.abs(self.x), initial=0.0))

    @property
    def finite(self) -> np.ndarray:
        return self.x[np.isfinite(self.x)]

    @cached_property
    def marked(self) -> np.ndarray:
        """Which values only mark places, such as those of an attention mask: one large negative number, often."""
        low = float(self.x.min(initial=0.0))
        marks = self.x <= low * 0.9 if low < -50 else np.zeros(self.x.shape, bool)
        rest = float(np.abs(self.x[~marks]).max(initial=0.0))
        highest = float(self.x[marks].max(initial=low))
        # the mark alone, or the mark added to an ordinary value
        one = highest == low or highest - low < max(1.0, 4 * rest)
        is_mask = 0 < marks.mean() < 0.9 and marks.sum() > 1 and rest < -low / 20 and one
        return marks if is_mask else np.zeros(self.x.shape, bool)

    @property
    def unmarked(self) -> np.ndarray:
        """Finite values that mark nothing."""
        return self.x[~self.marked & np.isfinite(self.x)]

    @property
    def rounded(self) -> np.ndarray:
        """`unmarked` after quantization."""
        return self.quantizer(self.x)[~self.marked & np.isfinite(self.x)]

    @property
    def step(self) -> float:
        return float(self.quantizer.scale.max())

    def channels(self) -> np.ndarray:
        """Largest |value| of each channel: axis 1 of images, the last axis else."""
        axis = 1 if self.x.ndim >= 4 else self.x.ndim - 1
        rest = tuple(a for a in range(self.x.ndim) if a != axis)
        return np.asarray(np.abs(self.x).max(axis=rest), np.float64)


def zero_or_constant(f: Facts) -> str | None:
    """The tensor holds one value only: quantization is not at fault, the model or its data are."""
    if f.finite.size and float(f.finite.min()) == float(f.finite.max()):
        return f"every value is {float(f.finite[0]):g}"
    return None


def wrong_calibration_data(f: Facts) -> str | None:
    """The data are not on the scale of the data that the thresholds come from."""
    if not f.on_input or f.quantizer.kind != "activation":
        return None
    ratio = f.largest / f.quantizer.threshold
    if ratio > 1.5 or ratio < 0.1:
        return f"values reach {f.largest:g}, the threshold is {f.quantizer.threshold:g}"
    return None


def integer_index(f: Facts) -> str | None:
    """Whole numbers, such as indices or positions, are rounded to multiples of a step and become other numbers."""
    whole = f.finite.size and np.array_equal(f.finite, np.round(f.finite))
    if f.quantizer.kind != "activation" or not f.index or not whole or f.step <= 0.5:
        return None
    return f"whole numbers up to {f.largest:g} become multiples of {f.step:g}"


def mask_value(f: Facts) -> str | None:
    """A large number that only marks places takes the whole range, and everything else falls on one code."""
    if f.quantizer.kind != "activation" or not f.marked.any():
        return None
    rest = float(np.abs(f.unmarked).max(initial=0.0))
    # a range that ends before the mark has no trouble with it: the mark saturates, which still marks
    if f.quantizer.threshold < FAR * rest:
        return None
    return f"{100 * f.marked.mean():.1f} % of the values are {float(f.x.min()):g}, all others are within {rest:g}"


def constant_row(f: Facts) -> str | None:
    """A normalization divides by the deviation of a row that is almost constant, which magnifies rounding."""
    if "LayerNormalization" not in f.ops or f.x.ndim < 2:
        return None
    deviation = f.x.reshape(-1, f.x.shape[-1]).std(axis=1)
    small = deviation < 2 * f.step
    if small.any():
        return f"{small.sum()} of {small.size} rows deviate by less than two steps of {f.step:g}"
    return None


def clipped(f: Facts) -> str | None:
    """A part of the values lies outside of the range and is cut off."""
    share = f.quantizer.clipped(f.unmarked) if f.quantizer.kind == "activation" else 0.0
    if share > 1e-3:
        return f"{100 * share:.2f} % of the values lie outside of +-{f.quantizer.threshold:g}"
    return None


def unbalanced_concat(f: Facts) -> str | None:
    """Tensors of very different size are joined and share one threshold; the small one gets few codes."""
    largest = max(f.others.values(), default=0.0)
    if f.joined and largest > FAR * f.largest > 0:
        return f"this branch reaches {f.largest:g}, the largest one {largest:g}"
    return None


def unbalanced_add(f: Facts) -> str | None:
    """A large and a small tensor are added; one step of the large one is coarse for the small one."""
    if f.operand and f.largest > FAR * f.operand:
        return f"this operand reaches {f.largest:g}, the other one {f.operand:g}"
    return None


def outlier_channel(f: Facts) -> str | None:
    """One channel or a few reach much further than the others, which share what codes are left."""
    if f.quantizer.kind != "activation" or f.x.ndim < 2:
        return None
    channels = f.channels()
    typical = float(np.median(channels))
    wide = channels > FAR * typical
    if channels.size > 2 and typical > 0 and wide.any() and f.quantizer.threshold > FAR / 2 * typical:
        return f"channel {int(channels.argmax())} reaches {channels.max():g}, the median channel {typical:g}"
    return None


def dead_range(f: Facts) -> str | None:
    """A few single values, or one sign only, leave most of the codes unused."""
    if f.quantizer.kind != "activation" or not f.finite.size:
        return None
    if float(f.finite.min()) >= 0 and f.quantizer.zero_point == 0:
        return "no value is negative: half of the codes are never used"
    usual = float(np.quantile(np.abs(f.unmarked), 0.999)) if f.unmarked.size else 0.0
    if f.quantizer.threshold > FAR / 2 * usual:
        return f"99.9 % of the values are within {usual:g}, the threshold is {f.quantizer.threshold:g}"
    return None


def _within(f: Facts) -> tuple[int, ...]:
    """The axes of weights that lie within one channel."""
    shape = f.quantizer.scale.shape
    return tuple(a for a in range(f.x.ndim) if len(shape) != f.x.ndim or shape[a] == 1)


def bias_overflow(f: Facts) -> str | None:
    """A bias is too large beside tiny weights: the scale of the weights was widened so that it fits 32 bits."""
    if f.quantizer.kind != "weight":
        return None
    codes = np.abs(f.x / f.quantizer.scale)
    rest = _within(f)
    used = codes.max(axis=rest) if rest else codes
    few = (used < 0.9 * 127) & (used > 0)
    return f"{int(few.sum())} channels use at most {float(used[few].max()):.0f} of 127 codes" if few.any() else None


def mean_shift(f: Facts) -> str | None:
    """Rounding the weights moves the mean of whole channels, above all where a channel has few weights (depthwise)."""
    if f.quantizer.kind != "weight" or f.quantizer.correction is not None or f.shift <= 0.5:
        return None
    return f"{100 * f.shift:.0f} % of the error at the node is a shift of its channels' means"


def weight_spread(f: Facts) -> str | None:
    """Within one channel a few weights are much larger than the others, which then get few codes."""
    if f.quantizer.kind != "weight":
        return None
    rest = _within(f)
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = np.abs(f.x).max(axis=rest) / np.median(np.abs(f.x), axis=rest)
    ratio = ratio[np.isfinite(ratio)]
    wide = ratio > 4 * FAR
    return f"the largest weight of {wide.sum()} channels is over {4 * FAR:g} times the median" if wide.any() else None


def too_few_bits(f: Facts) -> str | None:
    """The values are spread well, and 8 bits are not enough for what is computed from them."""
    if f.quantizer.bits > 8:
        return None
    return f"signal to noise without the mean {sqnr_without_mean(f.unmarked, f.rounded):.1f} dB with 8 bits"


def sqnr_without_mean(x: np.ndarray, y: np.ndarray) -> float:
    """SQNR in dB of x - mean(x): a large mean does not hide what happened to the signal around it."""
    signal = float(np.sum((x - x.mean(dtype=np.float64)) ** 2, dtype=np.float64))
    noise = float(np.sum((x.astype(np.float64) - y) ** 2))
    if noise == 0.0:
        return float("inf")
    return 10 * float(np.log10(signal / noise)) if signal else float("-inf")


Cause = Callable[[Facts], "str | None"]


def _int16(f: Facts) -> Remedy:
    what = "int16 for the node that writes it" if f.written else "int16 for the nodes that read it"
    return Remedy(what, {n: {"qtype": "int16"} for n in f.readers})


def _dual(f: Facts) -> Remedy:
    return Remedy("int16 for weights and input", {n: {"qtype": "dual-int16"} for n in f.readers})


def _activation(what: str, **says: Any) -> Callable[[Facts], Remedy]:
    return lambda f: Remedy(what, {n: {"activation": dict(says)} for n in f.readers})


def _dead(f: Facts) -> Remedy:
    if float(f.finite.min()) >= 0:
        return _activation("asymmetric range", calibration_type="max", asymmetric=True)(f)
    return _int16(f)


def _mask(f: Facts) -> Remedy:
    share = float(f.marked.mean())
    percentile = round(max(0.5, 1.0 - share - 0.001), 4)
    # a histogram of thousands of bins cannot tell apart what lies in its first one
    if share < 0.49 and -float(f.x.min()) < 1000 * float(np.abs(f.unmarked).max(initial=0.0)):
        return _activation("leave the mask out of the range", calibration_type="max", max_percentile=percentile)(f)
    return Remedy("run it and what writes it on the CPU", {n: {"ON": "CPU"} for n in (*f.readers, *f.writers)})


def _cpu(f: Facts) -> Remedy:
    return Remedy("run it on the CPU", {n: {"ON": "CPU"} for n in f.readers})


def _data(f: Facts) -> Remedy:
    return Remedy("calibrate with data like these", data=True)


#: cause -> remedy, specific causes first.
CAUSES: Sequence[tuple[Cause, Callable[[Facts], Remedy]]] = (
    (wrong_calibration_data, _data),
    (zero_or_constant, _data),
    (integer_index, _cpu),
    (mask_value, _mask),
    (constant_row, _int16),
    (clipped, _activation("a threshold that clips nothing", calibration_type="max", max_percentile=1.0)),
    (unbalanced_concat, _int16),
    (unbalanced_add, _int16),
    (outlier_channel, _int16),
    (dead_range, _dead),
    (bias_overflow, _cpu),
    (weight_spread, _dual),
    (mean_shift, lambda f: Remedy("bias correction", model={"weight": {"bias_correction": dict(CORRECTION)}})),
    (too_few_bits, lambda f: _int16(f) if f.quantizer.kind == "activation" else _dual(f)),
)


def cause_of(facts: Facts) -> tuple[Cause, str, Remedy] | None:
    """The first cause that answers, what it found, and the remedy."""
    for cause, remedy in CAUSES:
        found = cause(facts)
        if found is not None:
            return cause, found, remedy(facts)
    return None
