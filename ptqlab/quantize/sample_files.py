"""One calibration sample of one input: found, looked at by its header, read and checked."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ptqlab.config.data_binding import NO_SAMPLE, arrays_of, is_sequence
from ptqlab.config.document import listing
from ptqlab.errors import Finding, Problem, PtqError, shorten

RAW_SUFFIXES = (".bin", ".raw")
NPY_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


@dataclass(frozen=True)
class Part:
    """One sample of one input.

    name   of the sample: the file without suffix, with [i] for sample i of a file that holds several
    file   None for arrays given in Python
    take   index range along axis 0 of the file's array, None: all of it
    """

    input: str
    name: str
    shape: tuple[int, ...]
    dtype: np.dtype
    file: Path | None = None
    array: np.ndarray | None = None
    raw: np.dtype | None = None
    take: tuple[int, int] | None = None

    @property
    def label(self) -> str:
        return shorten(self.file) if self.file else self.name

    def read(self) -> np.ndarray:
        """The array, of exactly the input's shape and dtype. Raises PtqError for values that cannot be used."""
        values = self.open()
        if self.take:
            values = values[self.take[0] : self.take[1]]
        values = values.reshape(self.shape)
        if self.dtype.kind in "iu" and values.dtype != self.dtype and values.size:
            limits = np.iinfo(self.dtype)
            if int(values.min()) < limits.min or int(values.max()) > limits.max:
                raise PtqError(
                    Problem(
                        "PTQ305",
                        f"input {self.input}, {self.label}",
                        f"values from {values.min()} to {values.max()}",
                        f"{self.dtype}: {limits.min} to {limits.max}",
                        "check how the samples were written",
                    )
                )
        with np.errstate(over="ignore", invalid="ignore"):  # float64 beyond float32 becomes Inf and is refused below
            out = np.ascontiguousarray(values, dtype=self.dtype).reshape(self.shape)  # a 0-d array stays 0-d
        if self.dtype.kind == "f" and not np.isfinite(out).all():
            raise PtqError(not_finite(self.input, self.label, out))
        return out

    def open(self) -> np.ndarray:
        if self.array is not None:
            return self.array
        assert self.file is not None
        try:
            if self.raw is not None:
                return np.fromfile(self.file, self.raw)
            return np.load(self.file, mmap_mode="r" if self.take else None, allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise PtqError(
                Problem(
                    "PTQ301",
                    f"input {self.input}, {self.label}",
                    f"the file changed or cannot be read: {shorten(error)}",
                    "the file as it was when it was first looked at",
                    "start again",
                )
            ) from None


def not_finite(name: str, label: str, values: np.ndarray) -> Problem:
    bad = ~np.isfinite(values)
    count, nans = int(bad.sum()), int(np.isnan(values).sum())
    first = tuple(int(i) for i in np.unravel_index(int(np.argmax(bad)), values.shape))
    kind = "NaN" if nans == count else "Inf" if not nans else "NaN and Inf"
    return Problem(
        "PTQ306",
        f"input {name}, {label}",
        f"{kind}: {count} of {values.size} values, the first at {list(first)}",
        "finite numbers",
        "remove or repair this sample",
    )


@dataclass
class Gathered:
    """All samples of one input, with what was found on the way."""

    parts: list[Part] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)


