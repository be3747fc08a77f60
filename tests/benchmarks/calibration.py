"""What calibration costs: ratios of CPU time to plain float inferences of the same samples, and memory.

    python -m benchmarks.calibration [net ...] [--samples 16] [--peers]

Every figure is CPU time divided by that of as many float inferences as there are samples (onnxruntime, all
optimisations, one thread, no spinning), in the same process, session creation included, medians of three. Each net
runs in a process of its own; memory is what one calibration adds at its peak, for 8 and for 64 samples in fresh
processes. `--peers` adds onnxruntime's own calibrators (MinMax, Entropy with its 128 bins) on the same
samples. Nothing here asserts a time.
"""
from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import onnx

from benchmarks import nets
from benchmarks.run import cpu
from ptqlab.config.quant import QuantConfig
from ptqlab.events import Watch
from ptqlab.graph import FloatGraph, load, session
from ptqlab.passes import optimize
from ptqlab.placement import place
from ptqlab.platforms import platform
from ptqlab.quantize.calibrate import calibrate
from ptqlab.quantize.recipe import make_recipe
from ptqlab.stages.plan import Plan

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


def run_recipe(graph: FloatGraph, plan: Plan, recipe: dict[str, Any], samples: Any) -> Any:
    asked = make_recipe(graph, plan, QuantConfig.parse({"model_config": recipe}))
    return calibrate(graph, plan, samples, len(samples), Watch(), asked)


def bench(name: str, count: int, peers: bool) -> None:
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
            for words, spent in onnxruntime_calibrators(path, samples):
                print(f"  {words:<36} {spent / base:6.2f} x", flush=True)
    for kind in ("max", "kl"):
        grown = [memory_of(name, kind, n) for n in (8, 64)]
        print(f"  memory added by {kind:<20} {grown[0]:6.0f} MiB for 8 samples, {grown[1]:.0f} MiB for 64", flush=True)


def onnxruntime_calibrators(path: Path, samples: list[dict[str, np.ndarray]]) -> Iterator[tuple[str, float]]:
    """onnxruntime.quantization on the same samples: the same float tensors, its own histograms."""
    from onnxruntime.quantization import CalibrationDataReader
    from onnxruntime.quantization.calibrate import CalibrationMethod, create_calibrator

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.rest = iter(samples)

        def get_next(self) -> dict[str, np.ndarray] | None:
            return next(self.rest, None)

    for method in (CalibrationMethod.MinMax, CalibrationMethod.Entropy):
        def work(method: Any = method) -> None:
            calibrator = create_calibrator(path, calibrate_method=method, augmented_model_path=str(path) + ".augmented")
            calibrator.collect_data(Reader())
            calibrator.compute_data()

        yield f"onnxruntime {method.name}", cpu(work)


def memory_of(name: str, kind: str, count: int) -> float:
    """MiB that one calibration adds to the peak of a fresh process."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.calibration", "--memory", name, kind, str(count)],
        check=True, capture_output=True, text=True,
    )
    return float(done.stdout)


def print_memory(name: str, kind: str, count: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        _, graph, plan = prepared(name, Path(folder))
        session(graph.model).run(None, Random(graph, 1)[0])
        before = reset_peak()
        run_recipe(graph, plan, {"activation": {"calibration_type": kind}}, Random(graph, count))
        print(f"{resident('VmHWM') - before:.1f}")


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
    parser.add_argument("--memory", nargs=3, metavar=("NET", "KIND", "COUNT"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.memory:
        print_memory(given.memory[0], given.memory[1], int(given.memory[2]))
        return 0
    if len(given.nets) == 1:
        bench(given.nets[0], given.samples, given.peers)
        return 0
    peers = ["--peers"] if given.peers else []
    runs = [[sys.executable, "-m", "benchmarks.calibration", n, "--samples", str(given.samples), *peers]
            for n in given.nets]
    started = time.perf_counter()
    code = max(subprocess.run(command, check=False).returncode for command in runs)
    print(f"({time.perf_counter() - started:.0f} s)")
    return code


if __name__ == "__main__":
    sys.exit(main())
