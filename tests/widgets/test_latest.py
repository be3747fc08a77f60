"""The newest of several jobs: what is older is stopped, what fails is told, and one can wait."""
from __future__ import annotations

import threading

from ptqlab.report.words import language, set_language
from ptqlab.widgets.latest import Latest


def test_a_newer_job_stops_the_one_that_runs_and_replaces_the_one_that_waits():
    """Of three jobs asked for at once the first is stopped, the second never begins, the third ends."""
    begun, done, started = [], [], threading.Event()

    def first(watch):
        begun.append("first")
        started.set()
        with watch.stage("long") as stage:
            while True:
                stage.check()

    def quick(name):
        def run(watch):
            begun.append(name)
            done.append(name)
        return run

    latest = Latest(done.append)
    latest.ask(first)
    assert started.wait(10)
    with latest._changed:  # both before the thread can look
        latest.ask(quick("second"))
        latest.ask(quick("third"))
    assert latest.wait(10)
    assert (begun, done) == (["first", "third"], ["third"])


def test_what_a_job_raises_is_told_and_the_next_one_runs():
    """An error goes to whoever made it, and does not end the worker."""
    told, done = [], []
    latest = Latest(told.append)

    def bad(watch):
        raise ValueError("no")

    latest.ask(bad)
    assert latest.wait(10)
    latest.ask(lambda watch: done.append(1))
    assert latest.wait(10)
    assert [str(error) for error in told] == ["no"]
    assert done == [1]


def test_waiting_ends_in_time():
    """Waiting for a job that takes longer says so."""
    go = threading.Event()
    latest = Latest(print)
    latest.ask(lambda watch: go.wait(10))
    assert not latest.wait(0.01)
    go.set()
    assert latest.wait(10)


def test_a_job_speaks_the_language_of_who_asked():
    """The language of views that was chosen where a job was asked for is in force in its thread."""
    heard = []
    latest = Latest(print)
    set_language("zh")
    try:
        latest.ask(lambda watch: heard.append(language()))
        assert latest.wait(10)
    finally:
        set_language("en")
    assert heard == ["zh"]
