"""Who decides what is asked for a threshold, and what a configuration that says little stands for."""
from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from calibration_nets import mobile, recipe
from core_models import f32, net, weights
from models import node
from small import planned

from ptqlab.arith.formats import QType
from ptqlab.arith.metrics import METRICS, Agreement
from ptqlab.events import Watch
from ptqlab.graph import FloatGraph, session
from ptqlab.placement import Ask, Asks
from ptqlab.quantize.calibrate import calibrate
from ptqlab.quantize.calibrated import calibrated_model
from ptqlab.quantize.encode import encode
from ptqlab.quantize.recipe import Correction, Recipe, slot_readers
from ptqlab.stages.calibration import Calibration
from ptqlab.stages.plan import Plan


@pytest.fixture(scope="module")
def two_readers() -> tuple[FloatGraph, Plan]:
    """x -> conv -> c, which conv2 and then conv3 read; both results are added."""
    nodes = [
        node("Conv", ["x", "w"], "c", "conv"), node("Conv", ["c", "w2"], "d", "conv2"),
        node("Conv", ["c", "w3"], "e", "conv3"), node("Add", ["d", "e"], "s", "add"),
        node("Conv", ["s", "w4"], "y", "end"),
    ]
    shapes = {"w": (4, 3, 1, 1), "w2": (4, 4, 1, 1), "w3": (4, 4, 1, 1), "w4": (2, 4, 1, 1)}
    feeds = {"x": np.ones((1, 3, 4, 4), f32)}
    return planned(net(nodes, ["y"], weights(**shapes), feeds)[0])


def words(found: Recipe, slot: str) -> list[str]:
    return [m.word for m in found.slots[slot].methods]


def activation(**keys: Any) -> dict[str, Any]:
    return {"activation": keys}


def test_the_finest_level_decides_and_the_other_reader_is_told(two_readers: tuple[FloatGraph, Plan]) -> None:
    """c is read by conv2 (op_config) and conv3 (node_config): conv3 decides, and a finding names both."""
    found = recipe(
        *two_readers, activation(calibration_type="max"), op_config={"Conv": activation(calibration_type="kl")},
        node_config={"conv3": activation(calibration_type="mse")})
    assert words(found, "c") == ["mse"]
    assert (found.slots["c"].node, found.slots["c"].origin.level) == ("conv3", "node")
    assert words(found, "x") == ["kl:num_bin=1024"]
    told = [f for f in found.findings if f.code == "PTQ412"]
    assert [f.nodes for f in told] == [("conv2", "conv3")]
    assert "conv3 decides" in told[0].message


def test_of_equal_levels_the_first_reader_decides(two_readers: tuple[FloatGraph, Plan]) -> None:
    """Two node_config entries on the readers of one tensor: topological order settles it."""
    found = recipe(*two_readers, None, node_config={"conv3": activation(calibration_type="mse"),
                                                    "conv2": activation(calibration_type="kl")})
    assert words(found, "c") == ["kl:num_bin=1024"]
    assert found.slots["c"].node == "conv2"
    assert [f.nodes for f in found.findings] == [("conv3", "conv2")]


def test_keys_are_inherited_one_by_one(two_readers: tuple[FloatGraph, Plan]) -> None:
    """A node that only says asymmetric keeps the model's method."""
    found = recipe(*two_readers, activation(calibration_type="kl"), node_config={"conv": activation(asymmetric=True)})
    assert words(found, "x") == ["kl:num_bin=1024,asymmetric=True"]
    assert words(found, "c") == ["kl:num_bin=1024"]
    assert not found.findings


def test_inside_of_a_group_nothing_is_read(two_readers: tuple[FloatGraph, Plan]) -> None:
    """The residual Add joins conv3: d is read from memory, e never exists there."""
    readers = slot_readers(*two_readers)
    assert list(readers["c"]) == ["conv2", "conv3"]
    assert list(readers["d"]) == ["add"]
    assert "e" not in readers


