"""The rows of the grid, as plain values: one per node, per operator type, per subgraph_config entry, or one for all.

A row has its cells by column, and beside them `own` (settings that its own entry makes), `origin` (setting -> level it
comes from), `changed` (settings that differ from where the editing began) and `edit` (setting -> number of the list of
values it can take; a setting that is not there cannot be edited).
"""
from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ptqlab.config import NodeRequest, QuantConfig
from ptqlab.config.quant import Entry, Setting
from ptqlab.graph import FloatGraph
from ptqlab.pipeline.whatif import Placed
from ptqlab.report.netron_paint import layer_shares
from ptqlab.report.words import spoken
from ptqlab.stages.record import NodeRow, Record
from ptqlab.widgets.grid_edits import Change, entry_names
from ptqlab.widgets.grid_rules import Options, options, quantized_inputs, reads_nothing

Row = dict[str, Any]
#: settings that a grid shows; inputs are added as far as nodes have them
CALIBRATION = ("calibration_type", "per_channel", "asymmetric")
SETTINGS = ("ON", "qtype", *CALIBRATION)
MOST_INPUTS = 3
#: columns that a row of the node level has besides its name, its type and its settings
FACTS = ("Granted", "Threshold", "Calibrated Cosine", "Quantized Cosine", "Sensitivity", "Latency %", "Reason")


@dataclass
class Book:
    """Lists of values, each kept once: rows name them by number."""

    lists: list[Options] = field(default_factory=list)

    def number(self, values: Options) -> int:
        if values not in self.lists:
            self.lists.append(values)
        return self.lists.index(values)


@dataclass(frozen=True)
class Facts:
    """What a run measured, by node: its row of the record, its sensitivity, its share of the latency in percent."""

    rows: Mapping[str, NodeRow]
    sensitivity: Mapping[str, float] = field(default_factory=dict)
    share: Mapping[str, float] = field(default_factory=dict)


def facts(record: Record, sensitivity: Mapping[str, float]) -> Facts:
    return Facts({r.node: r for r in record.nodes}, sensitivity, shares(record.perf.get("layers", ())))


