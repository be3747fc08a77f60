"""The newest of several jobs, in a thread of its own: what is older is stopped, since nobody waits for it any more."""
from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable

from ptqlab.errors import Interrupted
from ptqlab.events import Watch

Job = Callable[[Watch], None]


class Latest:
    """Runs one job at a time. A new one stops that before it, and takes the place of one that waits."""

    def __init__(self, failed: Callable[[BaseException], None]) -> None:
        """`failed` is told what a job raises, unless it was stopped."""
        self._failed = failed
        self._changed = threading.Condition()
        self._next: Job | None = None
        self._watch: Watch | None = None
        self._running = False

    def ask(self, job: Job) -> None:
        with self._changed:
            self._next = job
            if self._watch is not None:
                self._watch.stop()
            if not self._running:
                self._running = True
                run = contextvars.copy_context().run  # the language of views is chosen per context
                threading.Thread(target=run, args=(self._work,), name="ptqlab-latest", daemon=True).start()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until nothing is to be done; False when that took longer than `seconds`."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._running, seconds)

    def _work(self) -> None:
        while True:
            with self._changed:
                job, self._next = self._next, None
                if job is None:
                    self._running, self._watch = False, None
                    self._changed.notify_all()
                    return
                self._watch = watch = Watch()
            try:
                job(watch)
            except Interrupted:
                continue  # stopped by a newer job, which comes next
            except BaseException as error:
                self._failed(error)
