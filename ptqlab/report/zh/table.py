"""All pairs as one table, made when the first message is shown in Chinese.

Some texts are said in both languages where they stand, by packages that are slow to import. They are asked for only
where our own pairs do not understand the whole of a message, so that help and refused lines stay quick.
"""
from __future__ import annotations

from functools import cache
from itertools import chain

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
    configuration.PAIRS, inputs.PAIRS, quant_config.PAIRS, graphs.PAIRS, files.PAIRS, results.PAIRS, commands.PAIRS,
))


def pairs_elsewhere() -> tuple[tuple[str, str], ...]:
    """What keys of the configuration do, and the advice of the performance estimate; sentences, no single words."""
    from ptqlab.config.fields import GROUPS
    from ptqlab.config.quant_fields import ACTIVATION
    from ptqlab.perf.words import advice_pairs

    keys = ((row.rule, row.zh) for rows in GROUPS.values() for row in rows)
    pairs = (*keys, *((row.rule, row.zh) for row in ACTIVATION), *advice_pairs())
    return tuple(pair for pair in pairs if " " in pair[0])


@cache
def _own() -> Table:
    return Table(PAIRS, words.WORDS)


@cache
def _all() -> Table:
    return Table((*PAIRS, *pairs_elsewhere()), words.WORDS)


def translate(text: str) -> str:
    """A message in Chinese; text that is not in the table stays as it is. Well under a millisecond."""
    told = _own().understood(text)
    if told is not None:
        return told
    return _all().translate(text) if " " in text else text
