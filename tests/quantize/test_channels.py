"""Steps per channel: where they can be, what they do to every form of the model, and that they must prove useful."""
from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from calibration_nets import mobile, recipe
from core_models import f32, net
from models import init, node, random
from small import planned

from ptqlab.arith.formats import QType
from ptqlab.arith.metrics import Agreement
from ptqlab.arith.rounding import fake_quantize
from ptqlab.events import Watch
from ptqlab.graph import FloatGraph, session
from ptqlab.ops.calibration_node import DOMAIN
from ptqlab.placement import Ask, Asks
from ptqlab.quantize.calibrate import calibrate
from ptqlab.quantize.calibrated import calibrated_model, with_folded_weights
from ptqlab.quantize.channels import FLOOR, equalized, factors, find_channels, reader_weights
from ptqlab.quantize.encode import encode
from ptqlab.quantize.lower import lower
from ptqlab.quantize.methods import Method
from ptqlab.quantize.options import Reach, by_channel
from ptqlab.simulate import FastExecutor, ReferenceExecutor
from ptqlab.stages.calibration import Calibration
from ptqlab.stages.plan import Plan

ASKED = {"activation": {"calibration_type": "max", "per_channel": True}}
Case = tuple[FloatGraph, Plan, list[dict[str, np.ndarray]]]


def spread(*shape: int, seed: int) -> np.ndarray:
    """Random weights whose output channels (axis 0) differ in size by up to 16."""
    sizes = np.geomspace(1, 1 / 16, shape[0], dtype=f32).reshape(-1, *(1,) * (len(shape) - 1))
    return random(*shape, seed=seed) * sizes


def convolutions(qtype: str = "int8") -> Case:
    """Conv -> Relu -> grouped Conv -> Clip -> ConvTranspose -> depthwise Conv -> Conv."""
    nodes = [
        node("Conv", ["x", "w0", "b0"], "c0", "conv0"), node("Relu", ["c0"], "r0", "relu"),
        node("Conv", ["r0", "w1"], "c1", "conv1", group=2, pads=[1, 1, 1, 1]),
        node("Clip", ["c1", "zero", "six"], "r1", "clip"),
        node("ConvTranspose", ["r1", "w2"], "c2", "convt", group=2, strides=[2, 2]),
        node("Conv", ["c2", "w3"], "c3", "depthwise", group=8), node("Conv", ["c3", "w4"], "y", "end"),
    ]
    wide = [spread(8, 4, 1, 1, seed=1), spread(8, 4, 3, 3, seed=2), random(8, 4, 2, 2, seed=3),
            spread(8, 1, 3, 3, seed=4), random(5, 8, 1, 1, seed=5)]
    inits = [init(f"w{i}", w) for i, w in enumerate(wide)] + [
        init("b0", random(8, seed=6)), init("zero", f32(0)), init("six", f32(6))]
    return case(nodes, inits, (1, 4, 6, 6), qtype)


def products(qtype: str = "int8") -> Case:
    """Gemm -> Relu -> Gemm with transB -> MatMul -> MatMul on rows."""
    nodes = [
        node("Gemm", ["x", "w0", "b0"], "c0", "gemm0"), node("Relu", ["c0"], "r0", "relu"),
        node("Gemm", ["r0", "w1"], "c1", "gemm1", transB=1), node("MatMul", ["c1", "w2"], "c2", "mm2"),
        node("MatMul", ["c2", "w3"], "y", "mm3"),
    ]
    inits = [init("w0", spread(8, 6, seed=1).T), init("b0", random(8, seed=2)), init("w1", spread(7, 8, seed=3)),
             init("w2", spread(6, 7, seed=4).T), init("w3", random(6, 3, seed=5))]
    return case(nodes, inits, (5, 6), qtype)


def case(nodes: list[Any], inits: list[Any], shape: tuple[int, ...], qtype: str) -> Case:
    samples = [{"x": random(*shape, seed=20 + i)} for i in range(4)]
    model = net(nodes, ["y"], inits, samples[0])[0]
    graph = planned(model)[0]
    graph, plan = planned(model, asks=Asks({str(n.name): Ask(qtype, level="model") for n in graph.nodes}))
    return graph, plan, samples


