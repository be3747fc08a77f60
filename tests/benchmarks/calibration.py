"""What calibration costs: ratios of CPU time to plain float inferences of the same samples, and memory.

    python -m benchmarks.calibration [net ...] [--samples 16] [--peers] [--stream 1000]

Every figure is CPU time divided by that of as many float inferences as there are samples (onnxruntime, all
optimisations, one thread, no spinning), in the same process, session creation included, medians of three. Each net
runs in a process of its own; memory is what one calibration adds at its peak, for 8 and for 64 samples in fresh
processes, and with `--stream` for a folder of that many. `--peers` adds onnxruntime's own calibrators (MinMax,
Percentile, Entropy with 2048 bins) on the same samples. Nothing here asserts a time.

What two workers gain is told twice: by the clock, which means nothing on a busy machine, and by CPU time, that of one
worker over the larger of the busiest thread's and half of all threads', which is what two idle processors would need.
What CPU time cannot show is waiting for Python's lock: it is at most the share of the work outside of onnxruntime.
"""
from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path
from statistics import median
from threading import get_ident
from typing import Any

import numpy as np
import onnx

from benchmarks import nets
from benchmarks.peers import calibrators
from benchmarks.run import cpu
from ptqlab.config.quant import QuantConfig
from ptqlab.events import Watch
from ptqlab.graph import FloatGraph, load, session
from ptqlab.passes import optimize
from ptqlab.placement import place
from ptqlab.platforms import platform
from ptqlab.quantize.calibrate import calibrate
from ptqlab.quantize.recipe import make_recipe
from ptqlab.quantize.samples import Samples, load_samples
from ptqlab.stages.plan import Plan
from ptqlab.workers import opened

NETS: dict[str, Callable[[], onnx.ModelProto]] = {
    "resnet18": nets.resnet18, "mobilenet_v2": nets.mobilenet_v2_structure, "vit": nets.vit_structure,
}
ONE = {"calibration_type": "kl", "num_bin": 2048}
RECIPES: dict[str, dict[str, Any]] = {
    "max": {"activation": {"calibration_type": "max"}},
    "kl (2048 bins and more)": {"activation": ONE},
    "mse": {"activation": {"calibration_type": "mse"}},
    "mse, asymmetric": {"activation": {"calibration_type": "mse", "asymmetric": True}},
    "default (mse, biases corrected)": {},
    "modelwise over max, percentile, kl": {"modelwise_search": {}},
    "layerwise over max, kl": {"activation": {"calibration_type": ["max", "kl"]}, "layerwise_search": {}},
}


class Random:
    """Random samples, made when they are read."""

    def __init__(self, graph: FloatGraph, count: int) -> None:
        self.graph, self.count = graph, count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> dict[str, np.ndarray]:
        if not 0 <= index < self.count:
            raise IndexError(index)
        random = np.random.default_rng(index)
        inputs = [(str(v.name), self.graph.shape(str(v.name))) for v in self.graph.inputs]
        return {name: random.standard_normal(shape).astype(np.float32) for name, shape in inputs}

    def __iter__(self) -> Iterator[dict[str, np.ndarray]]:
        return (self[i] for i in range(self.count))


def prepared(name: str, folder: Path) -> tuple[Path, FloatGraph, Plan]:
    path = folder / f"{name}.onnx"
    onnx.save(NETS[name](), path)
    graph = optimize(load(path))
    return path, graph, place(graph, platform("nash-e"))


def run_recipe(
    graph: FloatGraph, plan: Plan, recipe: dict[str, Any], samples: Any, executor: Executor | None = None
) -> Any:
    asked = make_recipe(graph, plan, QuantConfig.parse({"model_config": recipe}))
    return calibrate(graph, plan, samples, len(samples), Watch(), asked, executor)


