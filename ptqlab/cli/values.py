"""Words of a line that hold more than one thing: shapes, folders and files by input name."""
from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from ptqlab.errors import Problem, PtqError, raise_if, shorten


def shapes(pairs: Sequence[Sequence[str]]) -> dict[str, tuple[int, ...]]:
    """{name: shape} from NAME 1x3x224x224 pairs. Raises PtqError naming every pair that is none."""
    problems = [Problem("PTQ203", f"--input-shape {shorten(name)}", repr(shorten(shape)),
                        "sizes joined by x, such as 1x3x224x224")
                for name, shape in pairs if not re.fullmatch(r"[1-9]\d{0,8}(x[1-9]\d{0,8})*", shape)]
    names = [name for name, _ in pairs]
    problems += [Problem("PTQ203", f"--input-shape {shorten(name)}", f"given {names.count(name)} times", "once")
                 for name in dict.fromkeys(names) if names.count(name) > 1]
    raise_if(problems, "compile")
    return {name: tuple(map(int, shape.split("x"))) for name, shape in pairs}


def folders(words: list[str]) -> Path | dict[str, Path]:
    """A folder, or {input: folder} when the words read NAME=DIR."""
    if len(words) == 1 and "=" not in words[0]:
        return Path(words[0])
    bad = [Problem("PTQ204", "--calibration-data", repr(shorten(word)), "NAME=DIR, once for every input")
           for word in words if not word.partition("=")[0] or not word.partition("=")[2]]
    if bad:
        raise PtqError(bad, "compile")
    return {word.partition("=")[0]: Path(word.partition("=")[2]) for word in words}


def files_of(words: Sequence[str], verb: str) -> list[tuple[str, Path]]:
    """(input name, file) of words that read [NAME=]FILE; "" for no name. Raises PtqError for an empty one.

    A word that is an existing file is a file, whatever signs its name holds.
    """
    out, bad = [], []
    for word in words:
        name, sign, file = word.partition("=")
        if not sign or Path(word).is_file():
            name, file = "", word
        if not file or (sign and not name and not Path(word).is_file()):
            bad.append(Problem("PTQ204", "--input", repr(shorten(word)), "[NAME=]FILE.npy"))
        out.append((name, Path(file)))
    raise_if(bad, verb)
    return out
