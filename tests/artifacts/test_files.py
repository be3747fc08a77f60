"""Names of artifacts and writing without half files."""
import os
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptqlab.artifacts.files import (
    STAGING,
    STALE_AFTER_SECONDS,
    SUFFIXES,
    Workspace,
    artifact_name,
    atomic_path,
    atomic_write,
    safe_name,
)
from ptqlab.errors import PtqError


def test_names_are_the_documented_ones():
    """Scripts that collect the vendor's files find ours under the same names."""
    keys = ("original_float", "optimized_float", "calibrated", "ptq", "quantized", "hbm", "node_info", "quant_info",
            "advice", "log", "shape_inference_fail")
    assert [artifact_name(key, "net") for key in keys] == [
        "net_original_float_model.onnx", "net_optimized_float_model.onnx", "net_calibrated_model.onnx",
        "net_ptq_model.onnx", "net_quantized_model.bc", "net.hbm", "net_node_info.csv", "net_quant_info.json",
        "net_advice.json", "hb_compile.log", "shape_inference_fail.onnx"]
    with pytest.raises(KeyError):
        artifact_name("quantised", "net")


@pytest.mark.parametrize(("name", "start"), [
    ("conv1", "conv1"), ("/block/conv", "_block_conv-"), ("../../evil", "_.._evil-"), ("<script>", "_script_-"),
    ("", ""), ("...", ""), ("检测", "__-"), ("a\0b", "a_b-"), ("x" * 300, "x" * 80 + "-"), ("\ud800", "_-")])
def test_safe_names_of_hostile_names(name, start):
    """A node name from a file never becomes a path, a hidden file or an overlong name."""
    made = safe_name(name)
    assert made.startswith(start)
    assert made and len(made) <= 100 and "/" not in made and not made.startswith(".")


@given(st.text(max_size=120), st.text(max_size=120))
def test_safe_names_stay_apart(first, second):
    """Different names get different file names, also where cleaning makes them alike."""
    assert (safe_name(first) == safe_name(second)) == (first == second)


