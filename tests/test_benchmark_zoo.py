"""The zoo: what its figures say, what its data look like, what it does without an archive and with a small network."""
from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from benchmarks import zoo, zoo_data, zoo_nets
from models import init, model, node, random, value


def test_ctc_reads_repeats_and_blanks_away() -> None:
    """Classes 0 3 3 0 3 5 5 are the text 3 3 5."""
    steps = np.eye(6)[[0, 3, 3, 0, 3, 5, 5]][None]
    assert zoo.ctc_text(steps) == [3, 3, 5]
    other = np.eye(6)[[3, 3, 3, 3, 3, 5, 5]][None]
    assert zoo.lines_equal([[steps], [steps]], [[steps], [other]]) == "1 of 2 lines equal"


def test_figures_of_detectors() -> None:
    """A box that is 2 pixels wider is off by 1 at two of its four edges; masks that share half overlap by a third."""
    wanted = np.zeros((1, 6, 100), np.float32)
    wanted[0, :4] = np.array([10, 10, 4, 4])[:, None]
    wanted[0, 4] = 1
    got = wanted.copy()
    got[0, 2] = 6
    assert zoo.boxes_near([[wanted]], [[got]]) == "edges off 0.50 px, 100% classes equal"
    left, right = np.zeros((1, 1, 1, 3)), np.zeros((1, 1, 1, 3))
    left[..., :2], right[..., 1:] = 1, 1
    assert zoo.mask_overlap([[left]], [[right]]) == "text overlap 0.333"


def test_the_worst_output_counts() -> None:
    """One output equal, one turned by 90 degrees: cosine 0."""
    a, b = np.array([[1.0, 0.0]], np.float32), np.array([[0.0, 1.0]], np.float32)
    assert zoo.worst_cosine([[a, a]], [[a, b]]) == pytest.approx(0.0)


def test_samples_are_the_same_twice_and_differ_by_seed() -> None:
    """Shapes and ranges as the packages feed them."""
    for make, name, shape in (
        (zoo_data.text_lines, "x", (1, 3, 48, 320)), (zoo_data.scenes, "x", (1, 3, 320, 320)),
        (zoo_data.notes, "serving_default_input_2:0", (1, 43844, 1)),
    ):  # fmt: skip
        first, again, other = make(1, 1)[0][name], make(1, 1)[0][name], make(1, 2)[0][name]
        assert first.shape == shape and first.dtype == np.float32 and np.abs(first).max() <= 1
        assert np.array_equal(first, again) and not np.array_equal(first, other)


def test_anchors_of_three_levels() -> None:
    """64 pixels: 8 x 8, 4 x 4 and 2 x 2 cells, centres in the middle of each."""
    centres, strides = zoo_nets.anchors(64)
    assert centres.shape == (1, 2, 84) and [int((strides == s).sum()) for s in zoo_nets.STRIDES] == [64, 16, 4]
    assert centres[0, :, 1].tolist() == [1.5, 0.5]


def test_a_missing_archive_is_told_with_the_command(tmp_path: Path, monkeypatch, capsys) -> None:
    """Exit code 2; the other networks run all the same."""
    nodes = [node("Conv", ["input", "w"], "c", "conv"), node("Relu", ["c"], "r", "relu"),
             node("Conv", ["r", "w2"], "y", "end")]  # fmt: skip
    net = model(nodes, [value("input", [1, 3, 6, 6])], [value("y", None)],
                [init("w", random(4, 3, 1, 1)), init("w2", random(2, 4, 1, 1))])  # fmt: skip

    def samples(count: int, seed: int) -> zoo_data.Samples:
        return [{"input": random(1, 3, 6, 6, seed=seed * 100 + i)} for i in range(count)]

    small = zoo.Net(zoo.built(lambda: net), samples, 2, zoo.decibels, in_float=("relu",))
    monkeypatch.setattr(zoo, "NETS", {"small": small, "magika": zoo.NETS["magika"]})
    monkeypatch.setattr(sys, "argv", ["zoo", "--cache", str(tmp_path)])
    monkeypatch.chdir(tmp_path)
    assert zoo.main() == 2
    printed = capsys.readouterr().out
    command = f"pip download --no-deps -d {tmp_path} magika==1.0.3"
    assert f"magika left out: magika==1.0.3 is not in {tmp_path}: {command}" in printed
    row = [cell.strip() for cell in printed.splitlines()[-2].split("|")[1:-1]]
    assert row[:4] == ["small", "3", "1: Relu", "2"] and row[7].split(" of ")[0] == row[7].split(" of ")[1]