def forced(graph: FloatGraph, plan: Plan, samples: list[dict[str, np.ndarray]], **more: Any) -> Calibration:
    """A calibration with steps per channel wherever they can be (one sample alone confirms nothing)."""
    block = {"activation": ASKED["activation"] | more}
    return calibrate(graph, plan, samples[:1], 1, Watch(), recipe(graph, plan, block))


def test_where_they_can_be() -> None:
    """Between two operators with weights; the rest keeps one step, with a reason."""
    graph, plan, _ = mobile(1)
    found = find_channels(graph, plan)
    assert found.trailing == {"r0": 2, "r1": 2}
    assert found.limits == {"r0": 6.0, "r1": 6.0}
    assert found.reasons["x"] == "no operator on the BPU writes it"
    assert found.reasons["sum"] == "a residual is added to it"
    assert found.reasons["mean_inner"] == "operators that only move data share it"
    graph, plan, _ = convolutions()
    assert find_channels(graph, plan).trailing == {"r0": 2, "r1": 2, "c2": 2, "c3": 2}
    graph, plan, _ = products()
    assert find_channels(graph, plan).trailing == {"r0": 0, "c1": 0, "c2": 0}


def test_factors() -> None:
    """T[c] / T, never above 1 nor below the floor, rounded up to a grid of 1 / 4096."""
    got = factors(np.array([4.0, 3.0001, 2.0, 0.5, 0.0, 9.0], f32), 4.0)
    assert got.tolist() == [1.0, 3073 / 4096, 0.5, FLOOR, FLOOR, 1.0]


@pytest.mark.parametrize("qtype", ["int8", "int16", "dual-int16"])
@pytest.mark.parametrize("asymmetric", [False, True])
@pytest.mark.parametrize("make", [convolutions, products])
@pytest.mark.parametrize("key", ["per_channel", "equalization"])
def test_all_forms_agree(key: str, make: Any, asymmetric: bool, qtype: str) -> None:
    """Every executor of the integer model gives the same bits; the calibrated model computes the formula per channel,
    folded or not; and the integer model stays as near to it as rescaling lets it."""
    graph, plan, samples = make(qtype)
    found = forced(graph, plan, samples, asymmetric=asymmetric, **{"per_channel": False, key: True})
    encoded = encode(graph, plan, found)
    assert set(encoded.channels) == set(find_channels(graph, plan).trailing)
    assert all(len(set(steps.ravel().tolist())) > 1 for steps in encoded.channels.values())
    calibrated = calibrated_model(graph, plan, encoded)
    check_formula(calibrated.model, encoded, samples[0])
    plain = session(calibrated.model).run(None, samples[0])[0]
    folded = session(with_folded_weights(calibrated, encoded)).run(None, samples[0])[0]
    np.testing.assert_allclose(folded, plain, rtol=1e-5, atol=1e-6)
    quantized = lower(graph, plan, encoded)
    keep = list(dict.fromkeys(t.name for t in quantized.integers.values()))
    wanted = ReferenceExecutor(quantized, keep=keep).run(samples[0])
    runner = session(quantized.model, outputs=list(wanted), optimise=False)
    for form in (FastExecutor(quantized, keep=keep).run(samples[0]),
                 dict(zip(runner.output_names, runner.run(None, samples[0]), strict=True))):
        for tensor, array in wanted.items():
            np.testing.assert_array_equal(form[tensor], array, err_msg=tensor)
    agreement = Agreement()
    agreement.add(plain, wanted["y"], distances=True)
    assert agreement.sqnr > (30 if qtype == "int8" else 50)
    for slot, steps in encoded.channels.items():
        np.testing.assert_allclose(quantized.integers[slot].scale, encoded.slots[slot].scale * steps, rtol=1e-6)


