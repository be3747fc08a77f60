"""Work in a thread that can be stopped."""
import _thread
import contextvars
import threading
import time

import pytest

from ptqlab.errors import Interrupted
from ptqlab.events import Watch
from ptqlab.result.worker import run_stoppable


def test_value_and_error_come_through():
    """The value is returned, an error raised as it is, both from another thread."""
    assert run_stoppable(lambda: threading.current_thread().name, Watch()) == "ptqlab-work"
    with pytest.raises(ValueError, match="bad"):
        run_stoppable(lambda: int("bad"), Watch())


def test_drawing_stays_in_the_calling_thread():
    """`draw` is called while the work runs, never by the worker."""
    drawn = []
    run_stoppable(lambda: time.sleep(0.2), Watch(), lambda: drawn.append(threading.current_thread()))
    assert len(drawn) >= 2
    assert set(drawn) == {threading.current_thread()}


def work_in_steps(watch, started, ended):
    with watch.stage("calibrate", 1000) as stage:
        try:
            for _ in range(1000):
                started.set()
                time.sleep(0.01)
                stage.step()
        finally:
            ended.set()


def interrupt_when(started):
    threading.Thread(target=lambda: (started.wait(), _thread.interrupt_main()), daemon=True).start()


def test_the_stop_button_ends_the_work_at_its_next_step():
    """KeyboardInterrupt becomes a stop of the watch; the work has ended when the error is raised."""
    watch, started, ended, told = Watch(), threading.Event(), threading.Event(), []
    interrupt_when(started)
    with pytest.raises(Interrupted, match=r"stopped in stage 'calibrate' after \d+ of 1000"):
        run_stoppable(lambda: work_in_steps(watch, started, ended), watch, stopping=lambda: told.append(1))
    assert ended.is_set()
    assert told == [1]


def test_a_second_stop_gives_up_waiting():
    """Work that does not listen cannot hold the notebook."""
    started, release = threading.Event(), threading.Event()

    def deaf():
        started.set()
        release.wait(20)

    def twice():
        started.wait()
        _thread.interrupt_main()
        time.sleep(0.3)
        _thread.interrupt_main()

    threading.Thread(target=twice, daemon=True).start()
    before = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run_stoppable(deaf, Watch())
    release.set()
    assert time.monotonic() - before < 5


def test_a_stop_that_comes_too_late_keeps_the_result():
    """Work that is done before it hears of the stop has succeeded."""
    watch, started = Watch(), threading.Event()

    def work():
        started.set()
        time.sleep(0.3)
        return 42

    interrupt_when(started)
    assert run_stoppable(work, watch) == 42
    assert watch.stopped


def test_a_stop_while_the_thread_starts_is_a_stop(monkeypatch):
    """An interrupt inside Thread.start(), which waits for the new thread, does not leave the work behind."""
    watch, started, ended = Watch(), threading.Event(), threading.Event()
    start = threading.Thread.start

    def interrupted(thread):
        start(thread)
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(Interrupted, match="stopped in stage 'calibrate'"):
        run_stoppable(lambda: work_in_steps(watch, started, ended), watch)
    assert ended.is_set()


def test_context_variables_are_seen_by_the_work():
    """Settings such as numpy's error state are those of the caller."""
    variable = contextvars.ContextVar("variable")
    variable.set("caller's")
    assert run_stoppable(variable.get, Watch()) == "caller's"
