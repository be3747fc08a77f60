"""Exact sensitivity of every node by graph cuts beside a plain loop of whole runs, in float inferences (CPU time).

    python -m benchmarks.sensitivity [resnet18 mobilenet_v2 vit] [--samples 1 4]
"""
from __future__ import annotations

import argparse
import time

import numpy as np
import onnx

from benchmarks import nets
from ptqlab.debug.cuts import Effects, agreement
from ptqlab.debug.network import Network, partial_model
from ptqlab.debug.ranking import choices_of
from ptqlab.events import Watch
from ptqlab.graph import load, session
from ptqlab.passes import optimize
from ptqlab.placement import place
from ptqlab.platforms import platform
from ptqlab.quantize.calibrate import calibrate
from ptqlab.quantize.calibrated import calibrated_model
from ptqlab.quantize.encode import encode

NETS = {"resnet18": nets.resnet18, "mobilenet_v2": nets.mobilenet_v2_structure, "vit": nets.vit_structure}


def made(model: onnx.ModelProto, count: int) -> tuple[Network, list[dict[str, np.ndarray]]]:
    graph = optimize(load(model))
    plan = place(graph, platform("nash-e"))
    random = np.random.default_rng(0)
    name, shape = str(graph.inputs[0].name), graph.shape(str(graph.inputs[0].name))
    samples = [{name: random.standard_normal(shape).astype(np.float32)} for _ in range(count)]
    encodings = encode(graph, plan, calibrate(graph, plan, samples, count, Watch()))
    return Network(calibrated_model(graph, plan, encodings).model, graph.model), samples


def bench(name: str, counts: list[int]) -> None:
    network, samples = made(NETS[name](), max(counts))
    runner = session(network.graph.model)
    times = []
    for _ in range(10):
        started = time.process_time()
        runner.run(None, samples[0])
        times.append(time.process_time() - started)
    one = float(np.median(times))
    choices = choices_of(network, "node")
    print(f"{name}: {len(choices)} nodes, one float inference {1e3 * one:.1f} ms")
    for count in counts:
        started = time.process_time()
        found = {(n, i): a for n, i, a in Effects(network).run(choices, samples[:count], Watch())}
        cut = (time.process_time() - started) / one
        started = time.process_time()
        worst = 0.0
        for label, choice in choices.items():
            whole = session(partial_model(network, choice))
            for i, sample in enumerate(samples[:count]):
                pairs = zip(runner.run(None, sample), whole.run(None, sample), strict=True)
                wanted = [agreement(a, b) for a, b in pairs]
                worst = max(worst, *(abs(a.cosine - b.cosine) for a, b in zip(found[label, i], wanted, strict=True)))
        loop = (time.process_time() - started) / one
        print(f"  S={count}: {cut:7.1f} inferences by cuts, {loop:7.1f} by whole runs; "
              f"0.75 N S + 0.6 N = {0.75 * len(choices) * count + 0.6 * len(choices):.0f}; "
              f"largest difference of a cosine {worst:.1e}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nets", nargs="*", default=list(NETS), choices=[*NETS, []])
    parser.add_argument("--samples", nargs="+", type=int, default=[1, 4])
    given = parser.parse_args()
    for net in given.nets:
        bench(net, given.samples)
