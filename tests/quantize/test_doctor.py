"""The data doctor finds what is odd, and is silent on good data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ptqlab.config.values import InputParameters
from ptqlab.errors import PtqError
from ptqlab.events import Event, Watch
from ptqlab.quantize.doctor import examine
from ptqlab.quantize.samples import load_samples

SHAPE = (1, 3, 16, 16)
RNG = np.random.default_rng(0)


def images(count: int = 20, low: float = -2.0, high: float = 2.0, seed: int = 1) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.uniform(low, high, SHAPE).astype(np.float32) for _ in range(count)]


def doctor(arrays: Any, given: InputParameters | None = None, inputs: dict[str, Any] | None = None) -> list[str]:
    samples = load_samples(arrays, inputs or {"x": (SHAPE, "float32")}, Watch())
    return [f"{f.code} {f.message}" for f in examine(samples, [given] if given else [])]


def test_good_data_is_silent() -> None:
    """Twenty different normalised images: nothing to say; features and integers neither."""
    assert doctor(images()) == []
    features = {"f": [RNG.standard_normal((1, 64)) * 100 for _ in range(20)], "i": [np.array([3])] * 20}
    assert doctor(features, inputs={"f": ((1, 64), "float32"), "i": ((1,), "int64")}) == []


@pytest.mark.parametrize(
    ("count", "codes"), [(1, ["PTQ360"]), (19, ["PTQ360"]), (20, []), (100, []), (101, ["PTQ361"])]
)
def test_number_of_samples(count: int, codes: list[str]) -> None:
    """Fewer than 20 is a warning, more than 100 a note."""
    assert [line[:6] for line in doctor(images(count))] == codes


def test_all_zero() -> None:
    """Zeros in every sample: one warning, and not one more for each of its consequences."""
    assert doctor([np.zeros(SHAPE, np.float32)] * 20) == ["PTQ362 input x is all zero in every sample"]


def test_one_fixed_value() -> None:
    """0.25 everywhere is told as one fixed value."""
    assert doctor([np.full(SHAPE, 0.25, np.float32)] * 20) == [
        "PTQ363 input x holds the one fixed value 0.25 in every sample"
    ]


@pytest.mark.parametrize(
    ("value", "word"), [(0.0, "all black (0)"), (1.0, "all white (1)"), (0.3, "one constant value")]
)
def test_a_uniform_sample(value: float, word: str) -> None:
    """Black, white and constant images among good ones are named."""
    arrays = images()
    arrays[3][:] = value
    assert doctor(arrays) == [f"PTQ364 input x: 1 of 20 samples is {word}: sample 3"]


def test_one_colour() -> None:
    """A normalised black image is a different constant per channel; it is found as well."""
    arrays = images()
    for k in (2, 5):
        arrays[k][:] = np.array([-2.1, -2.0, -1.8 + k * 0.01]).reshape(1, 3, 1, 1)
    assert doctor(arrays) == ["PTQ364 input x: 2 of 20 samples are of one colour: sample 2, sample 5"]


def test_repeated_samples() -> None:
    """The same sample again is told with the sample it repeats."""
    arrays = images()
    arrays[7] = arrays[2].copy()
    assert doctor(arrays) == ["PTQ365 1 of 20 samples repeat another: sample 7 (as sample 2)"]


def test_the_same_input_in_all_samples() -> None:
    """One of two inputs that never changes is told; the samples as a whole are no repetition."""
    side = np.ones((1, 4), np.float32) * np.arange(4)
    lines = doctor({"x": images(), "side": [side] * 20}, inputs={"x": (SHAPE, "float32"), "side": ((1, 4), "float32")})
    assert lines == ["PTQ366 input side is the same in all 20 samples"]


def test_nan_in_every_file_is_told(tmp_path: Path) -> None:
    """All samples with NaN in one refusal, each with its file."""
    for k, array in enumerate(images(5)):
        if k in (1, 3):
            array[0, 0, 0, k] = np.nan
        np.save(tmp_path / f"{k}.npy", array)
    samples = load_samples(tmp_path, {"x": (SHAPE, "float32")}, Watch())
    with pytest.raises(PtqError) as error:
        examine(samples)
    assert [p.where for p in error.value.problems] == [f"input x, {tmp_path}/{k}.npy" for k in (1, 3)]


IMAGENET = {"mean": (123.675, 116.28, 103.53), "scale": (1 / 58.395, 1 / 57.12, 1 / 57.375)}
WHOLE = [np.rint(a) for a in images(low=0, high=255)]


def image_input(**norm: Sequence[float]) -> InputParameters:
    return InputParameters("x", "nv12", "rgb", "NCHW", **{k: tuple(v) for k, v in norm.items()})


@pytest.mark.parametrize(
    ("arrays", "given", "code"),
    [
        (WHOLE, image_input(**IMAGENET), "PTQ367"),
        (WHOLE, image_input(scale=(1 / 255,)), "PTQ367"),
        (WHOLE, image_input(), ""),
        (WHOLE, None, "PTQ367"),
        (images(low=-2.1, high=2.6), image_input(**IMAGENET), ""),
        (images(low=0, high=1), image_input(scale=(1 / 255,)), ""),
        (images(low=0, high=1), image_input(), "PTQ368"),
        (images(low=0, high=1), image_input(mean=(128,)), "PTQ368"),
        (images(low=0, high=1), None, ""),
        (images(low=0, high=255), None, ""),
        (images(low=0, high=1), InputParameters("x"), ""),
    ],
)
def test_scale(arrays: list[np.ndarray], given: InputParameters | None, code: str) -> None:
    """0..255 where normalised data is expected, and the reverse; mean and scale say what is expected."""
    assert [line[:6] for line in doctor(arrays, given)] == [code][: bool(code)]


def test_progress_and_stop() -> None:
    """The pass counts its samples, and a stop is heard at the next one."""
    events: list[Event] = []
    watch = Watch(events.append)
    samples = load_samples(images(3), {"x": (SHAPE, "float32")}, Watch())
    findings = examine(samples, watch=watch)
    assert [e.done for e in events if e.kind == "step"] == [1, 2, 3]
    assert watch.findings == findings
    watch.stop()
    with pytest.raises(KeyboardInterrupt):
        examine(samples, watch=watch)
