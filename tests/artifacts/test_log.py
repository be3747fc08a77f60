"""hb_compile.log: its line form, markers, rolling and copy."""
import re

import pytest

from ptqlab.artifacts import log as log_module
from ptqlab.artifacts.log import RunLog
from ptqlab.errors import Finding, PtqError
from ptqlab.events import Watch

PREFIX = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} file: test_log\.py func: (\w+) line No: \d+ (.*)")


def speak(watch):
    watch.log("There are 3 samples in the data set.")
    with watch.stage("calibrate", 2) as stage:
        stage.step("sample a")
        stage.step("sample b")
    with watch.stage("perf"):
        pass
    watch.finding(Finding("PTQ501", "all zero", hint="look at the mask"))


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_lines_name_the_code_that_spoke(here):
    """Every line has time, file, function and line of the caller, whatever lies between caller and log."""
    with RunLog(here / "out") as log:
        speak(Watch(log))
    lines = (here / "hb_compile.log").read_text().splitlines()
    spoken = [m.groups() for line in lines if (m := PREFIX.fullmatch(line)) and m[1] == "speak"]
    assert [text.split(" (")[0] for _, text in spoken] == [
        "There are 3 samples in the data set.", "Start to calibrate the onnx model.", "calibrate 1/2 sample a",
        "calibrate 2/2 sample b", "End to calibrate the onnx model.", "Start stage perf.", "End stage perf.",
        "WARNING: PTQ501 all zero Do: look at the mask"]
    assert "Start hb_compile" in lines[0]
    assert lines[-1].endswith("The hb_compile completes running.")


def test_the_copy_holds_this_run_only_and_whole(here):
    """The log beside the artifacts is that of this run; the one in the current folder keeps all runs."""
    for text in ("first", "second"):
        with RunLog(here / "out") as log:
            Watch(log).log(text)
    copy = (here / "out" / "hb_compile.log").read_text()
    assert "second" in copy and "first" not in copy
    assert "first" in (here / "hb_compile.log").read_text()
    assert [p.name for p in (here / "out").iterdir()] == ["hb_compile.log"]


def test_a_failing_run_is_logged_too(here):
    """The refusal is the last entry, and the copy is there."""
    with pytest.raises(ValueError), RunLog(here / "out"):
        raise ValueError("bad shape")
    assert (here / "out" / "hb_compile.log").read_text().rstrip().endswith("ValueError: bad shape")


def test_the_log_rolls(here, monkeypatch):
    """At its size limit the file moves to .1 and so on, at most ten of them."""
    monkeypatch.setattr(log_module, "ROLL_BYTES", 2000)
    with RunLog(here / "out") as log:
        for index in range(300):
            Watch(log).log(f"line {index} " + "x" * 80)
    assert sorted(p.name for p in here.glob("hb_compile.log*")) == sorted(
        ["hb_compile.log", *(f"hb_compile.log.{n}" for n in range(1, 11))])
    assert "line 0 " in (here / "out" / "hb_compile.log").read_text()


def test_working_dir_may_be_the_current_folder(here):
    """Then there is one log and no copy."""
    with RunLog(here) as log:
        Watch(log).log("hello")
    assert [p.name for p in here.iterdir()] == ["hb_compile.log"]


def test_control_characters_do_not_reach_the_log(here):
    """A node name cannot forge colours or titles in the terminal that shows the log."""
    with RunLog(here / "out") as log:
        Watch(log).log("node a\x1b]0;owned\x07b")
    assert "\x1b" not in (here / "hb_compile.log").read_text()


def test_a_folder_that_cannot_be_made_is_refused(here):
    """A working_dir below a file is a refusal with a way out."""
    (here / "file").write_text("")
    with pytest.raises(PtqError, match="choose another working_dir"), RunLog(here / "file" / "out"):
        pass


def test_the_same_finding_is_logged_once(here):
    """A finding told twice is one line."""
    with RunLog(here / "out") as log:
        watch = Watch(log)
        watch.finding(Finding("PTQ501", "all zero"))
        watch.finding(Finding("PTQ501", "all zero"))
    assert (here / "hb_compile.log").read_text().count("all zero") == 1
