"""Values of the tensors around a node before and after quantization: histograms and boxes per channel."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from ptqlab.report.look import PALETTE, label, style
from ptqlab.report.plots import INK
from ptqlab.report.words import say

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from ptqlab.debug.distribution import Values

BINS = 160
MOST_CHANNELS = 256
PANEL = 290
KINDS = {"weight": "kind_weight", "activation": "kind_activation", "node": "kind_node"}


@dataclass(frozen=True)
class Panel:
    """One tensor: its values, and the real range of its codes; None where it is not quantized itself."""

    values: Values
    bounds: tuple[float, float] | None = None

    @property
    def title(self) -> str:
        """Kind and name of the tensor, with bits and range where it is quantized."""
        kind = say(KINDS[self.values.kind])
        name = label(self.values.name.removesuffix("_HzCalibration"), 56)
        if self.bounds is None:
            return f"{escape(kind)}: {name}"
        low, high = self.bounds
        return f"{escape(kind)}: {name}, int{self.values.bits}, {low:.4g} … {high:.4g}"


def distribution_panels(node: str, panels: Sequence[Panel]) -> go.Figure:
    """One histogram per tensor, raw and quantized on the same bins, with the ends of the codes dashed.

    Counts stand on a logarithmic axis: the few large values decide the range.
    """
    import plotly.graph_objects as go

    figure = _stacked(panels)
    for row, panel in enumerate(panels, 1):
        before, after = (a[np.isfinite(a)] for a in (panel.values.before, panel.values.after))
        both = np.concatenate([before.reshape(-1), after.reshape(-1)])
        ends = (float(both.min(initial=0.0)), float(both.max(initial=0.0)))
        edges = np.linspace(ends[0], ends[1] if ends[1] > ends[0] else ends[0] + 1.0, BINS + 1)
        centres, wide = (edges[:-1] + edges[1:]) / 2, edges[1] - edges[0]
        for key, array, colour in (("raw", before, PALETTE[0]), ("quantized_values", after, PALETTE[1])):
            counts = np.histogram(array, bins=edges)[0]
            figure.add_trace(go.Bar(
                x=centres, y=[int(c) or None for c in counts], width=wide, name=say(key), legendgroup=key,
                showlegend=row == 1, marker={"color": colour, "line": {"width": 0}},
                opacity=0.75 if key == "raw" else 0.6, hovertemplate="%{x:.4g}: %{y}<extra></extra>"), row=row, col=1)
        for side in panel.bounds or ():
            figure.add_vline(x=side, line={"color": INK, "dash": "dash", "width": 1.5}, row=row, col=1)
        figure.update_yaxes(type="log", title_text=escape(say("count_axis")), row=row, col=1)
    style(figure, say("distribution_title", node=node), "", "", height=90 + PANEL * len(panels), barmode="overlay",
          legend={"orientation": "h", "y": 1 + 20 / (PANEL * len(panels)), "x": 1, "xanchor": "right",
                  "yanchor": "bottom"})
    return _roomy(figure)


def channel_panels(node: str, panels: Sequence[Panel], *, limit: int | None = MOST_CHANNELS) -> go.Figure:
    """A box per channel and tensor: quartiles, whiskers to the smallest and largest value; ends of the codes dashed.

    limit  number of channels per tensor, those that reach farthest; None: all
    """
    import plotly.graph_objects as go

    figure = _stacked(panels)
    for row, panel in enumerate(panels, 1):
        channels = panel.values.channels().astype(np.float64)
        low, first, median, third, high = np.nanquantile(channels, [0, 0.25, 0.5, 0.75, 1], axis=1)
        reach = np.maximum(np.abs(low), np.abs(high))
        shown = np.sort(np.argsort(-reach, kind="stable")[:limit])
        figure.add_trace(go.Box(
            x=shown, q1=first[shown], median=median[shown], q3=third[shown], lowerfence=low[shown],
            upperfence=high[shown], name=escape(say("channel")), showlegend=False,
            line={"color": PALETTE[0], "width": 1}, fillcolor="rgba(58,135,200,0.35)"), row=row, col=1)
        for side in panel.bounds or ():
            figure.add_hline(y=side, line={"color": INK, "dash": "dash", "width": 1.5}, row=row, col=1)
        words = say("channel")
        if len(shown) < len(channels):
            words += f" ({say('farthest_of', n=len(shown), of=len(channels))})"
        figure.update_xaxes(title_text=escape(words), row=row, col=1)
        figure.update_yaxes(title_text=escape(say("value")), row=row, col=1)
    style(figure, say("channels_title", node=node), "", "", height=90 + PANEL * len(panels))
    return _roomy(figure)


def _stacked(panels: Sequence[Panel]) -> go.Figure:
    """An empty figure with one row per panel, titled."""
    from plotly.subplots import make_subplots

    return make_subplots(rows=len(panels), cols=1, subplot_titles=[p.title for p in panels],
                         vertical_spacing=min(0.16, 80 / (PANEL * len(panels))))


def _roomy(figure: go.Figure) -> go.Figure:
    """Smaller titles of the panels, more room below the title of the whole."""
    figure.update_annotations(font_size=12, x=0, xanchor="left")
    return figure.update_layout(margin={"t": 90})
