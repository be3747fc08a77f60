"""Work in a thread that the user can stop: the main thread waits in short slices and draws the progress."""
from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from ptqlab.events import Watch

T = TypeVar("T")
SLICE_SECONDS = 0.05


def nothing() -> None:
    """The default of the callbacks."""


def run_stoppable(work: Callable[[], T], watch: Watch, draw: Callable[[], None] = nothing,
                  stopping: Callable[[], None] = nothing) -> T:
    """The value of `work()`, which runs in a thread; what it raises is raised here.

    Ctrl-C or the notebook's stop button asks the work to stop at its next step, and waits for it, so that it
    can put its files in order. A second one gives up waiting. Work that ends before it hears of the stop has
    succeeded and its value is returned. `draw` is called between the slices and
    `stopping` once the stop was asked for, both in this thread only.
    """
    box: dict[str, Any] = {}
    # an event of our own: before Python 3.13 an interrupted Thread.join() takes a running thread for ended
    ended = threading.Event()

    def body() -> None:
        try:
            box["value"] = work()
        except BaseException as error:
            box["error"] = error
        finally:
            ended.set()

    thread = threading.Thread(target=contextvars.copy_context().run, args=(body,), name="ptqlab-work", daemon=True)
    launched = False
    while True:
        try:
            if not launched:
                # start() waits for the thread to run, and an interrupt in that wait is one as any other
                launched = True
                thread.start()
            while not ended.wait(SLICE_SECONDS):
                draw()
            break
        except KeyboardInterrupt:
            if watch.stopped:
                raise
            watch.stop()
            stopping()
    if "error" in box:
        raise box["error"]
    value: T = box["value"]
    return value