def shares(layers: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Main node of a layer -> its share of the BPU's time in percent."""
    return {name: 100 * share for name, share in layer_shares(layers).items()}


def node_rows(
    facts: Facts, quant: QuantConfig, march: str, book: Book, changes: Iterable[Change], graph: FloatGraph | None,
    placed: Placed | None,
) -> list[Row]:
    """One row per node in graph order. Without graph and plan, the model is not open yet: nothing can be edited."""
    by_node: dict[str, list[str]] = {}
    aliases = graph.aliases if graph is not None else {}
    for change in changes:
        if change.level == "node":
            by_node.setdefault(aliases.get(change.name, change.name), []).append(change.key)
    share = facts.share if placed is None else shares(vars(x) for x in placed.estimate.layers)
    return [_node_row(row, replace(facts, share=share), quant, march, book, by_node.get(name, []), graph, placed)
            for name, row in facts.rows.items()]


def _node_row(
    row: NodeRow, facts: Facts, quant: QuantConfig, march: str, book: Book, changed: list[str],
    graph: FloatGraph | None, placed: Placed | None,
) -> Row:
    name, op_type = row.node, row.node_type
    node = graph.node(name) if graph is not None else None
    held = placed.held.get(name, ()) if placed is not None else ()
    aliases = graph.aliases if graph is not None else {}
    request = quant.for_node(name, op_type, held, len(node.inputs) if node is not None else 0, aliases)
    plan = placed.plan.nodes[name] if placed is not None else None
    inputs = [f"input{i}" for i in (quantized_inputs(node) if node is not None else ()) if i < MOST_INPUTS]
    asked = {k: v for k, v in _asked(request).items() if not k.startswith("input") or k in inputs}
    cells: Row = {"id": name, "Node": name, "NodeType": op_type, **asked, "ON": plan.device.value if plan else row.on}
    edit = {}
    if plan is not None and placed is not None and graph is not None:
        keys = (*SETTINGS, *inputs) if plan.on_bpu else ("ON", "qtype")
        if reads_nothing(name, placed, graph):
            keys = ("ON",)
        edit = {key: book.number(values) for key in keys if (values := options(key, op_type, march))}
    return cells | {
        "Granted": plan.granted if plan else row.granted, "Threshold": _number(row.threshold),
        "Calibrated Cosine": _number(row.calibrated_cosine), "Quantized Cosine": _number(row.quantized_cosine),
        "Sensitivity": _number(facts.sensitivity.get(name)), "Latency %": _number(facts.share.get(name)),
        "Reason": spoken(plan.reason if plan else row.reason),
        "own": sorted(_own(quant.node_entry(name, aliases) or Entry())),
        "origin": _origins(request, (*SETTINGS, *inputs)),
        "changed": changed, "edit": edit,
    }


def _asked(request: NodeRequest) -> Row:
    activation = request.activation
    return {
        "qtype": request.qtype, **{f"input{i}": t for i, t in enumerate(request.inputs)},
        "calibration_type": ", ".join(activation.calibration_type) or "default",
        **{key: _one(getattr(activation, key)) for key in ("per_channel", "asymmetric")},
    }


def _one(values: tuple[Any, ...]) -> Any:
    """The value of a setting; candidates of a search as words."""
    return values[0] if len(values) == 1 else ", ".join(str(v).lower() for v in values)


def _origins(request: NodeRequest, keys: Iterable[str]) -> dict[str, str]:
    """setting -> level that it is inherited from."""
    levels = {"ON" if k == "on" else k: o.level for k, o in request.origins.items()}
    return {k: levels[k] for k in keys if levels.get(k, "node") != "node"}


def _own(entry: Entry) -> list[str]:
    made = {"qtype": entry.qtype, "ON": entry.on, **{f"input{i}": s for i, s in entry.inputs.items()},
            **entry.activation}
    return [key for key, setting in made.items() if setting is not None]


def level_rows(
    level: str, facts: Facts, quant: QuantConfig, march: str, book: Book, changes: Iterable[Change]
) -> list[Row]:
    """The rows of the level "model", "op" or "subgraph"."""
    types: dict[str, int] = {}
    for row in facts.rows.values():
        types[row.node_type] = types.get(row.node_type, 0) + 1
    source, changes = quant.to_dict(), list(changes)
    if level == "model":
        return [_level_row("model", "", f"{len(facts.rows)}", None, quant, quant.model, (), march, book, changes)]
    if level == "op":
        rows = []
        for op, count in sorted(types.items()):
            key = entry_names(source, "op", op, {})
            entry = quant.ops.get(key, Entry())
            rows.append(_level_row("op", op, str(count), op, quant, entry, (quant.model,), march, book,
                                   [c for c in changes if c.name.lower() == op.lower()]))
        return rows
    return [
        _level_row("subgraph", key, f"{', '.join(s.inputs)} … {', '.join(s.outputs)}", None, quant, s.entry,
                   (quant.model,), march, book, [c for c in changes if c.name == key])
        for key, s in quant.subgraphs.items()
    ]


def _level_row(
    level: str, name: str, about: str, op_type: str | None, quant: QuantConfig, entry: Entry, lower: tuple[Entry, ...],
    march: str, book: Book, changes: list[Change],
) -> Row:
    """A row of a coarse level: what its entry says, and what the model says where it is silent."""
    made, origin = _says(entry), {}
    for below in lower:
        for key, setting in _says(below).items():
            if key not in made:
                made[key], origin[key] = setting, "model"
    keys = ("qtype", *CALIBRATION, *(() if level == "model" else ("ON",)))
    values: Row = {"ON": None, **_asked(QuantConfig().for_node("", ""))}
    values = {key: _value(made[key].value) if key in made else values[key] for key in keys}
    origin |= {key: "default" for key in keys if key not in made}
    edit = {key: book.number(found) for key in keys if (found := options(key, op_type, march))}
    return {
        "id": name or "model", "Node": name, "NodeType": about, **values, "own": sorted(_own(entry)), "origin": origin,
        "changed": [c.key for c in changes if c.level == level], "edit": edit,
    }


def _value(value: Any) -> Any:
    return _one(value) if isinstance(value, tuple) else value


def _says(entry: Entry) -> dict[str, Setting]:
    made: dict[str, Setting | None] = {"qtype": entry.qtype, "ON": entry.on, **entry.activation}
    return {key: setting for key, setting in made.items() if setting is not None}


def _number(value: float | None) -> float | str | None:
    """A figure for the page: JSON has no NaN and no infinity, so these are words."""
    if value is None or math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else str(value)


def columns(level: str, n_inputs: int, sensitivity: bool) -> list[str]:
    """The columns of a level, in order: what is decided on, and what it costs, beside each other."""
    if level != "node":
        return ["Node", "NodeType", *SETTINGS] if level != "model" else ["Node", "NodeType", *SETTINGS[1:]]
    return ["Node", "NodeType", "ON", "qtype", "Granted", "Calibrated Cosine", "Quantized Cosine", "Latency %",
            *(["Sensitivity"] if sensitivity else []), *(f"input{i}" for i in range(n_inputs)), *CALIBRATION,
            "Threshold", "Reason"]
