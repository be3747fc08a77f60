"""What a graph says by colour, number and side bar: one class of values per colour, the value itself on every node.

Colours are those of ColorBrewer's RdYlBu and of Okabe and Ito, both told apart by colour-blind readers; each comes with
the ink that is read on it, the number stands on the node, and the legend gives classes with limits and counts.
"""
from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ptqlab.artifacts.tables import MISSING, number
from ptqlab.errors import Problem, PtqError, nearest, shorten
from ptqlab.report.html import text
from ptqlab.report.netron_choices import COLORS
from ptqlab.report.words import say, spoken
from ptqlab.stages.record import NodeRow, Record

#: Fill and ink, from bad to good.
RAMP = (("#d7191c", "#fff"), ("#fdae61", "#000"), ("#ffffbf", "#000"), ("#abd9e9", "#000"), ("#2c7bb6", "#fff"))
NAN, UNKNOWN = ("#000000", "#fff"), ("#a0a0a0", "#000")
BLUE, SKY, GREEN, ORANGE, PURPLE = "#0072b2", "#56b4e9", "#009e73", "#e69f00", "#cc79a7"
KINDS = {"int8": (BLUE, "#fff"), "int16": (ORANGE, "#000"), "dual-int16": (PURPLE, "#000"),
         "float16": (GREEN, "#fff"), "float32": (SKY, "#000")}
DEVICES = {"BPU": (BLUE, "#fff"), "CPU": (ORANGE, "#000")}
COSINES, SHARES = (0.9, 0.99, 0.999, 0.9999), (0.1, 0.03, 0.01, 0.001)
LONGEST = 7


@dataclass(frozen=True)
class Class:
    """One entry of the legend: fill, ink, what it stands for, number of nodes."""

    fill: str
    ink: str
    label: str
    count: int


@dataclass(frozen=True)
class Painting:
    """One measure of a run: `nodes` maps a node to (number of its class, value as at most 7 characters)."""

    color: str
    classes: tuple[Class, ...]
    nodes: Mapping[str, tuple[int, str]]

    def to_dict(self) -> dict[str, Any]:
        """As the boot script reads it."""
        return {"color": self.color, "nodes": self.nodes, "fills": [[c.fill, c.ink] for c in self.classes]}

    def legend(self) -> str:
        """The classes that have nodes, as html."""
        items = "".join(
            f"<li><span class='ptqlab-swatch' style='background:{c.fill};color:{c.ink}'>{c.count}</span> "
            f"{text(c.label)}</li>" for c in self.classes if c.count)
        return f"<ul class='ptqlab-legend' aria-label='{text(title(self.color))}'>{items}</ul>"


Sorted = tuple[int, str]
Measure = tuple[Sequence[tuple[tuple[str, str], str]], Callable[[NodeRow], Sorted]]


def painting(record: Record, color: str, names: Sequence[str] | None = None) -> Painting:
    """The nodes of `record` by "cosine", "qtype", "on" or "latency"; `names`: only those that are drawn.

    latency is the share of the BPU's time that the node's layer is active; the layer of a fused node is that of its
    main node. Raises PtqError for a measure that is none.
    """
    if color not in COLORS:  # anything may be asked for
        near = nearest(str(color), COLORS, 1)
        raise PtqError(Problem("PTQ662", "color", repr(shorten(color)), ", ".join(COLORS),
                               f"did you mean {near[0]!r}?" if near else ""), "graph")
    classes, sort = MEASURES[color](record)
    drawn = None if names is None else set(names)
    nodes = {row.node: sort(row) for row in record.nodes if drawn is None or row.node in drawn}
    counts = Counter(index for index, _ in nodes.values())
    return Painting(color, tuple(Class(*look, label, counts[i]) for i, (look, label) in enumerate(classes)), nodes)


def title(color: str) -> str:
    """The measure in words."""
    return say(f"graph_{color}")


def _cosine(record: Record) -> Measure:
    a, b, c, d = COSINES
    labels = (f"< {a}", f"{a} – {b}", f"{b} – {c}", f"{c} – {d}", f"≥ {d}")
    classes = [*zip(RAMP, labels, strict=True), (NAN, "nan"), (UNKNOWN, say("graph_unknown"))]

    def sort(row: NodeRow) -> Sorted:
        value = row.quantized_cosine if row.quantized_cosine is not None else row.calibrated_cosine
        if value is None:
            return 6, MISSING
        if math.isnan(value):
            return 5, "nan"
        return sum(value >= limit for limit in COSINES), cosine_words(value)

    return classes, sort


