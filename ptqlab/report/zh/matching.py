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
WEAK = 12
# bounds on what is looked at: a text may come from a file
DEEPEST, LONGEST, MOST_PARTS, MOST_PLACES = 5, 4000, 16, 8
# Chinese with its marks; Chinese words alone; what is set off from them by a space
CHINESE, IDEOGRAPH = re.compile(r"[\u2e80-\u9fff\uff00-\uffef]"), re.compile(r"[\u4e00-\u9fff]")
BESIDE = re.compile(r"[\w/$%.*<\[{-]", re.ASCII)
DTYPES = "float|float16|float32|double|bool|string|untyped|bfloat16|complex64|complex128"
# names, numbers and quoted text, one or a list of them, each with its type and shape or a word in brackets perhaps
ITEM = rf"(?:'[^']*'|\"[^\"]*\"|\S+)(?: (?:u?int\d+|{DTYPES}))?(?: \[[^\]]*\]| \([^ ()]*\))?"
PLAIN = re.compile(rf"{ITEM}(?:(?:,| or| and) {ITEM})*")
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
    single    those that a single word may fill, which is translated;  free  those that any text may fill
    chinese   the other pattern;  weight  number of literal letters
    """

    literals: tuple[str, ...]
    names: tuple[str, ...]
    single: tuple[str, ...]
    free: tuple[str, ...]
    chinese: str
    weight: int

    @classmethod
    def of(cls, english: str, chinese: str) -> Pattern:
        literals = tuple(skeleton(english).split("\0"))
        weight = sum(c.isalpha() for piece in literals for c in piece)
        single, free = (tuple(found[1] for found in HOLE.finditer(chinese) if found[2] == kind)
                        for kind in ("word", "any"))
        return cls(literals, tuple(holes(english.strip())), single, free, chinese.strip(), weight)

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


@dataclass(frozen=True)
class Told:
    """A text in Chinese. score: letters of English that were understood; complete: nothing but names is left."""

    text: str
    score: int
    complete: bool = False


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
        for pattern in patterns:
            rarest = min(pattern.words(), key=lambda w: count[w], default="")
            self._by_word.setdefault(rarest, []).append(pattern)
        self.told = lru_cache(maxsize=4096)(self._told)

    def translate(self, text: str) -> str:
        """The text in Chinese; as it is where nothing fits, and where it is too long to be a message."""
        told = self.told(text)
        return text if told is None else told.text

    def understood(self, text: str) -> str | None:
        """The text in Chinese where all of it was understood, None else."""
        told = self.told(text)
        return told.text if told is not None and told.complete else None

    def _told(self, text: str) -> Told | None:
        return None if len(text) > LONGEST else _Reading(self).any(text, 0)

    def fitting(self, text: str) -> list[tuple[Pattern, dict[str, str]]]:
        """Patterns that fit, with what fills their holes."""
        near = (pattern for word in {"", *WORD.findall(text)} for pattern in self._by_word.get(word, ()))
        return [(pattern, values) for pattern in near if (values := pattern.fit(text)) is not None]


class _Reading:
    """One text being understood; what was found of its parts is remembered."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.seen: dict[str, Told | None] = {}

    def any(self, text: str, depth: int) -> Told | None:
        """The text as one message, or as several: what understands more of it."""
        text = text.strip()
        if depth > DEEPEST or not any(c.isascii() and c.isalpha() for c in text):
            return None
        if text not in self.seen:
            self.seen[text] = None
            whole = self.whole(text, depth)
            split = None if whole and whole.complete else self.pieces(text, depth)
            self.seen[text] = max((t for t in (split, whole) if t), key=lambda t: t.score, default=None)
        return self.seen[text]

    def whole(self, text: str, depth: int) -> Told | None:
        if text in self.table.known:
            return Told(self.table.known[text], sum(c.isalpha() for c in text), complete=True)
        best: Told | None = None
        for pattern, values in sorted(self.table.fitting(text), key=lambda item: -item[0].weight):
            told = self.filled(pattern, values, depth)
            if told is not None and told.complete:
                return told
            if told is not None and (best is None or told.score > best.score):
                best = told
        return best

    def filled(self, pattern: Pattern, values: dict[str, str], depth: int) -> Told | None:
        """The Chinese pattern with its holes filled; None where a weak pattern would take in what is no name."""
        told = {n: self.any(value, depth + 1) if " " in value.strip() else None for n, value in values.items()}
        told |= {n: Told(word, 0, complete=True) for n in pattern.single if (word := self.table.words.get(values[n]))}
        # what others say is not translated by halves
        told |= {n: None for n in pattern.free if (part := told[n]) and not part.complete}
        plain = all(told[name] or name in ONLY or name in pattern.free or not value or PLAIN.fullmatch(value)
                    for name, value in values.items())
        if pattern.weight < WEAK and not plain:
            return None
        complete = plain and all(t.complete for t in told.values() if t)
        out, at = "", 0
        for hole in HOLE.finditer(pattern.chinese):
            name, kind = hole[1], hole[2]
            value, found = values[name], told[name]
            if kind == "or":
                value = value.replace(" or ", " 或 ")
            out = _beside(out, pattern.chinese[at : hole.start()])
            out = _beside(out, found.text if found else value)
            at = hole.end()
        out = _beside(out, pattern.chinese[at:]).strip()
        return Told(out, pattern.weight + sum(t.score for t in told.values() if t), complete)

    def pieces(self, text: str, depth: int) -> Told | None:
        """A text of several messages: sentences, parts between semicolons, or a place and what is said of it."""
        tries = [self.joined(text, split, joint, depth) for split, joint in ((". ", "。"), ("; ", "；"))]
        tries.append(self.bracketed(text, depth))
        at = text.find(": ")
        for _ in range(MOST_PLACES):
            if at < 0:
                break
            head = self.whole(text[: at + 1], depth + 1)
            if head is None or not head.text.endswith("："):
                head = self.whole(text[:at], depth + 1)
            tail = self.any(text[at + 2 :], depth + 1)
            if head or tail:
                place, rest = head.text if head else text[:at], tail.text if tail else text[at + 2 :]
                tries.append(Told(f"{place.removesuffix('：')}：{rest}", sum(t.score for t in (head, tail) if t)))
            at = text.find(": ", at + 1)
        return max((t for t in tries if t), key=lambda t: t.score, default=None)

    def joined(self, text: str, split: str, joint: str, depth: int) -> Told | None:
        """The parts between marks, put together to the longest messages that are known; None where none is."""
        parts = text.split(split)
        if not 1 < len(parts) <= MOST_PARTS:
            return None
        out, at, score, complete = "", 0, 0, True
        while at < len(parts):
            told: Told | None = None
            # a message may hold the mark itself
            for end in range(min(len(parts), at + 4), at, -1):
                if at == 0 and end == len(parts):
                    continue
                told = self.part(split.join(parts[at:end]), split if end < len(parts) else "", depth)
                if told is not None:
                    break
            if told is None:
                out, end, complete = out + parts[at] + (split if at + 1 < len(parts) else ""), at + 1, False
            else:
                out = _beside(out, told.text)
                out += joint if end < len(parts) and not told.text.endswith(joint) else ""
                score, complete = score + told.score, complete and told.complete
            at = end
        return Told(out, score, complete) if score else None

    def part(self, piece: str, split: str, depth: int) -> Told | None:
        """A part as one message, with its full stop or without, or as a place and what is said of it."""
        if split == ". " and (told := self.whole(piece + ".", depth + 1)):
            return told
        several = ": " in piece or piece.endswith(")")
        return self.whole(piece, depth + 1) or (self.pieces(piece, depth + 1) if several else None)

    def bracketed(self, text: str, depth: int) -> Told | None:
        """Names with what is said of each in brackets behind it."""
        if not text.endswith(")") or not 1 <= text.count(" (") <= MOST_PARTS:
            return None
        out, score = [], 0
        for item in text[:-1].split("), "):
            name, _, said = item.partition(" (")
            told = self.whole(f"({said})", depth + 1) or self.whole(said, depth + 1)
            if told is None:
                out.append(f"{item})")
            else:
                out.append(_beside(name, told.text if told.text.startswith("（") else f"（{told.text}）"))
                score += told.score
        return Told(", ".join(out), score) if score else None


def _beside(left: str, right: str) -> str:
    """Two texts side by side: a space between Chinese and other words, none between Chinese and Chinese."""
    if left.endswith("。") and right.startswith("）"):
        return left.removesuffix("。") + right
    ends, starts = left.rstrip(" "), right.lstrip(" ")
    if not ends or not starts:
        return left + right
    if CHINESE.match(ends[-1]) and CHINESE.match(starts[0]):
        return ends + starts
    one, other = sorted((ends[-1], starts[0]), key=lambda c: not IDEOGRAPH.match(c))
    joined = left == ends and right == starts
    return f"{left} {right}" if joined and IDEOGRAPH.match(one) and BESIDE.match(other) else left + right
