"""The record of an estimate under the vendor's field names, and the lines of the console."""
from __future__ import annotations

from importlib import metadata
from typing import Any

from ptqlab.perf.estimate import Estimate, Interval, LayerCost

INTERVALS = 32
ENGINES = ("LOAD", "TAE", "VAE", "AAE", "TRANS", "VPU", "STORE")


def performance_json(found: Estimate, options: str = "") -> dict[str, Any]:
    """The structure of the static performance JSON; what the vendor does not have stands under "ptqlab".

    options  compiler options to show, as one line
    """
    memory = found.memory
    cut = intervals(found)
    core = {
        "FPS": per_second(found.latency_us),
        "latency (us)": round(found.latency_us, 1),
        "latency (ms)": round(found.latency_us / 1e3, 4),
        "latency (us) by segments": [round(us, 1) for us in found.segments_us],
    }
    return {
        "summary": {
            "performance": core,
            "DDR access data": {
                "DDR megabytes per run": round((memory.loaded + memory.stored) / 1e6, 3),
                "loaded bytes per run": memory.loaded,
                "stored bytes per run": memory.stored,
                "min memory requirement": memory.least,
                "input memory": memory.input,
                "output memory": memory.output,
                "static memory": memory.static,
                "dynamic memory": memory.dynamic,
                "intermediate memory": memory.intermediate,
                "temporary memory": 0,
            },
            "interval info": {
                "interval number": len(cut.utilization),
                "interval time (ms)": round(cut.length_us / 1e3, 6),
                "interval computing unit utilization": [round(u, 4) for u in cut.utilization],
                "interval ddr loading bandwidth (megabytes/s)": [round(b, 1) for b in cut.loading],
                "interval ddr storing bandwidth (megabytes/s)": [round(b, 1) for b in cut.storing],
            },
            "layer details": [_details(layer, found) for layer in found.layers if layer.device == "BPU"],
            "model info": {
                "BPU march": found.march,
                "BPU core number": found.core_num,
                "compiling HBDK version": f"none: estimated by ptqlab {metadata.version('ptqlab')}",
                "compiling options": options,
                "double int8 macs": found.macs.int8,
                "feature int16 weight int8 macs": found.macs.feature_int16_weight_int8,
                "feature int8 weight int16 macs": found.macs.feature_int8_weight_int16,
                "double int16 macs": found.macs.int16,
                "original conv ops": found.macs.original_conv_ops,
            },
        },
        "coreSummaryGroup": [core] * found.core_num,
        "details": [[_bar(bar) for bar in found.timeline]] * found.core_num,
        "ptqlab": {
            "board latency (us)": round(found.board_latency_us, 1),
            "runtime (us)": round(found.runtime_us, 1),
            "CPU operators (us)": round(found.cpu_us, 1),
            "FPS (1 thread)": round(found.fps_1_thread, 2),
            "FPS (2 threads)": round(found.fps_2_threads, 2),
            "rests on": list(found.basis),
            "backed by board": found.backed_by_board,
        },
    }


def per_second(us: float) -> float:
    """Runs a second, 0 where a run takes no time."""
    return round(1e6 / us, 2) if us else 0.0


def share(us: float, found: Estimate) -> str:
    """A time as the vendor writes it: "59 us (8.2% of model)"."""
    of = 100 * us / found.latency_us if found.latency_us else 0.0
    return f"{us:.1f} us ({of:.1f}% of model)"


def _details(layer: LayerCost, found: Estimate) -> dict[str, str]:
    return {
        "layer name": layer.name,
        "active period of time": f"{layer.start_us:.1f} - {layer.end_us:.1f} us ({layer.period_us:.1f} us)",
        "computing cost (no DDR)": share(layer.computing_us, found),
        "load cost": share(layer.load_us, found),
        "store cost": share(layer.store_us, found),
        "origin ops": ", ".join(layer.nodes),
    }


def _bar(bar: Interval) -> dict[str, Any]:
    return {"inst_type": bar.engine, "source_layer_names": [bar.layer], "start_time (us)": round(bar.start_us, 3),
            "working_time (us)": round(bar.working_us, 3)}


class Intervals:
    """A run cut into equal parts: share of time that the TAE works, and DDR bandwidth in MB/s of each."""

    def __init__(self, length_us: float, utilization: list[float], loading: list[float], storing: list[float]) -> None:
        self.length_us, self.utilization, self.loading, self.storing = length_us, utilization, loading, storing


def intervals(found: Estimate, count: int = INTERVALS) -> Intervals:
    """Utilization of the TAE and bandwidth over the run."""
    end = found.latency_us
    if end <= 0:
        return Intervals(0.0, [], [], [])
    length = end / count
    busy = _spread([(b.start_us, b.working_us, b.working_us) for b in found.timeline if b.engine == "TAE"],
                   length, count)
    moved = {name: sum(b.working_us for b in found.timeline if b.engine == name) for name in ("LOAD", "STORE")}
    total = {"LOAD": found.memory.static + found.memory.input, "STORE": found.memory.output}
    bandwidth = {
        name: _spread([(b.start_us, b.working_us, b.working_us / moved[name] * total[name])
                       for b in found.timeline if b.engine == name], length, count)
        for name in ("LOAD", "STORE")
    }
    return Intervals(length, [min(1.0, us / length) for us in busy], [b / length for b in bandwidth["LOAD"]],
                     [b / length for b in bandwidth["STORE"]])


def _spread(parts: list[tuple[float, float, float]], length: float, count: int) -> list[float]:
    """Amounts spread evenly over their (start, duration), summed by interval. us and bytes: bytes / us is MB/s."""
    found = [0.0] * count
    for start, duration, amount in parts:
        if duration <= 0:
            continue
        first, last = int(start / length), int((start + duration) / length)
        for index in range(min(first, count - 1), min(last, count - 1) + 1):
            low = max(start, index * length) if index > first else start
            high = min(start + duration, (index + 1) * length) if index < count - 1 else start + duration
            found[index] += amount * max(0.0, high - low) / duration
    return found


def summary_lines(found: Estimate) -> tuple[str, ...]:
    """What the console says of an estimate."""
    us = found.latency_us
    lines = [
        f"FPS ({found.core_num} core): {per_second(us):.2f}",
        f"latency: {us / 1e3:.2f} ms ({us:.1f} us)",
        f"BPU conv original OPs per run: {found.macs.original_conv_ops:,}",
        f"DDR = {found.memory.loaded + found.memory.stored} bytes",
        f"on the board: {found.board_latency_us / 1e3:.2f} ms with one thread "
        f"({found.fps_1_thread:.1f} FPS), {found.fps_2_threads:.1f} FPS with two",
    ]
    if found.cpu_us:
        lines.append(f"CPU operators: {found.cpu_us:.1f} us of it (guess)")
    return (*lines, *(f"rests on: {sentence}" for sentence in found.basis))
