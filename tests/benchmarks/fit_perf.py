"""Fit the performance estimate to published board latencies, cross-validate it, write what came out.

    PYTHONPATH=tests python -m benchmarks.fit_perf           # writes ptqlab/perf/parameters.json and PERFORMANCE.md
    PYTHONPATH=tests python -m benchmarks.fit_perf --check   # writes nothing, prints the errors

Everything is a relative error: residuals are logarithms of prediction over publication, softened so that one odd row
does not bend the fit. Parameters that the rows hardly hold are kept near a prior; PERFORMANCE.md tells which.
"""
from __future__ import annotations

import csv
import json
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from ptqlab.perf.cost import times
from ptqlab.perf.layer import Layer, elements, results
from ptqlab.perf.parameters import BASE_MARCH, FAST_MARCH, Parameters
from ptqlab.perf.table import read_layers
from ptqlab.perf.work import Work, input_bytes, work_of

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "perf" / "data"
PARAMETERS = ROOT / "ptqlab" / "perf" / "parameters.json"
PAGE = ROOT / "PERFORMANCE.md"

# Ratio of the clocks of nash-m and nash-e (documented); everything that computes follows it.
CLOCK_RATIO = 1.5
# README files of the classic networks, measured with an older runtime.
OLDER_SOURCES = ("/MobileNet/", "/ResNet/")
SOFT = 0.05
WEIGHTS = {"latency": 1.0, "threads": 0.5, "static": 0.5}
PRIOR_ROW = 0.03  # being one spread away from a prior costs as much as a row that is off by so much


@dataclass(frozen=True)
class Free:
    """A fitted number: where the search starts, and the prior as (centre, spread of the logarithm, source)."""

    name: str
    start: float
    unit: str
    prior: tuple[float, float, str] | None = None


FREE = (
    Free("spatial", 11.0, "padded TMAC/s, kernels above 1x1"),
    Free("pointwise", 15.0, "padded TMAC/s, 1x1 and Gemm", (13.0, 0.5, "near the other convolutions")),
    Free("depthwise", 3.0, "TMAC/s, depthwise", (3.0, 0.5, "one network alone depends on it")),
    Free("matmul", 6.0, "TMAC/s, two activations", (6.0, 0.5, "one network alone depends on it")),
    Free("streaming", 0.7, "slow-down on streamed weights"),
    Free("table", 33.0, "us for a million bytes, look-up table"),
    Free("plain", 15.0, "us for a million bytes, one vector pass"),
    Free("command", 2.0, "us for each operator", (1.5, 0.7, "a few thousand clocks")),
    Free("ddr", 33.0, "GB/s", (39.0, 0.1, "46-50 GB/s seen in language model decoding on nash-m (log)")),
    Free("runtime", 330.0, "us of runtime for a task"),
    Free("runtime_per_mb", 14.0, "us of runtime for a MB of float32 results"),
    Free("older_runtime", 200.0, "us, older runtime", (200.0, 0.2, "about 0.20 ms (log)")),
    Free("ddr_ratio", 1.2, "nash-m to nash-e"),
    Free("runtime_ratio", 0.8, "nash-m to nash-e"),
)
NAMES = [f.name for f in FREE]


@dataclass(frozen=True)
class Model:
    """What a prediction needs of a network."""

    name: str
    layers: tuple[Layer, ...]

    @cached_property
    def work(self) -> Work:
        return work_of(self.layers)

    @cached_property
    def input_bytes(self) -> float:
        return input_bytes(self.layers)

    @cached_property
    def result_mb(self) -> float:
        return sum(self.layers[i].writes for i in results(self.layers)) * 4 / 1e6

    @cached_property
    def totals(self) -> np.ndarray:
        """GMACs, MB of weights, MB of activations, for the baselines."""
        activations = sum(sum(elements(s) for s in layer.outputs) for layer in self.layers if layer.on_bpu)
        return np.array([sum(layer.macs for layer in self.layers) / 1e9,
                         sum(layer.weight_bytes for layer in self.layers) / 1e6, activations / 1e6])


@dataclass(frozen=True)
class Rows:
    """Published rows as arrays: model and march index, what was measured, milliseconds for one run."""

    models: tuple[Model, ...]
    model: np.ndarray
    fast: np.ndarray
    older: np.ndarray
    threads: np.ndarray
    kind: np.ndarray
    ms: np.ndarray
    family: np.ndarray

    def only(self, chosen: np.ndarray) -> Rows:
        return Rows(self.models, *(getattr(self, name)[chosen] for name in (
            "model", "fast", "older", "threads", "kind", "ms", "family")))

    @property
    def single(self) -> np.ndarray:
        """Rows of one thread's latency: what errors are reported on."""
        found: np.ndarray = self.kind == "latency"
        return found


