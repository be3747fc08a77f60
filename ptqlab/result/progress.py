"""Progress of a run, drawn where it runs: a notebook cell, a terminal, plain lines, or not at all.

The working thread only leaves events; `draw()`, called by the waiting main thread, shows them, at most ten
times a second. In a notebook this is one html output that is updated in place and ends as one line of text:
a widget would read "model not found" when the saved notebook is opened again.
"""
from __future__ import annotations

import sys
import time
from collections import deque
from html import escape
from typing import Any, TextIO

from ptqlab.events import Event
from ptqlab.report import html
from ptqlab.report.words import say, spoken_word

INTERVAL_SECONDS = 0.1
WORTH_TELLING_SECONDS = 0.1


def human(seconds: float) -> str:
    """A duration in words: 8 s, 3 min 20 s, 1 h 5 min."""
    whole = max(0, round(seconds))
    if whole < 60:
        return say("seconds", s=whole)
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return say("minutes", m=minutes, s=rest)
    return say("hours", h=minutes // 60, m=minutes % 60)


def status(event: Event, *, running: bool = True) -> str:
    """The state of a stage in one line of plain text; the time left is told while it runs."""
    of = f"/{event.total}" if event.total else ""
    line = say("stage_line", stage=spoken_word(event.stage), done=event.done, of=of, seconds=event.seconds)
    return say("left", line=line, left=human(event.left)) if running and event.left is not None else line


class Progress:
    """Listener that keeps events for `draw()`; shows nothing itself and is the silent one."""

    def __init__(self) -> None:
        self._events: deque[Event] = deque()
        self._drawn = 0.0

    def __call__(self, event: Event) -> None:
        self._events.append(event)

    def draw(self, *, now: bool = False) -> None:
        """Show what came since the last call, if that was a tenth of a second ago or `now` is set."""
        if not now and time.monotonic() - self._drawn < INTERVAL_SECONDS:
            return
        self._drawn = time.monotonic()
        step: Event | None = None
        changed = False
        while self._events:
            event = self._events.popleft()
            changed = True
            if event.kind == "step":
                step = event
                continue
            if step is not None:
                self.show(step)
                step = None
            self.show(event)
        if step is not None:
            self.show(step)
        if changed:
            self.flush()

    def show(self, event: Event) -> None:
        """Take in one event; of steps only the newest since the last drawing comes here."""

    def flush(self) -> None:
        """Put the new state before the reader's eyes."""

    def stopping(self) -> None:
        """Tell that the stop was heard."""

    def close(self, *, ok: bool) -> None:
        """Draw what is left and end; `ok` is False when the run failed or was stopped."""
        self.draw(now=True)


class Lines(Progress):
    """One line when a stage starts, one when it ends; for logs and pipes."""

    def __init__(self, stream: TextIO | None = None) -> None:
        super().__init__()
        self.stream = stream or sys.stderr

    def show(self, event: Event) -> None:
        if event.kind == "start":
            print(say("stage_start", stage=spoken_word(event.stage)), file=self.stream, flush=True)
        elif event.kind == "end":
            stage = spoken_word(event.stage)
            print(say("stage_end", stage=stage, seconds=event.seconds), file=self.stream, flush=True)


    def stopping(self) -> None:
        print(say("stopping"), file=self.stream, flush=True)


class Bars(Progress):
    """tqdm bars on a terminal, one per running stage, with the time left."""

    def __init__(self, stream: TextIO | None = None) -> None:
        super().__init__()
        self.stream = stream or sys.stderr
        self.bars: dict[str, Any] = {}

    def show(self, event: Event) -> None:
        from tqdm import tqdm

        if event.kind == "start":
            self.bars[event.stage] = tqdm(total=event.total, desc=spoken_word(event.stage), file=self.stream,
                                          leave=False, position=len(self.bars), dynamic_ncols=True, mininterval=0)
        elif event.kind == "step" and event.stage in self.bars:
            bar = self.bars[event.stage]
            bar.update(event.done - bar.n)
        elif event.kind == "end" and event.stage in self.bars:
            self.bars.pop(event.stage).close()
            stage = spoken_word(event.stage)
            tqdm.write(say("stage_end", stage=stage, seconds=event.seconds), file=self.stream)

    def stopping(self) -> None:
        from tqdm import tqdm

        tqdm.write(say("stopping"), file=self.stream)

    def close(self, *, ok: bool) -> None:
        super().close(ok=ok)
        for bar in reversed(list(self.bars.values())):
            bar.close()
        self.bars = {}


class Cell(Progress):
    """One output of a notebook cell, updated in place."""

    def __init__(self) -> None:
        super().__init__()
        self.started = time.monotonic()
        self.ended: list[str] = []
        self.running: dict[str, Event] = {}
        self.handle: Any = None
        self.stop_heard = False

    def show(self, event: Event) -> None:
        if event.kind in ("start", "step"):
            self.running[event.stage] = event
        elif event.kind == "end":
            self.running.pop(event.stage, None)
            if event.seconds >= WORTH_TELLING_SECONDS:
                self.ended.append(f"{spoken_word(event.stage)} {event.seconds:.1f} s")

    def flush(self) -> None:
        self.put(self.bundle())

    def stopping(self) -> None:
        self.stop_heard = True
        self.flush()

    def bundle(self) -> dict[str, str]:
        """The state as text/plain and text/html."""
        lines = [status(event) for event in self.running.values()]
        ended = say("stopping") if self.stop_heard else ", ".join(self.ended)
        bars = "".join(
            f"<div><progress {f'value={event.done} max={event.total} ' if event.total else ''}"
            f"aria-label='{escape(spoken_word(event.stage))}' style='vertical-align:middle;width:16em'></progress> "
            f"{html.text(status(event))}</div>" for event in self.running.values())
        inner = f"<div role='status'>{bars}<div class='ptqlab-quiet'>{html.text(ended)}</div></div>"
        return {"text/plain": "\n".join([*lines, ended]), "text/html": html.frame(inner)}

    def put(self, bundle: dict[str, str]) -> None:
        from IPython.display import display

        if self.handle is None:
            self.handle = display(bundle, raw=True, display_id=True)
        else:
            self.handle.update(bundle, raw=True)

    def close(self, *, ok: bool) -> None:
        super().close(ok=ok)
        if ok:
            line = f"{say('done_in', seconds=time.monotonic() - self.started)} {', '.join(self.ended)}"
        else:
            line = ", ".join([*self.ended, *(status(event, running=False) for event in self.running.values())])
        inner = f"<div role='status' class='ptqlab-quiet'>{html.text(line)}</div>"
        self.put({"text/plain": line, "text/html": html.frame(inner)})


def surroundings() -> str:
    """Where we run: "notebook" (an IPython kernel), "terminal" (standard error is one), or "plain"."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is not None and getattr(shell, "kernel", None) is not None:
        return "notebook"
    return "terminal" if sys.stderr.isatty() else "plain"


def suited(progress: bool | None = None) -> Progress:
    """The progress for where we run. None: lines are left out where nobody watches; True: never silent;
    False: silent."""
    if progress is False:
        return Progress()
    place = surroundings()
    if place == "notebook":
        return Cell()
    if place == "terminal":
        return Bars()
    return Lines() if progress else Progress()
