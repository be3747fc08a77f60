"""Calibration data: folders of .npy files or arrays, bound to the model's inputs by name, read one sample at a time.

`load_samples` looks at names, headers, shapes and types only, and tells every problem at once; values are looked at
when a sample is read (NaN and Inf are refused there) and by `ptqlab.quantize.doctor`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ptqlab.config.data_binding import bind_sources, sources_of
from ptqlab.errors import Finding, Problem, PtqError, shorten
from ptqlab.events import Watch
from ptqlab.quantize.sample_files import Gathered, Part, array_parts, folder_parts

TITLE = "the calibration data cannot be used"
WHERE = "calibration data"
MAX_TOLD = 20
InputInfo = tuple[Sequence[int], Any]


@dataclass(frozen=True)
class Input:
    """What the model takes: name, shape of one sample, numpy dtype."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype


class Samples:
    """Calibration samples. `len()`, index and iteration give `{input: array}` of exactly the input's shape and dtype.

    Nothing is kept in memory between two samples.

    names     one per sample: the file of the first input, without its suffix
    findings  conversions, skipped files, the order of the files
    """

    def __init__(
        self,
        inputs: Sequence[Input],
        names: Sequence[str],
        read: Callable[[int], dict[str, np.ndarray]],
        findings: Sequence[Finding] = (),
    ) -> None:
        self.inputs = tuple(inputs)
        self.names = tuple(names)
        self.findings = tuple(findings)
        self._read = read

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, index: int) -> dict[str, np.ndarray]:
        """One sample. Raises PtqError (PTQ306) for NaN or Inf, naming input, file, count and first index."""
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        return self._read(index % len(self))

    def __iter__(self) -> Iterator[dict[str, np.ndarray]]:
        return (self[i] for i in range(len(self)))

    def first(self, count: int) -> Samples:
        """The first `count` samples."""
        return Samples(self.inputs, self.names[:count], self._read, self.findings)


def load_samples(
    data: Any, inputs: Mapping[str, InputInfo], watch: Watch | None = None, raw: Mapping[str, str] | None = None
) -> Samples:
    """`Samples` of folders or arrays.

    data    {input: folder}; a folder (of the one input's files, or with one folder per input name);
            {input: [array, ...]}; [array, ...] for one input; [{input: array}, ...]
    inputs  name -> (shape of one sample, numpy dtype)
    raw     input -> dtype of raw .bin samples ("float32", "uint8"); without it .bin files are not read

    Raises PtqError with all problems, at most 20 told in full.
    """
    watch = watch or Watch()
    specs = [Input(name, tuple(int(d) for d in shape), np.dtype(dtype)) for name, (shape, dtype) in inputs.items()]
    findings: list[Finding] = []
    sources, problems = sources_of(data, WHERE)
    if not problems:
        sources, problems = bind_sources(sources, [s.name for s in specs], WHERE)
    found: dict[str, list[Part]] = {}
    for spec in specs:
        if spec.name in sources:
            source = sources[spec.name]
            raw_dtype = (raw or {}).get(spec.name)
            gathered: Gathered = (
                folder_parts(spec.name, spec.shape, spec.dtype, Path(source), raw_dtype)
                if isinstance(source, str | Path)
                else array_parts(spec.name, spec.shape, spec.dtype, source)
            )
            found[spec.name] = gathered.parts
            problems += gathered.problems
            findings += gathered.findings
    problems += unequal_counts(found) if not problems else []
    if problems:
        raise PtqError(cap(problems), TITLE)
    findings += pairing(found)
    for finding in findings:
        watch.finding(finding)

    def read(index: int) -> dict[str, np.ndarray]:
        return {spec.name: found[spec.name][index].read() for spec in specs}

    names = [part.name for part in found[specs[0].name]] if specs else []
    return Samples(specs, names, read, findings)


def random_samples(inputs: Mapping[str, InputInfo], n: int = 1, seed: int = 0) -> Samples:
    """`n` random samples (calibration_type skip): normal floats, integers 0 or 1; the same for the same seed."""
    specs = [Input(name, tuple(int(d) for d in shape), np.dtype(dtype)) for name, (shape, dtype) in inputs.items()]

    def read(index: int) -> dict[str, np.ndarray]:
        rng = np.random.default_rng([seed, index])
        return {
            s.name: rng.standard_normal(s.shape).astype(s.dtype)
            if s.dtype.kind == "f"
            else rng.integers(0, 2, s.shape).astype(s.dtype)
            for s in specs
        }

    note = Finding(
        "PTQ355",
        "random data instead of calibration samples: speed and structure are right, accuracy means nothing",
        severity="note",
    )
    return Samples(specs, [f"random {i}" for i in range(n)], read, [note])


def unequal_counts(found: Mapping[str, Sequence[Part]]) -> list[Problem]:
    counts = {name: len(parts) for name, parts in found.items()}
    if len(set(counts.values())) < 2:
        return []
    text = ", ".join(f"{count} of input {shorten(name)}" for name, count in counts.items())
    return [
        Problem(
            "PTQ307",
            "calibration data",
            f"different numbers of samples: {text}",
            "as many samples of every input",
            "sample i of one input belongs to sample i of the others",
        )
    ]


def pairing(found: Mapping[str, Sequence[Part]]) -> list[Finding]:
    """A warning where files of two inputs that are taken as one sample have different names."""
    if len(found) < 2:
        return []
    first, *others = found.items()
    for name, parts in others:
        for a, b in zip(first[1], parts, strict=True):
            if a.file and b.file and a.name != b.name:
                return [
                    Finding(
                        "PTQ354",
                        f"samples are paired by order, and their names differ: {a.file.name} of input {first[0]} "
                        f"goes with {b.file.name} of input {name}",
                        hint="name the files of one sample alike",
                    )
                ]
    return []


def cap(problems: Sequence[Problem]) -> list[Problem]:
    """At most `MAX_TOLD` problems and a count of the rest."""
    if len(problems) <= MAX_TOLD:
        return list(problems)
    rest = len(problems) - MAX_TOLD
    return [
        *problems[:MAX_TOLD],
        Problem(
            "PTQ309",
            "calibration data",
            f"and {rest} more problem{'s' if rest > 1 else ''} of this kind",
            "",
            "mend the first ones and try again",
        ),
    ]
