"""Calibration data: every kind of folder, file and array is read as it should, or refused with its name."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ptqlab.errors import PtqError
from ptqlab.events import Watch
from ptqlab.quantize.samples import Samples, load_samples, random_samples

SHAPE = (1, 3, 8, 8)
ONE: dict[str, Any] = {"x": (SHAPE, "float32")}
TWO: dict[str, Any] = {"x": (SHAPE, "float32"), "x2": ((1, 4), "float32")}


def image(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(SHAPE).astype(np.float32)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "x"
    path.mkdir()
    return path


def load(source: Any, inputs: dict[str, Any] | None = None, **more: Any) -> tuple[Samples, list[str]]:
    """The samples, and codes of the findings, which the watch heard as well."""
    watch = Watch()
    samples = load_samples(source, inputs or ONE, watch, **more)
    assert watch.findings == list(samples.findings)
    return samples, [f.code for f in samples.findings]


def refusal(source: Any, inputs: dict[str, Any] | None = None, **more: Any) -> str:
    with pytest.raises(PtqError) as error:
        load_samples(source, inputs or ONE, Watch(), **more)
    return str(error.value)


def check(samples: Samples, *expected: np.ndarray) -> None:
    """Exactly these samples, of the input's shape and dtype."""
    assert len(samples) == len(expected)
    for sample, wanted in zip(samples, expected, strict=True):
        assert (sample["x"].shape, sample["x"].dtype) == (SHAPE, np.float32)
        np.testing.assert_array_equal(sample["x"], wanted.reshape(SHAPE).astype(np.float32))


# ------------------------------------------------------------------ what is read
def test_natural_order(folder: Path) -> None:
    """1, 2, 10 and not 1, 10, 2; the order is told."""
    for k in (10, 2, 1):
        np.save(folder / f"img_{k}.npy", image(k))
    samples, _ = load(folder)
    assert samples.names == ("img_1", "img_2", "img_10")
    check(samples, image(1), image(2), image(10))
    assert samples.findings[-1].message == "input x: 3 samples in the order img_1.npy, img_2.npy, img_10.npy"
    np.testing.assert_array_equal(samples[-1]["x"], image(10))
    assert samples.first(2).names == ("img_1", "img_2")
    with pytest.raises(IndexError):
        samples[3]


def test_byte_and_axis_order_do_not_matter(folder: Path) -> None:
    """Fortran order and big-endian files give the same values, without a word."""
    np.save(folder / "0.npy", np.asfortranarray(image()))
    np.save(folder / "1.npy", image(1).astype(">f4"))
    samples, codes = load(folder)
    check(samples, image(), image(1))
    assert codes == ["PTQ353"]


@pytest.mark.parametrize("dtype", ["float64", "float16", ">f8"])
def test_other_floats_are_converted(folder: Path, dtype: str) -> None:
    """Another float type is converted with one warning, however many files there are."""
    for k in range(3):
        np.save(folder / f"{k}.npy", image(k).astype(dtype))
    samples, codes = load(folder)
    check(samples, *(image(k).astype(dtype) for k in range(3)))
    assert codes == ["PTQ350", "PTQ353"]
    assert "is converted to float32 (3 files, e.g. " in samples.findings[0].message


def test_missing_batch_dimension(folder: Path) -> None:
    """3x8x8 for 1x3x8x8 is taken, with one warning."""
    np.save(folder / "0.npy", image()[0])
    samples, codes = load(folder)
    check(samples, image())
    assert codes == ["PTQ351", "PTQ353"]
    assert "3x8x8 is taken as 1x3x8x8" in samples.findings[0].message


def test_batch_in_one_file(folder: Path) -> None:
    """Four samples in one file are four samples, read one at a time, with a note."""
    batch = np.concatenate([image(k) for k in range(4)])
    np.save(folder / "0.npy", batch)
    samples, codes = load(folder)
    assert samples.names == ("0[0]", "0[1]", "0[2]", "0[3]")
    check(samples, *(image(k) for k in range(4)))
    assert codes == ["PTQ356", "PTQ353"]
    batched, _ = load(folder, {"x": ((2, 3, 8, 8), "float32")})
    assert [s["x"].shape for s in batched] == [(2, 3, 8, 8)] * 2


def test_other_files_are_skipped(folder: Path) -> None:
    """Dot files, texts and folders are skipped with one warning that lists them."""
    np.save(folder / "0.npy", image())
    np.save(folder / "._1.npy", image())
    (folder / ".DS_Store").write_bytes(b"\0\1")
    (folder / "notes.txt").write_text("hi")
    (folder / "sub.npy").mkdir()
    samples, codes = load(folder)
    check(samples, image())
    assert codes == ["PTQ352", "PTQ353"]
    assert samples.findings[0].message.endswith(": ._1.npy, .DS_Store, notes.txt, sub.npy/")


