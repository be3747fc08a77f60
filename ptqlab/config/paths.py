"""Paths of a configuration: which file is meant, said aloud, and no error of the file system left unsaid."""

from __future__ import annotations

from os.path import exists, expanduser, isdir
from pathlib import Path

from ptqlab.config.document import KeyPath, Ledger
from ptqlab.errors import shorten


class Paths:
    """Relative paths: from the current directory first, then from the YAML's folder; each choice is noted."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger, self.folder = ledger, ledger.document.folder

    def find(self, text: str, path: KeyPath) -> Path | None:
        """Absolute path; where nothing exists, the one under the current directory; None after a refusal."""
        try:
            chosen = self.choose(Path(expanduser(text)), path)
            if exists(chosen.parent):
                chosen.exists()  # raises for a name that the file system cannot hold or a folder that is closed
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            self.ledger.refuse("PTQ211", path, f"{shorten(text)}: {reason}", "a path that can be opened")
            return None
        return chosen

    def choose(self, given: Path, path: KeyPath) -> Path:
        if given.is_absolute():
            return given
        here = Path.cwd() / given
        there = self.folder / given if self.folder else here
        chosen = there if not exists(here) and exists(there) else here
        base = "the current directory" if chosen is here else "the folder of the YAML"
        self.ledger.note("PTQ252", path, f"{shorten(given)} is {chosen.resolve()} (from {base})")
        if exists(here) and exists(there) and here.resolve() != there.resolve():
            self.ledger.warn(
                "PTQ252",
                path,
                f"{shorten(given)} exists in the current directory and in the folder of the YAML; "
                f"{here.resolve()} is used",
                "write an absolute path",
            )
        return chosen.resolve()


def listed(folder: Path) -> list[Path]:
    """What a folder holds, by name; nothing where it is none or cannot be opened."""
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def beside(path: Path, suffix: str = "") -> list[str]:
    """Names next to `path` that it may stand for: files with the suffix, or folders."""
    near = listed(path.parent)
    return [p.name for p in near if (p.suffix.lower() == suffix if suffix else isdir(p))]
