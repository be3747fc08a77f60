"""What the page of the grid is sent, and the static form: words, columns, the effect in words, progress."""
from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ptqlab.artifacts.tables import number
from ptqlab.errors import PtqError, shorten
from ptqlab.events import Event
from ptqlab.report import html
from ptqlab.report.words import say, spoken
from ptqlab.stages.record import Record
from ptqlab.widgets.grid_edits import LEVELS
from ptqlab.widgets.grid_rows import FACTS, MOST_INPUTS, Row, columns

if TYPE_CHECKING:
    from ptqlab.widgets.grid_session import Effect, Session

WORDS = ("level", "set", "to", "for", "do", "inherit", "undo", "redo", "changed", "export", "load", "apply", "stop",
         "rows", "all", "one", "from", "from_default", "run")
SHOWN = 200
STATIC = ("Node", "NodeType", "ON", "qtype", "Granted", "Threshold", "Calibrated Cosine", "Quantized Cosine", "Reason")
NUMBERS = ("Threshold", "Calibrated Cosine", "Quantized Cosine")
INTERVAL_SECONDS = 0.1


def header(level: str, rows: Sequence[Row], session: Session) -> dict[str, Any]:
    """Everything of a table but its rows."""
    n_inputs = 1 + max((i for row in rows for i in range(MOST_INPUTS) if f"input{i}" in row), default=-1)
    there = [name for name in LEVELS if name != "subgraph" or session.known()["subgraph"] or level == "subgraph"]
    record = session.run.record
    return {
        "level": level, "columns": columns(level, n_inputs, bool(session.sensitivity)), "facts": list(FACTS),
        # what is in braces is filled in on the page
        "titles": {"Node": say(f"grid_level_{level}"), "NodeType": say("grid_about")} if level != "node" else {},
        "words": {word: say(f"grid_{word}", n="{n}", m="{m}", level="{level}") for word in WORDS},
        "levels": [[name, say(f"grid_level_{name}")] for name in there],
        "title": say("grid_title", model=record.model, march=record.march),
    }


def in_words(error: BaseException) -> str:
    """A refusal in one line; anything else by name."""
    if isinstance(error, PtqError):
        told = [f"{p.where}: {spoken(p.found)}{'. ' if p.hint else ''}{spoken(p.hint)}" for p in error.problems]
        return "; ".join(told)
    return say("grid_failed", why=f"{type(error).__name__}: {shorten(error)}")


def edit_words(names: Sequence[str], key: str, value: Any, level: str, refused: Mapping[str, str]) -> str:
    """What became of an edit: the first reason stands for all."""
    if refused:
        why = next(iter(refused.values()))
        return (say("grid_refused", why=why) if len(names) == 1
                else say("grid_refused_some", n=len(refused), m=len(names), why=why))
    about = names[0] if len(names) == 1 and level != "model" else f"{say(f'grid_level_{level}')} × {len(names)}"
    return f"{about}: {key} = {say('grid_inherit') if value is None else value}"


def effect_parts(effect: Effect, measured: bool) -> list[dict[str, Any]]:
    """The effect as label, text and whether it is "better", "worse" or neither ("")."""
    parts = [{"text": say("grid_changes", n=effect.changes), "sign": ""}]
    label = say("grid_cosine", n=effect.samples) if effect.samples else say("grid_cosine_of")
    if not measured:
        text, sign = say("grid_no_data"), ""
    elif effect.cosine is None or effect.cosine_before is None:
        text, sign = say("grid_computing"), ""
    else:
        text, sign = _from_to(effect.cosine_before, effect.cosine, cosine_words, higher=True)
    parts.append({"label": label, "text": text, "sign": sign})
    text, sign = _from_to(effect.latency_us_before, effect.latency_us, "{:.1f} us".format, higher=False)
    if sign:
        text += f" ({100 * (effect.latency_us / effect.latency_us_before - 1):+.1f} %)"
    parts.append({"label": say("grid_latency"), "text": text, "sign": sign})
    return parts


def cosine_words(cosine: float) -> str:
    """A cosine with two digits of what it lacks to 1, at least six in all and at most ten."""
    lacks = 1 - cosine
    return f"{cosine:.{min(10, max(6, 1 - math.floor(math.log10(lacks)))) if 0 < lacks < 1 else 6}f}"


def _from_to(before: float, after: float, written: Callable[[float], str], *, higher: bool) -> tuple[str, str]:
    """Both figures, and whether the second is better; one where they read the same."""
    if written(before) == written(after):
        return written(after), ""
    better = math.isnan(before) or (after > before) == higher
    return f"{written(before)} → {written(after)}", "better" if better else "worse"


class Told:
    """A listener that says where a run is, at most ten times a second: `say(line, share)`."""

    def __init__(self, tell: Callable[[str, float | None], None]) -> None:
        self.tell, self._last = tell, 0.0

    def __call__(self, event: Event) -> None:
        if event.kind not in ("start", "step"):
            return
        if event.kind == "step" and time.monotonic() - self._last < INTERVAL_SECONDS:
            return
        self._last = time.monotonic()
        count = f" {event.done}/{event.total}" if event.total else ""
        self.tell(f"{event.stage}{count}", event.done / event.total if event.total else None)


def static_html(record: Record, rows: Sequence[Row]) -> str:
    """The node table for where no kernel runs, at most `SHOWN` rows; names escaped."""
    body = [[_cell(row.get(name)) for name in STATIC] for row in rows[:SHOWN]]
    more = say("more", n=len(rows) - SHOWN) if len(rows) > SHOWN else ""
    return html.frame("".join([
        html.heading(say("grid_title", model=record.model, march=record.march)), _quiet(say("grid_widget")),
        html.table(STATIC, body, NUMBERS), _quiet(more),
    ]))


def _quiet(words: str) -> str:
    return f"<div class='ptqlab-quiet'>{html.text(words)}</div>"


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return number(value) if isinstance(value, float) else str(value)
