"""What calibration chose, and what it makes of tensors and weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from ptqlab.arith.formats import QType
from ptqlab.errors import Finding
from ptqlab.ops.spec import Encoding, WeightEncoding


@dataclass(frozen=True)
class Threshold:
    """Range chosen for one slot.

    low, high  smallest and largest finite value seen over all samples
    value      threshold T; scale = T / 127 or T / 32767
    method     how T was chosen ("max")
    tags       "all-zero" where nothing but zeros was seen, "constant" where one value only
    """

    low: float
    high: float
    value: float
    method: str
    tags: tuple[str, ...] = ()


@dataclass(frozen=True)
class Calibration:
    """Thresholds by slot, from `samples` samples."""

    thresholds: Mapping[str, Threshold]
    samples: int
    method: str
    findings: tuple[Finding, ...] = ()

    def verify(self) -> Calibration:
        for slot, t in self.thresholds.items():
            assert np.isfinite(t.value) and t.value > 0, f"slot {slot} has threshold {t.value}"
        return self


@dataclass(frozen=True)
class Encodings:
    """Integers for everything: encoding of each slot in its stored type, integer weights of each TAE node."""

    slots: Mapping[str, Encoding]
    weights: Mapping[str, WeightEncoding]
    findings: tuple[Finding, ...] = ()
    thresholds: Mapping[str, float] = field(default_factory=dict)

    def view(self, slot: str, qtype: QType) -> Encoding:
        """The slot's encoding in a type narrower than the stored one: same threshold, fewer codes."""
        stored = self.slots[slot]
        if stored.qtype is qtype:
            return stored
        return symmetric(self.thresholds[slot], qtype)


def symmetric(threshold: float, qtype: QType) -> Encoding:
    """scale = T / 127 (int8) or T / 32767 (int16), zero point 0 [log / our definition]."""
    return Encoding(qtype, np.float32(np.float32(threshold) / np.float32(qtype.qmax)))
