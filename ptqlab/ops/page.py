"""The published operator table, made of the operator table itself: `python -m ptqlab.ops.page` writes OPERATORS.md."""
from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ptqlab.ops.gather import EMBEDDING
from ptqlab.ops.resize import NEAREST
from ptqlab.ops.spec import OpSpec, Role, sentence
from ptqlab.ops.table import OPERATORS
from ptqlab.platforms import Platform

HEAD = """# Operators

Made from the operator table of ptqlab (`ptqlab/ops`) by `python -m ptqlab.ops.page`; a test checks that it is current.
A node that keeps the rules of its operator can run on the BPU. Where it really runs depends on its neighbours as well:
*active* operators carry thresholds of their own, *passive* ones take them from a neighbour, and both run in float on
the CPU behind the last operator with weights unless the configuration says otherwise. The node table of a run gives the
reason for every node. Source: *documented* by the vendor, seen in a published *log*, or *our definition*.
"""
RULES = """## The rules in words

"""


@dataclass(frozen=True)
class Row:
    """One operator as it is published; `types` are those of its activations on the BPU, `rules` ids of sentences."""

    op_type: str
    on: str
    role: str
    engine: str
    types: tuple[str, ...]
    rules: tuple[str, ...]
    source: str
    note: str


def operator_rows(platform: Platform | None = None) -> tuple[Row, ...]:
    """The operators in order of their names, those of the BPU first; with a platform, the types that it has."""
    rows = [_row(spec, platform) for spec in OPERATORS.values()]
    return tuple(sorted(rows, key=lambda row: (row.on != "BPU", row.op_type)))


def _row(spec: OpSpec, platform: Platform | None) -> Row:
    on = "CPU" if spec.role is Role.FLOAT else "BPU"
    types = spec.types_on(platform) if platform is not None else spec.qtypes
    words = tuple(t.value for t in types) if on == "BPU" else ()
    return Row(spec.op_type, on, spec.role.value, spec.engine.value, words, tuple(r.__name__ for r in spec.rules),
               spec.source, spec.note)


def sentences(specs: Iterable[OpSpec]) -> dict[str, str]:
    """Rule id -> the rule in words."""
    return {rule.__name__: sentence(rule) for spec in specs for rule in spec.rules}


def operators_page(platform: Platform | None = None) -> str:
    """The table as Markdown."""
    rows = operator_rows(platform)
    lines = [HEAD, "## On the BPU", ""]
    lines += ["| Operator | Role | Engine | Types | Rules | Source | Note |", "|" + " --- |" * 7]
    lines += [
        f"| {r.op_type} | {r.role} | {r.engine} | {', '.join(r.types)} | {', '.join(r.rules)} | {r.source} | {r.note} |"
        for r in rows if r.on == "BPU"
    ]
    lines += ["", "## On the CPU, in float", "", "| Operator | Reason | Source |", "| --- | --- | --- |"]
    lines += [f"| {r.op_type} | {r.note.split(': ', 1)[-1]} | {r.source} |" for r in rows if r.on == "CPU"]
    lines += ["", RULES + "| Rule | |", "| --- | --- |"]
    rules = sentences([*OPERATORS.values(), NEAREST, EMBEDDING])
    lines += [f"| {name} | {text} |" for name, text in sorted(rules.items())]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    Path("OPERATORS.md").write_text(operators_page(), encoding="utf-8")
