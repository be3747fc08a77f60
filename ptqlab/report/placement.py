"""The page of a check: where nodes run, why some do not run on the BPU, and what would help."""
from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from ptqlab.report.page import Page
from ptqlab.report.words import say, spoken
from ptqlab.stages.record import NodeRow, Record

ISLANDS = "PTQ433"  # the finding that names CPU nodes with the BPU before and behind them
ADVICE = ("PTQ430", "PTQ431", "PTQ432", "PTQ433", "PTQ435")
SHOWN_NAMES = 6
# notes on paths and missing data: in the record and the log, beside the point on a page about placement or speed
BESIDE_THE_POINT = ("PTQ252", "PTQ255", "PTQ301")


@dataclass(frozen=True)
class CpuGroup:
    """CPU nodes that share one reason. islands: those with the BPU before and behind them."""

    reason: str
    rule: str
    nodes: tuple[str, ...]
    islands: tuple[str, ...]


def cpu_groups(record: Record) -> tuple[CpuGroup, ...]:
    """CPU nodes by reason: first what splits the model most, then what is most."""
    islands = {n for f in record.findings if f.code == ISLANDS for n in f.nodes}
    held: dict[tuple[str, str], list[NodeRow]] = {}
    for row in record.nodes:
        if row.on == "CPU":
            held.setdefault((row.rule, row.reason.split(" Here: ")[0]), []).append(row)
    groups = [CpuGroup(rows[0].reason if len(rows) == 1 else reason, rule, tuple(r.node for r in rows),
                       tuple(r.node for r in rows if r.node in islands)) for (rule, reason), rows in held.items()]
    return tuple(sorted(groups, key=lambda g: (-len(g.islands), -len(g.nodes))))


def check_page(record: Record, config: Path | None) -> Page:
    """Summary per device, CPU nodes by reason, advice, other findings, the configuration to go on with."""
    page = Page(check_headline(record))
    page.heading(say("placement"))
    rows = []
    for device in ("BPU", "CPU"):
        types = Counter(r.node_type for r in record.nodes if r.on == device)
        rows.append((device, str(types.total()), some([f"{t} {n}" for t, n in types.most_common()], 12)))
    page.table(("ON", say("count"), say("node_types")), rows)
    groups = cpu_groups(record)
    if groups:
        page.heading(say("cpu_nodes"))
        for group in groups:
            split = f" [{say('islands')}: {some(group.islands)}]" if group.islands else ""
            page.line(f"{len(group.nodes)} x {spoken(group.reason)}{split}")
            page.line(f"    {some(group.nodes)}")
    advice = [f for f in record.findings if f.code in ADVICE]
    others = [f for f in record.findings if f not in advice and f.code not in BESIDE_THE_POINT]
    if advice:
        page.heading(say("would_help"))
        page.findings(advice)
    if others:
        page.heading(say("noticed"))
        page.findings(others)
    if config is not None:
        page.heading(say("written"))
        page.line(say("next_config", path=config))
    return page


def check_headline(record: Record) -> str:
    """Model, platform, counts and segments in one line."""
    bpu = sum(row.on == "BPU" for row in record.nodes)
    counts = say("check_counts", nodes=len(record.nodes), bpu=bpu, cpu=len(record.nodes) - bpu,
                 segments=say("segments", n=record.segments))
    return say("said_of", what=say("result", model=record.model, march=record.march), words=counts)


def some(names: list[str] | tuple[str, ...], limit: int = SHOWN_NAMES) -> str:
    """The first names, and how many more there are."""
    rest = len(names) - limit
    shown = ", ".join(names[:limit]) or say("none")
    return f"{shown} ({say('more', n=rest)})" if rest > 0 else shown
