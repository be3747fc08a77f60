"""Completion of `%ptq` lines: verbs, options, their choices, file names, and node names of the last run."""
from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from IPython.core.completer import CompletionContext, SimpleCompletion, SimpleMatcherResult, context_matcher

from ptqlab.cli.parser import Parser, endings

if TYPE_CHECKING:
    from ptqlab.notebook.magics import PtqMagics

#: A line of the magic, also behind an assignment; the group is what stands behind `%ptq `.
_LINE = re.compile(r"\s*(?:[\w.,\[\]'\" ]+=\s*)?%%?ptq\s(.*)$")
MOST = 200


def candidates(parser: Parser, line: str, nodes: list[str]) -> tuple[str, list[str]]:
    """(the word being written, what it may become) for the part of a line behind `%ptq `.

    `nodes` are the node names to offer. A word that begins with a quote is completed with the quote.
    """
    words = line.split()
    word = "" if not words or line[-1].isspace() else words.pop()
    verbs = parser.verbs()
    verb = next((w for w in words if w in verbs), None)
    before = words[-1] if words else ""
    if verb is None:
        action = parser.options().get(before)
        if action is not None and action.choices is not None:
            return word, _starting(word, [str(c) for c in action.choices])
        choices = [*verbs, *parser.options()]
        return word, _starting(word, choices if word.startswith("-") else list(verbs))
    at = verbs[verb]
    action = at.options().get(before)
    if action is not None and action.choices is not None:
        return word, _starting(word, [str(c) for c in action.choices])
    if action is not None and (found := endings(action)) is not None:
        return _word_of_path(word, found)
    if word.startswith("-"):
        return word, _starting(word, list(at.options()))
    for positional in at.positionals():
        if positional.choices is not None:
            return word, _starting(word, [str(c) for c in positional.choices])
        if positional.dest == "node":
            quoted = [name if _plain(name) else "'" + name.replace("'", "'\"'\"'") + "'" for name in nodes]
            return word, _starting(word, quoted)
        if (found := endings(positional)) is not None:
            return _word_of_path(word, found)
    return word, _starting(word, list(at.options()))


def _word_of_path(word: str, endings: tuple[str, ...]) -> tuple[str, list[str]]:
    """Paths for a word; behind NAME= or a comma only what follows is a path."""
    start = max(word.rfind("="), word.rfind(",")) + 1
    if start and not glob.glob(glob.escape(word) + "*"):
        return word[start:], _paths(word[start:], endings)
    return word, _paths(word, endings)


def matcher_for(magics: PtqMagics) -> Callable[[CompletionContext], SimpleMatcherResult]:
    """An IPython matcher for lines of `magics`; it silences the others where it has something to offer."""

    @context_matcher(identifier="ptqlab.magic")
    def ptq_matcher(context: CompletionContext) -> SimpleMatcherResult:
        found = _LINE.match(context.text_until_cursor)
        if found is None:
            return SimpleMatcherResult(completions=[])
        nodes = [row.node for row in magics.last.record.nodes] if magics.last is not None else []
        word, offered = candidates(magics.parser, found[1], nodes)
        result: Any = SimpleMatcherResult(
            completions=[SimpleCompletion(text=text, type="param") for text in offered[:MOST]], suppress=bool(offered))
        result["matched_fragment"] = word
        return result

    return ptq_matcher


def _starting(word: str, choices: list[str]) -> list[str]:
    return [choice for choice in choices if choice.startswith(word)]


def _plain(name: str) -> bool:
    """Whether the name survives the splitting of a shell-like line."""
    return bool(name) and all(c.isalnum() or c in "/._-:+@%" for c in name)


def _paths(word: str, endings: tuple[str, ...]) -> list[str]:
    """Folders, and files with one of `endings`, that begin with `word`."""
    found = sorted(glob.glob(glob.escape(os.path.expanduser(word)) + "*"))
    out = []
    for path in found:
        shown = word + path[len(os.path.expanduser(word)):]
        if os.path.isdir(path):
            out.append(shown + "/")
        elif path.lower().endswith(endings) and endings:
            out.append(shown)
    return out