def family(model: str) -> str:
    """Networks of one architecture and task, of any size: YOLOv8, YOLOv8-Seg, ResNet, ..."""
    base, _, task = model.partition("-")
    stem = re.sub(r"(?<=\d)[a-z]+$", "", base) if base.startswith("YOLO") else re.sub(r"V?\d+$", "", base)
    return f"{stem}-{task}" if task else stem


def read() -> Rows:
    """All published rows that have a layer table."""
    with (DATA / "board_latency_fit.csv").open(encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    names = list(dict.fromkeys(line["model"] for line in lines))
    models = [Model(t.model, t.layers) for t in (read_layers(DATA / "board_layers" / f"{n}.jsonl.gz") for n in names)]
    rows = []
    for line in lines:
        threads, latency = int(line["threads"]), float(line["latency_ms"])
        if line["kind"].startswith("static"):
            kind, ms = "static", latency
        elif threads == 1:
            kind, ms = "latency", latency
        else:
            kind, ms = "threads", 1e3 / float(line["fps"])
        rows.append((names.index(line["model"]), line["march"] == FAST_MARCH,
                     any(s in line["source"] for s in OLDER_SOURCES), threads, kind, ms, family(line["model"])))
    return Rows(tuple(models), *(np.array(column) for column in zip(*rows, strict=True)))


class Predictor:
    """Milliseconds for every row, from the logarithms of the free parameters."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.starts = np.cumsum([0, *(len(m.layers) for m in rows.models)])[:-1]
        self.work = Work(np.concatenate([m.work.rows for m in rows.models]))
        self.inputs = np.array([m.input_bytes for m in rows.models])
        self.results = np.array([m.result_mb for m in rows.models])

    def bpu_ms(self, rates: Parameters) -> np.ndarray:
        """BPU part of every model: `cost.run` over all models at once (the AAE never decides here)."""
        spent = times(self.work, rates)
        return (np.add.reduceat(spent.whole, self.starts) + self.inputs / rates.ddr / 1e3) / 1e3

    def __call__(self, x: np.ndarray) -> np.ndarray:
        slow, quick = both(x)
        rows = self.rows
        bpu = np.where(rows.fast, self.bpu_ms(quick)[rows.model], self.bpu_ms(slow)[rows.model])
        host = [np.where(rows.older, p.older_runtime, p.runtime + p.runtime_per_mb * self.results[rows.model]) / 1e3
                for p in (slow, quick)]
        latency = bpu + np.where(rows.fast, host[1], host[0])
        many: np.ndarray = np.maximum(bpu, latency / rows.threads)
        return np.where(rows.kind == "static", bpu, np.where(rows.kind == "latency", latency, many))


def both(x: np.ndarray) -> tuple[Parameters, Parameters]:
    """Parameters of nash-e and nash-m."""
    values = dict(zip(NAMES, np.exp(x).tolist(), strict=True))
    ddr, runtime = values.pop("ddr_ratio"), values.pop("runtime_ratio")
    slow = Parameters(**values, gap=0.0, gap_per_mb=0.0)
    return slow, slow.scaled(CLOCK_RATIO, ddr, runtime)


def fit(rows: Rows, starts: int = 3) -> np.ndarray:
    """Best logarithms of the free parameters over a few starts."""
    predict = Predictor(rows)
    weight = np.array([WEIGHTS[k] for k in rows.kind])

    def residuals(x: np.ndarray) -> np.ndarray:
        priors = [(x[i] - np.log(f.prior[0])) / f.prior[1] * PRIOR_ROW for i, f in enumerate(FREE) if f.prior]
        return np.concatenate([weight * np.log(predict(x) / rows.ms), priors])

    first = np.log([f.start for f in FREE])
    shaken = [first + np.random.default_rng(seed).normal(0, 0.2, len(first)) * (seed > 0) for seed in range(starts)]
    found = [levenberg_marquardt(residuals, start) for start in shaken]
    return min(found, key=lambda pair: pair[1])[0]


def levenberg_marquardt(residuals: Callable[[np.ndarray], np.ndarray], x: np.ndarray,
                        rounds: int = 80) -> tuple[np.ndarray, float]:
    """(x, cost) that minimizes the softened sum of squares of residuals."""
    def cost(r: np.ndarray) -> float:
        return float(SOFT**2 * (np.sqrt(1 + (r / SOFT) ** 2) - 1).sum())

    r, damping, step = residuals(x), 1e-2, 1e-4
    for _ in range(rounds):
        jacobian = np.stack([(residuals(x + step * unit) - r) / step for unit in np.eye(len(x))], axis=1)
        weight = 1 / np.sqrt(1 + (r / SOFT) ** 2)
        normal, slope = jacobian.T @ (weight[:, None] * jacobian), jacobian.T @ (weight * r)
        before = cost(r)
        while damping < 1e6:
            tried = x - np.linalg.solve(normal + damping * np.diag(np.diag(normal) + 1e-9), slope)
            tried_r = residuals(tried)
            if cost(tried_r) < before:
                x, r, damping = tried, tried_r, damping / 3
                break
            damping *= 4
        if before - cost(r) < 1e-9:
            break
    return x, cost(r)


@dataclass(frozen=True)
class Judged:
    """Relative errors on single-thread latency: within the fit, and of each family predicted by a fit without it."""

    x: np.ndarray
    left_out: dict[str, np.ndarray]
    inside: np.ndarray
    outside: np.ndarray


def judge(rows: Rows) -> Judged:
    """Fit to everything, then to everything but each family."""
    x = fit(rows)
    single = rows.only(rows.single)
    outside = np.zeros(len(single.ms))
    left: dict[str, np.ndarray] = {}
    for name in dict.fromkeys(rows.family):
        left[name] = fit(rows.only(rows.family != name), starts=1)
        mine = single.family == name
        outside[mine] = (Predictor(single)(left[name]) / single.ms - 1)[mine]
    return Judged(x, left, Predictor(single)(x) / single.ms - 1, outside)


def baseline(rows: Rows, columns: Sequence[int]) -> np.ndarray:
    """Cross-validated relative errors of t0 + sum of totals, fitted for each board by relative least squares."""
    single = rows.only(rows.single)
    table = np.array([[1.0, *single.models[m].totals[list(columns)]] for m in single.model])
    error = np.zeros(len(single.ms))
    for fast in (False, True):
        for name in dict.fromkeys(single.family):
            mine = (single.family == name) & (single.fast == fast)
            used = (single.family != name) & (single.fast == fast)
            scaled = table[used] / single.ms[used][:, None]
            solved = np.linalg.lstsq(scaled, np.ones(int(used.sum())), rcond=None)[0]
            error[mine] = table[mine] @ solved / single.ms[mine] - 1
    return error


def gaps(rows: Rows) -> tuple[float, float]:
    """us between two tasks of one thread, and more of them per MB of results: 1 / FPS minus latency, least squares."""
    with (DATA / "board_latency_fit.csv").open(encoding="utf-8") as file:
        lines = [line for line in csv.DictReader(file) if line["threads"] == "1" and line["kind"] == "measured"]
    by_name = {m.name: m.result_mb for m in rows.models}
    extra = np.array([1e6 / float(line["fps"]) - 1e3 * float(line["latency_ms"]) for line in lines])
    table = np.array([[1.0, by_name[line["model"]]] for line in lines])
    fixed, per_mb = np.linalg.lstsq(table, extra, rcond=None)[0]
    return max(float(fixed), 0.0), max(float(per_mb), 0.0)


def parameter_file(rows: Rows, judged: Judged) -> dict[str, object]:
    """The contents of `parameters.json`."""
    values = dict(zip(NAMES, np.exp(judged.x).tolist(), strict=True))
    ratios = {"compute": CLOCK_RATIO, "ddr": values.pop("ddr_ratio"), "runtime": values.pop("runtime_ratio")}
    values["gap"], values["gap_per_mb"] = gaps(rows)
    single = rows.only(rows.single)

    def error(march: str, errors: np.ndarray) -> float:
        return round(100 * mean(errors[single.fast == (march == FAST_MARCH)]), 1)

    return {
        "made by": "python -m benchmarks.fit_perf",
        BASE_MARCH: {name: rounded(value) for name, value in values.items()},
        f"{FAST_MARCH} to {BASE_MARCH}": {name: rounded(value) for name, value in ratios.items()},
        "basis": {
            march: {
                "rows": int((rows.fast == (march == FAST_MARCH)).sum()),
                "models": len({int(m) for m in single.model[single.fast == (march == FAST_MARCH)]}),
                "error_percent": error(march, judged.inside),
                "left_out_error_percent": error(march, judged.outside),
            } for march in (BASE_MARCH, FAST_MARCH)
        },
    }


def mean(errors: np.ndarray) -> float:
    """Mean absolute error."""
    return float(np.abs(errors).mean())


def rounded(value: float) -> float:
    return float(f"{value:.4g}")


def main() -> int:
    from benchmarks.fit_perf_page import page

    rows = read()
    judged = judge(rows)
    text = page(rows, judged)
    print(text)
    if "--check" not in sys.argv[1:]:
        PARAMETERS.write_text(json.dumps(parameter_file(rows, judged), indent=1) + "\n", encoding="utf-8")
        PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
