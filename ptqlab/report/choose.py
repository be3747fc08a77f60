"""What of a record comes first in a view: the worst nodes, the counts, why a result is partial."""
from __future__ import annotations

import math
from pathlib import Path

from ptqlab.report.words import say, spoken_word
from ptqlab.stages.record import NodeRow, Record


def worst_nodes(record: Record, limit: int = 5) -> list[NodeRow]:
    """Nodes by rising quantized cosine; NaN is the worst, nodes that were not compared are left out,
    and so are those computed inside another one, which has the same output."""
    def badness(row: NodeRow) -> float:
        cosine = row.quantized_cosine
        assert cosine is not None
        return -math.inf if math.isnan(cosine) else cosine

    return sorted((row for row in record.nodes
                   if row.quantized_cosine is not None and not row.fused_into), key=badness)[:limit]


def headline(record: Record) -> str:
    """Model, platform, counts and samples in one line of plain text."""
    bpu = sum(row.on == "BPU" for row in record.nodes)
    samples = say("samples", n=record.samples) if record.samples else say("no_samples")
    counts = say("counts", nodes=len(record.nodes), bpu=bpu, cpu=len(record.nodes) - bpu, samples=samples)
    return say("said_of", what=say("result", model=record.model, march=record.march), words=counts)


def partial(record: Record) -> str:
    """Why the result is partial, or "" for a complete one."""
    if record.complete:
        return ""
    return say("partial_why", stage=spoken_word(list(record.timings or ["--"])[-1]))


def artifacts_in(folder: Path) -> str:
    """Where the artifacts are, in words: as seen from the current directory where they lie below it."""
    here = Path.cwd()
    return say("artifacts", folder=folder.relative_to(here) if folder.is_relative_to(here) else folder)
