"""The data doctor: what is odd about calibration samples, said before hours of calibration are spent on them.

One pass over the data, one sample in memory at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

import numpy as np

from ptqlab.config.document import listing
from ptqlab.config.values import InputParameters
from ptqlab.errors import Finding, Problem, PtqError
from ptqlab.events import Watch
from ptqlab.quantize.samples import TITLE, Input, Samples, cap

FEW, MANY = 20, 100  # samples that calibration wants (documented)


@dataclass
class InputFacts:
    """What one pass remembers of an input."""

    spec: Input
    low: float = np.inf
    high: float = -np.inf
    whole: bool = True
    flat: dict[str, list[str]] = field(default_factory=dict)
    digests: set[bytes] = field(default_factory=set)

    @property
    def channel_axis(self) -> int | None:
        """Axis of 1 or 3 channels of an image-shaped input, else None."""
        shape = self.spec.shape
        if len(shape) != 4 or self.spec.dtype.kind not in "fu" or min(shape[1:]) < 1:
            return None
        return next(
            (a for a in (1, 3) if shape[a] in (1, 3) and min(d for i, d in enumerate(shape) if i not in (0, a)) > 4),
            None,
        )

    def look(self, name: str, values: np.ndarray) -> bytes:
        """Take one sample in; gives its digest."""
        digest = blake2b(np.ascontiguousarray(values).tobytes(), digest_size=16).digest()
        self.digests.add(digest)
        if not values.size or values.dtype.kind == "b":
            return digest
        low, high = float(values.min()), float(values.max())
        self.low, self.high = min(self.low, low), max(self.high, high)
        self.whole = self.whole and (
            values.dtype.kind in "iu" or bool((values.reshape(-1)[:4096] == np.rint(values.reshape(-1)[:4096])).all())
        )
        kind = self.flatness(values, low, high)
        if kind:
            self.flat.setdefault(kind, []).append(name)
        return digest

    def flatness(self, values: np.ndarray, low: float, high: float) -> str:
        """What a sample without variation is called, "" for a normal one."""
        if values.size < 2:
            return ""
        axis = self.channel_axis
        if low == high:
            if axis is not None and low == 0:
                return "all black (0)"
            if axis is not None and low in (1, 255):
                return f"all white ({low:g})"
            return "all zero" if low == 0 else "one constant value"
        if axis is None or values.shape[axis] == 1:
            return ""
        rest = tuple(i for i in range(values.ndim) if i != axis)
        return "of one colour" if bool((values.min(rest) == values.max(rest)).all()) else ""


def examine(samples: Samples, inputs: Sequence[InputParameters] = (), watch: Watch | None = None) -> list[Finding]:
    """Findings on the number of samples, and on constant, zero, one-coloured, repeated or wrongly scaled data.

    inputs  the configured inputs; their mean and scale tell which range the model expects

    Raises PtqError with every sample that holds NaN or Inf.
    """
    watch = watch or Watch()
    facts = [InputFacts(spec) for spec in samples.inputs]
    problems: list[Problem] = []
    seen: dict[bytes, str] = {}
    repeated: list[str] = []
    with watch.stage("look at the calibration data", len(samples)) as stage:
        for index, name in enumerate(samples.names):
            try:
                sample = samples[index]
            except PtqError as error:
                problems += error.problems
                stage.step()
                continue
            digest = b"".join(f.look(name, sample[f.spec.name]) for f in facts)
            if digest in seen:
                repeated.append(f"{name} (as {seen[digest]})")
            else:
                seen[digest] = name
            stage.step()
    if problems:
        raise PtqError(cap(problems), TITLE)
    findings = [*count_findings(len(samples))]
    for fact in facts:
        findings += input_findings(fact, len(samples), next((i for i in inputs if i.name == fact.spec.name), None))
    if repeated and any(len(f.digests) > 1 for f in facts):  # all alike: told by input above
        findings.append(
            Finding(
                "PTQ365",
                f"{len(repeated)} of {len(samples)} samples repeat another: {listing(repeated, 5)}",
                hint="repeated samples add nothing: use others",
            )
        )
    for finding in findings:
        watch.finding(finding)
    return findings


def count_findings(count: int) -> list[Finding]:
    if count < FEW:
        return [
            Finding(
                "PTQ360",
                f"{count} calibration sample{'s' if count != 1 else ''}: thresholds may not hold for other data",
                hint=f"use {FEW} to {MANY} samples from training or validation data",
            )
        ]
    if count > MANY:
        return [
            Finding(
                "PTQ361",
                f"{count} calibration samples: more than {MANY} seldom change the thresholds and take longer",
                severity="note",
            )
        ]
    return []


def input_findings(fact: InputFacts, count: int, given: InputParameters | None) -> list[Finding]:
    name = fact.spec.name
    out: list[Finding] = []
    if fact.low == fact.high and fact.low == 0:
        return [
            Finding(
                "PTQ362",
                f"input {name} is all zero in every sample",
                hint="check how the samples were written: a threshold cannot be found from zeros",
            )
        ]
    if fact.low == fact.high and np.isfinite(fact.low) and fact.spec.dtype.kind == "f":
        return [
            Finding(
                "PTQ363",
                f"input {name} holds the one fixed value {fact.low:g} in every sample",
                hint="use samples from real data",
            )
        ]
    for kind, names in fact.flat.items():
        verb = "is" if len(names) == 1 else "are"
        out.append(
            Finding(
                "PTQ364",
                f"input {name}: {len(names)} of {count} samples {verb} {kind}: {listing(names, 5)}",
                hint="use samples from real data",
            )
        )
    if count > 1 and len(fact.digests) == 1 and fact.spec.dtype.kind == "f":
        out.append(
            Finding(
                "PTQ366",
                f"input {name} is the same in all {count} samples",
                hint="right for a constant side input, wrong for images or features",
            )
        )
    if fact.channel_axis is not None and fact.spec.dtype.kind == "f":
        out += scale_findings(fact, given)
    return out


def scale_findings(fact: InputFacts, given: InputParameters | None) -> list[Finding]:
    """Raw images where the model expects normalised ones, and the reverse."""
    name, low, high = fact.spec.name, fact.low, fact.high
    start = f"input {name}: the samples range from {low:.4g} to {high:.4g}"
    raw = low >= 0 and high > 32 and high <= 255 and fact.whole
    normalised = low >= -16 and high <= 16
    hint = "calibration data is what the float model takes, already normalised"
    if given is not None and given.is_image and (given.mean or given.scale):
        scale, mean = np.asarray(given.scale or (1.0,)), np.asarray(given.mean or (0.0,))
        ends = np.stack([(0 - mean) * scale, (255 - mean) * scale])
        least, most = float(ends.min()), float(ends.max())
        slack = 0.25 * (most - least)
        if low < least - slack or high > most + slack:
            return [
                Finding(
                    "PTQ367",
                    f"{start}, and mean and scale of the configuration bring images to {least:.4g} to {most:.4g}",
                    hint=hint,
                )
            ]
        if most - least > 32 and normalised:
            return [
                Finding(
                    "PTQ368",
                    f"{start}, narrow against the {least:.4g} to {most:.4g} of the configured mean and scale",
                    hint=hint,
                )
            ]
        return []
    if given is not None and given.is_image and normalised:
        return [
            Finding(
                "PTQ368",
                f"{start}, and without mean and scale the model gets 0 to 255 on the board",
                hint="give mean_value and scale_value as the training used them",
            )
        ]
    if given is not None and given.is_image:
        return []
    if raw:
        return [
            Finding(
                "PTQ367",
                f"{start} in whole numbers, as images that are not normalised",
                hint=f"{hint}; leave it so only if the model normalises by itself",
            )
        ]
    return []
