"""Everything a record knows of one node: what was asked, what was granted, and why."""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ptqlab.artifacts.tables import MISSING, explain_nan, has_nan, number, printable, width
from ptqlab.errors import Problem, PtqError, nearest, shorten
from ptqlab.report import html
from ptqlab.report.words import say, spoken, told
from ptqlab.stages.record import NodeRow, Record


@dataclass(frozen=True)
class Explanation:
    """The story of one node. `print()` it, show it in a notebook, or read its fields.

    row     the node's row of the record
    origin  the entry of quant_config, or the default, that asks for its type
    holds   names of nodes that are computed in this one
    notes   tags, findings that name the node, and the reason of a NaN
    """

    row: NodeRow
    origin: str
    holds: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def asked(self) -> str:
        return self.row.asked

    @property
    def granted(self) -> str:
        return self.row.granted

    @property
    def reason(self) -> str:
        return self.row.reason

    @property
    def rule(self) -> str:
        return self.row.rule

    def lines(self) -> list[tuple[str, str]]:
        """(what, text) pairs in reading order, plain text."""
        row = self.row
        same = row.asked == row.granted
        lines = [
            (say("explain_type"), say("as_asked" if same else "asked_granted", asked=row.asked or MISSING,
                                      granted=row.granted or MISSING)),
            (say("explain_origin"), self.origin),
            (say("explain_place"), f"{row.on} {row.subgraph}" if row.subgraph != MISSING else row.on),
            (say("explain_reason"), f"{spoken(row.reason)} [{row.rule}]" if row.rule else spoken(row.reason)),
            (say("explain_threshold"), say("no_threshold") if row.threshold is None else number(row.threshold)),
            (say("explain_cosine"), say("inherits", calibrated=number(row.calibrated_cosine),
                                        quantized=number(row.quantized_cosine))),
            (say("explain_output"), f"{row.output or MISSING} ({row.output_data_type})"),
        ]
        if row.fused_into:
            lines.append((say("explain_fused"), row.fused_into))
        if self.holds:
            lines.append((say("explain_holds"), ", ".join(self.holds)))
        lines += [(say("explain_tags"), note) for note in self.notes]
        return lines

    def __str__(self) -> str:
        pairs = self.lines()
        longest = max(width(what) for what, _ in pairs)
        return "\n".join([printable(f"{self.row.node} ({self.row.node_type})"),
                          *(f"  {what}{' ' * (longest - width(what))}  {printable(words)}" for what, words in pairs)])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        pairs = "".join(f"<dt>{html.text(what)}</dt><dd>{html.text(words)}</dd>" for what, words in self.lines())
        return html.frame(f"<div class='ptqlab-head'><code>{html.text(self.row.node)}</code> "
                          f"({html.text(self.row.node_type)})</div><dl>{pairs}</dl>")


def explain(record: Record, node: str) -> Explanation:
    """The story of `node`. Raises PtqError with the nearest names when the record has no such node."""
    row = next((row for row in record.nodes if row.node == node), None)
    if row is None:
        near = nearest(node, (row.node for row in record.nodes))
        raise PtqError(Problem(
            "PTQ502", "explain", f"no node {shorten(node)!r}", "a name of the column Node",
            f"did you mean {', '.join(map(repr, near))}?" if near else "see run.nodes for the names"))
    notes = [", ".join(row.tags)] if row.tags else []
    notes += [told(finding) for finding in record.findings if node in finding.nodes]
    if has_nan(row) and not notes:
        notes.append(spoken(f"nan: {explain_nan(record, row)}"))
    holds = tuple(other.node for other in record.nodes if other.fused_into == node)
    return Explanation(row, _origin(record.quant_config, row), holds, tuple(notes))


def _origin(config: Mapping[str, Any], row: NodeRow) -> str:
    """The finest entry of quant_config that covers the node: node, then operator type, then model."""
    if config.get("node_config", {}).get(row.node):
        return say("origin_node", key=row.node)
    for key, entry in config.get("op_config", {}).items():
        if entry and key.lower() == row.node_type.lower():
            return say("origin_op", key=key)
    return say("origin_model" if config.get("model_config", {}).get("all_node_type") else "origin_default")
