"""JSON to `Document`: strict JSON with line numbers, duplicate keys told, NaN and deep nesting refused."""

from __future__ import annotations

import re
from bisect import bisect_right
from json.decoder import JSONDecodeError, scanstring  # type: ignore[attr-defined]
from pathlib import Path
from typing import Any

from ptqlab.config.document import MAX_DEPTH, Document, KeyPath, key_path
from ptqlab.errors import Problem, PtqError, shorten

SPACE = re.compile(r"[ \t\n\r]*")
NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
WORD = re.compile(r"[-+]?[A-Za-z_][A-Za-z_0-9]*")
WORDS: dict[str, Any] = {"true": True, "false": False, "null": None}
HINTS = {  # what people write, and what to say of it
    "/": "JSON has no comments: remove it",
    "#": "JSON has no comments: remove it",
    "'": 'JSON text stands in double quotes: "like this"',
}


class _Broken(Exception):
    def __init__(self, position: int, found: str, hint: str = "", code: str = "PTQ201") -> None:
        self.position, self.found, self.hint, self.code = position, found, hint, code


class _Parser:
    def __init__(self, text: str, source: str) -> None:
        self.text, self.source = text, source
        self.starts = [0, *(m.end() for m in re.finditer("\n", text))]
        self.lines: dict[KeyPath, int] = {}
        self.problems: list[Problem] = []

    def line(self, position: int) -> int:
        return bisect_right(self.starts, position)

    def skip(self, position: int) -> int:
        match = SPACE.match(self.text, position)
        assert match is not None
        return match.end()

    def char(self, position: int) -> str:
        return self.text[position : position + 1]

    def wrong(self, position: int, wanted: str) -> _Broken:
        char = self.char(position)
        found = (
            f"the end of the text where {wanted} should be"
            if not char
            else f'"{shorten(self.text[position : position + 20].splitlines()[0], 20)}" where {wanted} should be'
        )
        return _Broken(position, found, HINTS.get(char, "check commas, quotes and brackets near this line"))

    def value(self, position: int, path: KeyPath) -> tuple[Any, int]:
        if len(path) > MAX_DEPTH:
            raise _Broken(
                position, f"values nested more than {MAX_DEPTH} deep", "no key needs such a structure", "PTQ206"
            )
        self.lines.setdefault(path, self.line(position))
        char = self.char(position)
        if char == "{":
            return self.object(position + 1, path)
        if char == "[":
            return self.array(position + 1, path)
        if char == '"':
            return self.string(position)
        number = NUMBER.match(self.text, position)
        if number:
            if number.end() - position > 40:
                raise _Broken(position, f"a number of {number.end() - position} characters", "write it shorter")
            whole = number.group(1) is None and number.group(2) is None
            return (int if whole else float)(number.group()), number.end()
        word = WORD.match(self.text, position)
        if word:
            if word.group() in WORDS:
                return WORDS[word.group()], word.end()
            lower = word.group().lower()
            hint = (
                "JSON has no NaN and no infinity: write a finite number"
                if lower.strip("+-") in ("nan", "infinity", "inf")
                else f"write {lower}"
                if lower in WORDS
                else "write null"
                if lower == "none"
                else "put text in double quotes"
            )
            raise _Broken(position, f"the word {shorten(word.group())}", hint)
        raise self.wrong(position, "a value")

    def string(self, position: int) -> tuple[str, int]:
        try:
            text, end = scanstring(self.text, position + 1, True)
        except JSONDecodeError as error:
            raise _Broken(
                error.pos, f"text in quotes that is broken ({error.msg})", "close the quotes; escape \\ as \\\\"
            ) from None
        return text, end

    def object(self, position: int, path: KeyPath) -> tuple[dict[str, Any], int]:
        out: dict[str, Any] = {}
        position = self.skip(position)
        if self.char(position) == "}":
            return out, position + 1
        while True:
            if self.char(position) != '"':
                if self.char(position) == "}":
                    raise _Broken(position, "a comma before }", "remove the comma after the last entry")
                raise self.wrong(position, "a key in double quotes")
            start = position
            key, position = self.string(position)
            position = self.skip(position)
            if self.char(position) != ":":
                raise self.wrong(position, f'":" after the key {shorten(key)}')
            here = (*path, key)
            line = self.line(start)
            again = key in out
            if again:
                self.problems.append(
                    Problem(
                        "PTQ205",
                        f"{self.source}:{line}  {key_path(here)}",
                        f"the key {shorten(key)} stands here again",
                        "each key once",
                        f"keep one of the two (the first is in line {self.lines[here]})",
                    )
                )
            else:
                self.lines[here] = line
            value, position = self.value(self.skip(position + 1), here)
            if not again:
                out[key] = value
            position, more = self.after(position, "}")
            if not more:
                return out, position

    def array(self, position: int, path: KeyPath) -> tuple[list[Any], int]:
        out: list[Any] = []
        position = self.skip(position)
        if self.char(position) == "]":
            return out, position + 1
        while True:
            if self.char(position) == "]":
                raise _Broken(position, "a comma before ]", "remove the comma after the last entry")
            value, position = self.value(position, (*path, len(out)))
            out.append(value)
            position, more = self.after(position, "]")
            if not more:
                return out, position

    def after(self, position: int, closing: str) -> tuple[int, bool]:
        """Position behind a value's comma (and True) or behind the closing bracket (and False)."""
        position = self.skip(position)
        char = self.char(position)
        if char == ",":
            return self.skip(position + 1), True
        if char == closing:
            return position + 1, False
        raise self.wrong(position, f'"," or "{closing}"')


def read_json(text: str, source: str, folder: Path | None = None) -> Document:
    """`Document` of a JSON text. Raises PtqError where it is no JSON; duplicate keys are problems of the result."""
    parser = _Parser(text, source)
    try:
        start = parser.skip(0)
        if not parser.char(start):
            raise _Broken(start, "an empty text", "an empty configuration is written {}")
        data, end = parser.value(start, ())
        end = parser.skip(end)
        if parser.char(end):
            raise parser.wrong(end, "the end of the text")
    except _Broken as broken:
        column = broken.position - parser.starts[parser.line(broken.position) - 1] + 1
        raise PtqError(
            Problem(
                broken.code,
                f"{source}:{parser.line(broken.position)}:{column}",
                broken.found,
                "valid JSON",
                broken.hint,
            ),
            f"{source} cannot be read",
        ) from None
    return Document(data, source, parser.lines, folder, tuple(parser.problems))
