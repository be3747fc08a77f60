"""The zoo: what its figures say, what its data look like, what it does without an archive and with a small network."""
from __future__ import annotations

import io
import pickle
import sys
import zipfile
from collections import OrderedDict
from functools import partial
from pathlib import Path
from types import FunctionType, ModuleType

import numpy as np
import pytest
from benchmarks import torch_file, zoo, zoo_data, zoo_nets, zoo_small
from models import init, model, node, random, value


def test_ctc_reads_repeats_and_blanks_away() -> None:
    """Classes 0 3 3 0 3 5 5 are the text 3 3 5."""
    steps = np.eye(6)[[0, 3, 3, 0, 3, 5, 5]][None]
    assert zoo.ctc_text(steps) == [3, 3, 5]
    other = np.eye(6)[[3, 3, 3, 3, 3, 5, 5]][None]
    assert zoo.lines_equal([[steps], [steps]], [[steps], [other]]) == (
        "1 of 2 lines equal (float margin of the others 1.00)")


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


def test_every_output_counts_and_the_worst_is_shown() -> None:
    """One output equal, one turned by 90 degrees: cosines 1 and 0, and the score is the worst."""
    a, b = np.array([[1.0, 0.0]], np.float32), np.array([[0.0, 1.0]], np.float32)
    cosines = zoo.output_cosines([[a, a]], [[a, b]])
    assert cosines == pytest.approx([1.0, 0.0])
    score = zoo.Score(dict(zip("ab", zip(cosines, [1.0, 0.5], strict=True), strict=True)), "fine", "3 of 4")
    assert (score.simulated, score.calibrated, score.exact) == (pytest.approx(0.0), 0.5, False)
    row = zoo.Row("net", "nash-e", reasons={"why": ["Relu", "Relu", "Add"]}, scores={"int8": score})
    assert row.cpu == "3: Relu*2 Add" and "Relu*2 Add" in zoo.reasons_table([row])
    assert "0.00000 (0.50000)" in zoo.outputs_table([row])


def test_pitches_one_bin_apart_are_near() -> None:
    """20 cents off is near, 40 is not."""
    def at(bin: int) -> np.ndarray:
        return np.eye(360, dtype=np.float32)[[bin]]

    assert zoo.pitches_near([[at(7)], [at(7)]], [[at(8)], [at(9)]]) == "1 of 2 pitches within 20 cents"


def test_samples_are_the_same_twice_and_differ_by_seed() -> None:
    """Shapes and ranges as the packages feed them."""
    for make, name, shape in (
        (zoo_data.text_lines, "x", (1, 3, 48, 320)), (zoo_data.scenes, "x", (1, 3, 320, 320)),
        (zoo_data.notes, "serving_default_input_2:0", (1, 43844, 1)),
        (partial(zoo_data.portraits, name="p", size=24), "p", (1, 24, 24, 3)),
        (zoo_data.sound_frames, "frames", (1, 1024)),
    ):  # fmt: skip
        first, again, other = make(1, 1)[0][name], make(1, 1)[0][name], make(1, 2)[0][name]
        assert first.shape == shape and first.dtype == np.float32
        assert np.abs(first).max() <= 1 or abs(first.std() - 1) < 1e-3
        assert np.array_equal(first, again) and not np.array_equal(first, other)


def test_anchors_of_three_levels() -> None:
    """64 pixels: 8 x 8, 4 x 4 and 2 x 2 cells, centres in the middle of each."""
    centres, strides = zoo_nets.anchors(64)
    assert centres.shape == (1, 2, 84) and [int((strides == s).sum()) for s in zoo_nets.STRIDES] == [64, 16, 4]
    assert centres[0, :, 1].tolist() == [1.5, 0.5]


def test_pictures_calibrate_or_score() -> None:
    """40 of the 200 pictures calibrate, the other 160 score; none does both, and half of either are faces."""
    kinds = [{s["p"].tobytes() for s in zoo_data.portraits(200, seed, "p", 24)} for seed in (1, 2)]
    assert [len(kind) for kind in kinds] == [40, 160] and not kinds[0] & kinds[1]