def test_a_pipe_does_not_hang(folder: Path) -> None:
    """A named pipe among the samples is skipped, not waited for."""
    np.save(folder / "0.npy", image())
    os.mkfifo(folder / "1.npy")
    samples, codes = load(folder)
    assert (len(samples), codes[0]) == (1, "PTQ352")


def test_integers_and_booleans_keep_their_type(tmp_path: Path) -> None:
    """uint8, int64 and bool inputs are fed as they are; int32 ids for an int64 input are converted with a warning."""
    inputs = {"img": ((1, 2), "uint8"), "ids": ((1, 2), "int64"), "flag": ((), "bool")}
    arrays = {"img": [np.array([[255, 0]], np.uint8)], "ids": [np.array([[7, 8]], np.int32)], "flag": [np.array(True)]}
    samples, codes = load(arrays, inputs)
    (sample,) = samples
    assert {k: v.dtype.name for k, v in sample.items()} == {"img": "uint8", "ids": "int64", "flag": "bool"}
    assert (sample["flag"].shape, bool(sample["flag"])) == ((), True)
    assert codes == ["PTQ350"]


def test_integers_out_of_range() -> None:
    """An id that the input's type cannot hold is refused when it is read, and never wrapped around."""
    samples, _ = load({"x": [np.array([300, -1])]}, {"x": ((2,), "uint8")})
    with pytest.raises(PtqError, match="values from -1 to 300") as error:
        samples[0]
    assert error.value.problems[0].code == "PTQ305"


def test_raw_files(folder: Path) -> None:
    """Raw .bin files are read where their type is known, by size; otherwise they are no samples."""
    image().tofile(folder / "0.bin")
    samples, _ = load(folder, raw={"x": "float32"})
    check(samples, image())
    assert "raw samples need cal_data_type" in refusal(folder)
    image()[:, :2].tofile(folder / "1.bin")
    assert "found     512 bytes\n    expected  768 bytes: 1x3x8x8 of float32" in refusal(folder, raw={"x": "float32"})


def test_raw_uint8(folder: Path) -> None:
    """Raw uint8 samples, which the configuration asked for, become floats with a warning."""
    values = np.arange(192, dtype=np.uint8)
    values.tofile(folder / "0.bin")
    samples, codes = load(folder, raw={"x": "uint8"})
    check(samples, values)
    assert codes == ["PTQ350", "PTQ353"]


# ------------------------------------------------------------------ forms and binding
def test_forms(tmp_path: Path, folder: Path) -> None:
    """A folder, a folder of folders, a mapping, a list of arrays, a stacked array, a list of feeds."""
    np.save(folder / "0.npy", image())
    for source in (
        folder,
        str(folder),
        tmp_path,
        {"x": folder},
        {"x": [image()]},
        [image()],
        image(),
        {"x": [image().tolist()]},
        [{"x": image()}],
    ):
        samples, _ = load(source)
        check(samples, image())


def test_inputs_are_bound_by_name(tmp_path: Path) -> None:
    """Data never depends on the order of the mapping or of the folders."""
    inputs = dict.fromkeys("zam", ((1,), "float32"))
    for k, name in enumerate("maz"):
        (tmp_path / name).mkdir()
        np.save(tmp_path / name / "0.npy", np.full(1, k, np.float32))
    for source in (tmp_path, {n: [np.full(1, k, np.float32)] for k, n in enumerate("maz")}):
        samples, _ = load(source, inputs)
        assert {n: float(v[0]) for n, v in samples[0].items()} == {"m": 0.0, "a": 1.0, "z": 2.0}
        assert list(samples[0]) == list("zam")


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ({"x": [1], "y": [1]}, ["data for y, which is no input", "no data for input x2"]),
        ([np.zeros(3)], ["one list of samples for 2 inputs (x, x2)"]),
        ([{"x": 1}, {"x": 1, "x2": 2}], ["sample 0 has no x2"]),
        ({"x": "a", "x2": [1]}, ["folders for some inputs and arrays for others"]),
        (3, ["the number 3"]),
        ({}, ["an empty mapping"]),
    ],
)
def test_data_that_does_not_fit_the_inputs(source: Any, words: list[str]) -> None:
    """Unknown, missing and unnamed inputs are all told."""
    text = refusal(source, TWO)
    assert all(w in text for w in words)
    assert text.count("PTQ308") == len(words)