def test_atomic_write_replaces_whole_files(tmp_path):
    """Text and bytes arrive as they are, in folders that did not exist, with no temporary file left."""
    target = tmp_path / "new" / "a.txt"
    atomic_write(target, "eins\r\nzwei 中\n")
    assert target.read_bytes() == "eins\r\nzwei 中\n".encode()
    atomic_write(target, b"\0\1")
    assert target.read_bytes() == b"\0\1"
    assert os.listdir(target.parent) == ["a.txt"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_a_broken_write_leaves_the_old_file(tmp_path, error):
    """Whatever ends the writing, the file keeps its former content and nothing lies beside it."""
    target = tmp_path / "a.bin"
    target.write_bytes(b"old")

    def write():
        with atomic_path(target) as temporary:
            temporary.write_bytes(b"half")
            raise error

    with pytest.raises(error):
        write()
    assert target.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a.bin"]


def test_atomic_write_respects_the_umask(tmp_path):
    """A file that colleagues may read stays readable: permissions are those of a plain open()."""
    old = os.umask(0o022)
    try:
        atomic_write(tmp_path / "a", "x")
    finally:
        os.umask(old)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o644


def test_workspace_publishes_everything_at_the_end(tmp_path):
    """Before publish the working directory is as it was; after it all files are there and the staging is gone."""
    (tmp_path / "net_node_info.csv").write_text("old")
    with Workspace(tmp_path, "net") as work:
        work.path("node_info").write_text("new")
        work.path("quantized").write_bytes(b"bc")
        work.extra("calibration_data", "../in put", "0.npy").write_bytes(b"sample")
        assert (tmp_path / "net_node_info.csv").read_text() == "old"
        assert not (tmp_path / "net_quantized_model.bc").exists()
        files = work.publish()
    assert files == {"node_info": tmp_path / "net_node_info.csv", "quantized": tmp_path / "net_quantized_model.bc"}
    assert (tmp_path / "net_node_info.csv").read_text() == "new"
    (folder,) = (tmp_path / "calibration_data").iterdir()
    assert (folder / "0.npy").read_bytes() == b"sample"
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "calibration_data", "net_node_info.csv", "net_quantized_model.bc"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_interrupted_run_changes_nothing(tmp_path, error):
    """A run that ends before publish leaves the good artifacts of the run before it."""
    (tmp_path / "net.hbm").write_text("good")

    def run():
        with Workspace(tmp_path, "net") as work:
            work.path("hbm").write_text("half")
            raise error

    with pytest.raises(error):
        run()
    assert {p.name: p.read_text() for p in tmp_path.iterdir()} == {"net.hbm": "good"}


def test_publishing_is_all_or_nothing(tmp_path, monkeypatch):
    """When the second rename fails, the first is taken back, new files go and old ones return."""
    (tmp_path / "net_node_info.csv").write_text("old")
    real, count = os.replace, []

    def replace(source, target):
        if STAGING in str(source) and STAGING not in str(target):
            count.append(target)
            if len(count) == 3:
                raise OSError(28, "no space left on device")
        real(source, target)

    with Workspace(tmp_path, "net") as work:
        for key in ("advice", "node_info", "quantized"):
            work.path(key).write_text("new")
        monkeypatch.setattr(os, "replace", replace)
        with pytest.raises(OSError, match="no space"):
            work.publish()
        monkeypatch.setattr(os, "replace", real)
    assert {p.name: p.read_text() for p in tmp_path.iterdir()} == {"net_node_info.csv": "old"}


def test_left_over_artifacts_of_an_earlier_run_are_named(tmp_path):
    """An .hbm that this run did not make is told of, since it belongs to other numbers."""
    (tmp_path / "net.hbm").write_text("earlier")
    (tmp_path / "other.hbm").write_text("of another model")
    with Workspace(tmp_path, "net") as work:
        (tmp_path / "net_quantized_model.bc").write_text("earlier")
        assert work.left_over() == ["net_quantized_model.bc", "net.hbm"]
        work.path("quantized").write_text("new")
        assert work.left_over() == ["net.hbm"]
        work.publish()
        assert work.left_over() == ["net.hbm"]


def test_staging_of_killed_runs_is_swept_after_a_day(tmp_path):
    """A killed run's folder goes with the next run once it is a day old; that of a run beside us stays."""
    dead, alive = tmp_path / f"{STAGING}1-aa", tmp_path / f"{STAGING}2-bb"
    dead.mkdir()
    alive.mkdir()
    old = time.time() - STALE_AFTER_SECONDS - 60
    os.utime(dead, (old, old))
    with Workspace(tmp_path, "net"):
        assert alive.is_dir()
        assert not dead.exists()


@pytest.mark.parametrize("prefix", ["", "a/b", "../net", ".."])
def test_a_prefix_is_no_path(tmp_path, prefix):
    """A prefix that would leave the working directory is refused with the way out."""
    with pytest.raises(PtqError, match="set working_dir for the folder"):
        Workspace(tmp_path, prefix)


def test_a_folder_that_cannot_be_written_is_refused(tmp_path):
    """A working_dir below a file is a refusal, not an OSError."""
    (tmp_path / "file").write_text("")
    with pytest.raises(PtqError, match="choose another working_dir"), Workspace(tmp_path / "file" / "out", "net"):
        pass


def test_two_runs_at_once_do_not_meet(tmp_path):
    """Two runs with different prefixes publish side by side."""
    def run(prefix):
        with Workspace(tmp_path, prefix) as work:
            for key in SUFFIXES:
                work.path(key).write_text(prefix)
            work.publish()

    threads = [threading.Thread(target=run, args=(prefix,)) for prefix in ("a", "b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(p + s for p in "ab" for s in SUFFIXES.values())