def check_formula(model: Any, encoded: Any, sample: dict[str, np.ndarray]) -> None:
    nodes = [n for n in model.graph if n.domain == DOMAIN and n.attributes["kind"].as_string() == "activation"]
    names = list(dict.fromkeys(str(v.name) for n in nodes for v in (n.inputs[0], n.outputs[0])))
    runner = session(model, outputs=names, optimise=False)
    values = dict(zip(runner.output_names, runner.run(None, sample), strict=True))
    for made in nodes:
        slot = made.metadata_props["ptqlab.slot"]
        e = encoded.view(slot, QType(made.metadata_props["ptqlab.qtype"]))
        scale = e.scale * encoded.channels.get(slot, f32(1))
        wanted = fake_quantize(values[str(made.inputs[0].name)], scale, e.zero_point, e.low, e.high)
        np.testing.assert_array_equal(values[str(made.outputs[0].name)], wanted)


def test_they_are_finer_where_channels_differ() -> None:
    """On channels of very different size the output comes nearer than with one step."""
    graph, plan, samples = convolutions()
    with_steps = forced(graph, plan, samples)
    without = replace(with_steps, thresholds={s: replace(t, channels=()) for s, t in with_steps.thresholds.items()})
    truth = session(graph.model).run(None, samples[0])[0]
    figures = []
    for found in (with_steps, without):
        agreement = Agreement()
        got = session(calibrated_model(graph, plan, encode(graph, plan, found)).model).run(None, samples[0])[0]
        agreement.add(truth, got, distances=True)
        figures.append(agreement.sqnr)
    assert figures[0] > figures[1]


def test_bias_correction_sees_the_weights_as_they_are_held() -> None:
    """With steps per channel the correction is the mean error of the weights divided by the factors again."""
    graph, plan, samples = convolutions()
    block = ASKED | {"weight": {"bias_correction": {"num_sample": 1}}}
    found = calibrate(graph, plan, samples[:1], 1, Watch(), recipe(graph, plan, block))
    encoded = encode(graph, plan, found)
    assert encoded.channels and found.means
    from ptqlab.quantize.means import mean_output_error
    from ptqlab.quantize.weights import dequantized

    for name, mean in found.means.items():
        raw = graph.constant(graph.node(name).inputs[1])
        assert raw is not None
        wanted = mean_output_error(graph.node(name), raw - dequantized(graph.node(name), encoded.weights[name]), mean)
        np.testing.assert_allclose(encoded.weights[name].correction, wanted, atol=1e-6)


def test_equalized_factors() -> None:
    """sqrt of the channel's share of T by the weight behind it, never below that share (nothing is cut off) nor above
    1; on the grid of 1 / 4096."""
    largest, weights = np.array([4.0, 1.0, 1.0, 1.0, 0.0]), np.array([1.0, 1.0, 0.25, 1e-3, 1.0])
    assert equalized(largest, 4.0, weights).tolist() == [1.0, 0.5, 1.0, 1.0, 1 / 4096]
    assert equalized(np.array([3.9]), 4.0, np.array([1.0]))[0] >= 3.9 / 4.0


