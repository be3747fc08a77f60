"""The html page: complete, offline, escaped, in two languages."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from perf.common import chain, conv, table

from ptqlab.perf import advice, estimate, performance_html
from ptqlab.perf.layer import linked

VOID = {"meta", "br", "line", "rect", "polyline"}


class Balance(HTMLParser):
    """Fails on a tag that is not closed, or closed twice."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag


def page(lang: str = "en", name: str = "YOLO11n") -> str:
    layers = table(name).layers
    found = estimate(layers, "nash-e", model=name)
    return performance_html(found, advice(layers, found, lang=lang), lang=lang)


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_it_is_whole_and_offline(lang: str) -> None:
    """Balanced tags, nothing fetched, no script, light and dark."""
    text = page(lang)
    balance = Balance()
    balance.feed(text)
    assert balance.open == []
    assert not re.search(r"https?:|src=|href=|@import|url\(|<script", text)
    assert "prefers-color-scheme:dark" in text and f"<html lang='{lang}'>" in text


def test_every_part_is_there() -> None:
    """Summary, basis, timeline, bandwidth, advice, CPU operators, layers."""
    text = page()
    for heading in (
        "Summary",
        "What the figures rest on",
        "Timeline by engine",
        "Utilization and DDR bandwidth",
        "Advice",
        "Operators on the CPU",
        "Layers",
    ):
        assert f"<h2>{heading}" in text, heading
    assert text.count("<svg") == 2
    for name in ("Conv_0", "Softmax_67", "Transpose_153", "6,479,987,200"):
        assert name in text, name


def test_names_are_escaped() -> None:
    """A node's name is text, in tables, in titles of bars and in the page's title."""
    evil = "<img src=x onerror=alert(1)>'\""
    layers = linked([replace(conv(evil, -1), nodes=(evil,)), conv("b", 0, tail=True, net_out=True)])
    found = estimate(layers, "nash-e", model=evil)
    text = performance_html(found, advice(layers, found, 0.0))
    assert "<img" not in text and "&lt;img src=x onerror=alert(1)&gt;&#x27;&quot;" in text
    Balance().feed(text)


def test_without_anything_to_tell() -> None:
    """No advice and nothing on the CPU is said, not left blank."""
    text = performance_html(estimate(linked(chain()[:-1]), "nash-e"))
    assert "No layer takes more than the limit." in text and "None." in text


def test_chinese_page_has_chinese_headings() -> None:
    """The reader's words are Chinese, the field names the vendor's."""
    text = page("zh")
    assert "逐层明细" in text and "数据依据" in text and "FPS" in text
