"""A page: headings, paragraphs and tables, written once and shown as text and as html.

What is a message made in English (title, headings, lines, findings) is shown in the language of views.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ptqlab.artifacts.tables import grid, printable
from ptqlab.errors import Finding
from ptqlab.report import html
from ptqlab.report.words import hint_of, say, spoken, spoken_word


@dataclass(frozen=True)
class Heading:
    """The title of what follows."""

    words: str

    def text(self) -> str:
        return "\n" + printable(say("titled", words=spoken(self.words)))

    def html(self) -> str:
        return html.heading(spoken(self.words))


@dataclass(frozen=True)
class Line:
    """One paragraph."""

    words: str

    def text(self) -> str:
        return f"  {printable(spoken(self.words))}"

    def html(self) -> str:
        return f"<div>{html.text(spoken(self.words))}</div>"


@dataclass(frozen=True)
class Table:
    """Cells under columns; `numbers` are the columns set in fixed width; a table without rows says so."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: tuple[str, ...] = ()

    def text(self) -> str:
        return grid(self._said(self.columns), self._cells()) if self.rows else f"  {say('none')}"

    def html(self) -> str:
        if not self.rows:
            return f"<div class='ptqlab-quiet'>{html.text(say('none'))}</div>"
        return html.table(self._said(self.columns), self._cells(), self._said(self.numbers))

    def _said(self, columns: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(map(spoken_word, columns))

    def _cells(self) -> list[list[str]]:
        """The rows, messages among the cells in the language of views; a single word is a name or a number."""
        return [[spoken(cell) if " " in cell else cell for cell in row] for row in self.rows]


@dataclass(frozen=True)
class Findings:
    """Findings, warnings first, each with what to do."""

    findings: tuple[Finding, ...]

    def text(self) -> str:
        lines = []
        for finding in sorted(self.findings, key=lambda f: f.severity != "warning"):
            lines.append(printable(f"  {say(finding.severity)}  {finding.code}  {spoken(finding.message)}"))
            if finding.hint:
                lines.append(printable(f"      {hint_of(finding)}"))
        return "\n".join(lines) or f"  {say('no_findings')}"

    def html(self) -> str:
        return html.finding_block(self.findings)


@dataclass(frozen=True)
class Drawing:
    """Static svg, every text in it escaped already; a terminal shows `words` in its place."""

    svg: str
    words: str = ""

    def text(self) -> str:
        return f"  {printable(self.words)}" if self.words else ""

    def html(self) -> str:
        return self.svg


@dataclass
class Page:
    """A title and its parts in reading order."""

    title: str
    parts: list[Heading | Line | Table | Findings | Drawing] = field(default_factory=list)

    def heading(self, words: str) -> None:
        self.parts.append(Heading(words))

    def line(self, words: str) -> None:
        self.parts.append(Line(words))

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[str] = ()) -> None:
        self.parts.append(Table(tuple(columns), tuple(tuple(row) for row in rows), tuple(numbers)))

    def findings(self, findings: Sequence[Finding]) -> None:
        self.parts.append(Findings(tuple(findings)))

    def drawing(self, svg: str, words: str = "") -> None:
        """`svg` for html, `words` for text."""
        self.parts.append(Drawing(svg, words))

    def text(self) -> str:
        """The page for a terminal."""
        return "\n".join([printable(spoken(self.title)), *(text for part in self.parts if (text := part.text()))])

    def html(self) -> str:
        """The page for a notebook; every text escaped."""
        inner = "".join(part.html() for part in self.parts)
        return html.frame(f"<div class='ptqlab-head'>{html.text(spoken(self.title))}</div>{inner}")
