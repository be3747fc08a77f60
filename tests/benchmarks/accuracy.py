"""Accuracy of the recipes on real networks, beside the goals: one table.

    python -m benchmarks.accuracy [net ...] [--scoring 240] [--cache DIR]

32 crops of 8 photos calibrate, 240 crops of 10 other photos score; cosine and SQNR of the logits, pooled over all
crops, for the calibrated model and for the bit-exact simulation of the `.hbm`. digits scores on its own test set.
Recipes: the default; asymmetric (our method and bias correction fill in what is not said); the same with the five
tensors that hurt most in int16, ranked by what rounding each alone does to the output.
"""
from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import ptqlab
from benchmarks import photos
from benchmarks.imagenet import NETS
from ptqlab.arith.metrics import Agreement
from ptqlab.config.quant import QuantConfig
from ptqlab.events import Watch
from ptqlab.examples import digits
from ptqlab.graph import FloatGraph, load
from ptqlab.passes import optimize
from ptqlab.placement import place
from ptqlab.platforms import platform
from ptqlab.quantize.calibrate import calibrate
from ptqlab.quantize.effects import slot_effects
from ptqlab.quantize.encode import encode_slots
from ptqlab.quantize.recipe import make_recipe, slot_readers
from ptqlab.stages.plan import Plan

Feeds = dict[str, np.ndarray]
ASYMMETRIC = {"activation": {"asymmetric": True}}
RANKED = 5


@dataclass(frozen=True)
class Goal:
    """Cosine and SQNR in dB of the fake-quantized model; the simulation may lose 0.5 dB against the calibrated one."""

    cosine: float
    sqnr: float


GOALS = {
    ("mobilenet_v2", "default"): Goal(0.965, 11.8),
    ("mobilenet_v2", "asymmetric"): Goal(0.983, 15.0),
    ("mobilenet_v2", "+ 5 in int16"): Goal(0.9940, 19.7),
    ("efficientnet_lite0", "default"): Goal(0.9915, 18.2),
    ("efficientnet_lite0", "asymmetric"): Goal(0.9963, 21.5),
    ("efficientnet_lite0", "+ 5 in int16"): Goal(0.9978, 23.7),
    ("digits", "default"): Goal(0.999, 36.5),
    ("digits", "asymmetric"): Goal(0.999, 40.0),
}


@dataclass(frozen=True)
class Case:
    """A network with its data; `objects` marks scoring samples of object photos."""

    path: Path
    calibration: list[Feeds]
    scoring: list[Feeds]
    objects: list[bool]
    output: str | None = None


def imagenet_case(name: str, cache: Path, scoring: int) -> Case:
    build, normalise = NETS[name]
    crops = photos.photo_crops("scoring", scoring, normalise)
    calibration = [{"input": x} for x in photos.calibration_crops(32, normalise=normalise)]
    return Case(build(cache), calibration, [{"input": c.image} for c in crops], [c.object_photo for c in crops])


def digits_case() -> Case:
    """The logits of the digits network: its Softmax hides errors."""
    path = digits.model_path()
    images, _ = digits.heldout()
    logits = str(load(path).nodes[-1].inputs[0].producer().name)  # type: ignore[union-attr]
    feeds = [{"image": x[None] if x.ndim == 3 else x} for x in images]
    calibration = [{"image": x[None] if x.ndim == 3 else x} for x in digits.calibration_samples()]
    return Case(path, calibration, feeds, [False] * len(feeds), logits)


def compiled(case: Case, config: Mapping[str, Any], out: Path) -> ptqlab.CompileResult:
    name = next(iter(case.calibration[0]))
    more = {} if case.output is None else {"output_nodes": case.output}
    return ptqlab.compile(
        model=str(case.path), march="nash-e", working_dir=str(out), progress=False, quant_config=dict(config),
        calibration_data={name: [s[name] for s in case.calibration]}, **more)


