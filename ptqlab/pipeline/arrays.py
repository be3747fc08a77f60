"""Arrays from `.npy` files that users name on a line."""

from __future__ import annotations

import tokenize
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from ptqlab.errors import Problem, raise_if, shorten

# what numpy raises on files that are cut short or no arrays at all
BROKEN = (OSError, ValueError, EOFError, MemoryError, SyntaxError, TypeError, tokenize.TokenError)


def read_arrays(files: Iterable[Path]) -> dict[Path, np.ndarray]:
    """The array in each file; nothing is unpickled. One PtqError names every file that holds none."""
    arrays: dict[Path, np.ndarray] = {}
    problems = []
    for file in files:
        try:
            found = np.load(file, allow_pickle=False)
        except BROKEN as error:
            problems.append(
                Problem("PTQ631", str(file), f"cannot be read: {shorten(error)}", "a .npy file of plain numbers")
            )
            continue
        if not isinstance(found, np.ndarray):
            found.close()
            problems.append(Problem("PTQ631", str(file), "an archive of arrays", "a .npy file of one array"))
            continue
        arrays[file] = found
    raise_if(problems, "Reading arrays")
    return arrays