def bench(name: str, count: int, peers: bool, stream: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path, graph, plan = prepared(name, Path(folder))
        samples = [Random(graph, count)[i] for i in range(count)]
        plain = session(graph.model)
        plain.run(None, samples[0])
        base = median(cpu(lambda: [plain.run(None, s) for s in samples]) for _ in range(5))
        print(f"{name}: {count} float inferences {base * 1e3:.0f} CPU ms; {len(plan.sources)} thresholds")
        for words, recipe in RECIPES.items():
            spent = median(cpu(lambda recipe=recipe: run_recipe(graph, plan, recipe, samples)) for _ in range(3))
            print(f"  {words:<36} {spent / base:6.2f} x", flush=True)
        if peers:
            for words, spent in calibrators(path, samples):
                print(f"  {'onnxruntime ' + words:<36} {spent / base:6.2f} x", flush=True)
        for words in ("mse", "layerwise over max, kl"):
            two_workers(words, graph, plan, samples)
    for kind in ("max", "kl"):
        grown = [memory_of(name, kind, n) for n in (8, 64)]
        print(f"  memory added by {kind:<20} {grown[0]:6.0f} MiB for 8 samples, {grown[1]:.0f} MiB for 64", flush=True)
    if stream:
        grown = [memory_of(name, "max", stream, folder=True)]
        print(f"  memory added by {'max':<20} {grown[0]:6.0f} MiB for a folder of {stream} samples", flush=True)


class Counting(ThreadPoolExecutor):
    """Threads that count their CPU time, and how much of it they spent outside of onnxruntime."""

    def __init__(self, workers: int) -> None:
        super().__init__(workers)
        self.spent: dict[int, float] = {}

    def submit(self, job: Callable[..., Any], /, *args: Any, **more: Any) -> Future[Any]:
        def counted() -> Any:
            started = time.thread_time()
            try:
                return job(*args, **more)
            finally:
                me = get_ident()
                self.spent[me] = self.spent.get(me, 0.0) + time.thread_time() - started

        return super().submit(counted)


def two_workers(words: str, graph: FloatGraph, plan: Plan, samples: list[dict[str, np.ndarray]]) -> None:
    """Print what two threads, and two processes, gain over one."""
    started = time.perf_counter()
    alone = cpu(lambda: run_recipe(graph, plan, RECIPES[words], samples))
    clock = time.perf_counter() - started
    with Counting(2) as pool:
        started, mine = time.perf_counter(), time.thread_time()
        run_recipe(graph, plan, RECIPES[words], samples, pool)
        mine, threads = time.thread_time() - mine, clock / (time.perf_counter() - started)
        busiest, total = max(pool.spent.values()), mine + sum(pool.spent.values())
    started, mine, before = time.perf_counter(), time.process_time(), children()
    with opened("processes") as processes:
        run_recipe(graph, plan, RECIPES[words], samples, processes)
    mine, spent = time.process_time() - mine, children() - before
    both = clock / (time.perf_counter() - started)
    by_cpu = alone / max(busiest, total / 2), alone / max(mine, (mine + spent) / 2)
    print(f"  two workers, {words:<23} threads {threads:.2f} x by the clock, {by_cpu[0]:.2f} x by CPU time; "
          f"processes {both:.2f} x, {by_cpu[1]:.2f} x (their start included)", flush=True)


def children() -> float:
    """CPU seconds of processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def memory_of(name: str, kind: str, count: int, folder: bool = False) -> float:
    """MiB that one calibration adds to the peak of a fresh process; `folder`: samples are files."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.calibration", "--memory", name, kind, str(count), *["folder"] * folder],
        check=True, capture_output=True, text=True,
    )
    return float(done.stdout)


def print_memory(name: str, kind: str, count: int, files: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        _, graph, plan = prepared(name, Path(folder))
        session(graph.model).run(None, Random(graph, 1)[0])
        samples = in_folder(graph, count, Path(folder) / "samples") if files else Random(graph, count)
        before = reset_peak()
        run_recipe(graph, plan, {"activation": {"calibration_type": kind}}, samples)
        print(f"{resident('VmHWM') - before:.1f}")


def in_folder(graph: FloatGraph, count: int, folder: Path) -> Samples:
    """`count` files of the one input, eight of them different; the others are links."""
    (name,) = [str(v.name) for v in graph.inputs]
    folder.mkdir()
    for index in range(count):
        path = folder / f"{index:06d}.npy"
        if index < 8:
            np.save(path, Random(graph, 8)[index][name])
        else:
            os.link(folder / f"{index % 8:06d}.npy", path)
    return load_samples({name: folder}, {name: (graph.shape(name), np.float32)})


def reset_peak() -> float:
    """Forget the peak so far (Linux); MiB resident now."""
    Path("/proc/self/clear_refs").write_text("5")
    return resident("VmRSS")


def resident(word: str) -> float:
    line = next(row for row in Path("/proc/self/status").read_text().splitlines() if row.startswith(word))
    return int(line.split()[1]) / 1024


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("nets", nargs="*", default=list(NETS))
    parser.add_argument("--samples", type=int, default=16)
    parser.add_argument("--peers", action="store_true", help="onnxruntime's calibrators beside")
    parser.add_argument("--stream", type=int, default=0, help="memory for a folder of so many samples")
    parser.add_argument("--memory", nargs="+", metavar="NET KIND COUNT", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.memory:
        net, kind, count, *folder = given.memory
        print_memory(net, kind, int(count), bool(folder))
        return 0
    if len(given.nets) == 1:
        bench(given.nets[0], given.samples, given.peers, given.stream)
        return 0
    more = [*(["--peers"] if given.peers else []), "--samples", str(given.samples), "--stream", str(given.stream)]
    runs = [[sys.executable, "-m", "benchmarks.calibration", n, *more]
            for n in given.nets]
    started = time.perf_counter()
    code = max(subprocess.run(command, check=False).returncode for command in runs)
    print(f"({time.perf_counter() - started:.0f} s)")
    return code


if __name__ == "__main__":
    sys.exit(main())