def score(case: Case, run: ptqlab.CompileResult) -> dict[str, Agreement]:
    """Agreement with the float model: calibrated, simulated, and simulated on object photos."""
    truth = ptqlab.Runtime(run.artifacts["optimized_float"])
    runners = {k: ptqlab.Runtime(run.artifacts[a]) for k, a in (("calibrated", "calibrated"), ("simulated", "hbm"))}
    table = {name: Agreement() for name in ("calibrated", "simulated", "objects")}
    for sample, is_object in zip(case.scoring, case.objects, strict=True):
        wanted = truth.run(None, sample)[0]
        for name, runner in runners.items():
            got = runner.run(None, sample)[0]
            table[name].add(wanted, got, distances=True)
            if name == "simulated" and is_object:
                table["objects"].add(wanted, got, distances=True)
    return table


def worst_in_int16(case: Case, count: int) -> dict[str, Any]:
    """The asymmetric recipe with int16 for the tensors whose rounding hurts the output most."""
    graph = optimize(load(case.path, output_nodes=[case.output] if case.output else []))
    plan = place(graph, platform("nash-e"))
    asked = make_recipe(graph, plan, QuantConfig.parse({"model_config": ASYMMETRIC}))
    samples = case.calibration[:8]
    found = calibrate(graph, plan, samples, len(samples), Watch(), asked)
    effects = slot_effects(graph, plan, encode_slots(plan, found), samples, len(samples), Watch())
    worst = sorted(effects, key=lambda slot: sum(a.sqnr for a in effects[slot]))[:count]
    return {"model_config": ASYMMETRIC, "node_config": int16_readers(graph, plan, worst)}


def int16_readers(graph: FloatGraph, plan: Plan, slots: Sequence[str]) -> dict[str, dict[str, str]]:
    """node_config entries that make every reader of these slots read int16."""
    entries: dict[str, dict[str, str]] = {}
    readers = slot_readers(graph, plan)
    for slot in slots:
        for name in readers.get(slot, {}):
            for index, value in enumerate(graph.node(name).inputs):
                held = plan.tensors.get(str(value.name)) if value is not None else None
                if held is not None and held.slot == slot:
                    entries.setdefault(name, {})[f"input{index}"] = "int16"
    return entries


def bench(name: str, cache: Path, scoring: int) -> bool:
    case = digits_case() if name == "digits" else imagenet_case(name, cache, scoring)
    recipes: dict[str, Mapping[str, Any]] = {"default": {}, "asymmetric": {"model_config": ASYMMETRIC}}
    if (name, "+ 5 in int16") in GOALS:
        recipes["+ 5 in int16"] = worst_in_int16(case, RANKED)
    reached = True
    for words, config in recipes.items():
        started = time.process_time()
        with tempfile.TemporaryDirectory() as out:
            run = compiled(case, config, Path(out))
            spent = time.process_time() - started
            table = score(case, run)
        goal, calibrated, simulated = GOALS[name, words], table["calibrated"], table["simulated"]
        good = calibrated.cosine >= goal.cosine and calibrated.sqnr >= goal.sqnr
        good = good and simulated.sqnr >= calibrated.sqnr - 0.5
        reached &= good
        objects = f"   objects {table['objects'].cosine:.4f}" if table["objects"].samples else ""
        print(f"{name:<19} {words:<13} goal {goal.cosine:.4f} {goal.sqnr:5.1f} dB   calibrated {calibrated.cosine:.4f} "
              f"{calibrated.sqnr:5.2f} dB   simulated {simulated.cosine:.4f} {simulated.sqnr:5.2f} dB{objects}   "
              f"{'reached' if good else 'MISSED'}   {spent:.1f} CPU s", flush=True)
    return reached


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("nets", nargs="*", default=[*NETS, "digits"])
    parser.add_argument("--scoring", type=int, default=240, help="number of scoring crops")
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "ptqlab-models",
                        help="where the nets are kept")
    given = parser.parse_args()
    reached = [bench(name, given.cache, given.scoring) for name in given.nets]
    return 0 if all(reached) else 1


if __name__ == "__main__":
    sys.exit(main())
