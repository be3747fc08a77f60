"""Bias correction: the mean error of the weights is taken back, in both models, and only where it helps."""
from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from calibration_nets import mobile, recipe, with_shifts
from core_models import net, weights
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from models import node, random
from small import planned

from ptqlab.arith.formats import QType
from ptqlab.arith.metrics import Agreement
from ptqlab.arith.rounding import fake_quantize
from ptqlab.events import Watch
from ptqlab.graph import session
from ptqlab.quantize import shifts
from ptqlab.quantize.calibrate import calibrate
from ptqlab.quantize.calibrated import calibrated_model, with_folded_weights
from ptqlab.quantize.correction import judge, twin
from ptqlab.quantize.encode import encode
from ptqlab.quantize.lower import lower
from ptqlab.quantize.means import common
from ptqlab.quantize.recipe import Correction
from ptqlab.quantize.shifts import input_shifts, rounding_error
from ptqlab.quantize.weights import dequantized, float_bias
from ptqlab.simulate import FastExecutor, ReferenceExecutor
from ptqlab.stages.calibration import asymmetric

ALWAYS = {"weight": {"bias_correction": {"num_sample": 4}}}


def test_the_mean_error_of_the_weights_is_taken_back() -> None:
    """On the samples behind the means, the output of every node with corrected weights has the float mean."""
    graph, plan, samples = mobile(4)
    found = calibrate(graph, plan, samples, 4, Watch(), recipe(graph, plan))
    encoded = encode(graph, plan, found)
    for name, encoding in encoded.weights.items():
        x = graph.node(name).inputs[0]
        assert x is not None and encoding.correction is not None
        errors = []
        for sample in samples:
            feed = sample.get(str(x.name))
            if feed is None:
                feed = session(graph.model, outputs=[str(x.name)]).run(None, sample)[0]
            wanted, got = session(twin(graph.node(name), encoding)).run(None, {"x": feed})
            errors.append((wanted - got).mean(axis=(0, *range(2, wanted.ndim))))
        np.testing.assert_allclose(np.mean(errors, axis=0), encoding.own, atol=1e-5)
        assert encoding.own is not None and np.abs(encoding.own).max() > 1e-5


@pytest.mark.parametrize(("errors", "wanted"), [
    ([[1.0, 1.0, 0.5, 3.0]] * 16, [1.0, 1.0, 0.5, 3.0]),  # all alike
    ([[1.0, 1.0, 0.0, 0.5]] * 8 + [[3.0, -1.0, 0.1, 0.7]] * 8, [2.0, 0.0, 0.0, 0.6]),  # means 2, 0, 0.05, 0.6
    ([[1.0], [1.1]], [1.05]),  # two that are close
    ([[1.0], [2.0]], [0.0]),  # mean 1.5, twice its standard error: may be an accident
])
def test_what_samples_have_in_common(errors: list[list[float]], wanted: list[float]) -> None:
    """By hand: a mean beyond what the samples differ by, and with few of them far beyond its own error."""
    np.testing.assert_allclose(common(np.array(errors)), wanted)


def test_corrections_for_rounded_inputs_need_samples_that_agree() -> None:
    """Of samples that share their background the default corrects it; of two opposite kinds of samples it does not."""
    graph, plan, _ = mobile(1)
    alike = [{"x": random(1, 4, 9, 9, seed=i, scale=0.01) + np.float32(0.15)} for i in range(16)]
    kinds = [{"x": -s["x"] if i % 2 else s["x"]} for i, s in enumerate(alike)]
    shares = []
    for samples in (alike, kinds):
        for sample in samples:
            sample["x"][0, 0, 0, 0] = 4.0
        found = calibrate(graph, plan, samples, 16, Watch(), recipe(graph, plan))
        assert found.answers["bias_correction"] == {"samples": 16, "nodes": 4, "inputs": 4}
        first = encode(graph, plan, found).weights["conv0"]
        assert first.correction is not None and first.own is not None
        shares.append(float(np.mean(first.correction != first.own)))
    assert shares[0] >= 0.5 and shares[1] <= 0.2
    alone = calibrate(graph, plan, alike[:1], 1, Watch(), recipe(graph, plan))
    assert alone.shifts == {} and alone.means