class _Gatherer:
    """Judges header after header; conversions of one kind are told once."""

    def __init__(self, name: str, shape: tuple[int, ...], dtype: np.dtype) -> None:
        self.name, self.shape, self.dtype = name, shape, dtype
        self.out = Gathered()
        self.converted: dict[str, list[str]] = {}

    def refuse(self, code: str, label: str, found: str, expected: str, hint: str = "") -> None:
        self.out.problems.append(Problem(code, f"input {shorten(self.name)}, {shorten(label)}", found, expected, hint))

    def accept(self, label: str, sample: str, shape: tuple[int, ...], dtype: np.dtype, **source: Any) -> None:
        """One file or array: check type and shape, add its samples."""
        if not self.fits_dtype(label, dtype):
            return
        pieces = self.pieces(label, shape)
        for take in pieces:
            index = f"[{take[0] // max(1, self.shape[0])}]" if take else ""
            self.out.parts.append(Part(self.name, sample + index, self.shape, self.dtype, take=take, **source))

    def fits_dtype(self, label: str, dtype: np.dtype) -> bool:
        wanted = self.dtype
        if dtype.newbyteorder("=") == wanted:
            return True
        if (dtype.kind, wanted.kind) in (("f", "f"), ("i", "i"), ("i", "u"), ("u", "i"), ("u", "u")):
            self.converted.setdefault(f"{dtype.newbyteorder('=')} is converted to {wanted}", []).append(label)
            return True
        hint = (
            "save the samples as the float model takes them: normalised, astype(np.float32)"
            if wanted.kind == "f" and dtype.kind in "iub"
            else f"save the samples with astype(np.{wanted})"
        )
        self.refuse("PTQ305", label, f"dtype {dtype}", str(wanted), hint)
        return False

    def pieces(self, label: str, shape: tuple[int, ...]) -> list[tuple[int, int] | None]:
        """What to take of an array of this shape: [None] for all of it, ranges of a batch, [] after a refusal."""
        wanted = self.shape
        if shape == wanted:
            return [None]
        if wanted[:1] == (1,) and shape == wanted[1:]:
            self.converted.setdefault(
                f"the batch dimension is missing: {dims(shape)} is taken as {dims(wanted)}", []
            ).append(label)
            return [None]
        if (
            wanted
            and len(shape) == len(wanted)
            and shape[1:] == wanted[1:]
            and shape[0] > wanted[0]
            and shape[0] % wanted[0] == 0
        ):
            count = shape[0] // wanted[0]
            self.converted.setdefault(
                f"one file holds several samples: {dims(shape)} is taken as {count} samples of {dims(wanted)}", []
            ).append(label)
            return [(i * wanted[0], (i + 1) * wanted[0]) for i in range(count)]
        code, found, hint = "PTQ303", f"shape {dims(shape)}", "save each sample in the shape of the input"
        layout = transposed(shape, wanted)
        if layout:
            code, found = (
                "PTQ304",
                f"shape {dims(shape)}: the layout looks transposed ({layout[0]} data for an {layout[1]} input)",
            )
            hint = f"save the samples with transpose({listing(layout[2])})"
        elif squeezable(shape, wanted):
            axis = next(i for i, d in enumerate(shape) if d == 1 and without(shape, i) == wanted)
            found, hint = f"shape {dims(shape)}: one axis too many", f"save the samples with np.squeeze(x, axis={axis})"
        elif prod(shape) == prod(wanted):
            hint = f"the count of values is right: check the order of the axes before reshape{tuple(wanted)}"
        self.refuse(code, label, found, f"shape {dims(wanted)}", hint)
        return []

    def finish(self, order: Sequence[str] = ()) -> Gathered:
        for what, labels in self.converted.items():
            note = what.startswith("one file holds")
            some = f"{len(labels)} file{'s' if len(labels) > 1 else ''}, e.g. {shorten(labels[0])}"
            self.out.findings.append(
                Finding(
                    "PTQ351" if "missing" in what else "PTQ356" if note else "PTQ350",
                    f"input {self.name}: {what} ({some})",
                    severity="note" if note else "warning",
                )
            )
        if order:
            shown = listing(order, 12)
            self.out.findings.append(
                Finding(
                    "PTQ353", f"input {self.name}: {len(self.out.parts)} samples in the order {shown}", severity="note"
                )
            )
        return self.out


def dims(shape: Sequence[int]) -> str:
    return "x".join(str(d) for d in shape) or "scalar"


