"""Real networks with the samples that calibrate and score them, and what is expected of them.

32 crops of 8 photos calibrate the ImageNet networks, crops of 10 other photos score. digits brings its own data. The
other networks and their samples are those of the zoo (`benchmarks.zoo`). Classifiers are cut before their last Softmax
or Sigmoid: SQNR pooled over all logits tells most, and a Softmax hides errors. Of PP-OCR the goals are those of its own
output, the probabilities of 18,710 letters: of its logits nearly all belong to letters that nobody would read.
"""
from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks import photos, zoo, zoo_data
from benchmarks.imagenet import NETS as IMAGENET
from ptqlab.examples import digits
from ptqlab.graph import FloatGraph, load, session

Feeds = dict[str, np.ndarray]
Answers = Callable[[list[list[np.ndarray]], list[list[np.ndarray]]], str]
LAST = ("Softmax", "Sigmoid")


@dataclass(frozen=True)
class Goal:
    """Cosine and SQNR in dB of the calibrated model on the scoring samples."""

    cosine: float
    sqnr: float = 0.0


@dataclass(frozen=True)
class Floor:
    """What no recipe may fall below, in the calibrated model and in the simulation; `answers`: all of them equal."""

    cosine: float = 0.0
    sqnr: float = 0.0
    answers: bool = False


@dataclass(frozen=True)
class Case:
    """A network with its data.

    output   node whose output is scored, where the network goes on behind it
    objects  marks scoring samples that are photos of objects
    answers  what the answers are worth, in words, from the outputs of the float model and of another
    """

    path: Path
    calibration: list[Feeds]
    scoring: list[Feeds]
    output: str | None = None
    objects: Sequence[bool] = ()
    answers: Answers | None = None

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {name: array.shape for name, array in self.calibration[0].items()}

    def graph(self) -> FloatGraph:
        return load(self.path, self.shapes, output_nodes=[self.output] if self.output else [])


@dataclass(frozen=True)
class Entry:
    """A network by name: how to get it, goals by recipe (default, asymmetric, int16), the floor.

    case    (folder with downloaded files, folder to write to, scoring samples or None for all) -> Case
    raised  how many of the worst tensors the int16 recipe raises; 0: all activations
    """

    case: Callable[[Path, Path, int | None], Case]
    goals: tuple[Goal, ...]
    floor: Floor
    raised: int = 5
    margin: float = field(default=0.0)  # dB that int8 has to be ahead of onnxruntime


def imagenet(name: str, cache: Path, out: Path, scoring: int | None) -> Case:
    build, normalise = IMAGENET[name]
    crops = photos.photo_crops("scoring", scoring, normalise)
    calibration = [{"input": x} for x in photos.calibration_crops(32, normalise=normalise)]
    return Case(build(cache), calibration, [{"input": c.image} for c in crops], objects=[c.object_photo for c in crops])


def reads_digits(wanted: list[list[np.ndarray]], got: list[list[np.ndarray]]) -> str:
    right = [int(g[0].argmax()) == label for g, label in zip(got, digits.heldout()[1], strict=False)]
    return f"{sum(right)} of {len(right)} digits read"


def builtin(cache: Path, out: Path, scoring: int | None) -> Case:
    feeds = [{"image": x[None]} for x in digits.heldout()[0][:scoring]]
    calibration = [{"image": x[None]} for x in digits.calibration_samples()]
    return Case(digits.model_path(), calibration, feeds, logits(digits.model_path()), answers=reads_digits)


def of_zoo(
    name: str, calibrating: int, default: int, cache: Path, out: Path, scoring: int | None, whole: bool = False
) -> Case:
    """`whole`: with the last Softmax or Sigmoid."""
    net = zoo.NETS[name]
    path = net.load(cache, out)
    calibration = net.samples(calibrating, zoo.CALIBRATION)
    shapes = {key: array.shape for key, array in calibration[0].items()}
    output = None if whole else logits(path, shapes)
    return Case(path, calibration, net.samples(scoring or default, zoo.SCORING), output, answers=net.figure)


def lines(cache: Path, out: Path, scoring: int | None) -> Case:
    """PP-OCR on lines that the float model reads as they were written: where it errs itself, agreement is luck."""
    case = of_zoo("ppocr6_rec", 32, 1, cache, out, None, whole=True)
    letters, plain = zoo.characters(case.path), session(load(case.path, case.shapes).model)
    read = (sample for text, sample in zoo_data.written_lines(zoo.SCORING)
            if zoo.read_text(plain.run(None, sample)[0], letters) == text)
    return replace(case, scoring=list(itertools.islice(read, scoring or 100)))


def logits(path: Path, shapes: dict[str, tuple[int, ...]] | None = None) -> str | None:
    """The node before the last Softmax or Sigmoid; None where the network ends otherwise."""
    last = load(path, shapes).model.graph.outputs[0].producer()
    if last is None or last.op_type not in LAST or last.inputs[0] is None:
        return None
    before = last.inputs[0].producer()
    return None if before is None else str(before.name)


ENTRIES: dict[str, Entry] = {
    "mobilenet_v2": Entry(
        partial(imagenet, "mobilenet_v2"), (Goal(0.965, 11.8), Goal(0.983, 15.0), Goal(0.9940, 19.7)), Floor(0.93),
        margin=3.0,
    ),
    "efficientnet_lite0": Entry(
        partial(imagenet, "efficientnet_lite0"), (Goal(0.9915, 18.2), Goal(0.9963, 21.5), Goal(0.9978, 23.7)),
        Floor(0.977), margin=3.0,
    ),
    "digits": Entry(builtin, (Goal(0.999, 36.5), Goal(0.999, 40.0)), Floor(sqnr=35.0)),
    "crepe": Entry(
        partial(of_zoo, "crepe", 64, 200), (Goal(0.9999, 41.0), Goal(0.9999, 45.0), Goal(0.9999, 48.0)),
        Floor(sqnr=38.0),
    ),
    "orientation": Entry(
        partial(of_zoo, "orientation", 32, 48), (Goal(0.9996), Goal(0.9999)), Floor(answers=True),
    ),
    "ppocr6_rec": Entry(
        lines, (Goal(0.992, 17.0), Goal(0.9955, 20.0), Goal(0.9990)),
        Floor(answers=True), raised=0,
    ),
}
