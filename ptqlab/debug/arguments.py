"""Lists written as text, as the command line takes them: `[a,b]`, `['a','b']`, `[[a,b],[c]]`, `a`."""
from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from ptqlab.errors import Problem, PtqError, shorten

Nested: TypeAlias = "str | list[Nested]"


def parse_list(text: str) -> Nested:
    """The list that a text stands for; a text without brackets is one name. Names may be quoted.

    Raises PtqError where brackets or quotes do not close.
    """
    words = text.strip()
    if not words.startswith("["):
        return _unquoted(words)
    found, rest = _items(words[1:], text)
    if rest.strip():
        raise _refusal(text, f"{shorten(rest.strip())!r} behind the closing bracket")
    return found


def _items(text: str, whole: str) -> tuple[list[Nested], str]:
    """The items up to the closing bracket, and the text behind it."""
    items: list[Nested] = []
    word = ""
    while text:
        char, text = text[0], text[1:]
        if char in "'\"" and not word.strip():
            end = text.find(char)
            if end < 0:
                raise _refusal(whole, f"a quote {char} that does not close")
            items.append(text[:end])
            text, word = text[end + 1:].lstrip(), ""
            if text[:1] not in (",", "]"):
                raise _refusal(whole, f"{shorten(text)!r} behind a quoted name")
        elif char == "[" and not word.strip():
            inner, text = _items(text, whole)
            items.append(inner)
            word = ""
        elif char in ",]":
            if word.strip():
                items.append(word.strip())
            word = ""
            if char == "]":
                return items, text
        else:
            word += char
    raise _refusal(whole, "a bracket that does not close")


def _unquoted(word: str) -> str:
    return word[1:-1] if len(word) > 1 and word[0] == word[-1] and word[0] in "'\"" else word


def _refusal(text: str, found: str) -> PtqError:
    return PtqError(Problem("PTQ552", shorten(text), found, "a list such as [a,b], ['a','b'] or [[a,b],[c]]"), "debug")


def listed(value: str | Sequence[Nested] | None) -> list[Nested]:
    """A list from a list, a text or None (empty)."""
    if value is None:
        return []
    found = parse_list(value) if isinstance(value, str) else list(value)
    return found if isinstance(found, list) else [found]


def grouped(value: str | Sequence[Nested] | None, where: str) -> dict[str, list[str]]:
    """label -> names: one group per name of a flat list, one per list of a nested one (`partial_qmodel_0`, ...)."""
    items = listed(value)
    if not any(isinstance(item, list) for item in items):
        return {str(item): [str(item)] for item in items}
    return {f"partial_qmodel_{i}": flat(item, where) for i, item in enumerate(items)}


def flat(value: Nested, where: str) -> list[str]:
    """The names of one group; PtqError where lists lie deeper than two levels."""
    items: Iterable[Nested] = value if isinstance(value, list) else [value]
    names = []
    for item in items:
        if not isinstance(item, str):
            problem = Problem("PTQ552", where, shorten(value), "a list of names, or a list of such lists")
            raise PtqError(problem, "debug")
        names.append(item)
    return names
