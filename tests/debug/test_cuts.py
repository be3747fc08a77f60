"""Effects by graph cuts are those of whole runs."""
from __future__ import annotations

import numpy as np
import pytest
from calibration_nets import recipe, with_shifts
from core_models import net
from debug_nets import CORRECTED, network
from models import init, node, random
from small import planned, stages

from ptqlab.arith.formats import QType
from ptqlab.debug import cuts
from ptqlab.debug.cuts import Effects, Prepared, agreement
from ptqlab.debug.network import Network, partial_model
from ptqlab.debug.ranking import choices_of
from ptqlab.debug.variants import variant
from ptqlab.events import Watch
from ptqlab.graph import session
from ptqlab.platforms import platform
from ptqlab.quantize.calibrate import calibrate
from ptqlab.quantize.calibrated import calibrated_model
from ptqlab.quantize.encode import encode


def naive(apart, choice, sample, outputs=()):
    """Agreement of each output, by two whole runs."""
    truth = session(apart.graph.model, outputs=list(outputs) or None).run(None, sample)
    got = session(partial_model(apart, choice, outputs=outputs)).run(None, sample)
    return [agreement(a, b) for a, b in zip(truth, got, strict=True)]


def all_choices(apart):
    nodes = {n: {q: apart.quantizers[q] for q in apart.of_node(n)} for n in apart.nodes}
    return nodes | {q: {q: v} for q, v in apart.quantizers.items()}


@pytest.mark.parametrize("pieces", [1, 3, 100])
@pytest.mark.parametrize("block", [CORRECTED, {}])
def test_cuts_give_what_whole_runs_give(pieces, block):
    """Every node and every quantizer alone, whatever the number of pieces and what biases are corrected for: the same
    cosine, and the same order."""
    apart, samples = network(block)
    choices = all_choices(apart)
    found = {}
    for label, number, agreements in Effects(apart, pieces=pieces).run(choices, samples[:2], Watch()):
        wanted = naive(apart, choices[label], samples[number])
        assert [a.cosine for a in agreements] == pytest.approx([w.cosine for w in wanted], abs=1e-7)
        assert [a.mse for a in agreements] == pytest.approx([w.mse for w in wanted], rel=1e-4, abs=1e-10)
        found[label, number] = (agreements[0].mse, wanted[0].mse)
    assert len(found) == 2 * len(choices)
    assert sorted(found, key=lambda k: found[k][0]) == sorted(found, key=lambda k: found[k][1])


def products():
    """Two products with constant weights, which have no bias of their own, corrected by our default."""
    nodes = [node("MatMul", ["x", "w0"], "m0", "mm0"), node("Relu", ["m0"], "r0", "relu0"),
             node("MatMul", ["r0", "w1"], "m1", "mm1"), node("Relu", ["m1"], "r1", "relu1"),
             node("MatMul", ["r1", "w2"], "y", "mm2")]
    inits = [init(f"w{i}", random(6, 6, seed=i, scale=0.3)) for i in range(3)]
    samples = [{"x": random(1, 5, 6, seed=20 + i)} for i in range(4)]
    graph, plan = planned(net(nodes, ["y"], inits, samples[0])[0])
    found = calibrate(graph, plan, samples, 4, Watch(), recipe(graph, plan))
    encodings = encode(graph, plan, with_shifts(graph, plan, found, samples))
    return Network(calibrated_model(graph, plan, encodings).model, graph.model), samples


def test_a_correction_goes_with_what_is_rounded():
    """Weights alone bring the part for themselves; with the operator's input, in its type, all of it; the input alone
    brings none. For operators that add it to their bias, and for products, behind which an Add does."""
    for apart, samples in (network({}), products()):
        seen = 0
        for name in apart.nodes:
            mine = {q: apart.quantizers[q] for q in apart.of_node(name)}
            weights = {q: v for q, v in mine.items() if v.kind == "weight"}
            corrected = next((v.correction for v in weights.values() if v.correction is not None), None)
            if corrected is None or not corrected.inputs:
                continue
            seen += 1
            inputs = {q: v for q, v in mine.items() if v.kind == "activation"}
            wide = {q: v.as_type(QType.INT16) for q, v in inputs.items()}
            assert corrected.bias(mine) is corrected.whole
            assert corrected.bias(weights) is corrected.own and corrected.bias(weights | wide) is corrected.own
            assert not np.allclose(corrected.whole, corrected.own, atol=1e-6)
            choices = {"all": mine, "weights": weights, "input": inputs, "wide": weights | wide}
            for label, _, agreements in Effects(apart).run(choices, samples[:1], Watch()):
                wanted = naive(apart, choices[label], samples[0])
                assert [a.mse for a in agreements] == pytest.approx([w.mse for w in wanted], rel=1e-3), (name, label)
        assert seen >= 2


