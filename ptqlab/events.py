"""How long work tells of itself: stages with a count, log lines, findings, and a stop that is heard.

The core never prints. It is given a `Watch` and says what it does; the terminal, the notebook and the log
file are listeners. `Watch.stop()` may be called from another thread: the work stops at the next step.
"""
from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from ptqlab.errors import Finding, Interrupted


@dataclass(frozen=True)
class Event:
    """One thing that happened.

    kind   "start", "step", "end" (of a stage), "log" or "finding"
    stage  name of the stage, "" outside of any
    done, total   steps of the stage; total is None where it cannot be known
    seconds  since the stage started; `left` is the estimate of seconds to its end, None when unknown
    """

    kind: str
    stage: str = ""
    done: int = 0
    total: int | None = None
    seconds: float = 0.0
    left: float | None = None
    text: str = ""
    finding: Finding | None = None


Listener = Callable[[Event], None]


@dataclass
class Stage:
    """A running stage; call `step()` after each unit of work."""

    watch: Watch
    name: str
    total: int | None
    done: int = 0
    started: float = field(default_factory=time.monotonic)

    def event(self, kind: str, text: str = "") -> Event:
        spent = time.monotonic() - self.started
        left = spent / self.done * (self.total - self.done) if self.total and self.done else None
        return Event(kind, self.name, self.done, self.total, spent, left, text)

    def step(self, text: str = "") -> None:
        self.done += 1
        self.watch.emit(self.event("step", text))
        self.check()

    def check(self) -> None:
        """Raise `Interrupted` if the user asked to stop."""
        if self.watch.stopped:
            raise Interrupted(self.name, self.done, self.total)


class Watch:
    """The one object handed down through a run. `Watch()` listens to nothing and is the default."""

    def __init__(self, *listeners: Listener) -> None:
        self.listeners: list[Listener] = list(listeners)
        self.findings: list[Finding] = []
        self._stop = threading.Event()

    @property
    def stopped(self) -> bool:
        return self._stop.is_set()

    def stop(self) -> None:
        self._stop.set()

    def emit(self, event: Event) -> None:
        for listener in self.listeners:
            listener(event)

    def log(self, text: str) -> None:
        self.emit(Event("log", text=text))

    def finding(self, finding: Finding) -> None:
        """Record a finding once; the same finding told twice counts once."""
        if finding not in self.findings:
            self.findings.append(finding)
            self.emit(Event("finding", text=str(finding), finding=finding))

    @contextmanager
    def stage(self, name: str, total: int | None = None) -> Iterator[Stage]:
        stage = Stage(self, name, total)
        stage.check()
        self.emit(stage.event("start"))
        yield stage
        self.emit(stage.event("end"))