def test_different_counts(tmp_path: Path) -> None:
    """Both names and both counts."""
    for name, count, shape in (("x", 3, SHAPE), ("x2", 2, (1, 4))):
        (tmp_path / name).mkdir()
        for k in range(count):
            np.save(tmp_path / name / f"{k}.npy", np.zeros(shape, np.float32))
    assert "different numbers of samples: 3 of input x, 2 of input x2" in refusal(tmp_path, TWO)


def test_pairs_with_different_names(tmp_path: Path) -> None:
    """Files of two inputs that do not have the same names are paired by order, and that is warned of."""
    for name, file, shape in (("x", "a", SHAPE), ("x2", "b", (1, 4))):
        (tmp_path / name).mkdir()
        np.save(tmp_path / name / f"{file}.npy", np.zeros(shape, np.float32))
    samples, codes = load(tmp_path, TWO)
    assert "PTQ354" in codes
    assert "a.npy of input x goes with b.npy of input x2" in str(samples.findings)


# ------------------------------------------------------------------ what is refused
def test_whole_text_of_a_refusal(folder: Path) -> None:
    """All problems of a folder at once, each with file, found, wanted and what to do."""
    np.save(folder / "0.npy", image()[None])
    np.save(folder / "1.npy", image().transpose(0, 2, 3, 1))
    np.save(folder / "2.npy", image().astype(np.uint8))
    np.save(folder / "3.npy", np.zeros((1, 8, 24), np.float32))
    assert refusal(folder) == (
        f"the calibration data cannot be used: 4 problems\n"
        f"PTQ303  input x, {folder}/0.npy\n"
        f"    found     shape 1x1x3x8x8: one axis too many\n"
        f"    expected  shape 1x3x8x8\n"
        f"    do        save the samples with np.squeeze(x, axis=0)\n"
        f"PTQ304  input x, {folder}/1.npy\n"
        f"    found     shape 1x8x8x3: the layout looks transposed (NHWC data for an NCHW input)\n"
        f"    expected  shape 1x3x8x8\n"
        f"    do        save the samples with transpose(0, 3, 1, 2)\n"
        f"PTQ305  input x, {folder}/2.npy\n"
        f"    found     dtype uint8\n"
        f"    expected  float32\n"
        f"    do        save the samples as the float model takes them: normalised, astype(np.float32)\n"
        f"PTQ303  input x, {folder}/3.npy\n"
        f"    found     shape 1x8x24\n"
        f"    expected  shape 1x3x8x8\n"
        f"    do        the count of values is right: check the order of the axes before reshape(1, 3, 8, 8)"
    )


@pytest.mark.parametrize(
    ("shape", "wanted", "axes"),
    [
        ((1, 8, 8, 3), (1, 3, 8, 8), "0, 3, 1, 2"),
        ((8, 8, 3), (1, 3, 8, 8), "2, 0, 1"),
        ((5, 8, 6, 3), (1, 3, 8, 6), "0, 3, 1, 2"),
        ((1, 3, 8, 6), (1, 8, 6, 3), "0, 2, 3, 1"),
    ],
)
def test_transpose_that_is_offered_is_right(shape: tuple[int, ...], wanted: tuple[int, ...], axes: str) -> None:
    """The advice, followed, gives the shape of the input (but for batch)."""
    text = refusal([np.zeros(shape, np.float32)], {"x": (wanted, "float32")})
    assert f"transpose({axes})" in text
    assert np.zeros(shape).transpose([int(a) for a in axes.split(",")]).shape[-3:] == wanted[1:]


def test_folders_without_samples(tmp_path: Path, folder: Path) -> None:
    """Empty, missing, a file, a folder of images: input and folder are named, and what is there."""
    assert f"input x\n    found     {folder}: no sample found\n" in refusal({"x": folder})
    assert "there is no such folder" in refusal({"x": tmp_path / "nowhere"})
    (tmp_path / "file").touch()
    assert "it is no folder" in refusal({"x": tmp_path / "file"})
    (folder / "a.jpg").touch()
    assert "no sample found (there is a.jpg)" in refusal({"x": folder})
    assert "no sample" in refusal({"x": []})


class Bomb:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("touch exploded",)