def test_nodes_together_feed_each_other():
    """What is rounded inside of a slice is rounded as in a whole run; so are types of one node that share a session."""
    apart, samples = network()
    choices = choices_of(apart, "node", [["conv0", "conv1"], ["conv1", "fc"], list(apart.nodes)])
    for word in ("int8", "int16", "dual-int16", "float16"):
        for name in ("conv1", "add"):
            choices[f"{name} {word}"] = variant(apart, name, "node", word, platform("nash-p"))[0]
    for label, number, agreements in Effects(apart).run(choices, samples[:2], Watch()):
        wanted = naive(apart, choices[label], samples[number])
        assert [a.mse for a in agreements] == pytest.approx([w.mse for w in wanted], rel=1e-3), label


def two_heads():
    """A trunk with two outputs, the first of them read on by the trunk."""
    nodes = [
        node("Conv", ["x", "w0"], "c0", "conv0", pads=[1, 1, 1, 1]), node("Relu", ["c0"], "r0", "relu0"),
        node("Conv", ["r0", "w1"], "a", "conv1", pads=[1, 1, 1, 1]), node("Add", ["a", "r0"], "s", "add"),
        node("Conv", ["s", "w2"], "b", "conv2", pads=[1, 1, 1, 1]),
    ]
    inits = [init(f"w{i}", random(4, 4, 3, 3, seed=i, scale=0.3)) for i in range(3)]
    feeds = {"x": random(1, 4, 6, 6, seed=9)}
    made = stages(net(nodes, ["a", "b"], inits, feeds)[0], feeds)
    return Network(made.calibrated.model, made.graph.model), feeds


def test_outputs_on_the_way_are_compared():
    """A quantizer on an output that the trunk reads on, and nodes before, beside and behind it."""
    apart, feeds = two_heads()
    choices = all_choices(apart)
    for label, _, agreements in Effects(apart, pieces=100).run(choices, [feeds], Watch()):
        wanted = naive(apart, choices[label], feeds)
        assert [a.mse for a in agreements] == pytest.approx([w.mse for w in wanted], rel=1e-4, abs=1e-12), label


def test_another_node_as_output():
    """With an output node, nodes behind it have no effect, and those before it that of whole runs."""
    apart, samples = network()
    tensor = str(apart.graph.node("conv1").outputs[0].name)
    choices = {n: {q: apart.quantizers[q] for q in apart.of_node(n)} for n in apart.nodes}
    found = {label: a[0] for label, _, a in Effects(apart, "conv1").run(choices, samples[:1], Watch())}
    wanted = naive(apart, choices["conv0"], samples[0], [tensor])[0]
    assert found["conv0"].mse == pytest.approx(wanted.mse, rel=1e-4)
    assert found["fc"].mse == 0.0 and found["fc"].cosine == pytest.approx(1.0)
    assert np.isfinite(wanted.mse)


def test_long_ways_are_shared_by_the_types_of_a_node(monkeypatch):
    """Where many choices change the same nodes, the float nodes up to the next cut are one slice for all of them."""
    monkeypatch.setattr(cuts, "SHORT", 2)
    apart, samples = network()
    choices = {f"{n} {part} {word}": variant(apart, n, part, word, platform("nash-p"))[0]
               for n in apart.nodes for part in ("node", "weight", "activation") for word in ("int8", "int16")}
    choices = {label: choice for label, choice in choices.items() if choice}
    effects = Effects(apart, pieces=1)
    assert any(way and way[1] for way in Prepared(effects, choices, 1).ways.values())
    for label, number, agreements in effects.run(choices, samples[:1], Watch()):
        wanted = naive(apart, choices[label], samples[number])
        assert [a.mse for a in agreements] == pytest.approx([w.mse for w in wanted], rel=1e-3), label


def test_chains_that_begin_alike():
    """A branch of a Concat that is read elsewhere too is rounded once for both, and once more for the Concat."""
    nodes = [node("Conv", ["x", "a"], "p", "conva"), node("Conv", ["x", "b"], "q", "convb"),
             node("Concat", ["p", "q"], "h", "concat", axis=1), node("Conv", ["h", "c"], "s", "convc"),
             node("Add", ["s", "p"], "y", "add")]
    inits = [init("a", random(4, 3, 1, 1, seed=1)), init("b", random(4, 3, 1, 1, seed=2) * np.float32(9)),
             init("c", random(4, 8, 1, 1, seed=3))]
    feeds = {"x": random(1, 3, 6, 6)}
    made = stages(net(nodes, ["y"], inits, feeds)[0], feeds)
    apart = Network(made.calibrated.model, made.graph.model)
    assert len({len(chain) for chain in apart.edges.values()}) == 2
    choices = {"all": apart.quantizers, "first": {q: apart.quantizers[q] for q in apart.of_node("conva")} | {
        q: v for q, v in apart.quantizers.items() if v.tensor == "p"}}
    for label, _, agreements in Effects(apart).run(choices, [feeds], Watch()):
        wanted = naive(apart, choices[label], feeds)
        assert [a.mse for a in agreements] == pytest.approx([w.mse for w in wanted], rel=1e-3), label
    whole = session(partial_model(apart, apart.quantizers)).run(None, feeds)[0]
    assert np.array_equal(whole, session(made.calibrated.model).run(None, feeds)[0])
