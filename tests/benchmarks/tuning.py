"""ptqlab.tune on three networks, beside its goals.

    python -m benchmarks.tuning [mobilenet_v2 ppocr6_rec vit] [--crops 240] [--lines 160] [--models DIR] [--cache DIR]

mobilenet_v2  trained; calibrated with 32 photo crops, scored on others: 19.7 dB / .994 with at most 5 tensors in int16,
              .997 with at most 10, and less added latency than raising nodes in the order of their sensitivity alone
ppocr6_rec    the share of rendered lines that read as in float, from a start with max thresholds: tuned until all of
              some lines do, 99 % of others
vit           a structure with random weights, from a start with max thresholds: cosine .99
"""
from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx

import ptqlab
from benchmarks import nets, photos, zoo_data
from benchmarks.packages import CACHE, MissingPackageError, find
from benchmarks.zoo import ctc_text
from ptqlab import config as configuration
from ptqlab import perf
from ptqlab.arith.metrics import METRICS, Agreement
from ptqlab.debug.cuts import Effects
from ptqlab.debug.greedy import raised
from ptqlab.debug.network import Network
from ptqlab.debug.ranking import choices_of, score
from ptqlab.events import Watch
from ptqlab.graph import load, session
from ptqlab.pipeline.workbench import Workbench
from ptqlab.result.tuner import parsed
from ptqlab.result.tuning import TuneResult

MAX = {"model_config": {"activation": {"calibration_type": "max"}}}
MOST_RAISED = 40


def agreement(run: ptqlab.CompileResult, key: str, samples: list[dict[str, np.ndarray]]) -> Agreement:
    """Agreement of an artifact with the float model, pooled over all samples."""
    reference, tried = (ptqlab.Runtime(run.artifacts[k]) for k in ("optimized_float", key))
    found = Agreement()
    for sample in samples:
        found.add(reference.run(None, sample)[0], tried.run(None, sample)[0], distances=True)
    return found


def said(good: bool) -> str:
    return "reached" if good else "MISSED"


def mobilenet(given: argparse.Namespace, folder: Path) -> bool:
    model = nets.mobilenet_v2_imagenet(given.models)
    name = onnx.load(model, load_external_data=False).graph.input[0].name
    crops = [{name: x} for x in photos.scoring_crops(given.crops, "imagenet")]
    asked: dict[str, Any] = {
        "model": model, "march": "nash-e", "working_dir": folder, "metric": "sqnr", "target": None, "progress": False,
        "calibration_data": {name: photos.calibration_crops(normalise="imagenet")}}
    good = True
    for tensors, goal, decibels in ((5, 0.994, 19.7), (10, 0.997, 0.0)):
        found = ptqlab.tune(**asked, max_tensors=tensors)
        print(found, flush=True)
        run = found.compile(working_dir=folder / f"run{tensors}", skip="compile", progress=False)
        for key in ("calibrated", "quantized"):
            figures = agreement(run, key, crops)
            reached = figures.cosine >= goal and figures.sqnr >= decibels
            good &= reached
            print(f"at most {tensors} tensors, {key}: {given.crops} crops, cosine {figures.cosine:.4f} (goal {goal}), "
                  f"SQNR {figures.sqnr:.2f} dB{f' (goal {decibels})' if decibels else ''}: {said(reached)}", flush=True)
    return good and by_sensitivity_alone(found, asked)


def by_sensitivity_alone(found: TuneResult, asked: Mapping[str, Any]) -> bool:
    """Nodes to int16 in the order of their sensitivity, from the same calibration, until as good as `found`."""
    keys = ("model", "march", "working_dir", "calibration_data")
    bench = Workbench(configuration.load(None, **{k: asked[k] for k in keys}), 16, Watch())
    start = [s for s in found.steps if s.kept and not s.wide][-1]
    candidate = bench.candidate(parsed(start.quant_config), Watch())
    network = Network(candidate.calibrated.model, bench.graph.model)
    ranked = score(Effects(network), choices_of(network, "node"), bench.scored.first(8),
                   [METRICS["cosine-similarity"]], Watch()).ranked()
    quant, count = dict(start.quant_config), 0
    nodes: dict[str, dict[str, str]] = {}
    while candidate.sqnr < found.best.sqnr and count < min(len(ranked), MOST_RAISED):
        nodes[ranked[count]] = {"qtype": raised(None, "int16")}
        count += 1
        candidate = bench.candidate(parsed({**quant, "node_config": nodes}), Watch())
    tuned = bench.candidate(parsed(found.best.quant_config), Watch())
    cheaper = tuned.latency_us <= candidate.latency_us
    print(f"by sensitivity alone: {count} nodes in int16 for {candidate.sqnr:.2f} dB, {tuned.sqnr:.2f} dB by tune; "
          f"adds {candidate.latency_us - start.latency_us:.2f} us, tune {tuned.latency_us - start.latency_us:.2f} us; "
          f"MACs with int16 features {macs_share(bench, candidate.plan):.1%}, "
          f"tune {macs_share(bench, tuned.plan):.1%}: {said(cheaper)}", flush=True)
    return cheaper