@pytest.mark.parametrize("asymmetric", [False, True])
def test_the_mean_error_of_the_rounded_input_is_taken_back(asymmetric: bool) -> None:
    """With rounded weights on the rounded input, corrected for both, each node's output has the float mean."""
    graph, plan, samples = mobile(4)
    asked = recipe(graph, plan, {"activation": {"asymmetric": True}} if asymmetric else {})
    found = calibrate(graph, plan, samples, 4, Watch(), asked)
    encoded = encode(graph, plan, with_shifts(graph, plan, found, samples))
    for name, encoding in encoded.weights.items():
        tensor, e = str(graph.node(name).inputs[0].name), encoded.slots  # type: ignore[union-attr]
        errors = []
        for sample in samples:
            feed = sample[tensor] if tensor in sample else session(graph.model, outputs=[tensor]).run(None, sample)[0]
            read = e[plan.tensors[tensor].slot]
            rounded = fake_quantize(feed, read.scale, read.zero_point, read.low, read.high)
            runner = session(twin(graph.node(name), encoding))
            wanted, got = runner.run(None, {"x": feed})[0], runner.run(None, {"x": rounded})[1]
            errors.append((wanted - got).mean(axis=(0, *range(2, wanted.ndim))))
        np.testing.assert_allclose(np.mean(errors, axis=0), encoding.correction, atol=2e-5)
    assert any(not np.allclose(w.own, w.correction, atol=1e-4) for w in encoded.weights.values())


def test_bias_correction_of_the_configuration_speaks_of_weights_only() -> None:
    """What the vendor's key says; the default does more."""
    graph, plan, samples = mobile(4)
    asked = recipe(graph, plan, ALWAYS)
    assert asked.correction is not None and not asked.correction.inputs
    assert recipe(graph, plan).correction.inputs  # type: ignore[union-attr]
    found = calibrate(graph, plan, samples, 4, Watch(), asked)
    assert found.shifts == {} and found.means and "inputs" not in found.answers["bias_correction"]


def test_int16_inputs_have_no_shift() -> None:
    """Their steps move no mean, and without an int8 input the second pass is not made."""
    graph, plan, samples = mobile(4, "int16")
    found = calibrate(graph, plan, samples, 4, Watch(), recipe(graph, plan))
    assert found.means and found.shifts == {} and found.answers["bias_correction"]["inputs"] == 0
    assert all(w.own is w.correction for w in encode(graph, plan, found).weights.values())


def test_shifts_are_the_same_from_workers_and_from_the_store() -> None:
    """Bit for bit; of a changed threshold only what follows from it is computed again."""
    graph, plan, samples = mobile(4)
    found = calibrate(graph, plan, samples, 4, Watch(), recipe(graph, plan))
    kept: dict[str, bytes] = {}

    class Memory:
        get, put = staticmethod(kept.get), staticmethod(kept.__setitem__)

    alone = input_shifts(graph, plan, found, samples, 4, Watch())
    with ThreadPoolExecutor(3) as pool:
        many = input_shifts(graph, plan, found, samples, 4, Watch(), pool, Memory())
    before = len(kept)
    again = input_shifts(graph, plan, found, samples, 4, Watch(), store=Memory())
    assert len(kept) == before and set(again) == set(alone) == set(found.means)
    for name, shift in alone.items():
        assert np.array_equal(shift, many[name]) and np.array_equal(shift, again[name])
    first = next(iter(found.thresholds))
    wider = replace(found, thresholds=found.thresholds | {first: replace(found.thresholds[first], value=100.0)})
    input_shifts(graph, plan, wider, samples, 4, Watch(), store=Memory())
    assert len(kept) == before + 1
    kept.update(dict.fromkeys(kept, b"broken"))
    mended = input_shifts(graph, plan, found, samples, 4, Watch(), store=Memory())
    assert all(np.array_equal(shift, mended[name]) for name, shift in alone.items())


