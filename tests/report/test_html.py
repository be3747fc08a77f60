"""The static html of a result."""
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from records import HOSTILE, digits_record

from ptqlab.errors import Finding
from ptqlab.report import words
from ptqlab.report.html import STYLE, summary_html

VOID = {"br", "line", "circle", "rect", "path", "polyline", "img"}


class Tags(HTMLParser):
    """Collects elements and text, and fails on an element that is not closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open, self.seen, self.words = [], [], []

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))
        self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        while self.open[-1] != tag:
            assert self.open.pop() in VOID
        self.open.pop()

    def handle_data(self, data):
        self.words.append(data)


def read(page):
    tags = Tags()
    tags.feed(page)
    assert set(tags.open) <= VOID
    return tags


@pytest.fixture(autouse=True)
def english(monkeypatch):
    monkeypatch.setitem(words._state, "language", "en")


def test_well_formed_and_without_script():
    """No script, no handler, no address of the network, every element closed."""
    tags = read(summary_html(digits_record(), Path("out")))
    assert "script" not in {tag for tag, _ in tags.seen}
    for _, attrs in tags.seen:
        assert not any(name.startswith("on") or name in ("href", "src") for name in attrs)
    assert "http" not in summary_html(digits_record(), Path("out"))


def test_names_are_shown_as_they_are_and_do_nothing():
    """A hostile node name is text in the table and in the tooltips."""
    page = summary_html(digits_record(), Path("<img src=x onerror=alert(1)>"))
    assert HOSTILE not in page
    assert "<img" not in page
    tags = read(page)
    assert HOSTILE in tags.words
    assert any(word.startswith(HOSTILE) and "0.942000" in word for word in tags.words)


def test_what_a_reader_needs_is_there():
    """Outputs with SQNR, worst nodes with their reason, findings with what to do, artifacts."""
    words_shown = " ".join(read(summary_html(digits_record(), Path("out"))).words)
    for part in ("complete", "prob", "22.50", "nan: PTQ503", "check the mask that feeds it", "warning",
                 "digits_node_info.csv"):
        assert part in words_shown


def test_partial_results_say_so():
    """The badge and the sentence."""
    words_shown = " ".join(read(summary_html(replace(digits_record(), complete=False))).words)
    assert "partial" in words_shown
    assert "the run ended after stage" in words_shown


def test_many_findings_are_cut_with_a_count():
    """The page does not grow without end, and says how many more there are."""
    many = tuple(Finding("PTQ500", f"finding {i}") for i in range(40))
    page = summary_html(replace(digits_record(), findings=many))
    assert "finding 11" in page and "finding 12" not in page
    assert "and 28 more" in page


def test_notes_do_not_hide_warnings():
    """Warnings stand open, notes are folded away with their number."""
    page = summary_html(digits_record())
    warnings, notes = page.index("PTQ503 "[:6]), page.index("notes: 1")
    assert warnings < notes < page.index("quant_config asks int16")


def test_style_is_scoped_and_follows_the_theme():
    """Every rule begins with our class; colours are the lab's variables or the page's own."""
    for rule in re.findall(r"([^{}]+)\{([^{}]*)\}", STYLE):
        assert all(selector.strip().startswith("div.ptqlab.ptqlab.ptqlab") for selector in rule[0].split(","))
        for name, value in re.findall(r"(?:^|;)\s*(color|background)\s*:\s*([^;]+)", rule[1]):
            assert value.startswith("var(--jp-") or value in ("inherit", "transparent"), (name, value)


def test_chinese_page(monkeypatch):
    """The words change with the language and the page is marked with it."""
    monkeypatch.setitem(words._state, "language", "zh")
    page = summary_html(digits_record(), Path("out"))
    assert "lang='zh'" in page
    assert "模型输出" in page
