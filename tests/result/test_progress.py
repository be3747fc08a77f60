"""Progress where it runs."""
import io
import sys
from types import SimpleNamespace

import pytest

from ptqlab.events import Event, Watch
from ptqlab.report import words
from ptqlab.result import progress
from ptqlab.result.progress import Bars, Cell, Lines, Progress, human, status, suited, surroundings


@pytest.fixture(autouse=True)
def english(monkeypatch):
    monkeypatch.setitem(words._state, "language", "en")


def run(listener, steps=5):
    watch = Watch(listener)
    with watch.stage("prepare"):
        pass
    with watch.stage("calibrate", steps) as stage:
        for _ in range(steps):
            stage.step()
            listener.draw()


@pytest.mark.parametrize(("seconds", "text"), [
    (0.2, "0 s"), (59.4, "59 s"), (200, "3 min 20 s"), (3900, "1 h 5 min"), (-1, "0 s")])
def test_durations_in_words(seconds, text):
    """What a reader can judge at a glance."""
    assert human(seconds) == text


def test_status_tells_the_time_left():
    """Count, total, time spent, time left; without a total only the count."""
    assert status(Event("step", "calibrate", 5, 20, 10.0, 30.0)) == "calibrate: 5/20, 10 s, about 30 s left"
    assert status(Event("step", "search", 5, None, 10.0)) == "search: 5, 10 s"


def test_lines():
    """A pipe gets one line per start and end, no step."""
    out = io.StringIO()
    lines = Lines(out)
    run(lines)
    lines.stopping()
    lines.close(ok=True)
    text = out.getvalue().splitlines()
    assert text[0] == "prepare ..."
    assert text[1].startswith("prepare: done in 0.")
    assert "Stopping at the next step ..." in text
    assert not any("5/5" in line for line in text)
    assert sum(line.startswith("calibrate") for line in text) == 2


def test_bars():
    """A terminal gets a bar per stage that ends as a line; closing early leaves no bar open."""
    out = io.StringIO()
    bars = Bars(out)
    watch = Watch(bars)
    with watch.stage("calibrate", 4) as stage:
        stage.step()
        stage.step()
        bars.draw(now=True)
        assert "calibrate:  50%" in out.getvalue()
        stage.step()
        bars.draw(now=True)
        bars.close(ok=False)
        assert not bars.bars
    run(bars)
    bars.close(ok=True)
    assert "calibrate: done in" in out.getvalue()


def test_at_most_ten_drawings_a_second(monkeypatch):
    """A thousand steps in one moment are drawn once, with the newest count; the end is always drawn."""
    clock = SimpleNamespace(monotonic=lambda: clock.now, now=100.0)
    monkeypatch.setattr(progress, "time", clock)
    shown, flushed = [], []

    class Counting(Progress):
        def show(self, event):
            shown.append(event.done)

        def flush(self):
            flushed.append(1)

    listener = Counting()
    for done in range(1, 1001):
        listener(Event("step", "calibrate", done, 1000))
        clock.now += 0.001
        listener.draw()
    assert len(flushed) <= 11
    listener.close(ok=True)
    assert shown[-1] == 1000


class Display:
    """Stands in for IPython's display: keeps what was shown."""

    def __init__(self):
        self.shown = []

    def __call__(self, bundle, raw, display_id):
        self.shown.append(bundle)
        return self

    def update(self, bundle, raw):
        self.shown.append(bundle)


@pytest.fixture
def display(monkeypatch):
    import IPython.display

    made = Display()
    monkeypatch.setattr(IPython.display, "display", made)
    return made


def test_cell(display):
    """One output, updated in place, with a progress bar that says its value; at the end one line of text."""
    cell = Cell()
    watch = Watch(cell)
    with watch.stage("calibrate", 4) as stage:
        stage.step()
        cell.draw(now=True)
        assert "<progress value=1 max=4 aria-label='calibrate'" in display.shown[-1]["text/html"]
        assert "role='status'" in display.shown[-1]["text/html"]
        assert display.shown[-1]["text/plain"].startswith("calibrate: 1/4")
        cell.stopping()
        assert "Stopping at the next step" in display.shown[-1]["text/html"]
    cell.close(ok=True)
    assert "<progress" not in display.shown[-1]["text/html"]
    assert display.shown[-1]["text/plain"].startswith("Done in 0.")


def test_a_failed_cell_says_how_far_it_came(display):
    """The last line keeps the stage that did not end, and never says done."""
    cell = Cell()
    watch = Watch(cell)
    with watch.stage("<b>stage", 4) as stage:
        stage.step()
        cell.close(ok=False)
    assert display.shown[-1]["text/plain"].startswith("<b>stage: 1/4")
    assert "<b>stage" not in display.shown[-1]["text/html"]


def test_surroundings(monkeypatch):
    """A kernel, a terminal, or neither."""
    shell = SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    assert surroundings() == "notebook"
    assert isinstance(suited(), Cell)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: None))
    monkeypatch.setattr(sys, "stderr", SimpleNamespace(isatty=lambda: True))
    assert surroundings() == "terminal"
    assert isinstance(suited(), Bars)
    monkeypatch.setattr(sys, "stderr", SimpleNamespace(isatty=lambda: False))
    assert surroundings() == "plain"
    assert type(suited()) is Progress
    assert isinstance(suited(True), Lines)
    assert type(suited(False)) is Progress