def test_pickles_are_never_loaded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An object array is refused by its header; its code does not run."""
    monkeypatch.chdir(folder)
    np.save(folder / "0.npy", np.array([Bomb()], object), allow_pickle=True)
    assert "pickled Python objects" in refusal({"x": folder})
    assert not Path("exploded").exists()


def header(shape: str, descr: str = "'<f4'") -> bytes:
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "the file is empty"),
        (b"not numpy at all", "cannot be read"),
        (b"\x93NUMPY\x01\x00\xff\xff{", "cannot be read"),
        (b"\x93NUMPY\x09\x00", "cannot be read"),
        (header("(1, 3, 8, 8)") + b"\0" * 100, "the file is cut off: 100 bytes of values"),
        (header("(1, 3, 8, 8)") + b"\0" * 800, "the file is longer than its array"),
        (header("(10**12,)"), "cannot be read"),
        (header("(1000000000000, 1000000000000)"), "the file is cut off"),
        (header("(-1, 3)"), "negative"),
        (header("('a',)"), "cannot be read"),
        (header("__import__('os').abort()"), "cannot be read"),
        (header("(1,)", "[('a', '<f4')]") + b"\0" * 4, "dtype"),
        (header("(1,)", "'<c8'") + b"\0" * 8, "dtype complex64"),
        (header("(1,)", "'<M8[s]'") + b"\0" * 8, "dtype"),
    ],
)
def test_hostile_files(folder: Path, content: bytes, words: str) -> None:
    """Whatever stands in a .npy file: it is named, and nothing large is ever allocated."""
    (folder / "0.npy").write_bytes(content)
    tracemalloc.start()
    text = refusal({"x": folder})
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert f"{folder}/0.npy" in text
    assert words in text
    assert peak < 5_000_000


def test_many_problems_are_cut(folder: Path) -> None:
    """Twenty are told in full, the rest is counted."""
    for k in range(57):
        np.save(folder / f"{k}.npy", np.zeros(5, np.float32))
    text = refusal({"x": folder})
    assert text.count("PTQ303") == 20
    assert "and 37 more problems" in text


@pytest.mark.parametrize(
    ("value", "kind"), [(np.nan, "NaN"), (np.inf, "Inf"), (-np.inf, "Inf"), (1e300, "Inf")]
)
def test_values_that_are_not_finite(folder: Path, value: float, kind: str) -> None:
    """NaN, Inf, and a float64 beyond float32: input, file, count and first index, when the sample is read."""
    bad = image().astype(np.float64)
    bad[0, 1, 2, 3] = bad[0, 2, 0, 0] = value
    np.save(folder / "0.npy", image())
    np.save(folder / "1.npy", bad)
    samples, _ = load(folder)
    assert samples[0]["x"].shape == SHAPE
    with pytest.raises(PtqError) as error:
        list(samples)
    (problem,) = error.value.problems
    assert (problem.code, problem.where) == ("PTQ306", f"input x, {folder}/1.npy")
    assert problem.found == f"{kind}: 2 of 192 values, the first at [0, 1, 2, 3]"


def test_a_file_that_vanishes(folder: Path) -> None:
    """A file that changes between the look and the reading is a refusal that names it, not a traceback."""
    np.save(folder / "0.npy", image())
    samples, _ = load(folder)
    (folder / "0.npy").unlink()
    with pytest.raises(PtqError, match=r"0\.npy"):
        samples[0]


def test_memory_is_flat(folder: Path) -> None:
    """Going through a batch file of 20 MB takes about one sample of memory."""
    np.save(folder / "0.npy", np.zeros((100, 1, 50_000), np.float32))
    samples, _ = load(folder, {"x": ((1, 1, 50_000), "float32")})
    tracemalloc.start()
    for sample in samples:
        assert sample["x"].nbytes == 200_000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2_000_000


# ------------------------------------------------------------------ random data
def test_random_samples() -> None:
    """Random data has the inputs' shapes and types, is the same for the same seed, and says what it is."""
    inputs: dict[str, Any] = {"x": (SHAPE, "float32"), "ids": ((1, 5), np.int64), "b": ((2,), bool)}
    samples = random_samples(inputs, 3, seed=7)
    again = random_samples(inputs, 3, seed=7)
    assert len(samples) == 3
    for a, b in zip(samples, again, strict=True):
        for name, (shape, dtype) in inputs.items():
            assert (a[name].shape, a[name].dtype) == (shape, np.dtype(dtype))
            np.testing.assert_array_equal(a[name], b[name])
        assert set(np.unique(a["ids"])) <= {0, 1}
    assert not np.array_equal(samples[0]["x"], samples[1]["x"])
    assert not np.array_equal(samples[0]["x"], random_samples(inputs, 1, seed=8)[0]["x"])
    assert samples.findings[0].severity == "note"
