"""Functions that are too steep for the codes of their operand: neighbouring codes lie far apart behind them.

A logarithm near 0 is the usual case: in a power spectrum everything below half a step becomes 0, and the logarithm of
that is the lowest number of all, by which a normalization behind it measures everything else.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from ptqlab.errors import Finding
from ptqlab.graph import FloatGraph
from ptqlab.ops.composed import Composed
from ptqlab.ops.functions import FUNCTIONS
from ptqlab.ops.node import constant
from ptqlab.ops.table import spec_of
from ptqlab.stages.calibration import Threshold
from ptqlab.stages.plan import Group, Plan

# neighbouring codes this part of the result's range apart: more than Sqrt from 0 in int8 (0.09) [our definition]
STEEP = 0.1
# and this many times the middle distance: else all codes are too coarse, and no function is to blame
UNEVEN = 4.0
NAMED = 5
LOGARITHM = "recipe log-spectrum keeps a logarithm and what it is taken of in float, and feeds it in int16"
OTHER = "int16 for its operand, a Clip away from there, or float (ON: CPU)"


@dataclass(frozen=True)
class _Jump:
    """The largest difference between the results of two neighbouring codes, as part of the range of all results."""

    node: str
    op: str
    part: float
    text: str


def steep(graph: FloatGraph, plan: Plan, thresholds: Mapping[str, Threshold]) -> list[Finding]:
    """One finding that names the table functions which leave their operand's codes too far apart, the worst first."""
    jumps = [j for group in plan.groups.values() if (j := _jump(graph, plan, group, thresholds)) is not None]
    if not jumps:
        return []
    jumps.sort(key=lambda j: -j.part)
    named = "; ".join(f"{j.op} {j.node} {j.text}" for j in jumps[:NAMED])
    more = f"; and {len(jumps) - NAMED} more" if len(jumps) > NAMED else ""
    hints = dict.fromkeys(LOGARITHM if j.op == "Log" else OTHER for j in jumps)
    message = f"neighbouring codes of an operand give results far apart: {named}{more}"
    return [Finding("PTQ516", message, tuple(j.node for j in jumps), "; ".join(hints))]


def _jump(graph: FloatGraph, plan: Plan, group: Group, thresholds: Mapping[str, Threshold]) -> _Jump | None:
    found = _function(graph, group)
    if found is None:
        return None
    source, function = found
    held, made = plan.tensors.get(source), plan.tensors.get(group.output)
    types = [t for t in plan.nodes[group.main].inputs if t is not None]
    if held is None or made is None or not types or not types[0].is_integer:
        return None
    seen, out = thresholds[held.slot], thresholds[made.slot]
    span = out.high - out.low
    if span <= 0 or {"all-zero", "constant"} & set(seen.tags):
        return None
    low, high = seen.bounds or (-seen.value, seen.value)
    step = (high - low) / (2 * types[0].qmax + (seen.bounds is not None))
    first, last = (round(float(np.clip(end, low, high)) / step) for end in (seen.low, seen.high))
    codes = np.arange(first, last + 1) * step
    results = np.clip(function(codes), out.low, out.high)
    if codes.size < 2:
        return None
    jumps = np.abs(np.diff(results))
    at = int(jumps.argmax())
    part = float(jumps[at]) / span
    if part < STEEP or jumps[at] < UNEVEN * np.median(jumps):
        return None
    text = (f"({types[0].value} {codes[at]:.4g} and {codes[at + 1]:.4g} give {results[at]:.4g} and "
            f"{results[at + 1]:.4g}, {part:.0%} of its range)")  # fmt: skip
    main = graph.node(group.main)
    return _Jump(group.main, main.op_type, part, text)


def _function(graph: FloatGraph, group: Group) -> tuple[str, Callable[[np.ndarray], np.ndarray]] | None:
    """(tensor that is read, function of it) of a group that one table computes; None for all others."""
    if group.source is not None:
        members = tuple(graph.node(member) for member in group.members)
        return group.source, Composed(graph.values[group.source], members).at
    main = graph.node(group.main)
    function = FUNCTIONS.get(main.op_type)
    if function is None or not spec_of(main).feature_indices(main):
        return None
    operand = main.inputs[0] if constant(main.inputs[0]) is None else main.inputs[1]
    assert operand is not None
    return str(operand.name), lambda x: function.at(x, main)