def test_thresholds_are_made_for_the_narrowest_reader() -> None:
    """A tensor stored as int16 for one reader and seen as int8 by another gets a threshold for int8 codes."""
    nodes = [
        node("Conv", ["x", "w"], "c", "conv"), node("Conv", ["c", "w2"], "d", "conv2"),
        node("Conv", ["c", "w3"], "e", "conv3"),
    ]
    shapes = {"w": (4, 3, 1, 1), "w2": (4, 4, 1, 1), "w3": (4, 4, 1, 1)}
    built = net(nodes, ["d", "e"], weights(**shapes), {"x": np.ones((1, 3, 4, 4), f32)})[0]
    graph, plan = planned(built, asks=Asks({"conv2": Ask("int16", level="node")}))
    assert plan.tensors["c"].stored is QType.INT16
    assert recipe(graph, plan).slots["c"].qtype is QType.INT8


def test_the_default_recipe() -> None:
    """Nothing configured: mse thresholds, biases corrected from 8 samples without a test, and it is called default."""
    graph, plan, _ = mobile(1)
    found = recipe(graph, plan)
    assert {m.word for ask in found.slots.values() for m in ask.methods} == {"mse"}
    assert (found.default, found.correction, found.search) == (True, Correction(16, inputs=True), None)


@pytest.mark.parametrize(("block", "method", "correction"), [
    (activation(calibration_type="max"), "max", None),
    (activation(calibration_type="mse"), "mse", None),
    (activation(asymmetric=True), "mse:asymmetric=True", Correction(16, inputs=True)),
    (activation(max_percentile=0.999), "max-percentile:percentile=0.999", Correction(16, inputs=True)),
    (activation(num_bin=2048), "kl:num_bin=2048", Correction(16, inputs=True)),
    ({"weight": {"bias_correction": {"num_sample": 3, "metric": "mse"}}}, "mse", Correction(3, "mse")),
    (activation(calibration_type="kl") | {"weight": {"bias_correction": {}}}, "kl:num_bin=1024",
     Correction(1, "cosine-similarity")),
])
def test_what_little_words_mean(block: dict[str, Any], method: str, correction: Correction | None) -> None:
    """calibration_type switches everything of ours off; without it our method and correction fill what is not said."""
    graph, plan, _ = mobile(1)
    found = recipe(graph, plan, block)
    assert words(found, "r0") == [method]
    assert (found.correction, found.default) == (correction, False)


def test_searches() -> None:
    """Several candidates make a modelwise search, the metric comes with the block, and layerwise wins."""
    graph, plan, _ = mobile(1)
    lists = activation(calibration_type=["max", "kl"])
    assert recipe(graph, plan, lists).search == "modelwise"
    both = recipe(graph, plan, lists | {"modelwise_search": {}, "layerwise_search": {"metric": "sqnr"}})
    assert (both.search, both.metric, both.correction) == ("layerwise", "sqnr", None)
    alone = recipe(graph, plan, {"modelwise_search": {"metric": "mse"}})
    assert (alone.search, alone.metric, len(alone.slots["x"].methods)) == ("modelwise", "mse", 3)
    assert recipe(graph, plan, activation(calibration_type="max") | {"layerwise_search": {}}).search is None


BASE = {"calibration_type": "max"}
# every activation setting on top of BASE; those that make a difference to a tensor of this network
SETTINGS: dict[str, dict[str, Any]] = {
    "kl": {"calibration_type": "kl"},
    "num_bin": {"calibration_type": "kl", "num_bin": 300},
    "max_num_bin": {"calibration_type": "kl", "max_num_bin": 300},
    "mse": {"calibration_type": "mse"},
    "max_percentile": {"max_percentile": 0.9},
    "asymmetric": {"asymmetric": True},
}


def found(model: dict[str, Any], **levels: Any) -> Calibration:
    graph, plan, samples = mobile(4)
    return calibrate(graph, plan, samples, 4, Watch(), recipe(graph, plan, model, **levels))


def ranges(calibration: Calibration) -> dict[str, tuple[float, tuple[float, float] | None, tuple[float, ...]]]:
    return {slot: (t.value, t.bounds, t.channels) for slot, t in calibration.thresholds.items()}


