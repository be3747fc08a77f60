"""Exact sensitivity of every node by graph cuts beside a plain loop of whole runs, in float inferences (CPU time).

    python -m benchmarks.sensitivity [net ...] [--samples 1 4] [--models DIR] [--cache DIR]

Structures with random weights (resnet18, mobilenet_v2, vit) and real networks (digits, efficientnet_lite0 and
mobilenet_v2_imagenet of `make models`, ppocr6_rec of the packages in --cache). Says, too, whether the two agree: the
largest difference of a cosine, and whether the order of the nodes is the same; and what the quick look costs.
"""
from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx

from benchmarks import nets, photos, zoo_data
from benchmarks.packages import CACHE, MissingPackageError, find
from ptqlab.arith.metrics import METRICS
from ptqlab.debug.cuts import Effects, agreement
from ptqlab.debug.network import Choice, Network, partial_model
from ptqlab.debug.ranking import Scores, choices_of, score
from ptqlab.events import Watch
from ptqlab.examples import digits
from ptqlab.graph import load, session
from ptqlab.passes import optimize
from ptqlab.placement import place
from ptqlab.platforms import platform
from ptqlab.quantize.calibrate import calibrate
from ptqlab.quantize.calibrated import calibrated_model
from ptqlab.quantize.encode import encode

Samples = list[dict[str, np.ndarray]]
METRIC = METRICS["cosine-similarity"]
# float inferences for one and for four samples; what 0.75 N S + 0.6 N says is the goal of the others
GOALS = {("resnet18", 1): 28.0, ("resnet18", 4): 90.0}


def noise(count: int) -> Samples:
    random = np.random.default_rng(0)
    return [{"input": random.standard_normal((1, 3, 224, 224)).astype(np.float32)} for _ in range(count)]


def crops(normalise: photos.Normalise) -> Callable[[int], Samples]:
    return lambda count: [{"input": x} for x in photos.calibration_crops(count, normalise=normalise)]


def of_digits(count: int) -> Samples:
    return [{"image": x[None] if x.ndim == 3 else x} for x in digits.calibration_samples()[:count]]


Loader = Callable[[Path, Path], onnx.ModelProto | Path]
NETS: dict[str, tuple[Loader, Callable[[int], Samples]]] = {
    "resnet18": (lambda models, cache: nets.resnet18(), noise),
    "mobilenet_v2": (lambda models, cache: nets.mobilenet_v2_structure(), noise),
    "vit": (lambda models, cache: nets.vit_structure(), noise),
    "digits": (lambda models, cache: digits.model_path(), of_digits),
    "efficientnet_lite0": (lambda models, cache: nets.efficientnet_lite0_imagenet(models), crops("lite")),
    "mobilenet_v2_imagenet": (lambda models, cache: nets.mobilenet_v2_imagenet(models), crops("imagenet")),
    "ppocr6_rec": (lambda models, cache: find("rapidocr==3.10.0", "PP-OCRv6_rec_small.onnx", cache),
                   lambda count: zoo_data.text_lines(count, 1)),
}


def made(model: onnx.ModelProto | Path, samples: Samples) -> Network:
    shapes = {name: array.shape for name, array in samples[0].items()}
    graph = optimize(load(model, shapes))
    plan = place(graph, platform("nash-e"))
    encodings = encode(graph, plan, calibrate(graph, plan, samples, len(samples), Watch()))
    return Network(calibrated_model(graph, plan, encodings).model, graph.model)


def bench(name: str, counts: list[int], models: Path, cache: Path) -> bool:
    loader, data = NETS[name]
    samples = data(max(counts))
    network = made(loader(models, cache), samples)
    runner = session(network.graph.model)
    times = []
    for _ in range(20):
        started = time.process_time()
        runner.run(None, samples[0])
        times.append(time.process_time() - started)
    one = float(np.median(times))
    choices = choices_of(network, "node")
    print(f"{name}: {len(choices)} nodes, one float inference {1e3 * one:.1f} ms", flush=True)
    good = True
    for count in counts:
        started = time.process_time()
        found = score(Effects(network), choices, samples[:count], [METRIC], Watch())
        cut = (time.process_time() - started) / one
        started = time.process_time()
        wanted = naive(network, choices, samples[:count])
        loop = (time.process_time() - started) / one
        difference = max(abs(found.mean(n)[0] - wanted.mean(n)[0]) for n in choices)
        # of a network that takes a fraction of a millisecond sessions and Python are all there is to see
        goal = GOALS.get((name, count), 0.75 * len(choices) * count + 0.6 * len(choices)) if one > 1e-3 else np.inf
        order = same_order(found, wanted)
        good &= difference < 1e-5 and order
        print(f"  S={count}: {cut:7.1f} inferences by cuts (goal {goal:.0f}{'' if cut <= goal else ', MISSED'}), "
              f"{loop:7.1f} by whole runs; largest difference of a cosine {difference:.1e}, "
              f"{'same order' if order else 'ANOTHER ORDER'}", flush=True)
    if max(counts) > 1:
        groups = {label: label for label in choices}
        started = time.process_time()
        quick = score(Effects(network), choices, samples, [METRIC], Watch(), groups=groups)
        spent = (time.process_time() - started) / one
        worst = set(wanted.ranked()[:5])
        print(f"  quick look at up to {max(counts)} samples: {spent:7.1f} inferences; "
              f"{len(worst & set(quick.ranked()[:5]))} of the 5 worst nodes found", flush=True)
    return good


def naive(network: Network, choices: dict[str, Choice], samples: Samples) -> Scores:
    """Two whole runs per choice and sample."""
    runner, scores = session(network.graph.model), Scores([METRIC])
    for label, choice in choices.items():
        whole = session(partial_model(network, choice))
        for sample in samples:
            pairs = zip(runner.run(None, sample), whole.run(None, sample), strict=True)
            scores.add(label, [agreement(a, b) for a, b in pairs])
    return scores


def same_order(a: Scores, b: Scores) -> bool:
    """Whether both rank the choices alike; those nearer to each other than rounding can tell may swap."""
    return bool(np.all(np.diff([b.mean(n)[0] for n in a.ranked()]) >= -2e-6))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nets", nargs="*", metavar="net", help=f"of {', '.join(NETS)} (default: all)")
    parser.add_argument("--samples", nargs="+", type=int, default=[1, 4])
    parser.add_argument("--models", type=Path, default=Path(tempfile.gettempdir()) / "ptqlab-models")
    parser.add_argument("--cache", type=Path, default=CACHE, help="where the archives of the packages lie")
    given = parser.parse_args()
    if unknown := [n for n in given.nets if n not in NETS]:
        parser.error(f"no network named {', '.join(unknown)}; there are {', '.join(NETS)}")
    good = True
    for net in given.nets or NETS:
        try:
            good &= bench(net, given.samples, given.models, given.cache)
        except (MissingPackageError, ImportError) as missing:
            print(f"{net} left out: {missing}", flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
