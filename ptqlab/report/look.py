"""The look that figures and static drawings share: colours for light and dark, the ramp, the cosine axis."""
from __future__ import annotations

import itertools
from html import escape
from typing import TYPE_CHECKING, Any

from ptqlab.artifacts.tables import printable
from ptqlab.report.plots import INK, LABEL_CHARACTERS, RULE
from ptqlab.report.scale import nines, span, ticks

if TYPE_CHECKING:
    from collections.abc import Iterable

    import plotly.graph_objects as go

#: Okabe and Ito's colours for categories, told apart by colour-blind readers too; shifted to hold 3:1 on white and
#: on JupyterLab's dark background.
PALETTE = ("#3a87c8", "#cf6a1a", "#1b9a77", "#a569bd", "#b8860b", "#7d8288", "#c0508a")
#: Cividis (Nuñez, Anderton and Renslow, 2018), made for colour-blind readers: position -> colour. The bright end is
#: for what wants attention: it stands out on a light page and on a dark one.
RAMP = ((0.0, "#00224e"), (0.25, "#434e6c"), (0.5, "#7d7c78"), (0.75, "#bcae6c"), (1.0, "#fee838"))


def style(figure: go.Figure, title: str, across: str, up: str, *, height: int = 420, **more: Any) -> go.Figure:
    """Title, axes, grid and transparent background; `title` is escaped here."""
    axis = {"gridcolor": RULE, "linecolor": RULE, "zeroline": False}
    figure.update_layout(
        title={"text": escape(printable(title)), "font": {"size": 14}}, paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)", font={"color": INK, "size": 12}, height=height, hovermode="closest",
        margin={"l": 70, "r": 20, "t": 70, "b": 50}, **more,
    )
    figure.update_xaxes(**axis, automargin=True)
    figure.update_yaxes(**axis, automargin=True)
    if across:
        figure.update_xaxes(title_text=across)
    if up:
        figure.update_yaxes(title_text=up)
    return figure


def cosine_axis(cosines: Iterable[float]) -> dict[str, Any]:
    """A plotly axis for values in nines that is labelled with cosines."""
    low, high = span([nines(c) for c in cosines])
    at, labels = zip(*ticks(low, high), strict=True)
    return {"range": [low, high], "tickvals": list(at), "ticktext": list(labels)}


def short(name: str, most: int = LABEL_CHARACTERS) -> str:
    """A name on one line, not escaped; of a long one the end, which tells more."""
    clean = printable(name)
    return clean if len(clean) <= most else "\u2026" + clean[1 - most:]


def label(name: str, most: int = LABEL_CHARACTERS) -> str:
    """`short`, escaped for plotly and html."""
    return escape(short(name, most))


def ramp(at: float) -> str:
    """The ramp's colour at 0 to 1, as #rrggbb."""
    at = min(max(at, 0.0), 1.0)
    for (low, a), (high, b) in itertools.pairwise(RAMP):
        if at <= high:
            share = (at - low) / (high - low)
            parts = [round(int(a[i:i + 2], 16) + share * (int(b[i:i + 2], 16) - int(a[i:i + 2], 16)))
                     for i in (1, 3, 5)]
            return "#" + "".join(f"{p:02x}" for p in parts)
    return RAMP[-1][1]


def ink_on(colour: str) -> str:
    """Black or white, whichever is read better on #rrggbb."""
    red, green, blue = (int(colour[i:i + 2], 16) for i in (1, 3, 5))
    return "#000000" if 0.299 * red + 0.587 * green + 0.114 * blue > 127 else "#ffffff"