@pytest.mark.parametrize("node", ["conv0", "conv1", "conv2", "add", "mean", "fc"])
@pytest.mark.parametrize("setting", SETTINGS)
def test_a_setting_changes_what_it_says_and_only_that(setting: str, node: str) -> None:
    """Asked for one node, by name or by its kind, a setting changes what that node reads, to what the same setting
    gives when it is asked for the whole model, and no other range; weights and biases stay."""
    graph, plan, _ = mobile(1)
    mine = {slot for slot, readers in slot_readers(graph, plan).items() if next(iter(readers)) == node}
    base, everywhere = found({"activation": BASE}), ranges(found({"activation": BASE | SETTINGS[setting]}))
    one = found({"activation": BASE}, node_config={node: {"activation": SETTINGS[setting]}})
    # the finest level decides what several nodes read
    reads = {slot for slot, readers in slot_readers(graph, plan).items() if node in readers}
    assert mine <= reads
    assert ranges(one) == ranges(base) | {slot: everywhere[slot] for slot in reads}
    assert (one.means, one.weights, one.corrections) == (base.means, base.weights, base.corrections) == ({}, "max", {})
    kind = graph.node(node).op_type
    if sum(n.op_type == kind for n in graph.nodes) == 1:
        assert ranges(found({"activation": BASE}, op_config={kind: {"activation": SETTINGS[setting]}})) == ranges(one)


@pytest.mark.parametrize("setting", SETTINGS)
def test_no_setting_is_idle(setting: str) -> None:
    """Each setting of the table above moves at least one range of this network."""
    assert ranges(found({"activation": BASE | SETTINGS[setting]})) != ranges(found({"activation": BASE}))
    if setting in ("num_bin", "max_num_bin"):
        assert ranges(found({"activation": BASE | SETTINGS[setting]})) != ranges(found({"activation": SETTINGS["kl"]}))


def test_settings_of_weights_leave_activations_alone() -> None:
    """Bias correction changes biases and nothing else; steps of weights change these, and biases only with them."""
    graph, plan, _ = mobile(1)
    base = found({"activation": BASE})
    corrected = found({"activation": BASE, "weight": {"bias_correction": {"num_sample": 3, "metric": "mse"}}})
    stepped = replace(base, weights="mse")
    assert ranges(base) == ranges(corrected) and corrected.means
    held = [encode(graph, plan, c) for c in (base, corrected, stepped)]
    assert held[0].slots == held[1].slots == held[2].slots
    for name, plain in held[0].weights.items():
        a, b = held[1].weights[name], held[2].weights[name]
        np.testing.assert_array_equal(a.codes, plain.codes)
        np.testing.assert_array_equal(a.scale, plain.scale)
        assert (a.correction is not None) == (name in corrected.means)
        # the same bias in other steps
        np.testing.assert_allclose(b.bias * b.scale, plain.bias * plain.scale, atol=float(plain.scale.max()))
    assert any(not np.array_equal(held[2].weights[n].scale, w.scale) for n, w in held[0].weights.items())


@pytest.mark.parametrize(("search", "metric"), [("modelwise_search", "sqnr"), ("modelwise_search", "mae")])
def test_a_list_is_trying_each_by_hand(search: str, metric: str) -> None:
    """A list over two keys ends with the thresholds of that of its four members whose calibrated model, run by hand on
    the same samples, comes nearest to the float model."""
    graph, plan, samples = mobile(4)
    runs = []
    for kind, asymmetric in product(("max", "mse"), (False, True)):
        one = found({"activation": {"calibration_type": kind, "asymmetric": asymmetric}})
        encodings = encode(graph, plan, one)
        runner, plain = session(calibrated_model(graph, plan, encodings).model), session(graph.model)
        agreement = Agreement()
        for sample in samples:
            agreement.add(plain.run(None, sample)[0], runner.run(None, sample)[0], distances=True)
        runs.append((METRICS[metric].of(agreement), ranges(one)))
    best = (max if METRICS[metric].higher else min)(runs, key=lambda run: run[0])
    lists = {"calibration_type": ["max", "mse"], "asymmetric": [False, True]}
    assert ranges(found({"activation": lists, search: {"metric": metric}})) == best[1]
