"""What can go wrong, said so that a reader knows where, what was found, what is allowed and what to do next.

`PtqError` is the only exception a user of ptqlab has to know: it carries a list of `Problem`, all problems
of one input at once. `Finding` is the milder kind: the run goes on, the result carries it.

Codes: PTQ1xx model file and graph, PTQ2xx configuration, PTQ3xx calibration data, PTQ4xx placement and
precision, PTQ5xx quantization and accuracy, PTQ6xx artifacts and run time, PTQ7xx environment.
"""
from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

Words = Callable[[str], str]

# How a message looks where it is shown. Messages are English where they arise and in files; the package that has the
# translations, far above this one, says here how to put them into the reader's language.
_display: dict[str, Words] = {"words": str}


def display_with(words: Words) -> None:
    """Show messages through `words`, which gives a text in the reader's language."""
    _display["words"] = words


@dataclass(frozen=True)
class Problem:
    """One thing that must be put right before the work can go on.

    code      "PTQ201"; stable, documented, tested
    where     file:line, key path, node or tensor: the place to look at
    found     what stands there
    expected  what is allowed there
    hint      what to do next (may be empty)
    """

    code: str
    where: str
    found: str
    expected: str = ""
    hint: str = ""

    def __str__(self) -> str:
        return self.told(str)

    def told(self, words: Words) -> str:
        """The readable block, every text of it put through `words`."""
        lines = [f"{self.code}  {words(self.where)}"]
        for label, text in (("found", self.found), ("expected", self.expected), ("do", self.hint)):
            if text or label == "found":
                lines.append(f"    {words(label):<8}  {words(text)}")
        return "\n".join(lines)


@dataclass(frozen=True)
class Finding:
    """Something a user should know of a run that went on: a warning, or a note of what was decided.

    severity is "warning" or "note"; nodes are names of the optimized graph (may be empty).
    """

    code: str
    message: str
    nodes: tuple[str, ...] = ()
    hint: str = ""
    severity: str = "warning"

    def __str__(self) -> str:
        tail = f" Do: {self.hint}" if self.hint else ""
        return f"{self.code} {self.message}{tail}"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """How IPython shows it, in a list of findings as well: in the reader's language."""
        words = _display["words"]
        hint = f" ({words(self.hint)})" if self.hint else ""
        printer.text(f"{words(self.severity)} {self.code}: {words(self.message)}{hint}")

    def to_dict(self) -> dict[str, object]:
        return asdict(self) | {"nodes": list(self.nodes)}

    @classmethod
    def from_dict(cls, data: dict[str, object]) -> Finding:
        nodes = data.get("nodes", [])
        assert isinstance(nodes, list)
        return cls(
            str(data["code"]), str(data["message"]), tuple(str(n) for n in nodes),
            str(data.get("hint", "")), str(data.get("severity", "warning")),
        )


class PtqError(Exception):
    """Every refusal of ptqlab. `.problems` is the list; `str()` is the whole readable block.

    In a notebook the block is shown without a traceback; the Python API raises it as any exception.
    """

    def __init__(self, problems: Problem | Iterable[Problem], title: str = "") -> None:
        self.problems: tuple[Problem, ...] = (problems,) if isinstance(problems, Problem) else tuple(problems)
        assert self.problems, "a refusal names at least one problem"
        self.title = title
        super().__init__(str(self))

    def __str__(self) -> str:
        return self.told(str)

    def told(self, words: Words) -> str:
        """The readable block, every text of it put through `words`."""
        count = "1 problem" if len(self.problems) == 1 else f"{len(self.problems)} problems"
        head = f"{self.title}: {count}" if self.title else count
        return "\n".join([words(head), *(p.told(words) for p in self.problems)])

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.problems, self.title))

    def _render_traceback_(self) -> list[str]:
        """What IPython prints instead of a traceback."""
        return told(self).splitlines()


class Interrupted(KeyboardInterrupt):
    """The user stopped the work; what was finished before is kept. Subclass of KeyboardInterrupt so that
    notebooks and scripts treat it as the stop it is."""

    def __init__(self, stage: str, done: int, total: int | None) -> None:
        self.stage, self.done, self.total = stage, done, total
        super().__init__(str(self))

    def __str__(self) -> str:
        of = f" of {self.total}" if self.total else ""
        return f"stopped in stage '{self.stage}' after {self.done}{of}; artifacts of earlier runs are untouched"

    def _render_traceback_(self) -> list[str]:
        return [told(self)]


def nearest(name: str, known: Iterable[str], limit: int = 3) -> list[str]:
    """The known names most like `name`, best first; case does not count."""
    by_lower: dict[str, str] = {}
    for candidate in known:
        by_lower.setdefault(candidate.lower(), candidate)
    hits = difflib.get_close_matches(name.lower(), list(by_lower), n=limit, cutoff=0.5)
    return [by_lower[h] for h in hits]


def raise_if(problems: Sequence[Problem], title: str) -> None:
    """Raise one `PtqError` with all problems, or do nothing when there are none."""
    if problems:
        raise PtqError(problems, title)


def shorten(value: object, limit: int = 120) -> str:
    """Text of a value for a message: printable, on one line, at most `limit` characters."""
    text = "".join(c if c.isprintable() else "\ufffd" for c in str(value))
    return text if len(text) <= limit else text[: limit - 1] + "\u2026"


def told(error: BaseException) -> str:
    """What is shown of an error, in the reader's language; `str(error)` is the same in English."""
    words = _display["words"]
    return error.told(words) if isinstance(error, PtqError) else "\n".join(map(words, str(error).splitlines()))


def fatal(error: BaseException) -> None:
    """Print a refusal on standard error, for the command line."""
    print(told(error), file=sys.stderr)