@given(arrays(np.float32, st.integers(1, 200), elements=st.floats(-9, 9, width=32)), st.sampled_from([1, 7, 64]))
@settings(max_examples=50, deadline=None)
def test_the_rounding_error_of_parts_is_that_of_the_whole(x: np.ndarray, chunk: int) -> None:
    """It is what quantize and dequantize add, but for ties; in chunks, too, and with steps of one for all channels."""
    e = asymmetric(-2.0, 5.0, QType.INT8)
    whole = rounding_error(x, e)
    wanted = fake_quantize(x, e.scale, e.zero_point, e.low, e.high) - x
    codes = x / e.scale
    tie = np.abs(codes - np.floor(codes) - 0.5) < 1e-4
    np.testing.assert_allclose(whole[~tie], wanted[~tie], atol=1e-6)
    inside = (codes > e.low - e.zero_point) & (codes < e.high - e.zero_point)
    assert np.abs(whole[inside]).max(initial=0) < 0.51 * e.scale
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shifts, "CHUNK", chunk)
        assert np.array_equal(rounding_error(x, e), whole)
    assert np.array_equal(rounding_error(x, e, np.ones(1, np.float32)), whole)


def test_the_integer_bias_and_the_calibrated_model_hold_it() -> None:
    """bias = round((b + correction) / (s_x s_w)); the calibrated model adds the same to its float bias."""
    graph, plan, samples = mobile(4)
    found = calibrate(graph, plan, samples, 4, Watch(), recipe(graph, plan))
    plain = replace(found, means={})
    with_it, without = encode(graph, plan, found), encode(graph, plan, plain)
    for name, encoding in with_it.weights.items():
        node_ = graph.node(name)
        x = with_it.slots[plan.tensors[str(node_.inputs[0].name)].slot]  # type: ignore[union-attr]
        bias = float_bias(node_, None, encoding.scale.size) + encoding.correction
        np.testing.assert_allclose(encoding.bias, bias / (float(x.scale) * encoding.scale.astype(float)), atol=0.51)
        assert np.array_equal(encoding.codes, without.weights[name].codes)
        assert without.weights[name].correction is None
    calibrated = calibrated_model(graph, plan, with_it)
    held = {str(n.name): n for n in calibrated.model.graph}
    for name, encoding in with_it.weights.items():
        bias = held[name].inputs[2].const_value.numpy()  # type: ignore[union-attr]
        np.testing.assert_allclose(bias, float_bias(graph.node(name), None, bias.size) + encoding.correction, rtol=1e-6)
    folded = session(with_folded_weights(calibrated, with_it)).run(None, samples[0])
    np.testing.assert_array_equal(folded[0], session(calibrated.model).run(None, samples[0])[0])


@pytest.mark.parametrize("tail", [False, True])
def test_matmul_without_a_bias(tail: bool) -> None:
    """MatMul gets an Add behind it in the calibrated model, as an output too; names and bits stay right."""
    nodes = [node("MatMul", ["x", "w"], "m", "mm")] + ([] if tail else [node("Relu", ["m"], "y", "relu")])
    nodes += [] if tail else [node("MatMul", ["y", "w2"], "z", "mm2")]
    feeds = {"x": np.abs(random(3, 6))}
    graph, plan = planned(net(nodes, ["m" if tail else "z"], weights(w=(6, 5), w2=(5, 4)), feeds)[0])
    found = calibrate(graph, plan, [feeds], 1, Watch(), recipe(graph, plan))
    encoded = encode(graph, plan, found)
    calibrated = calibrated_model(graph, plan, encoded)
    assert [str(v.name) for v in calibrated.model.graph.outputs] == ["m" if tail else "z"]
    wanted = session(graph.model).run(None, feeds)[0]
    better = Agreement()
    better.add(wanted, session(calibrated.model).run(None, feeds)[0], distances=True)
    worse = Agreement()
    plain = encode(graph, plan, replace(found, means={}))
    worse.add(wanted, session(calibrated_model(graph, plan, plain).model).run(None, feeds)[0], distances=True)
    assert better.mse < worse.mse
    quantized = lower(graph, plan, encoded)
    keep = [t.name for t in quantized.integers.values()]
    a, b = (kind(quantized, keep=keep).run(feeds) for kind in (ReferenceExecutor, FastExecutor))
    assert all(np.array_equal(a[name], b[name]) for name in a)


