"""The estimate: layers in, latency and all its parts out."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ptqlab.arith.formats import QType
from ptqlab.errors import Problem, PtqError
from ptqlab.perf.basis import basis
from ptqlab.perf.cost import Course, Times, run, times
from ptqlab.perf.host import CpuCost, cpu_costs, runtime_us, switch_us
from ptqlab.perf.layer import TAE_OPS, Layer, check, results
from ptqlab.perf.memory import Memory, memory
from ptqlab.perf.parameters import CORE_GAIN, Parameters, parameters
from ptqlab.perf.work import input_bytes, passes_of, work_of
from ptqlab.platforms import platform


@dataclass(frozen=True)
class LayerCost:
    """One layer of the per-layer table; us from the start of the run.

    start_us, end_us  active period;  computing_us  without DDR;  load_us, store_us  DDR
    tae_us, vector_us, aae_us  work of each engine;  bound  what decides: TAE, vector, DDR, AAE, commands or CPU
    device  BPU or CPU;  nodes  nodes of the graph computed in it
    """

    name: str
    op: str
    device: str
    segment: int | None
    qtype: str
    start_us: float
    end_us: float
    computing_us: float
    load_us: float
    store_us: float
    tae_us: float
    vector_us: float
    aae_us: float
    bound: str
    macs: int
    weight_bytes: int
    nodes: tuple[str, ...]

    @property
    def period_us(self) -> float:
        return self.end_us - self.start_us


@dataclass(frozen=True)
class Interval:
    """A bar of the timeline: engine (LOAD, TAE, VAE, AAE, TRANS, VPU, STORE), layer, us."""

    engine: str
    layer: str
    start_us: float
    working_us: float


@dataclass(frozen=True)
class Macs:
    """MACs by types, without padding, and operations of convolutions and Gemm (two for each MAC)."""

    int8: int
    feature_int16_weight_int8: int
    feature_int8_weight_int16: int
    int16: int
    original_conv_ops: int


@dataclass(frozen=True)
class Estimate:
    """Static estimate of one model on one march; all times in us.

    latency_us         BPU part, the vendor's static figure;  segments_us  the same by segments
    board_latency_us   one thread, from submitting the task to its end: BPU, runtime, CPU operators
    runtime_us         runtime around the task;  cpu_us  operators on the CPU and conversions (guess)
    fps_*              frames a second;  two threads hide the runtime behind the BPU
    basis              sentences: what the figures rest on;  backed_by_board  published rows of this march were fitted
    """

    model: str
    march: str
    core_num: int
    latency_us: float
    segments_us: tuple[float, ...]
    board_latency_us: float
    runtime_us: float
    cpu_us: float
    fps_1_thread: float
    fps_2_threads: float
    memory: Memory
    macs: Macs
    layers: tuple[LayerCost, ...]
    cpu: tuple[CpuCost, ...]
    timeline: tuple[Interval, ...]
    basis: tuple[str, ...]
    backed_by_board: bool

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)


def rates_of(march: str, core_num: int) -> Parameters:
    """Rates of a march for a number of cores. PtqError where the march has not so many."""
    target = platform(march)
    if not 1 <= core_num <= target.cores:
        raise PtqError(Problem("PTQ450", "core_num", str(core_num), f"1 to {target.cores} on {march}"), "estimate")
    rates = parameters(march)
    return rates if core_num == 1 else rates.scaled(1 + CORE_GAIN * (core_num - 1), 1.0, 1.0)


def estimate(layers: Sequence[Layer], march: str, *, model: str = "model", core_num: int = 1,
             older_runtime: bool = False) -> Estimate:
    """Estimate of a model whose layers are given in order of execution.

    older_runtime  boards before OE 3.5: the runtime costs less and does not grow with the results
    Raises PtqError for an unknown march, too many cores, or layers that form no network.
    """
    check(layers)
    rates = rates_of(march, core_num)
    spent = times(work_of(layers), rates)
    first = input_bytes(layers) / rates.ddr / 1e3
    course = run(spent, first)
    cpu = cpu_costs(layers)
    segments = segment_times(layers, spent, course)
    cpu_us = sum(c.total_us for c in cpu) + max(0, len(segments) - 1) * switch_us(rates)
    result_mb = sum(layers[i].writes for i in results(layers)) * 4 / 1e6
    runtime = runtime_us(rates, result_mb, older_runtime) if segments else 0.0
    board = course.total + runtime + cpu_us
    task = board + rates.gap + rates.gap_per_mb * result_mb
    sentences, backed = basis(march, core_num, bool(cpu_us))
    return Estimate(
        model=model, march=march, core_num=core_num, latency_us=course.total, segments_us=segments,
        board_latency_us=board, runtime_us=runtime, cpu_us=cpu_us, fps_1_thread=1e6 / task,
        fps_2_threads=1e6 / max(course.total, cpu_us, task / 2), memory=memory(layers), macs=count_macs(layers),
        layers=layer_costs(layers, spent, course), cpu=cpu, timeline=timeline(layers, spent, course, first),
        basis=sentences, backed_by_board=backed,
    )


def segment_times(layers: Sequence[Layer], spent: Times, course: Course) -> tuple[float, ...]:
    """BPU time of each segment; the inputs are loaded by the first, the AAE may end in the last."""
    whole = spent.whole
    found: dict[int, float] = {}
    for index, layer in enumerate(layers):
        if layer.on_bpu:
            found[layer.segment or 0] = found.get(layer.segment or 0, 0.0) + float(whole[index])
    ordered = [found[key] for key in sorted(found)]
    if ordered:
        ordered[0] += float(course.start[0])
        ordered[-1] += course.total - float(course.end[-1])
    return tuple(ordered)


def layer_costs(layers: Sequence[Layer], spent: Times, course: Course) -> tuple[LayerCost, ...]:
    """The per-layer table."""
    return tuple(
        LayerCost(
            layer.name, layer.op, layer.device, (layer.segment or 0) if layer.on_bpu else None, layer.qtype.value,
            start_us=float(course.start[i]), end_us=float(course.end[i]),
            computing_us=float(max(spent.tae[i], spent.vector[i]) + spent.fixed[i]),
            load_us=float(spent.load[i]), store_us=float(spent.store[i]), tae_us=float(spent.tae[i]),
            vector_us=float(spent.vector[i]), aae_us=float(spent.beside[i]), bound=_bound(layer, spent, i),
            macs=layer.macs, weight_bytes=layer.weight_bytes, nodes=layer.nodes or (layer.name,),
        )
        for i, layer in enumerate(layers)
    )


def _bound(layer: Layer, spent: Times, i: int) -> str:
    if not layer.on_bpu:
        return "CPU"
    parts = {"TAE": spent.tae[i], "vector": spent.vector[i], "DDR": max(spent.load[i], spent.store[i]),
             "AAE": spent.beside[i], "commands": spent.fixed[i]}
    return max(parts, key=lambda name: float(parts[name]))


def timeline(layers: Sequence[Layer], spent: Times, course: Course, first: float) -> tuple[Interval, ...]:
    """Every engine's bars, by start."""
    bars = [Interval("LOAD", "input", 0.0, first)] if first else []
    for i, layer in enumerate(layers):
        start = float(course.start[i])
        engine = "VAE" if layer.op in TAE_OPS else passes_of(layer.op).engine
        stored = float(course.end[i]) - float(spent.store[i])
        for name, begin, length in (("LOAD", start, spent.load[i]), ("TAE", start, spent.tae[i]),
                                    (engine, start, spent.vector[i]), ("AAE", float(course.beside[i]), spent.beside[i]),
                                    ("STORE", stored, spent.store[i])):
            if length > 0:
                bars.append(Interval(name, layer.name, begin, float(length)))
    return tuple(sorted(bars, key=lambda bar: bar.start_us))


def count_macs(layers: Sequence[Layer]) -> Macs:
    """MACs on the BPU by the types of features and weights."""
    counts = dict.fromkeys(((8, 8), (16, 8), (8, 16), (16, 16)), 0)
    for layer in layers:
        if layer.on_bpu and layer.op in TAE_OPS:
            weights = layer.weight_qtype if layer.weights else layer.qtype
            counts[8 if layer.qtype is QType.INT8 else 16, 8 if weights is QType.INT8 else 16] += layer.macs
    conv = sum(layer.macs for layer in layers if layer.on_bpu and layer.op in TAE_OPS and layer.weights)
    return Macs(counts[8, 8], counts[16, 8], counts[8, 16], counts[16, 16], 2 * conv)
