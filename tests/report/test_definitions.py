"""The definition page: current, complete, and a docstring's equations as they stand."""
from __future__ import annotations

from pathlib import Path

from ptqlab.arith.formats import QType
from ptqlab.ops.integer import INTEGER_OPS
from ptqlab.ops.integer.movers import MOVERS
from ptqlab.report.definitions import definitions_page, markdown


def test_the_page_is_current() -> None:
    """DEFINITIONS.md says what the code says; `python -m ptqlab.report.definitions` writes it again."""
    page = Path(__file__).parents[2] / "DEFINITIONS.md"
    assert page.read_text(encoding="utf-8") == definitions_page()


def test_every_operator_stands_there_with_its_equation() -> None:
    """Each once, in bold, and each equation; all movers and number formats."""
    page = definitions_page()
    for name, op in INTEGER_OPS.items():
        assert page.count(f"**{name}**") == 1 and f"`{op.equation}`" in page, name
    assert all(mover in page for mover in MOVERS)
    assert all(f"| {t.value} | {t.bits} |" in page for t in QType)


def test_a_docstring_as_markdown() -> None:
    """Prose flows with stars and brackets kept from Markdown, equations and lists of names stay as they are."""
    text = "One * two < three.\n\n    y = x * 2\n      z\n\nname  what it is\n      and more\n\nprose\n  inset"
    assert markdown(text) == (
        "One \\* two \\< three.\n\n```text\ny = x * 2\n  z\n```\n\n```text\nname  what it is\n      and more\n```"
        "\n\nprose\n\n```text\ninset\n```\n"
    )
