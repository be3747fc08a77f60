"""A record as plain text, for terminals, logs and `print`."""
from __future__ import annotations

from pathlib import Path

from ptqlab.artifacts.tables import grid, number, output_table, printable
from ptqlab.report.choose import artifacts_in, headline, partial, worst_nodes
from ptqlab.report.words import hint_of, say, spoken
from ptqlab.stages.record import Record

WORST_COLUMNS = ("Node", "NodeType", "ON", "Granted", "Calibrated Cosine", "Quantized Cosine")


def summary(record: Record, folder: Path | None = None, *, worst: int = 5) -> str:
    """The result as a reader wants it first: counts, outputs, worst nodes, findings, artifacts."""
    parts = [printable(headline(record))]
    if why := partial(record):
        parts.append(why)
    parts += ["", output_table(record)]
    rows = worst_nodes(record, worst)
    parts += ["", say("titled", words=say("worst")) if rows else say("not_compared")]
    if rows:
        parts.append(grid(WORST_COLUMNS, [
            (r.node, r.node_type, r.on, r.granted, number(r.calibrated_cosine), number(r.quantized_cosine))
            for r in rows]))
    if record.findings:
        parts += ["", say("titled", words=say("findings")), *(finding_lines(record))]
    if folder is not None and record.artifacts:
        parts += ["", say("titled", words=artifacts_in(folder))]
        longest = max(map(len, record.artifacts))
        parts += [f"  {key:<{longest}}  {printable(name)}" for key, name in record.artifacts.items()]
    return "\n".join(parts)


def finding_lines(record: Record) -> list[str]:
    """Each finding on one line, its hint on a second; warnings before notes."""
    lines = []
    for finding in sorted(record.findings, key=lambda f: f.severity != "warning"):
        lines.append(printable(f"  {say(finding.severity)}  {finding.code}  {spoken(finding.message)}"))
        if finding.hint:
            lines.append(printable(f"      {hint_of(finding)}"))
    return lines
