"""Calibration data in any form a user gives it, brought under the names of the model's inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os.path import expanduser, isdir
from pathlib import Path
from typing import Any

import numpy as np

from ptqlab.config.document import did_you_mean, listing, show
from ptqlab.config.paths import listed
from ptqlab.errors import Problem, shorten

FORMS = "a folder, {input: folder}, {input: [array, ...]}, [array, ...] or [{input: array}, ...]"
NO_SAMPLE = ("one .npy file per sample", "save samples with np.save, one file each")  # expected, hint
SAMPLE_SUFFIXES = (".npy", ".bin", ".raw")
Sources = dict[str, Any]  # input name, or "" for data that names none -> folder (Path) or list of arrays


def is_sequence(value: object) -> bool:
    return isinstance(value, np.ndarray) or (isinstance(value, Sequence) and not isinstance(value, str | bytes))


def sources_of(data: Any, where: str) -> tuple[Sources, list[Problem]]:
    """Folders or lists of arrays by input name; data that names no input stands under ""."""
    if isinstance(data, str | Path):
        return {"": Path(expanduser(data)).absolute()}, []
    if is_sequence(data) and len(data) and all(isinstance(d, Mapping) for d in data):
        names = list(dict.fromkeys(str(k) for d in data for k in d))
        gaps = {n: next((i for i, d in enumerate(data) if n not in d), None) for n in names}
        problems = [
            Problem("PTQ308", where, f"sample {i} has no {shorten(n)}", "every sample holds every input")
            for n, i in gaps.items()
            if i is not None
        ]
        return ({} if problems else {n: [d[n] for d in data] for n in names}), problems
    if is_sequence(data):
        return {"": data}, []
    if not isinstance(data, Mapping) or not data:
        return {}, [Problem("PTQ308", where, "an empty mapping" if isinstance(data, Mapping) else show(data), FORMS)]
    folders = [isinstance(v, str | Path) for v in data.values()]
    if any(folders) and not all(folders):
        return {}, [Problem("PTQ308", where, "folders for some inputs and arrays for others", FORMS, "use one form")]
    problems = [
        Problem("PTQ308", where, f"{show(v)} for input {shorten(n)}", FORMS)
        for n, v in data.items()
        if not isinstance(v, str | Path) and not is_sequence(v)
    ]
    made = {str(n): Path(expanduser(v)).absolute() if isinstance(v, str | Path) else v for n, v in data.items()}
    return ({} if problems else made), problems


def arrays_of(value: Any, where: str) -> tuple[list[np.ndarray], list[Problem]]:
    """The arrays of a list, one per sample; a sample that is no array of numbers is a problem."""
    arrays: list[np.ndarray] = []
    problems: list[Problem] = []
    for index, given in enumerate(value):
        try:
            array = np.asarray(given)
        except ValueError:  # rows of different lengths
            array = np.empty(0, object)
        if array.dtype.kind in "biuf":
            arrays.append(array)
        else:
            found = f"a sample of dtype {array.dtype}"
            problems.append(Problem("PTQ305", f"{where}, sample {index}", found, "an array of numbers"))
    return arrays, problems


def bind_sources(sources: Sources, names: Sequence[str], where: str) -> tuple[Sources, list[Problem]]:
    """The same under the model's input names, in their order; every name that does not fit is a problem."""
    if not sources:
        return {}, []
    if list(sources) == [""]:
        value = sources[""]
        if isinstance(value, Path):
            return bind_folder(value, names, where)
        if len(names) == 1:
            return {names[0]: value}, []
        found = f"one list of samples for {len(names)} inputs ({listing(names)})"
        return {}, [Problem("PTQ308", where, found, "data for each input by name", "give {input: [array, ...]}")]
    wanted = f"data for each of {listing(names)}"
    problems = [
        Problem("PTQ308", where, f"data for {shorten(name)}, which is no input", wanted, did_you_mean(name, names))
        for name in sources
        if name not in names
    ]
    problems += [
        Problem("PTQ308", where, f"no data for input {shorten(name)}", wanted, "data is bound by the input's name")
        for name in names
        if name not in sources
    ]
    return {n: sources[n] for n in names if n in sources}, problems


def bind_folder(folder: Path, names: Sequence[str], where: str) -> tuple[Sources, list[Problem]]:
    """One folder: the files of the one input, or one folder per input name."""
    inside = [n for n in names if safe_child(folder, n)]
    if len(names) == 1:
        own = not inside or any(p.suffix.lower() in SAMPLE_SUFFIXES for p in listed(folder))
        return {names[0]: folder if own else folder / names[0]}, []
    problems = [
        Problem(
            "PTQ308",
            where,
            f"{shorten(folder)} holds no folder {shorten(name)}",
            f"one folder per input: {listing(names)}",
            "or give {input: folder}",
        )
        for name in names
        if name not in inside
    ]
    return {n: folder / n for n in inside}, problems


def safe_child(folder: Path, name: str) -> bool:
    """True where `name`, which comes from a model file, is a folder inside `folder`."""
    if name in ("", ".", "..") or "\0" in name:
        return False
    child = folder / name
    return isdir(child) and child.resolve().is_relative_to(folder.resolve())
