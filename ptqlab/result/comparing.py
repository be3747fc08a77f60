"""Two runs node by node: `run.compare(other)`."""
from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from ptqlab.report.comparison import comparison_figure, comparison_page, pairs
from ptqlab.report.page import Page
from ptqlab.result.shown import Shown

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

    from ptqlab.result.compiled import CompileResult


class Comparison(Shown):
    """Two runs side by side: what was set otherwise, and what that did to outputs, speed and nodes."""

    def __init__(self, a: CompileResult, b: CompileResult, names: tuple[str, str] | None = None) -> None:
        """`names` tell the runs apart; None: those of their folders, or "a" and "b" where these are the same."""
        self.a, self.b = a, b
        folders = (a.directory.name, b.directory.name)
        self.names = names or (folders if folders[0] != folders[1] and all(folders) else ("a", "b"))

    @cached_property
    def frame(self) -> pd.DataFrame:
        """One row per node: Node, NodeType, then Granted, Threshold, Calibrated Cosine, Quantized Cosine of a and b,
        Change (quantized cosine, b - a). The order is that of a; NaN where a run has no such node."""
        from ptqlab.result.sensitivity import compare_runs

        return compare_runs(self.a, self.b)

    def plot(self) -> go.Figure:
        """Quantized cosine of every node in both runs; rings where the type changed."""
        return comparison_figure(self.a.record, self.b.record, self.names)

    def page(self) -> Page:
        return comparison_page(self.a.record, self.b.record, self.names)

    def __repr__(self) -> str:
        better = sum(p.change > 0 for p in pairs(self.a.record, self.b.record))
        worse = sum(p.change < 0 for p in pairs(self.a.record, self.b.record))
        return f"Comparison({self.names[0]} against {self.names[1]}: {better} nodes better, {worse} worse)"
