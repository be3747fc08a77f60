"""What calibration chose, and what it makes of tensors and weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ptqlab.arith.formats import QType
from ptqlab.errors import Finding
from ptqlab.ops.spec import Encoding, WeightEncoding


@dataclass(frozen=True)
class Threshold:
    """Range chosen for one slot.

    low, high  smallest and largest finite value seen over all samples
    value      threshold T; scale = T / 127 or T / 32767
    method     how T was chosen, in the words of the log: "max", "max-percentile:percentile=0.99995", "mse"
    tags       "all-zero" where nothing but zeros was seen, "constant" where one value only
    bounds     (low, high) of the codes where they are asymmetric, holding 0; None: symmetric, -T to T
    channels   step of each channel relative to that of the tensor, in (0, 1]; empty where one step is for all
    trailing   number of axes of the tensor behind its channels
    asked      what the configuration asked for, and where, in words
    note       why something else than asked was given, "" when it was not
    clipped    share of the values seen that lie outside of the range
    """

    low: float
    high: float
    value: float
    method: str
    tags: tuple[str, ...] = ()
    bounds: tuple[float, float] | None = None
    channels: tuple[float, ...] = ()
    trailing: int = 0
    asked: str = ""
    note: str = ""
    clipped: float = 0.0

    @property
    def steps(self) -> np.ndarray | None:
        """Factors of the step per channel, shaped to broadcast; None where one step is for all."""
        return np.asarray(self.channels, np.float32).reshape(-1, *(1,) * self.trailing) if self.channels else None


@dataclass(frozen=True)
class Calibration:
    """Thresholds by slot, from `samples` samples.

    method   of the whole run, in words
    means    node with weights -> mean of what its kernel reads (`quantize.means`); holds the nodes whose biases are
             corrected
    shifts   nodes of these -> what rounding adds to that in the mean, a row for each sample (`quantize.shifts`); empty
             where biases take back the weights' own error only
    corrections  node with weights -> correction of its bias, where it does not follow from means and shifts
    weights  how the steps of weights are found: "max" or "mse"
    answers  what else a reader of the result should know: scores of a search, samples behind the corrections
    """

    thresholds: Mapping[str, Threshold]
    samples: int
    method: str
    findings: tuple[Finding, ...] = ()
    means: Mapping[str, np.ndarray] = field(default_factory=dict)
    shifts: Mapping[str, np.ndarray] = field(default_factory=dict)
    corrections: Mapping[str, np.ndarray] = field(default_factory=dict)
    weights: str = "max"
    answers: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """What the record of a run tells: method, samples, answers, and per tensor what was asked and given."""
        tensors = {
            slot: {
                "threshold": t.value, "range": None if t.bounds is None else list(t.bounds), "asked": t.asked,
                "granted": t.method, "reason": t.note, "clipped": t.clipped, "seen": [t.low, t.high],
            }
            for slot, t in self.thresholds.items()
        }
        return {"method": self.method, "samples": self.samples, **self.answers, "tensors": tensors}

    def verify(self) -> Calibration:
        for slot, t in self.thresholds.items():
            assert np.isfinite(t.value) and t.value > 0, f"slot {slot} has threshold {t.value}"
            assert t.bounds is None or t.bounds[0] <= 0 <= t.bounds[1], f"slot {slot} has the range {t.bounds}"
        return self


@dataclass(frozen=True)
class Encodings:
    """Integers for everything: encoding of each slot in its stored type, integer weights of each TAE node.

    channels  slot -> factors of its step per channel, shaped to broadcast (`quantize.channels`); most slots have none
    """

    slots: Mapping[str, Encoding]
    weights: Mapping[str, WeightEncoding]
    findings: tuple[Finding, ...] = ()
    thresholds: Mapping[str, float] = field(default_factory=dict)
    bounds: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    channels: Mapping[str, np.ndarray] = field(default_factory=dict)

    def view(self, slot: str, qtype: QType) -> Encoding:
        """The slot's encoding in a type narrower than the stored one: same range, fewer codes."""
        stored = self.slots[slot]
        if stored.qtype is qtype:
            return stored
        return encoding(self.thresholds[slot], self.bounds.get(slot), qtype)


def encoding(threshold: float, bounds: tuple[float, float] | None, qtype: QType) -> Encoding:
    """Symmetric for `bounds` None, else with a zero point."""
    return symmetric(threshold, qtype) if bounds is None else asymmetric(*bounds, qtype)


def symmetric(threshold: float, qtype: QType) -> Encoding:
    """scale = T / 127 (int8) or T / 32767 (int16), zero point 0 [log / our definition]."""
    return Encoding(qtype, np.float32(np.float32(threshold) / np.float32(qtype.qmax)))


def asymmetric(low: float, high: float, qtype: QType) -> Encoding:
    """scale = (high - low) / 255 or / 65535, zero point = the code nearest to 0 for a range that holds 0.

    The range moves by less than half a step so that 0 is a code. [log / our definition]
    """
    span = qtype.qmax - qtype.qmin
    scale = np.float32((float(high) - float(low)) / span)  # in float64: the difference may leave float32
    zero_point = qtype.qmin + int(np.floor(-float(low) / float(scale) + 0.5))
    return Encoding(qtype, scale, max(qtype.qmin, min(qtype.qmax, zero_point)))
