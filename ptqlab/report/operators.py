"""The operator table of a march as a page: what runs on the BPU, in which types, under which rules."""
from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

from ptqlab.errors import Problem, PtqError, nearest, shorten
from ptqlab.ops import page
from ptqlab.ops.page import Row as Operator
from ptqlab.ops.table import OPERATORS
from ptqlab.platforms import platform
from ptqlab.report.page import Page
from ptqlab.report.words import say, spoken, spoken_word

COLUMNS = ("Operator", "ON", "Role", "Engine", "Types", "Rules", "Source")


def operator_rows(march: str | None = None, op: str | None = None) -> tuple[Operator, ...]:
    """Rows of the table, all of them or the one of `op` (letter case does not count).

    march  None: what holds for every march. Raises PtqError for an unknown march or operator, with the nearest names.
    """
    words = page.sentences(OPERATORS.values())
    listed = page.operator_rows(None if march is None else platform(march))
    rows = [replace(row, rules=tuple(words[rule] for rule in row.rules)) for row in listed]
    if op is None:
        return tuple(rows)
    found = tuple(r for r in rows if r.op_type.lower() == op.lower())
    if not found:
        near = nearest(op, OPERATORS)
        raise PtqError(Problem(
            "PTQ403", "--op", repr(shorten(op)), "an operator of the table; what is not listed runs on the CPU",
            f"did you mean {', '.join(near)}?" if near else "ptqlab ops lists them"), "ops")
    return found


def operators_page(rows: tuple[Operator, ...], march: str | None) -> Page:
    """The table; for a single operator every rule on a line of its own."""
    shown = Page(say("ops_title", march=march or say("ops_every")))
    if len(rows) == 1:
        row = rows[0]
        facts = (row.on, spoken_word(row.role), row.engine, ", ".join(row.types) or "float32")
        shown.line(f"{row.op_type}: {', '.join(facts)} ({spoken_word(row.source)})")
        if row.note:
            shown.line(spoken(row.note))
        shown.heading(say("rules"))
        for rule in row.rules or (say("no_rules"),):
            shown.line(f"- {spoken(rule)}")
        return shown
    shown.table(COLUMNS, [(r.op_type, r.on, spoken_word(r.role), r.engine, ", ".join(r.types) or "float32",
                          str(len(r.rules) or "--"), spoken_word(r.source)) for r in rows])
    shown.line(say("ops_more"))
    return shown


def operator_dicts(rows: tuple[Operator, ...]) -> list[dict[str, Any]]:
    """The rows as plain data for JSON."""
    return [asdict(row) for row in rows]
