"""All pairs as one table, made when the first message is shown in Chinese."""
from __future__ import annotations

from functools import cache
from itertools import chain

from ptqlab.config.fields import GROUPS
from ptqlab.config.quant_fields import ACTIVATION
from ptqlab.perf import words as perf_words
from ptqlab.report.zh import (
    calibration,
    causes,
    commands,
    configuration,
    files,
    graphs,
    inputs,
    operators,
    placement,
    quant_config,
    results,
    running,
    samples,
    words,
)
from ptqlab.report.zh.matching import Table

PAIRS: tuple[tuple[str, str], ...] = tuple(chain(
    words.PAIRS, operators.PAIRS, placement.PAIRS, running.PAIRS, calibration.PAIRS, samples.PAIRS, causes.PAIRS,
    configuration.PAIRS, inputs.PAIRS, quant_config.PAIRS, graphs.PAIRS, files.PAIRS, results.PAIRS,
    commands.PAIRS,
    # said in both languages where they stand: rules of the configuration, advice of the estimate
    ((row.rule, row.zh) for rows in GROUPS.values() for row in rows),
    ((row.rule, row.zh) for row in ACTIVATION),
    perf_words.advice_pairs(),
))


@cache
def _table() -> Table:
    return Table(PAIRS, words.WORDS)


def translate(text: str) -> str:
    """A message in Chinese; text that is not in the table stays as it is. Well under a millisecond."""
    return _table().translate(text)
