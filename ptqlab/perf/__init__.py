"""Static performance estimate: how long a model takes on a board, and why, without a board.

    layers = from_plan(graph, plan)            # or read_layers("net.jsonl.gz").layers
    found = estimate(layers, "nash-e")         # latency_us, board_latency_us, per-layer table, timeline, ...
    performance_json(found); performance_html(found, advice(layers, found)); summary_lines(found)
    WhatIf(layers, "nash-e").effect({"conv3": "int16"})
    segment_report(layers, "nash-e")
"""
from ptqlab.perf.advice import Advice, advice
from ptqlab.perf.command import cli_rows
from ptqlab.perf.estimate import Estimate, LayerCost, estimate
from ptqlab.perf.layer import Layer
from ptqlab.perf.layers import from_plan
from ptqlab.perf.page import performance_html
from ptqlab.perf.segments import SegmentReport, segment_report
from ptqlab.perf.table import LayerTable, read_layers
from ptqlab.perf.vendor import performance_json, summary_lines
from ptqlab.perf.what_if import Effect, WhatIf, single_changes

__all__ = [
    "Advice", "Effect", "Estimate", "Layer", "LayerCost", "LayerTable", "SegmentReport", "WhatIf", "advice",
    "cli_rows", "estimate", "from_plan", "performance_html", "performance_json", "read_layers", "segment_report",
    "single_changes", "summary_lines",
]  # fmt: skip
