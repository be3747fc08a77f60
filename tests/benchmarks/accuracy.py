"""Accuracy of the recipes on real networks, beside the goals and beside onnxruntime: one table.

    python -m benchmarks.accuracy [net ...] [--scoring 240] [--no-peers] [--why] [--cache DIR] [--wheels DIR]

Cosine and SQNR of the logits, pooled over all scoring samples, for the calibrated model and for the bit-exact
simulation of the `.hbm` (`benchmarks.cases`). Recipes: the default; asymmetric (our method and bias correction fill in
what is not said); the same with the five tensors that hurt most in int16, ranked by what rounding each alone does to
the output (PP-OCR: int16 for all activations); where a lead over onnxruntime is a goal, `recipe: asymmetric-search`,
which chooses by the calibration samples; dual-int16 for everything. Then onnxruntime's static quantization on the same
samples.
`--why` adds what each tensor costs when it alone is rounded, and all weights alone: errors of that size hardly depend
on each other, so their sum tells where the error of the whole comes from. Exit code 1 where a goal is missed.
"""
from __future__ import annotations

import argparse
import logging
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import ptqlab
from benchmarks import peers
from benchmarks.cases import ENTRIES, Case, Entry, Floor, Goal
from benchmarks.packages import CACHE, MissingPackageError
from ptqlab import config as configuration
from ptqlab.arith.metrics import Agreement
from ptqlab.config.quant import QuantConfig
from ptqlab.events import Watch
from ptqlab.graph import FloatGraph, save, session
from ptqlab.ops.calibration_node import DOMAIN
from ptqlab.passes import optimize
from ptqlab.pipeline.presets import asymmetric_search, ceiling
from ptqlab.pipeline.workbench import Workbench
from ptqlab.placement import place
from ptqlab.platforms import platform
from ptqlab.quantize.calibrate import calibrate
from ptqlab.quantize.calibrated import calibrated_model, with_folded_weights
from ptqlab.quantize.effects import slot_effects
from ptqlab.quantize.encode import encode_slots
from ptqlab.quantize.recipe import make_recipe, slot_readers
from ptqlab.stages.calibration import Encodings
from ptqlab.stages.plan import Plan

Outputs = list[list[np.ndarray]]
ASYMMETRIC = {"activation": {"asymmetric": True}}
# of every network with int16 activations and weights
DUAL = Goal(0.9999)
# what the simulation may lose against its calibrated model, dB
LOSS = 0.5


@dataclass(frozen=True)
class Score:
    """How near a model comes to the float model on the scoring samples."""

    whole: Agreement
    objects: Agreement
    answers: str

    def __str__(self) -> str:
        objects = f" objects {self.objects.cosine:.4f}" if self.objects.samples else ""
        answers = f"  {self.answers}" if self.answers else ""
        return f"{self.whole.cosine:.4f} {self.whole.sqnr:5.2f} dB{objects}{answers}"

    def above(self, floor: Floor) -> bool:
        equal = not floor.answers or len(set(self.answers.split()[:3:2])) == 1
        return self.whole.cosine >= floor.cosine and self.whole.sqnr >= floor.sqnr and equal


def score(case: Case, wanted: Outputs, got: Outputs) -> Score:
    whole, objects = Agreement(), Agreement()
    for index, (a, b) in enumerate(zip(wanted, got, strict=True)):
        whole.add(a[0], b[0], distances=True)
        if case.objects and case.objects[index]:
            objects.add(a[0], b[0], distances=True)
    return Score(whole, objects, case.answers(wanted, got) if case.answers else "")


