"""The node table and the output table, as grid text and as csv.

Headings and column names are the vendor's (documented); cosines have six decimals, what was not compared
is `--`, and a cosine that is not a number is followed by the reason under the table.
"""
from __future__ import annotations

import csv
import io
import math
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path

from ptqlab.errors import Problem, PtqError
from ptqlab.stages.record import NodeRow, Record

NODE_COLUMNS = ("Node", "NodeType", "ON", "Threshold", "Calibrated Cosine", "Quantized Cosine", "Output Data Type")
CSV_COLUMNS = (*NODE_COLUMNS, "Subgraph", "Asked", "Granted", "Reason")
OUTPUT_COLUMNS = ("TensorName", "Calibrated Cosine", "Quantized Cosine")
NODE_HEADING = "The main quantized node information:"
OUTPUT_HEADING = "The quantized model output:"
MISSING = "--"


def number(value: float | None) -> str:
    """A cosine or threshold as the table shows it: six decimals, `--` for None, `nan` and `inf` as such.

    Values too small for six decimals keep their digits in scientific form, so that they do not read as zero.
    """
    if value is None:
        return MISSING
    if value != 0 and math.isfinite(value) and abs(value) < 1e-4:
        return f"{value:.5e}"
    return f"{value:.6f}"


def width(text: str) -> int:
    """Columns a terminal needs for `text`: two for wide east-asian characters, none for combining marks."""
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def printable(text: str) -> str:
    """`text` on one line; control characters, which could repaint a terminal, become a replacement mark."""
    return "".join(c if c.isprintable() else "\ufffd" for c in text)


def grid(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A `+---+` grid, all cells left-aligned."""
    cells = [list(columns), *([printable(cell) for cell in row] for row in rows)]
    widths = [max(width(line[i]) for line in cells) for i in range(len(columns))]
    rule = "+" + "+".join("-" * (w + 2) for w in widths) + "+"
    lines = ["| " + " | ".join(c + " " * (w - width(c)) for c, w in zip(line, widths, strict=True)) + " |"
             for line in cells]
    return "\n".join([rule, lines[0], rule, *lines[1:], *([rule] if len(lines) > 1 else [])])


def node_cells(row: NodeRow) -> tuple[str, ...]:
    """The cells of one row under NODE_COLUMNS."""
    return (row.node, row.node_type, row.on, number(row.threshold), number(row.calibrated_cosine),
            number(row.quantized_cosine), row.output_data_type)


def node_table(record: Record) -> str:
    """The node table with its heading, and one line for each cosine that is not a number."""
    table = f"{NODE_HEADING}\n{grid(NODE_COLUMNS, map(node_cells, record.nodes))}"
    notes = [f"nan at {printable(row.node)}: {explain_nan(record, row)}" for row in record.nodes if has_nan(row)]
    return "\n".join([table, *notes])


def output_table(record: Record) -> str:
    """The table of the model's outputs with its heading."""
    rows = [(row.tensor, number(row.calibrated_cosine), number(row.quantized_cosine)) for row in record.outputs]
    notes = [f"nan at {printable(tensor)}: its values or their reference hold NaN or Inf, see the node table"
             for tensor, *cosines in rows if "nan" in cosines]
    return "\n".join([f"{OUTPUT_HEADING}\n{grid(OUTPUT_COLUMNS, rows)}", *notes])


def has_nan(row: NodeRow) -> bool:
    """Whether one of the row's cosines is not a number."""
    return any(c is not None and math.isnan(c) for c in (row.calibrated_cosine, row.quantized_cosine))


def explain_nan(record: Record, row: NodeRow) -> str:
    """Why a cosine of `row` is not a number: a finding that names the node, its tags, or what NaN means here."""
    told = [f"{finding.code} {finding.message}" for finding in record.findings if row.node in finding.nodes]
    if told:
        return printable("; ".join(told))
    if row.tags:
        return printable(", ".join(row.tags))
    if row.threshold == 0:
        return "its input is all zero (threshold 0), so there is no direction to compare"
    return "the float output, or the quantized one, holds NaN or Inf, or is zero everywhere"


def node_info_csv(record: Record) -> str:
    """Text of `*_node_info.csv`: the node table, then Subgraph, Asked, Granted and Reason."""
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    for row in record.nodes:
        writer.writerow((*node_cells(row), row.subgraph, row.asked, row.granted, row.reason))
    return out.getvalue()


def read_node_info(path: str | Path) -> tuple[NodeRow, ...]:
    """The rows of a `*_node_info.csv`, ours or one with the vendor's seven columns only.

    Raises PtqError when the file is no such table; names the line and column of a cell that is no number.
    """
    path = Path(path)
    try:
        lines = list(csv.reader(io.StringIO(path.read_text(encoding="utf-8-sig"), newline="")))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise PtqError(Problem("PTQ605", str(path), f"cannot be read: {error}", "a node_info.csv")) from None
    header = lines[0] if lines else []
    missing = [column for column in NODE_COLUMNS if column not in header]
    if missing:
        raise PtqError(Problem("PTQ605", f"{path}:1", f"columns {', '.join(header) or '(none)'}",
                               f"also {', '.join(missing)}", "use the node_info.csv of a compile run"))
    problems: list[Problem] = []
    rows: list[NodeRow] = []
    for at, line in enumerate(lines[1:], start=2):
        if not line:
            continue
        if len(line) != len(header):
            problems.append(Problem("PTQ605", f"{path}:{at}", f"{len(line)} cells", f"{len(header)} cells"))
            continue
        cell = dict(zip(header, line, strict=True))
        numbers: dict[str, float | None] = {}
        for column in ("Threshold", "Calibrated Cosine", "Quantized Cosine"):
            try:
                numbers[column] = None if cell[column] == MISSING else float(cell[column])
            except ValueError:
                problems.append(Problem("PTQ605", f"{path}:{at}, column {column}", repr(cell[column]),
                                        f"a number or {MISSING}"))
                numbers[column] = None
        rows.append(NodeRow(
            cell["Node"], cell["NodeType"], cell["ON"], cell.get("Subgraph", MISSING), numbers["Threshold"],
            numbers["Calibrated Cosine"], numbers["Quantized Cosine"], cell["Output Data Type"],
            cell.get("Asked", ""), cell.get("Granted", ""), cell.get("Reason", "")))
    if problems:
        raise PtqError(problems, "node_info.csv")
    return tuple(rows)
