"""Pieces of html in both languages, of which the reader of a page sees the one that is chosen there."""
from __future__ import annotations

from collections.abc import Callable

from ptqlab.report.words import LANGUAGES, speaking

#: Which language is seen is decided by two radio buttons at the top of the page: no script is needed.
SWITCH_STYLE = """
.ptqlab-lang{position:absolute;opacity:0}
.ptqlab-lang+label{cursor:pointer;margin-right:.6em;padding:.1em .5em;border:1px solid transparent;border-radius:3px}
.ptqlab-lang:checked+label{border-color:currentColor;font-weight:600}
.ptqlab-lang:focus-visible+label{outline:2px solid currentColor;outline-offset:2px}
body:has(#ptqlab-en:checked) [data-lang=zh],body:has(#ptqlab-zh:checked) [data-lang=en]{display:none}
"""


def both(make: Callable[[], str], tag: str = "div") -> str:
    """What `make` gives in English and in Chinese, each in a `tag` of its own; once where they are the same."""
    made = {}
    for name in LANGUAGES:
        with speaking(name):
            made[name] = make()
    if len(set(made.values())) == 1:
        return made[LANGUAGES[0]]
    return "".join(f"<{tag} data-lang='{name}' lang='{name}'>{piece}</{tag}>" for name, piece in made.items())


def switch(chosen: str) -> str:
    """The two buttons, `chosen` pressed."""
    words = {"en": "English", "zh": "中文"}
    return "".join(f"<input type='radio' name='ptqlab-lang' id='ptqlab-{name}' class='ptqlab-lang'"
                   f"{' checked' if name == chosen else ''}><label for='ptqlab-{name}'>{words[name]}</label>"
                   for name in LANGUAGES)
