"""The doctor's page: data, what is no number, outputs that lost their signal, causes and remedies."""
from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ptqlab.artifacts.tables import explain_nan, has_nan
from ptqlab.errors import Finding, Problem
from ptqlab.report.page import Page
from ptqlab.report.words import say, spoken
from ptqlab.stages.record import Record

if TYPE_CHECKING:
    from ptqlab.debug.distribution import Values

#: Codes of findings on NaN, masks and tensors that are zero or constant.
NUMBERS = ("PTQ50", "PTQ51")
#: Below this SQNR of what varies, a cosine near 1 speaks of the mean alone.
LEAST_DB, HIGH_COSINE, FEW = 10.0, 0.99, 8


@dataclass(frozen=True)
class OutputHealth:
    """How much of an output is left after quantization, by measures that cosine cannot hide.

    sqnr           of the whole signal, dB;  varying  of the signal without its mean, dB
    distinct       different values after quantization, and before
    largest_error  largest absolute difference;  trouble  key of the words for what is wrong, "" for nothing
    """

    output: str
    cosine: float
    sqnr: float
    varying: float
    distinct: tuple[int, int]
    largest_error: float
    trouble: str

    @classmethod
    def of(cls, output: str, values: Values) -> OutputHealth:
        """From the values before and after."""
        found = values.statistics
        distinct = (int(found["distinct"]), len(np.unique(values.before)))
        trouble = ""
        if not np.isfinite(values.before).all():
            trouble = "float_not_finite"
        elif distinct[1] == 1:
            trouble = "float_constant"
        elif distinct[0] == 1:
            trouble = "dead"
        elif distinct[0] < FEW <= distinct[1]:
            trouble = "few_values"
        elif found["sqnr-without-mean"] < LEAST_DB:
            trouble = "cosine_hides" if found["cosine-similarity"] >= HIGH_COSINE else "signal_lost"
        return cls(output, found["cosine-similarity"], found["sqnr"], found["sqnr-without-mean"], distinct,
                   found["chebyshev"], trouble)

    @property
    def verdict(self) -> str:
        """What is wrong, in words."""
        return say(self.trouble or "fine", n=self.distinct[0], db=f"{LEAST_DB:g}")


def health_page(subject: str, problems: Sequence[Problem], data: Sequence[Finding], record: Record | None,
                outputs: Sequence[OutputHealth], causes: Sequence[tuple[str, str, str, str]]) -> Page:
    """The page. record: None where only data were looked at; causes: (node, cause, what was seen, remedy)."""
    page = Page(say("doctor_title", subject=subject))
    page.heading(say("data"))
    for problem in problems:
        found, expected, hint = map(spoken, (problem.found, problem.expected, problem.hint))
        page.line(f"{problem.code} {spoken(problem.where)}: {found}; {expected}. {hint}".rstrip("; ."))
    if not problems or data:
        page.findings(data)
    if record is None:
        return page
    told = [f for f in record.findings if f.code.startswith(NUMBERS)]
    rows = [(r.node, r.node_type, spoken(explain_nan(record, r)))
            for r in record.nodes if has_nan(r) and not r.fused_into]
    page.heading(say("not_numbers"))
    page.findings(told)
    if rows:
        page.table(("Node", "NodeType", say("reason")), rows)
    if outputs:
        page.heading(say("outputs_left"))
        columns = ("TensorName", "Cosine", "SQNR (dB)", say("varying_db"), say("distinct"), say("largest_error"),
                   say("verdict"))
        page.table(columns, [(o.output, f"{o.cosine:.6f}", decibel(o.sqnr), decibel(o.varying),
                              f"{o.distinct[0]} / {o.distinct[1]}", f"{o.largest_error:.4g}", o.verdict)
                             for o in outputs], columns[1:6])
    page.heading(say("causes"))
    page.table(("Node", say("cause"), say("seen"), say("do")), causes)
    others = [f for f in record.findings if f not in told and f.severity == "warning"]
    if others:
        page.heading(say("noticed"))
        page.findings(others)
    return page


def decibel(value: float) -> str:
    """dB with one decimal; infinite where nothing was lost."""
    return f"{value:.1f}" if math.isfinite(value) else str(value)