def without(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return shape[:axis] + shape[axis + 1 :]


def squeezable(shape: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    return len(shape) == len(wanted) + 1 and any(d == 1 and without(shape, i) == wanted for i, d in enumerate(shape))


def transposed(shape: tuple[int, ...], wanted: tuple[int, ...]) -> tuple[str, str, tuple[int, ...]] | None:
    """(layout of the data, layout of the input, axes for transpose) where one is the other's transpose."""
    if len(wanted) != 4 or len(shape) not in (3, 4):
        return None
    lead = len(shape) - 3
    inner, target = shape[lead:], wanted[1:]
    axes = tuple(range(lead))
    if inner == (target[1], target[2], target[0]):
        return "NHWC", "NCHW", axes + tuple(lead + i for i in (2, 0, 1))
    if inner == (target[2], target[0], target[1]):
        return "NCHW", "NHWC", axes + tuple(lead + i for i in (1, 2, 0))
    return None


def natural(name: str) -> list[tuple[int, int | str]]:
    """Sort key in which 2 comes before 10."""
    return [(0, int(p[:30])) if p.isdecimal() else (1, p.lower()) for p in re.split(r"(\d+)", name) if p]


def array_parts(name: str, shape: tuple[int, ...], dtype: np.dtype, arrays: Any) -> Gathered:
    """Samples of arrays given in Python."""
    judge = _Gatherer(name, shape, dtype)
    if not is_sequence(arrays) or len(arrays) == 0:
        found = "no sample" if is_sequence(arrays) else f"a Python {type(arrays).__name__}"
        judge.out.problems.append(
            Problem("PTQ300", f"input {shorten(name)}", found, "a list with one array per sample")
        )
        return judge.out
    good, judge.out.problems = arrays_of(arrays, f"input {shorten(name)}")
    for index, array in enumerate(good):
        label = f"sample {index}"
        judge.accept(label, label, array.shape, array.dtype, array=array)
    return judge.finish()


def folder_parts(name: str, shape: tuple[int, ...], dtype: np.dtype, folder: Path, raw: str | None) -> Gathered:
    """Samples of a folder: .npy files, and raw .bin files where their dtype is known."""
    judge = _Gatherer(name, shape, dtype)
    where = f"input {shorten(name)}"
    try:
        entries = sorted(folder.iterdir(), key=lambda p: natural(p.name))
    except OSError as error:
        reason = (
            "there is no such folder"
            if isinstance(error, FileNotFoundError)
            else "it is no folder"
            if isinstance(error, NotADirectoryError)
            else str(error.strerror)
        )
        judge.out.problems.append(
            Problem(
                "PTQ300",
                where,
                f"{shorten(folder)}: {reason}",
                "a folder with one .npy file per sample",
                "check the path",
            )
        )
        return judge.out
    readable = (".npy", *RAW_SUFFIXES) if raw else (".npy",)
    good = [p for p in entries if p.suffix.lower() in readable and not p.name.startswith(".") and p.is_file()]
    skipped = [p for p in entries if p not in set(good)]
    if not good:
        bins = [p for p in skipped if p.suffix.lower() in RAW_SUFFIXES]
        inside = f" (there is {listing((p.name for p in skipped), 5)})" if skipped else ""
        expected, hint = NO_SAMPLE
        hint = "raw samples need cal_data_type: float32 or uint8" if bins else hint
        found = f"{shorten(folder)}: no sample found{inside}"
        judge.out.problems.append(Problem("PTQ300", where, found, expected, hint))
        return judge.out
    if skipped:
        shown = listing((shorten(p.name, 60) + ("/" if p.is_dir() else "") for p in skipped), 12)
        judge.out.findings.append(
            Finding(
                "PTQ352",
                f"input {name}: skipped in {shorten(folder)}: {shown}",
                hint="samples are .npy files directly in the folder",
            )
        )
    for path in good:
        if path.suffix.lower() == ".npy":
            header = npy_header(judge, path)
            if header:
                judge.accept(str(path), path.stem, *header, file=path)
        else:
            raw_file(judge, path, np.dtype(raw))
    return judge.finish([p.name for p in good])


def raw_file(judge: _Gatherer, path: Path, raw: np.dtype) -> None:
    size, wanted = path.stat().st_size, prod(judge.shape) * raw.itemsize
    if size != wanted:
        judge.refuse(
            "PTQ303",
            str(path),
            f"{size} bytes",
            f"{wanted} bytes: {dims(judge.shape)} of {raw}",
            "check shape and cal_data_type",
        )
        return
    if judge.dtype != raw:
        judge.converted.setdefault(f"raw {raw} is converted to {judge.dtype}", []).append(str(path))
    judge.out.parts.append(Part(judge.name, path.stem, judge.shape, judge.dtype, path, raw=raw))


def npy_header(judge: _Gatherer, path: Path) -> tuple[tuple[int, ...], np.dtype] | None:
    """Shape and dtype of a .npy file without reading its values; None after a refusal."""
    label, expected = str(path), "a .npy file of numbers, written by np.save"
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            shape, dtype = read_header(file)
            left = size - file.tell()
    except (OSError, ValueError, EOFError, SyntaxError, RecursionError, MemoryError) as error:
        judge.refuse(
            "PTQ301",
            label,
            f"it cannot be read: {shorten(error)}" if size_known(path) else "the file is empty",
            expected,
            "write the sample again",
        )
        return None
    if dtype.hasobject:
        judge.refuse(
            "PTQ302",
            label,
            "pickled Python objects, which are never loaded (they can run code)",
            expected,
            "save a plain array: np.save(file, np.asarray(x, np.float32))",
        )
        return None
    if dtype.kind not in "biuf":
        judge.refuse("PTQ305", label, f"dtype {shorten(dtype)}", str(judge.dtype), "save an array of numbers")
        return None
    wanted = prod(shape) * dtype.itemsize
    if left != wanted:
        what = "the file is cut off" if left < wanted else "the file is longer than its array"
        judge.refuse(
            "PTQ301",
            label,
            f"{what}: {left} bytes of values",
            f"{wanted} bytes for {shorten(dims(shape), 60)} of {dtype}",
            "write the sample again",
        )
        return None
    return shape, dtype


def size_known(path: Path) -> bool:
    try:
        return path.stat().st_size > 0
    except OSError:
        return True


def read_header(file: BinaryIO) -> tuple[tuple[int, ...], np.dtype]:
    """Shape and dtype; raises ValueError for anything that is no .npy of format 1.0 or 2.0."""
    version = np.lib.format.read_magic(file)
    if version not in NPY_HEADERS:
        raise ValueError(f"npy format {version[0]}.{version[1]}")
    shape, _, dtype = NPY_HEADERS[version](file)
    if not all(isinstance(d, int) and d >= 0 for d in shape):
        raise ValueError("a shape with negative dimensions")
    return tuple(shape), dtype