def recipes(case: Case, entry: Entry) -> list[tuple[str, Mapping[str, Any], Goal]]:
    """(name, quant_config, goal) of each recipe."""
    made: list[tuple[str, Mapping[str, Any], Goal]] = [
        ("default", {}, entry.goals[0]), ("asymmetric", {"model_config": ASYMMETRIC}, entry.goals[1])]
    if entry.margin:
        made.append(("searched", asymmetric_search(case.graph(), platform("nash-e")), entry.goals[1]))
    if len(entry.goals) > 2 and entry.raised:
        made.append((f"+ {entry.raised} in int16", worst_in_int16(case, entry.raised), entry.goals[2]))
    elif len(entry.goals) > 2:
        made.append(("int16", {"model_config": {"all_node_type": "int16"}}, entry.goals[2]))
    made.append(("dual-int16", ceiling(optimize(case.graph()), platform("nash-e")), DUAL))
    return made


def compiled(case: Case, config: Mapping[str, Any], out: Path) -> ptqlab.CompileResult:
    return ptqlab.compile(**keywords(case, config), working_dir=str(out), progress=False)


def keywords(case: Case, config: Mapping[str, Any]) -> dict[str, Any]:
    """What a compile of the case is given."""
    data = {name: [s[name] for s in case.calibration] for name in case.calibration[0]}
    more = {} if case.output is None else {"output_nodes": case.output}
    return {"model": str(case.path), "march": "nash-e", "quant_config": dict(config), "input_shape": case.shapes,
            "calibration_data": data, **more}


def outputs(run: Callable[[None, Mapping[str, np.ndarray]], list[np.ndarray]], case: Case) -> Outputs:
    return [run(None, sample)[:1] for sample in case.scoring]


def worst_in_int16(case: Case, count: int) -> dict[str, Any]:
    """The asymmetric recipe with int16 for the tensors whose rounding hurts the output most."""
    graph = optimize(case.graph())
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


def run_recipe(case: Case, config: Mapping[str, Any], wanted: Outputs) -> tuple[Score, Score]:
    """(calibrated, simulated) of one compile."""
    with tempfile.TemporaryDirectory() as out:
        run = compiled(case, config, Path(out))
        runners = [ptqlab.Runtime(run.artifacts[kind]) for kind in ("calibrated", "hbm")]
        calibrated, simulated = (score(case, wanted, outputs(r.run, case)) for r in runners)
    return calibrated, simulated


def why(case: Case, config: Mapping[str, Any]) -> None:
    """Print the share of each tensor, and of the weights, in the error on the scoring samples."""
    settings = configuration.load(None, **keywords(case, config), working_dir=tempfile.gettempdir())
    bench = Workbench(settings, 1, Watch())
    asked, _, plan, _ = bench.placed(bench.config.calibration.quant)
    graph, encodings = bench.graph, bench.encoded(asked, plan, Watch())
    effects = slot_effects(graph, plan, encodings, case.scoring, len(case.scoring), Watch())
    costs = {slot: agreements[0] for slot, agreements in effects.items()}
    costs["weights"] = weights_alone(graph, plan, encodings, case)
    whole = sum(a.squared_error for a in costs.values())
    print(f"    sum of all alone {10 * np.log10(costs['weights'].aa / whole):.2f} dB")
    for slot, cost in sorted(costs.items(), key=lambda item: -item[1].squared_error):
        held = plan.tensors.get(slot)
        words = f"{slot}   {held.stored.value}, T {encodings.thresholds[slot]:.4g}" if held else slot
        print(f"    {cost.squared_error / whole:6.1%}  {cost.sqnr:6.2f} dB  {words}", flush=True)


def weights_alone(graph: FloatGraph, plan: Plan, encodings: Encodings, case: Case) -> Agreement:
    """The float model with quantized weights and biases corrected for them."""
    own = {name: replace(w, correction=w.own) for name, w in encodings.weights.items()}
    encodings = replace(encodings, weights=own)
    model = with_folded_weights(calibrated_model(graph, plan, encodings), encodings)
    for node in [n for n in model.graph if n.domain == DOMAIN]:
        x, out = node.inputs[0], node.outputs[0]
        assert x is not None
        for user, index in list(out.uses()):
            user.replace_input_with(index, x)
        for index, output in enumerate(model.graph.outputs):
            model.graph.outputs[index] = x if output is out else output
    plain, rounded, agreement = session(graph.model), session(model), Agreement()
    for sample in case.scoring:
        agreement.add(plain.run(None, sample)[0], rounded.run(None, sample)[0], distances=True)
    return agreement