def test_tensors_of_a_checkpoint_without_torch(tmp_path: Path, monkeypatch) -> None:
    """A file as torch writes it gives its arrays, views and all; one that asks for anything else is refused."""
    path = tmp_path / "net.pth"
    numbers = np.arange(6, dtype=np.float32)
    torch, utils = ModuleType("torch"), ModuleType("torch._utils")
    torch.FloatStorage = type("FloatStorage", (), {"__module__": "torch"})
    utils._rebuild_tensor_v2 = FunctionType((lambda: None).__code__, {}, "_rebuild_tensor_v2")
    utils._rebuild_tensor_v2.__module__ = "torch._utils"
    utils._rebuild_tensor_v2.__qualname__ = "_rebuild_tensor_v2"
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "torch._utils", utils)

    class Storage:
        """Pickled as a persistent id, as torch does with storages."""

    class Tensor:
        def __reduce__(self) -> tuple[object, tuple[object, ...]]:
            return utils._rebuild_tensor_v2, (Storage(), 1, (2, 2), (1, 2), False, None)

    class Pickler(pickle.Pickler):
        def persistent_id(self, thing: object) -> object:
            return ("storage", torch.FloatStorage, "0", "cpu", 6) if isinstance(thing, Storage) else None

    def write(state: object) -> None:
        table = io.BytesIO()
        Pickler(table, 2).dump(state)
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("net/data.pkl", table.getvalue())
            archive.writestr("net/data/0", numbers.tobytes())

    write(OrderedDict(w=Tensor()))
    [(name, array)] = torch_file.read_tensors(path).items()
    assert name == "w" and array.tolist() == [[1, 3], [2, 4]]
    write(OrderedDict(w=Path("x")))
    with pytest.raises(pickle.UnpicklingError, match="which is no tensor"):
        torch_file.read_tensors(path)


def test_the_structure_of_blazeface() -> None:
    """896 anchors from two levels, each with a score and 16 numbers of a box."""
    outputs = zoo_small.blazeface_structure().graph.output
    shapes = {o.name: [d.dim_value for d in o.type.tensor_type.shape.dim] for o in outputs}
    assert shapes == {"scores": [1, 896, 1], "boxes": [1, 896, 16]}


def test_a_missing_archive_is_told_with_the_command(tmp_path: Path, monkeypatch, capsys) -> None:
    """Exit code 2; the other networks run all the same."""
    nodes = [node("Conv", ["input", "w"], "c", "conv"), node("LRN", ["c"], "r", "norm", size=3),
             node("Conv", ["r", "w2"], "y", "end")]  # fmt: skip
    net = model(nodes, [value("input", [1, 3, 6, 6])], [value("y", None)],
                [init("w", random(4, 3, 1, 1)), init("w2", random(2, 4, 1, 1))])  # fmt: skip

    def samples(count: int, seed: int) -> zoo_data.Samples:
        return [{"input": random(1, 3, 6, 6, seed=seed * 100 + i)} for i in range(count)]

    small = zoo.Net(zoo.built(lambda: net), samples, 2, zoo.decibels)
    monkeypatch.setattr(zoo, "NETS", {"small": small, "magika": zoo.NETS["magika"]})
    monkeypatch.setattr(sys, "argv", ["zoo", "--cache", str(tmp_path), "--march", "nash-p"])
    monkeypatch.chdir(tmp_path)
    assert zoo.main() == 2
    printed = capsys.readouterr().out
    command = f"pip download --no-deps -d {tmp_path} magika==1.0.3"
    assert f"magika left out: magika==1.0.3 is not in {tmp_path}: {command}" in printed
    row = [cell.strip() for cell in printed.splitlines()[-2].split("|")[1:-1]]
    assert row[:5] == ["small", "nash-p", "3", "1: LRN", "2"]
    assert len({n for pair in row[9].split(", ") for n in pair.split(" of ")}) == 1, "the same bits in both types"
    assert "LRN runs in float on the CPU: ptqlab has no integer kernel for it" in printed