def test_the_metric_decides_node_by_node() -> None:
    """What the metric does not confirm on samples of its own is taken back and named; the rest is kept."""
    graph, plan, samples = mobile(4)
    found = calibrate(graph, plan, samples, 8, Watch(), recipe(graph, plan))
    wrong = dict(found.means) | {"conv0": -20.0 * found.means["conv0"]}
    spoiled = replace(found, means=wrong)
    logs: list[str] = []
    watch = Watch(lambda e: logs.append(e.text) if e.kind == "log" else None)
    kept, decisions = judge(graph, plan, spoiled, Correction(4, "mse"), samples, watch)
    refused = {d.node for d in decisions if not d.kept}
    assert "conv0" in refused
    assert set(kept.means) == set(found.means) - refused
    for decision in decisions:
        assert decision.kept == (decision.corrected < decision.without)
    assert logs == [f"bias correction: kept for {len(kept.means)} of {len(decisions)} nodes, by mse"]
    with ThreadPoolExecutor(2) as pool:
        assert judge(graph, plan, spoiled, Correction(4, "mse"), samples, Watch(), pool)[1] == decisions


def test_judged_on_samples_of_its_own_where_there_are_enough() -> None:
    """With 2n samples and more the second n judge; with fewer the same ones do."""
    graph, plan, samples = mobile(6)
    found = calibrate(graph, plan, samples, 6, Watch(), recipe(graph, plan))

    class Watched(list):  # type: ignore[type-arg]
        read: list[int]

        def __getitem__(self, index: int) -> object:  # type: ignore[override]
            self.read.append(index)
            return super().__getitem__(index)

    for count, wanted in ((3, [3, 4, 5]), (4, [0, 1, 2, 3]), (9, [0, 1, 2, 3, 4, 5])):
        data = Watched(samples)
        data.read = []
        judge(graph, plan, found, Correction(count, "cosine-similarity"), data, Watch())
        assert data.read == wanted


def test_answers_tell_what_was_corrected() -> None:
    """The result says how many nodes, from how many samples, by which metric, and what was refused."""
    graph, plan, samples = mobile(6)
    answer = calibrate(graph, plan, samples, 6, Watch(), recipe(graph, plan, ALWAYS)).answers["bias_correction"]
    assert (answer["samples"], answer["metric"]) == (4, "cosine-similarity")
    assert answer["nodes"] + len(answer["refused"]) == 4
    default = calibrate(graph, plan, samples, 6, Watch(), recipe(graph, plan)).answers["bias_correction"]
    assert default == {"samples": 6, "nodes": 4, "inputs": 4}
    none = recipe(graph, plan, {"activation": {"calibration_type": "max"}})
    assert calibrate(graph, plan, samples, 6, Watch(), none).means == {}


def test_dequantized_weights_lie_as_the_node_holds_them() -> None:
    """Conv, MatMul and Gemm with transB: close to the float weights, channel by channel."""
    nodes = [node("Gemm", ["x", "w"], "g", "gemm", transB=1), node("MatMul", ["g", "w2"], "y", "mm")]
    feeds = {"x": random(3, 6)}
    graph, plan = planned(net(nodes, ["y"], weights(w=(5, 6), w2=(5, 4)), feeds)[0])
    encoded = encode(graph, plan, calibrate(graph, plan, [feeds], 1, Watch()))
    for name, encoding in encoded.weights.items():
        raw = graph.constant(graph.node(name).inputs[1])
        assert raw is not None
        half_a_step = 0.51 * float(encoding.scale.max())
        np.testing.assert_allclose(dequantized(graph.node(name), encoding), raw, atol=half_a_step)