def good(goal: Goal, floor: Floor, calibrated: Score, simulated: Score) -> bool:
    """Goal reached, nothing below the floor, simulation no more than LOSS below its calibrated model."""
    reached = calibrated.whole.cosine >= goal.cosine and calibrated.whole.sqnr >= goal.sqnr
    near = simulated.whole.sqnr >= calibrated.whole.sqnr - LOSS
    return reached and near and calibrated.above(floor) and simulated.above(floor)


def bench(name: str, given: argparse.Namespace) -> bool:
    """Print a network's table; whether everything was reached."""
    entry = ENTRIES[name]
    with tempfile.TemporaryDirectory() as scratch:
        cache = given.cache if name in ("mobilenet_v2", "efficientnet_lite0") else given.wheels
        case = entry.case(cache, Path(scratch), given.scoring)
        plain = save(optimize(case.graph()).model, Path(scratch) / "float.onnx")
        wanted = outputs(session(plain).run, case)
        print(f"{name}: {len(case.calibration)} samples calibrate, {len(case.scoring)} others score", flush=True)
        reached, int8 = True, []
        for words, config, goal in recipes(case, entry):
            started = time.process_time()
            calibrated, simulated = run_recipe(case, config, wanted)
            fine = good(goal, entry.floor, calibrated, simulated)
            reached &= fine
            int8 += [simulated.whole.sqnr] if "int16" not in words else []
            print(f"  {words:<14} goal {goal.cosine:.4f} {goal.sqnr:4.1f} dB   calibrated {calibrated}   "
                  f"simulated {simulated}   {'reached' if fine else 'MISSED'}   "
                  f"{time.process_time() - started:.1f} CPU s", flush=True)
            if given.why:
                why(case, config)
        return (not given.peers or ahead(case, entry, plain, wanted, int8)) and reached


def ahead(case: Case, entry: Entry, plain: Path, wanted: Outputs, int8: Sequence[float]) -> bool:
    """Print what onnxruntime reaches; whether int8 of ours is `entry.margin` dB ahead of all of it."""
    theirs = []
    for way in peers.WAYS:
        started = time.process_time()
        model = peers.quantize(plain, case.calibration, way, plain.with_name("peer.onnx"))
        spent = time.process_time() - started
        found = score(case, wanted, outputs(session(model).run, case))
        theirs.append(found.whole.sqnr)
        print(f"  onnxruntime {way.words:<20} {found}   {spent:.1f} CPU s", flush=True)
    lead = max(int8) - max(theirs)
    print(f"  int8 is {lead:+.2f} dB ahead of onnxruntime's best (goal {entry.margin:.0f} dB); the default by "
          f"{int8[0] - max(theirs):+.2f} dB", flush=True)
    return lead >= entry.margin


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("nets", nargs="*", default=list(ENTRIES), help=f"of {', '.join(ENTRIES)}")
    parser.add_argument("--scoring", type=int, default=None, help="number of scoring samples; each net has its own")
    parser.add_argument("--no-peers", dest="peers", action="store_false", help="without onnxruntime")
    parser.add_argument("--why", action="store_true", help="what each tensor costs")
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "ptqlab-models",
                        help="where the ImageNet nets are kept")
    parser.add_argument("--wheels", type=Path, default=CACHE, help="where the archives of the other nets lie")
    given = parser.parse_args()
    logging.getLogger().setLevel(logging.ERROR)  # onnxruntime advises its pre-processing for every model
    reached = []
    for name in given.nets:
        try:
            reached.append(bench(name, given))
        except MissingPackageError as missing:
            print(f"{name} left out: {missing}")
            reached.append(False)
    return 0 if all(reached) else 1


if __name__ == "__main__":
    sys.exit(main())