@pytest.mark.parametrize("make", [convolutions, products])
def test_weights_of_the_readers(make: Any) -> None:
    """The largest weight of each input channel, each relative to its output channel's, by plain loops."""
    graph, _, _ = make()
    for reader in (n for n in graph.nodes if n.op_type in ("Conv", "ConvTranspose", "Gemm", "MatMul")):
        weight = np.abs(graph.constant(reader.inputs[1]).astype(np.float64))  # type: ignore[union-attr]
        group = reader.attributes["group"].as_int() if "group" in reader.attributes else 1
        channels = graph.shape(str(reader.inputs[0].name))[1]  # type: ignore[union-attr]
        found = np.zeros(channels)
        transposed = reader.op_type == "Gemm" and "transB" in reader.attributes
        for c in range(channels):
            own = c // (channels // group)
            outputs = weight.shape[0] // group if reader.op_type == "Conv" else weight.shape[0 if transposed else 1]
            for o in range(outputs):
                inside = slice(own * (channels // group), (own + 1) * (channels // group))
                if reader.op_type == "Conv":
                    row = weight[own * (weight.shape[0] // group) + o]
                    taps = row[c % (channels // group)]
                elif reader.op_type == "ConvTranspose":
                    row, taps = weight[inside, o], weight[c, o]
                else:
                    row, taps = (weight[o], weight[o, c]) if transposed else (weight[:, o], weight[c, o])
                found[c] = max(found[c], np.max(taps) / np.max(row))
        np.testing.assert_allclose(reader_weights(reader), found, rtol=1e-6)


def test_equalization_helps_where_channels_and_weights_differ() -> None:
    """On channels of very different size the outputs come nearer than with one step, and it is told by its own name."""
    graph, plan, samples = convolutions()
    block = {"activation": {"calibration_type": "max", "equalization": True}}
    found = calibrate(graph, plan, samples, 4, Watch(), recipe(graph, plan, block | {"modelwise_search": {}}))
    assert found.answers["equalization"]["kept"] is True
    assert found.thresholds["r0"].method == "max:equalization=True"
    # both asked: its steps are taken
    both = recipe(graph, plan, {"activation": {"per_channel": True, "equalization": True}})
    assert [m.word for m in both.slots["r0"].methods] == ["mse:equalization=True"]


@pytest.mark.parametrize("kept", [True, False])
def test_samples_that_did_not_set_them_confirm_them(kept: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The better score on the odd samples decides; scores and decision are in the answers, the reason at the tensor."""
    graph, plan, samples = convolutions()
    read: list[list[int]] = []

    def scores(graph: Any, plan: Any, both: Any, samples: Any, indices: Any, *_: Any) -> list[float]:
        read.append(list(indices))
        assert both[0].thresholds["r0"].channels and not both[1].thresholds["r0"].channels
        return [0.9, 0.8] if kept else [0.8, 0.9]

    monkeypatch.setattr("ptqlab.quantize.confirm.scores", scores)
    found = calibrate(graph, plan, samples, 4, Watch(), recipe(graph, plan, ASKED))
    assert read == [[1, 3]]
    assert found.answers["per_channel"]["kept"] is kept
    assert bool(found.thresholds["r0"].channels) is kept
    told = next(f for f in found.findings if f.code == "PTQ413")
    assert told.severity == "note"
    if kept:
        assert found.thresholds["r0"].method == "max:per_channel=True"
        assert "1 keep one step" in told.message
    else:
        assert found.thresholds["r0"].method == found.method == "max"
        assert "came out no better" in found.thresholds["r0"].note
        assert "4: samples that did not set the steps" in told.message


@pytest.mark.parametrize("search", ["modelwise_search", "layerwise_search"])
def test_searches_judge_them_on_the_other_samples(search: str) -> None:
    """[false, true] is a dimension of the search; half of the samples set the steps, the others judge."""
    graph, plan, samples = convolutions()
    steps: list[int] = []
    watch = Watch(lambda e: steps.append(e.total or 0) if e.kind == "start" and e.stage == "search" else None)
    block = {"activation": {"calibration_type": "max", "per_channel": [False, True]}, search: {"metric": "sqnr"}}
    found = calibrate(graph, plan, samples, 4, watch, recipe(graph, plan, block))
    assert steps == [2]
    assert any(t.channels for t in found.thresholds.values())
    assert not found.thresholds["x"].channels


def test_a_threshold_beyond_a_clip_keeps_one_step() -> None:
    """One clamp does for all channels only while no threshold exceeds the Clip's bound."""
    graph, plan, samples = convolutions()
    found = forced(graph, plan, samples)
    assert found.thresholds["r1"].channels
    threshold = replace(found.thresholds["r1"], value=7.0, channels=())
    kept = by_channel(threshold, Method("max", per_channel=True), Reach(np.ones(8, f32), limit=6.0))
    assert not kept.channels
    assert "beyond the bound 6 of the Clip" in kept.note