def cosine_words(value: float) -> str:
    """A cosine in 4 decimals, 5 from 0.9999 on; never rounded up to 1."""
    digits = 5 if value >= 0.9999 else 4
    cut = math.floor(value * 10 ** digits + 1e-9) / 10 ** digits
    return f"{cut:.{digits}f}" if cut < 1 else "1"


def _qtype(record: Record) -> Measure:
    found = dict.fromkeys(row.granted or MISSING for row in record.nodes)
    order = [*(k for k in KINDS if k in found), *(k for k in found if k not in KINDS)]
    classes = [(KINDS.get(kind, UNKNOWN), kind) for kind in order]
    return classes, lambda row: (order.index(row.granted or MISSING), _short(row.granted or MISSING))


def _short(kind: str) -> str:
    return {"dual-int16": "dual16"}.get(kind, kind)[:LONGEST]


def _on(record: Record) -> Measure:
    order = list(dict.fromkeys((*DEVICES, *(row.on for row in record.nodes))))
    return [(DEVICES.get(on, UNKNOWN), on) for on in order], lambda row: (order.index(row.on), row.on[:LONGEST])


def _latency(record: Record) -> Measure:
    shares = latency_shares(record)
    a, b, c, d = (f"{100 * s:g}" for s in SHARES)
    labels = (f"> {a} %", f"{b} – {a} %", f"{c} – {b} %", f"{d} – {c} %", f"< {d} %")
    classes = [*zip(RAMP, labels, strict=True), (UNKNOWN, say("graph_no_layer"))]

    def sort(row: NodeRow) -> Sorted:
        share = shares.get(row.node)
        if share is None:
            return 5, MISSING
        return sum(share <= limit for limit in SHARES), f"{100 * share:.{1 if share < 0.995 else 0}f}%"

    return classes, sort


def layer_shares(layers: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Layer -> its active period over the sum of those of all layers on the BPU, 0 to 1."""
    spent = {str(x["name"]): float(x["end_us"]) - float(x["start_us"]) for x in layers if x["device"] == "BPU"}
    total = sum(spent.values())
    return {name: us / total for name, us in spent.items()} if total > 0 else {}


def latency_shares(record: Record) -> dict[str, float]:
    """node -> share of its layer (`layer_shares`); nodes of one layer all carry the layer's share."""
    layers = record.perf.get("layers", ())
    shares = layer_shares(layers)
    return {node: shares[x["name"]] for x in layers if x["name"] in shares for node in (x["name"], *x["nodes"])}


MEASURES: dict[str, Callable[[Record], Measure]] = dict(
    zip(COLORS, (_cosine, _qtype, _on, _latency), strict=True))


def attachment(record: Record, names: Sequence[str] | None = None) -> dict[str, Any]:
    """Netron's attachment: what the record knows of its nodes and their outputs, for the side bar.

    names  nodes that are drawn, all for None
    """
    drawn = None if names is None else set(names)
    shares = latency_shares(record)
    metadata: list[dict[str, Any]] = []
    metrics: list[dict[str, Any]] = []
    for row in record.nodes:
        if drawn is not None and row.node not in drawn:
            continue
        told = {"ON": f"{row.on} {row.subgraph}" if row.on == "BPU" else row.on, "asked": row.asked or MISSING,
                "granted": row.granted or MISSING, "reason": spoken(row.reason), "fused into": row.fused_into,
                "tags": ", ".join(row.tags)}
        measured = {"threshold": "" if row.threshold is None else number(row.threshold),
                    "calibrated cosine": _known(row.calibrated_cosine),
                    "quantized cosine": _known(row.quantized_cosine),
                    "latency share": f"{100 * shares[row.node]:.2f} %" if row.node in shares else ""}
        metadata += _entries("node", row.node, told)
        metrics += _entries("node", row.node, measured)
        if row.output:
            metadata += _entries("value", row.output, {"stored as": row.output_data_type})
            metrics += _entries("value", row.output, {"quantized cosine": _known(row.quantized_cosine)})
    return {"signature": "netron:attachment", "metadata": metadata, "metrics": metrics}


def _known(value: float | None) -> str:
    return "" if value is None else number(value)


def _entries(kind: str, target: str, values: Mapping[str, str]) -> list[dict[str, str]]:
    # Netron looks a name up by its first line
    return [{"kind": kind, "target": target.split("\n")[0], "name": name, "value": value}
            for name, value in values.items() if value]
