"""What a configuration file holds, with the line of every key; and the one place where problems get their form.

The readers (`yaml_reader`, `json_reader`) and the Python forms all give a `Document`; everything behind them
speaks of key paths, and `Ledger` turns a key path into `file:line  group.key`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ptqlab.errors import Finding, Problem, PtqError, nearest, shorten

KeyPath = tuple[str | int, ...]

MAX_BYTES = 16 * 1024 * 1024  # a quant_config with an entry for each of 20,000 nodes is about 2 MB
MAX_DEPTH = 32  # the deepest legal structure has 6 levels
MAX_NODES = 300_000  # after aliases are written out


@dataclass(frozen=True)
class Document:
    """Plain data (dict, list, str, int, float, bool, None) and where each of it stands.

    source    file as shown in messages ("config.yaml"), or "" for values given in Python
    lines     line number (from 1) per key path, 0 for a keyword of the call; a path without one takes its parent's
    folder    folder of the file, None without a file
    problems  what the reader found wrong (duplicate keys ...)
    """

    data: Any
    source: str = ""
    lines: Mapping[KeyPath, int] = field(default_factory=dict)
    folder: Path | None = None
    problems: tuple[Problem, ...] = ()

    def line(self, path: KeyPath = ()) -> int:
        """Line of a key path or of its nearest parent; 0 for what was given in Python."""
        for length in range(len(path), -1, -1):
            line = self.lines.get(path[:length])
            if line is not None:
                return line
        return 0

    def place(self, path: KeyPath = ()) -> str:
        """`file:line`, "keyword", or the source alone where there are no lines."""
        line = self.line(path)
        if line:
            return f"{self.source}:{line}"
        return "keyword" if self.lines else self.source

    def where(self, path: KeyPath = ()) -> str:
        """Place and key path, as in `config.yaml:12  input_parameters.input_name`."""
        return "  ".join(part for part in (self.place(path), key_path(path)) if part) or "configuration"


def key_path(path: KeyPath) -> str:
    """`("a", "b", 0)` as `a.b[0]`; a key that holds a dot or a slash is quoted."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            word = shorten(part, 80)
            plain = word.replace("_", "").replace("-", "").isalnum()
            text += ("." if text else "") + (word if plain else f'"{word}"')
    return text


def show(value: object) -> str:
    """A value as a message shows it: text in quotes, booleans and numbers as the file has them."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return f"the boolean {str(value).lower()}"
    if isinstance(value, int | float):
        return f"the number {value}"
    if isinstance(value, str):
        return f'"{shorten(value)}"'
    if isinstance(value, Mapping):
        return f"a mapping with {len(value)} key{'s' if len(value) != 1 else ''}"
    if isinstance(value, list | tuple):
        return "the list " + shorten("[" + ", ".join(str(v) for v in value) + "]")
    return f"a Python {type(value).__name__}"


def listing(words: Iterable[object], limit: int = 30) -> str:
    """Words for "expected": comma separated, cut after `limit`."""
    items = [str(w) for w in words]
    more = f" and {len(items) - limit} more" if len(items) > limit else ""
    return ", ".join(items[:limit]) + more


def did_you_mean(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """`did you mean "conv" or "conv2"?`, or `otherwise` when nothing is near."""
    near = nearest(name, list(known))
    return f"did you mean {' or '.join(near)}?" if near else otherwise


@dataclass(frozen=True)
class Origin:
    """Where a setting comes from.

    level is "default", "model", "op", "subgraph" or "node"; path the key path; place file:line or "keyword".
    """

    level: str = "default"
    path: str = ""
    place: str = ""

    def __str__(self) -> str:
        return f"{self.level} ({', '.join(p for p in (self.path, self.place) if p)})" if self.path else self.level


class Ledger:
    """Problems and findings of one document, in the order they are met."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.problems: list[Problem] = list(document.problems)
        self.findings: list[Finding] = []
        self.meant: set[KeyPath] = set()  # keys that a misspelled one probably stands for: not to be missed as well

    def refuse(self, code: str, path: KeyPath, found: str, expected: str = "", hint: str = "") -> None:
        self.problems.append(Problem(code, self.document.where(path), found, expected, hint))

    def warn(self, code: str, path: KeyPath, message: str, hint: str = "") -> None:
        self.findings.append(Finding(code, f"{self.document.where(path)}: {message}", (), hint))

    def note(self, code: str, path: KeyPath, message: str) -> None:
        self.findings.append(Finding(code, f"{self.document.where(path)}: {message}", severity="note"))

    def said(self, path: KeyPath) -> bool:
        """True where the document has a value, good or bad, at this key path, or under a name much like it."""
        if any(path[:length] in self.meant for length in range(1, len(path) + 1)):
            return True
        value = self.document.data
        for part in path:
            value = value.get(part) if isinstance(value, dict) else None
        return value not in (None, []) and not (isinstance(value, str) and value.strip() in ("", "None"))

    def origin(self, level: str, path: KeyPath) -> Origin:
        return Origin(level, key_path(path), self.document.place(path) or "keyword")

    def unknown_keys(self, path: KeyPath, given: Iterable[object], allowed: Iterable[str], what: str = "key") -> None:
        """Refuse every key outside `allowed`, each with its nearest names."""
        known = list(allowed)
        for key in given:
            if key not in known:
                self.meant.update((*path, near) for near in nearest(str(key), known, 1))
                self.refuse(
                    "PTQ204",
                    (*path, str(key)),
                    f"unknown {what} {shorten(key)}",
                    listing(known),
                    did_you_mean(str(key), known, "remove it"),
                )


def in_file_order(problems: Iterable[Problem]) -> list[Problem]:
    """Problems by line, file after file; what has no line keeps its place among its like."""
    files: dict[str, int] = {}

    def order(problem: Problem) -> tuple[int, int]:
        file, _, rest = problem.where.split("  ")[0].rpartition(":")
        line = int(rest) if file and rest.isdecimal() else 0
        return files.setdefault(file if line else "", len(files)), line

    return sorted(problems, key=order)


def read_text(path: Path, what: str, where: str = "") -> str:
    """Text of a UTF-8 file of a sane size. Raises PtqError (PTQ200) naming the file otherwise."""

    def refusal(found: str, expected: str, hint: str) -> PtqError:
        return PtqError(Problem("PTQ200", where or str(path), found, expected, hint), f"{what} cannot be read")

    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise refusal(
                f"{shorten(path)} has {size} bytes", f"a text file of at most {MAX_BYTES} bytes", f"is this the {what}?"
            )
        raw = path.read_bytes()
    except OSError as error:
        reason = "there is no such file" if isinstance(error, FileNotFoundError) else (error.strerror or str(error))
        raise refusal(
            f"{shorten(path)}: {reason}", "a readable file", f"check the path (current directory is {Path.cwd()})"
        ) from None
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise refusal(
            f"{shorten(path)}: byte {error.start} is not UTF-8",
            "a text file in UTF-8",
            "save the file as UTF-8 (it may be in GBK)",
        ) from None
