"""From an English message to its Chinese one: a table of patterns, found by a word and filled in one pass.

A pattern is text with holes, `{name}` or `{}`. A text fits where the literal pieces stand in it in this order, the
first at its start and the last at its end; each piece is looked for from the left, so that the time is linear in the
text whatever a hostile name holds. Of several that fit, the one with most literal text wins.

What fills a hole is translated as well where it is a message of its own ("CPU: {rule} Here: {found}."); names, numbers
and file names are no messages and stay as they are. A text that is several messages is translated piece by piece.
"""
from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

HOLE = re.compile(r"\{([a-z_0-9]*)(?:\|(\w+))?\}")
# words that no hole touches: a text without them cannot fit
WORD = re.compile(r"[A-Za-z_]+")
# so little literal text fits too much: what fills the holes must then be names, or messages
WEAK, DEEPEST, LONGEST = 12, 6, 4000
PLAIN = re.compile(r"\S+(, \S+)*|'.*'|\".*\"")
DTYPES = "float|float16|float32|double|bool|string|untyped|bfloat16|complex64|complex128"
# what a hole of this name takes, and nothing else
ONLY = {"n": re.compile(r"\d+"), "dtype": re.compile(rf"u?int\d+|{DTYPES}")}


def skeleton(pattern: str) -> str:
    """The literal text of a pattern with a mark for each hole: two patterns with the same one fit the same texts."""
    return HOLE.sub("\0", pattern.strip())


def holes(pattern: str) -> list[str]:
    """Names of the holes of a pattern, in order."""
    return [found[1] for found in HOLE.finditer(pattern)]


@dataclass(frozen=True)
class Pattern:
    """One pair.

    literals  the pieces of English between the holes, one more than holes;  names  of the holes
    chinese   the other pattern;  weight  number of literal letters
    """

    literals: tuple[str, ...]
    names: tuple[str, ...]
    chinese: str
    weight: int

    @classmethod
    def of(cls, english: str, chinese: str) -> Pattern:
        literals = tuple(skeleton(english).split("\0"))
        weight = sum(c.isalpha() for piece in literals for c in piece)
        return cls(literals, tuple(holes(english.strip())), chinese.strip(), weight)

    def words(self) -> list[str]:
        """Words that every text has that fits."""
        joined = "\0".join(self.literals)
        return [found[0] for found in WORD.finditer(joined)
                if "\0" not in joined[max(0, found.start() - 1) : found.end() + 1]]

    def fit(self, text: str) -> dict[str, str] | None:
        """What fills the holes, None where the text does not fit."""
        first, *middle, last = self.literals
        if not text.startswith(first) or not text.endswith(last) or len(text) < len(first) + len(last):
            return None
        at, end = len(first), len(text) - len(last)
        filled = []
        for piece in middle:
            found = text.find(piece, at, end) if piece else at
            if found < 0:
                return None
            filled.append(text[at:found])
            at = found + len(piece)
        filled.append(text[at:end])
        values = dict(zip(self.names, filled, strict=True))
        return values if all(ONLY[n].fullmatch(v) for n, v in values.items() if n in ONLY) else None


class Table:
    """Pairs of patterns and a list of single words, which are translated where a pattern says `{name|word}`."""

    def __init__(self, pairs: Iterable[tuple[str, str]], words: Mapping[str, str]) -> None:
        self.known: dict[str, str] = {}
        self.words = words
        patterns = []
        for english, chinese in pairs:
            if HOLE.search(english):
                patterns.append(Pattern.of(english, chinese))
            self.known.setdefault(english.strip(), chinese.strip())
        count: dict[str, int] = {}
        for pattern in patterns:
            for word in set(pattern.words()):
                count[word] = count.get(word, 0) + 1
        self._by_word: dict[str, list[Pattern]] = {}
        for pattern in sorted(patterns, key=lambda p: -p.weight):
            rarest = min(pattern.words(), key=lambda w: count[w], default="")
            self._by_word.setdefault(rarest, []).append(pattern)
        self.translate = lru_cache(maxsize=4096)(self._translate)

    def _translate(self, text: str) -> str:
        """The text in Chinese; as it is where nothing fits, and where it is too long to be a message."""
        if not any(c.isascii() and c.isalpha() for c in text) or len(text) > LONGEST:
            return text
        return self._any(text, 0) or text

    def _any(self, text: str, depth: int) -> str | None:
        text = text.strip()
        return self._whole(text, depth) or self._pieces(text, depth) if depth < DEEPEST else None

    def _whole(self, text: str, depth: int) -> str | None:
        """The text as one message."""
        if text in self.known:
            return self.known[text]
        fitting = [pattern for word in {"", *WORD.findall(text)} for pattern in self._by_word.get(word, ())]
        for pattern in sorted(fitting, key=lambda p: -p.weight):
            values = pattern.fit(text)
            if values is not None and (filled := self._fill(pattern, values, depth)) is not None:
                return filled
        return None

    def _fill(self, pattern: Pattern, values: dict[str, str], depth: int) -> str | None:
        """The Chinese pattern with its holes filled; None where a weak pattern would take in what is no name."""
        told = {name: self._any(value, depth + 1) if " " in value.strip() else None for name, value in values.items()}
        if pattern.weight < WEAK and not all(
            told[name] or name in ONLY or PLAIN.fullmatch(value) for name, value in values.items()
        ):
            return None

        def one(hole: re.Match[str]) -> str:
            name, kind = hole[1], hole[2]
            if kind == "word" and values[name] in self.words:
                return self.words[values[name]]
            if kind == "or":
                return values[name].replace(" or ", " 或 ")
            return told[name] or values[name]

        return HOLE.sub(one, pattern.chinese)

    def _pieces(self, text: str, depth: int) -> str | None:
        """A text of several messages: sentences, parts between semicolons, or a place and what is said of it."""
        for split, joint in ((". ", "。"), ("; ", "；")):
            if split in text and (told := self._joined(text.split(split), split, joint, depth)) is not None:
                return told
        at = text.find(": ")
        while at >= 0:
            tail = self._whole(text[at + 2 :], depth + 1)
            if tail is not None:
                return f"{text[:at]}：{tail}"
            at = text.find(": ", at + 1)
        return None

    def _joined(self, parts: list[str], split: str, joint: str, depth: int) -> str | None:
        """Parts put together to the longest messages that are known; None where none is."""
        out, at, hit = "", 0, False
        while at < len(parts):
            # a message may hold the splitting mark itself; more than a few are no message of ours
            for end in range(min(len(parts), at + 6), at, -1):
                piece = split.join(parts[at:end])
                if at == 0 and end == len(parts):
                    told = None  # the whole has been tried
                elif split == ". " and end < len(parts):
                    told = self._known_part(piece + ".", depth) or self._known_part(piece, depth)
                else:
                    told = self._known_part(piece, depth)
                if told is not None:
                    break
            hit = hit or told is not None
            more = end < len(parts)
            if told is None:
                out += parts[at] + (split if more else "")
            else:
                out += told + (joint if more and not told.endswith(joint) else "")
            at = end if told is not None else at + 1
        return out if hit else None

    def _known_part(self, piece: str, depth: int) -> str | None:
        """A part as one message, or as a place and what is said of it."""
        told = self._whole(piece, depth + 1)
        if told is None and ": " in piece and "; " not in piece:
            place, _, rest = piece.partition(": ")
            tail = self._whole(rest, depth + 1)
            told = None if tail is None else f"{place}：{tail}"
        return told