def macs_share(bench: Workbench, plan: Any) -> float:
    """Share of the multiplications whose features are int16."""
    layers = perf.from_plan(bench.graph, plan)
    total = sum(layer.macs for layer in layers) or 1
    return sum(layer.macs for layer in layers if layer.qtype.bits == 16) / total


def ocr(given: argparse.Namespace, folder: Path) -> bool:
    model = find("rapidocr==3.10.0", "PP-OCRv6_rec_small.onnx", given.cache)
    calibration, scoring, other = (zoo_data.text_lines(n, seed) for n, seed in (
        (32, 1), (given.lines, 2), (given.lines, 3)))
    shapes = {key: tuple(array.shape) for key, array in calibration[0].items()}
    runner = float_runner(model, shapes)
    texts = [ctc_text(runner(s)) for s in scoring]

    def lines(outputs: Mapping[str, np.ndarray], number: int) -> float:
        return float(ctc_text(next(iter(outputs.values()))) == texts[number])

    found = ptqlab.tune(
        model=model, march="nash-e", working_dir=folder, input_shape=shapes, metric=lines, target=1.0,
        calibration_data={k: [s[k] for s in calibration] for k in shapes}, data_num=given.lines, scoring_data=scoring,
        quant_config=MAX, progress=False)
    print(found, flush=True)
    run = found.compile(working_dir=folder / "run", skip="compile", progress=False)
    good = True
    for key in ("calibrated", "quantized"):
        tried = ptqlab.Runtime(run.artifacts[key])
        same = sum(ctc_text(runner(s)) == ctc_text(tried.run(None, s)[0]) for s in other)
        good &= same >= 0.99 * len(other)
        print(f"{key}: {same} of {len(other)} lines that tuning has not seen read as in float: "
              f"{said(same >= 0.99 * len(other))}", flush=True)
    return good


def float_runner(model: Path, shapes: Mapping[str, tuple[int, ...]]) -> Callable[[dict[str, np.ndarray]], np.ndarray]:
    made = session(load(model, shapes).model)
    return lambda sample: made.run(None, sample)[0]


def vit(given: argparse.Namespace, folder: Path) -> bool:
    path = folder / "vit.onnx"
    onnx.save(nets.vit_structure(), path)
    calibration, scoring = (zoo_data.crops(n, seed) for n, seed in ((16, 1), (32, 2)))
    found = ptqlab.tune(
        model=path, march="nash-e", working_dir=folder, target=0.99, quant_config=MAX, progress=False,
        calibration_data={"input": [s["input"] for s in calibration]})
    print(found, flush=True)
    run = found.compile(working_dir=folder / "run", skip="compile", progress=False)
    good = True
    for key in ("calibrated", "quantized"):
        figures = agreement(run, key, scoring)
        good &= figures.cosine >= 0.99
        print(f"vit, {key}: {len(scoring)} other crops, cosine {figures.cosine:.4f}: {said(figures.cosine >= 0.99)}",
              flush=True)
    return good


NETS: dict[str, Callable[[argparse.Namespace, Path], bool]] = {"mobilenet_v2": mobilenet, "ppocr6_rec": ocr, "vit": vit}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nets", nargs="*", metavar="net", help=f"of {', '.join(NETS)} (default: all)")
    parser.add_argument("--crops", type=int, default=240)
    parser.add_argument("--lines", type=int, default=160)
    parser.add_argument("--models", type=Path, default=Path(tempfile.gettempdir()) / "ptqlab-models")
    parser.add_argument("--cache", type=Path, default=CACHE, help="where the archives of the packages lie")
    given = parser.parse_args()
    if unknown := [n for n in given.nets if n not in NETS]:
        parser.error(f"no network named {', '.join(unknown)}; there are {', '.join(NETS)}")
    good = True
    for net in given.nets or NETS:
        started = time.process_time()
        with tempfile.TemporaryDirectory() as folder:
            try:
                good &= NETS[net](given, Path(folder))
            except (MissingPackageError, ImportError) as missing:
                print(f"{net} left out: {missing}", flush=True)
        print(f"{net}: {time.process_time() - started:.0f} CPU s\n", flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
