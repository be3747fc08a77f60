"""`make bench`: what ptqlab costs, as ratios of CPU time to one plain float inference of the same model.

    python -m benchmarks.run [net ...]

Without arguments calibration and its searches follow (`benchmarks.calibration`), beside those of onnxruntime.

Every figure is CPU time divided by that of one float inference in onnxruntime (all optimisations, one thread, no
spinning), measured in the same process, medians of interleaved runs. Each net runs in a process of its own, so that
its peak memory can be told. Nothing here asserts a time; machines differ, ratios hardly do.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median

import numpy as np
import onnx

import ptqlab
from benchmarks import nets
from ptqlab.artifacts.models import read_quantized
from ptqlab.events import Watch
from ptqlab.graph import load, session
from ptqlab.passes import optimize
from ptqlab.placement import place
from ptqlab.platforms import platform
from ptqlab.quantize.calibrate import calibrate
from ptqlab.simulate import FastExecutor

NETS: dict[str, Callable[[], onnx.ModelProto]] = {
    "resnet18": nets.resnet18,
    "mobilenet_v2": nets.mobilenet_v2_structure,
}
SAMPLES = 16
COMPILE_ONLY = "--compile-only"


def cpu(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def interleaved(works: Mapping[str, Callable[[], object]], rounds: int = 9) -> dict[str, float]:
    """Median CPU seconds of each piece of work, one after the other, `rounds` times after a warm-up."""
    for work in works.values():
        work()
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            times[name].append(cpu(work))
    return {name: median(values) for name, values in times.items()}


def bench(name: str) -> None:
    model = NETS[name]()
    samples = random_samples()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.onnx"
        onnx.save(model, path)
        del model
        warm_up(path, samples[0], folder)
        compile_time = cpu(lambda: whole_path(path, samples, folder))
        peak = compile_peak(path)
        quantized = read_quantized(Path(folder) / "model.hbm").quantized
        plain = session(path)
        fast = FastExecutor(quantized)
        calibrated = session(Path(folder) / "model_calibrated_model.onnx")
        times = interleaved(
            {
                "float": lambda: plain.run(None, samples[0]),
                "simulate": lambda: fast.run(samples[0]),
                "calibrated": lambda: calibrated.run(None, samples[0]),
            }
        )
        calibration = median(cpu(lambda: calibrate_alone(path, samples)) for _ in range(3))
    base = times["float"]
    run = base * SAMPLES
    print(f"{name}: one float inference {base * 1e3:.1f} CPU ms; {SAMPLES} samples")
    print(f"  max calibration, creation included   {calibration / run:5.2f} x {SAMPLES} float inferences")
    print(
        f"  whole compile with cosines           {compile_time / run:5.2f} x {SAMPLES} float inferences "
        f"({compile_time:.2f} CPU s)"
    )
    print(f"  calibrated model, one inference      {times['calibrated'] / base:5.2f} x")
    print(f"  bit-exact simulation, one inference  {times['simulate'] / base:5.2f} x")
    print(f"  peak memory of a process that only compiles {peak}", flush=True)


def compile_peak(path: Path) -> str:
    """Peak memory of a fresh process that compiles the model with the samples of this benchmark."""
    child = subprocess.run(
        [sys.executable, "-m", "benchmarks.run", COMPILE_ONLY, str(path)], check=True, capture_output=True, text=True
    )
    return child.stdout.strip()


def compile_only(path: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        whole_path(path, random_samples(), folder)
    print(f"{high_water_mark()} MiB")


def high_water_mark() -> int:
    """Peak resident memory of this process in MiB; getrusage would count what the parent held before exec, too."""
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status).group(1)) // 1024


def random_samples() -> list[dict[str, np.ndarray]]:
    random = np.random.default_rng(0)
    return [{"input": random.standard_normal((1, 3, 224, 224)).astype(np.float32)} for _ in range(SAMPLES)]


def warm_up(path: Path, sample: dict[str, np.ndarray], folder: str) -> None:
    """Imports and first-use costs, which belong to no figure."""
    whole_path(path, [sample], folder)


def whole_path(path: Path, samples: list[dict[str, np.ndarray]], folder: str) -> ptqlab.CompileResult:
    return ptqlab.compile(
        model=str(path),
        march="nash-e",
        working_dir=folder,
        progress=False,
        calibration_data={"input": [s["input"] for s in samples]},
        quant_config={"model_config": {"activation": {"calibration_type": "max"}}},
    )


def calibrate_alone(path: Path, samples: list[dict[str, np.ndarray]]) -> None:
    graph = optimize(load(path))
    calibrate(graph, place(graph, platform("nash-e")), samples, len(samples), Watch())


def main() -> int:
    if sys.argv[1:2] == [COMPILE_ONLY]:
        compile_only(Path(sys.argv[2]))
        return 0
    wanted = sys.argv[1:] or list(NETS)
    if len(wanted) == 1:
        bench(wanted[0])
        return 0
    runs = [["benchmarks.run", name] for name in wanted]
    runs.append(["benchmarks.calibration", "--peers"])  # beside onnxruntime's calibrators, in the same process
    return max(subprocess.run([sys.executable, "-m", *run], check=False).returncode for run in runs)


if __name__ == "__main__":
    sys.exit(main())
