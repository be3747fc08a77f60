"""Thresholds by max over samples and sources, and what calibration says of odd tensors."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from calibration_nets import recipe
from core_models import EDGES, f32, net, weights
from models import init, node, random
from small import planned

from ptqlab.errors import Interrupted
from ptqlab.events import Event, Watch
from ptqlab.quantize.calibrate import LARGE_THRESHOLD, SAFE_THRESHOLD, calibrate, needed_tensors
from ptqlab.quantize.samples import load_samples
from ptqlab.stages.calibration import Calibration


def calibrated(nodes: list, outputs: list[str], inits: list, *samples: dict[str, np.ndarray]) -> Calibration:
    graph, plan = planned(net(nodes, outputs, inits, samples[0])[0])
    return calibrate(graph, plan, list(samples), len(samples), Watch())


CONV_RELU = [
    node("Conv", ["x", "one"], "c", "conv"),
    node("Relu", ["c"], "r", "relu"),
    node("Conv", ["r", "one"], "y", "end"),
]
ONE = [init("one", np.ones((1, 1, 1, 1), f32))]


def x(*values: float) -> dict[str, np.ndarray]:
    return {"x": np.array(values, f32).reshape(1, 1, 1, -1)}


def test_the_threshold_is_the_largest_magnitude_over_all_samples() -> None:
    """T = max |x| of every sample; behind the Relu only what passes it counts."""
    found = calibrated(CONV_RELU, ["y"], ONE, x(1, -7, 2), x(3, -2, 5)).thresholds
    assert (found["x"].value, found["x"].low, found["x"].high) == (7.0, -7.0, 5.0)
    assert (found["r"].value, found["r"].low, found["r"].high) == (5.0, 0.0, 5.0)


def test_a_slot_takes_the_values_of_all_its_tensors() -> None:
    """Two operands of a Concat share a threshold: the larger range sets it."""
    nodes = [
        node("Conv", ["x", "w"], "c", "conv"),
        node("Conv", ["x", "v"], "d", "conv2"),
        node("Concat", ["c", "d"], "k", "cat", axis=1),
        node("Conv", ["k", "end"], "y", "end"),
    ]
    inits = [
        init("w", np.ones((1, 1, 1, 1), f32)),
        init("v", np.full((1, 1, 1, 1), -10, f32)),
        *weights(end=(1, 2, 1, 1)),
    ]
    graph, plan = planned(net(nodes, ["y"], inits, x(1, 2))[0])
    found = calibrate(graph, plan, [x(1, 2)], 1, Watch()).thresholds[plan.tensors["k"].slot]
    assert (found.value, found.low, found.high) == (20.0, -20.0, 2.0)


def test_only_tensors_that_set_a_threshold_are_observed() -> None:
    """Fused results, movers and what the CPU computes for itself are not looked at."""
    _, plan = planned(EDGES["passive_chain"]()[0])
    assert set(needed_tensors(plan)) == {"x", "c"}


def test_an_all_zero_tensor_gets_a_safe_threshold_and_one_warning_that_names_it() -> None:
    """T is 1.0 and not 0, tagged all-zero; the warning names tensor and node and says what to do."""
    found = calibrated(CONV_RELU, ["y"], ONE, x(-1, -2, -3))
    assert (found.thresholds["r"].value, found.thresholds["r"].tags) == (SAFE_THRESHOLD, ("all-zero",))
    findings = [f for f in found.findings if f.code == "PTQ501"]
    assert len(findings) == 1
    assert findings[0].nodes == ("relu",) and "tensor r (node relu) is all zero" in findings[0].message
    assert findings[0].hint


@pytest.mark.parametrize("size", [1e-42, 1e-31])
def test_values_that_float32_cannot_scale_count_as_zeros(size: float) -> None:
    """A step of T / 32767 would lose its bits below the smallest normal float32."""
    found = calibrated(CONV_RELU, ["y"], ONE, x(size, -size, size))
    assert found.thresholds["x"].value == SAFE_THRESHOLD


def test_constant_data_are_tagged() -> None:
    """One fixed value: T is its magnitude, the tag tells."""
    found = calibrated(CONV_RELU, ["y"], ONE, x(0.25, 0.25), x(0.25, 0.25)).thresholds["x"]
    assert (found.value, found.tags) == (0.25, ("constant",))


def test_values_that_are_not_finite_do_not_count_and_are_told() -> None:
    """An Inf inside of the model leaves the threshold to the finite values, with a warning that counts it."""
    nodes = [node("Mul", ["x", "x"], "q", "square"), node("Conv", ["q", "one"], "y", "end")]
    found = calibrated(nodes, ["y"], ONE, x(2, 1e25, 3))
    assert found.thresholds["q"].value == 9.0
    told = [f for f in found.findings if f.code == "PTQ502"]
    assert len(told) == 1 and told[0].nodes == ("square",) and "1 of 3 values are NaN or Inf" in told[0].message


def test_a_very_large_threshold_is_told_with_its_step() -> None:
    """Above 8000 the int8 step is wider than 62: a finding names the tensor."""
    found = calibrated(CONV_RELU, ["y"], ONE, x(LARGE_THRESHOLD * 2))
    told = [f for f in found.findings if f.code == "PTQ503"]
    assert {f.nodes for f in told} == {(), ("relu",)}
    assert "tensor x has a threshold of 16000: int8 steps are 125.984 wide" in {f.message for f in told}


def test_a_tensor_of_the_cpu_that_the_bpu_reads_is_observed() -> None:
    """What an operator on the CPU hands to the BPU is quantized there, so its range counts."""
    graph, plan = planned(EDGES["cpu_islands"]()[0])
    found = calibrate(graph, plan, [EDGES["cpu_islands"]()[1]], 1, Watch())
    assert {"s", "h"} <= set(found.thresholds) and found.thresholds["h"].value == 1.0


def test_stopping_between_two_samples_ends_calibration() -> None:
    """The stop is heard after the sample at hand, and tells how far it came."""
    graph, plan = planned(net(CONV_RELU, ["y"], ONE, x(1))[0])
    watch = Watch()

    def stop(event: Event) -> None:
        if event.kind == "step":
            watch.stop()

    watch.listeners.append(stop)
    with pytest.raises(Interrupted) as caught:
        calibrate(graph, plan, [x(1), x(2), x(3)], 3, watch)
    assert (caught.value.stage, caught.value.done, caught.value.total) == ("calibrate", 1, 3)


def test_the_samples_are_read_one_at_a_time() -> None:
    """Calibration holds one sample: the second is asked for only when the first is done."""
    graph, plan = planned(net(CONV_RELU, ["y"], ONE, x(1))[0])
    events: list[str] = []
    watch = Watch(lambda event: events.append(event.kind))

    def samples() -> object:
        for index in range(2):
            events.append(f"read {index}")
            yield x(index + 1)

    calibrate(graph, plan, samples(), 2, watch)
    assert events == ["start", "read 0", "step", "read 1", "step", "end"]


def test_random_weights_are_covered_by_their_thresholds() -> None:
    """No value that was seen lies outside of [-T, T]."""
    made, feeds = EDGES["two_inputs"]()
    graph, plan = planned(made)
    found = calibrate(graph, plan, [feeds], 1, Watch()).thresholds
    assert all(-t.value <= t.low <= t.high <= t.value for t in found.values())
    assert found["a"].value == np.abs(feeds["a"]).max()


@pytest.mark.parametrize("block", [{}, {"activation": {"calibration_type": ["max", "mse"]}}], ids=["default", "search"])
def test_memory_does_not_grow_with_the_samples(block: dict[str, Any], tmp_path: Path) -> None:
    """From a folder, 64 samples need as much memory as 8, within 5 %: none is kept."""
    name, size = "x", 128
    nodes = [node("Conv", [name, "w"], "c", "conv", strides=[4, 4]), node("Relu", ["c"], "y", "relu")]
    graph, plan = planned(net(nodes, ["y"], [init("w", random(4, 3, 4, 4))], {name: random(1, 3, size, size)})[0])
    for index in range(64):
        np.save(tmp_path / f"{index:03d}.npy", random(3, size, size, seed=index))
    samples = load_samples({name: tmp_path}, {name: ((1, 3, size, size), np.float32)})
    asked = recipe(graph, plan, block)
    peaks = []
    for count in (8, 8, 64):  # the first run imports and fills caches
        tracemalloc.start()
        calibrate(graph, plan, samples.first(count), count, Watch(), asked)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[2] <= 1.05 * peaks[1]
