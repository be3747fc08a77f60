"""Help and refusals of the command line in the language of views, which a line may choose itself."""
from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from itertools import pairwise

from ptqlab.artifacts.tables import width as columns
from ptqlab.report.words import LANGUAGES, language, spoken, spoken_word

# what a line may not be broken in: a word of Latin letters, or a character with the marks that close behind it
UNBROKEN = re.compile(r"[\x21-\x7e]+[，。；：、）”]*|[^\x20-\x7e][，。；：、）”]*| +")


def language_in(words: Sequence[str]) -> str:
    """The language that a line asks for by `--lang`, "" for none: help is written before the line is understood."""
    given = [after for word, after in pairwise(words) if word == "--lang"]
    given += [word.removeprefix("--lang=") for word in words if word.startswith("--lang=")]
    return given[-1] if given and given[-1] in LANGUAGES else ""


class Help(argparse.HelpFormatter):
    """argparse's form; texts are made in English and shown in the language of views."""

    def start_section(self, heading: str | None) -> None:
        super().start_section(heading and spoken_word(heading))

    def add_text(self, text: str | None) -> None:
        super().add_text(text and spoken(text))

    def _get_help_string(self, action: argparse.Action) -> str | None:
        return action.help and spoken(action.help)

    def _split_lines(self, text: str, width: int) -> list[str]:
        if language() == LANGUAGES[0]:
            return super()._split_lines(text, width)
        return wrapped(text, width)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if language() == LANGUAGES[0]:
            return super()._fill_text(text, width, indent)
        return "\n".join(indent + line for line in wrapped(text, width - len(indent)))


def wrapped(text: str, width: int) -> list[str]:
    """Lines of at most `width` columns of a terminal, in which a Chinese character takes two; it may end any line."""
    lines = [""]
    for piece in UNBROKEN.findall(" ".join(text.split())):
        if lines[-1] and columns(lines[-1] + piece.rstrip()) > width:
            lines.append("")
        lines[-1] = (lines[-1] + piece) if lines[-1] else piece.lstrip()
    return [line.rstrip() for line in lines]
