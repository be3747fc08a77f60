"""layerwise_search: the choice of the exhaustive definition, slot by slot."""
from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from calibration_nets import mobile, options, recipe
from models import MODELS
from small import planned

from ptqlab.arith.metrics import METRICS, Agreement
from ptqlab.arith.rounding import fake_quantize
from ptqlab.config.quant_fields import METRICS as METRIC_WORDS
from ptqlab.events import Watch
from ptqlab.graph import session
from ptqlab.quantize import layerwise as module
from ptqlab.quantize.calibrate import calibrate
from ptqlab.quantize.effects import entries_of, quantized_readers
from ptqlab.quantize.layerwise import Search
from ptqlab.quantize.pieces import Map, piece_model
from ptqlab.stages.calibration import Threshold, encoding

LISTS = {"activation": {"calibration_type": ["max", "kl", "mse"], "max_percentile": [1.0, 0.99]}}


def definition(slot: str, threshold: Threshold, metric: str, count: int) -> float:
    """The score of one candidate by the plainest means: the whole float model, the one tensor rounded on the way."""
    graph, plan, samples = mobile(count)
    inputs = {str(v.name) for v in graph.inputs}
    e = encoding(threshold.value, threshold.bounds, plan.tensors[slot].stored)
    agreements = [Agreement() for _ in graph.outputs]
    for sample in samples:
        truth = session(graph.model).run(None, sample)
        if slot in inputs:
            rounded = dict(sample) | {slot: fake_quantize(sample[slot], e.scale, e.zero_point, e.low, e.high)}
            got = session(graph.model).run(None, rounded)
        else:
            model = graph.model.clone()
            value = next(o for n in model.graph for o in n.outputs if o.name == slot)
            feed = piece_model(graph, Map(graph, 1).head([slot]))
            x = session(graph.model, outputs=[str(value.name)]).run(None, sample)[0]
            sides = {n.name: session(graph.model, outputs=[str(n.name)]).run(None, sample)[0]
                     for n in feed.graph.inputs if n.name != slot and n.name not in sample}
            given = {slot: fake_quantize(x, e.scale, e.zero_point, e.low, e.high)} | sides
            given |= {k: v for k, v in sample.items() if k in {i.name for i in feed.graph.inputs}}
            got = session(feed).run(None, given)
        for agreement, a, b in zip(agreements, truth, got, strict=True):
            agreement.add(a, b, distances=True)
    return METRICS[metric].score(agreements)


@pytest.mark.parametrize("metric", METRIC_WORDS)
def test_choices_are_those_of_the_definition(metric: str) -> None:
    """Every slot's candidate is the one that, alone in a float model, hurts the output least by the metric."""
    graph, plan, samples = mobile(3)
    asked = recipe(graph, plan, LISTS | {"layerwise_search": {"metric": metric}})
    found = options(graph, plan, asked, samples)
    choices = Search(graph, plan, asked, found).run(samples, 3, Watch())
    assert set(choices) == {slot for slot, o in found.items() if len(o.distinct) > 1}
    assert choices
    for slot, choice in choices.items():
        distinct = [found[slot].thresholds[i] for i in found[slot].distinct]
        scores = {t.method: definition(slot, t, metric, 3) for t in distinct}
        for word, score in choice.scores.items():
            assert score == pytest.approx(scores[word], rel=1e-3, abs=1e-7)
        assert not any(METRICS[metric].better(s, scores[choice.chosen]) and s != pytest.approx(scores[choice.chosen])
                       for s in scores.values())


def test_drops_do_not_change_the_choice() -> None:
    """On 16 samples clearly beaten candidates leave the race early; the choices are those without drops."""
    graph, plan, samples = mobile(16)
    samples[-1] = samples[-2]
    asked = recipe(graph, plan, LISTS)
    search = Search(graph, plan, asked, options(graph, plan, asked, samples))
    quick = search.run(samples, 16, Watch())
    slow = search.run(samples, 16, Watch(), exhaustive=True)
    assert {s: c.chosen for s, c in quick.items()} == {s: c.chosen for s, c in slow.items()}
    assert any(c.dropped for c in quick.values())
    assert not any(c.dropped for c in slow.values())
    for slot, choice in quick.items():
        assert set(choice.dropped) | set(choice.scores) | {choice.chosen} == set(slow[slot].scores)


def test_layerwise_wins_and_is_recorded() -> None:
    """Both blocks given: each slot has its own choice, which thresholds, method and answers tell; threads agree."""
    graph, plan, samples = mobile(4)
    asked = recipe(graph, plan, LISTS | {"modelwise_search": {}, "layerwise_search": {"metric": "sqnr"}})
    found = calibrate(graph, plan, samples, 4, Watch(), asked)
    assert (found.answers["search"], found.answers["metric"]) == ("layerwise", "sqnr")
    for choice in found.answers["choices"]:
        assert found.thresholds[choice["slot"]].method == choice["chosen"]
    assert found.method.endswith("(layerwise search)")
    with ThreadPoolExecutor(3) as pool:
        assert calibrate(graph, plan, samples, 4, Watch(), asked, pool) == found


def test_entries_and_readers() -> None:
    """Movers pass rounding on and are no entries; what the CPU makes is read as float by the CPU."""
    model, _ = MODELS["layout_moves"]()
    graph, plan = planned(model)
    for slot, entries in entries_of(graph, plan).items():
        assert entries, slot
        for entry in entries:
            producer = graph.producer(entry)
            made = producer is not None and plan.nodes[str(producer.name)].on_bpu
            readers = quantized_readers(graph, plan, entry)
            everybody = [str(n.name) for n in graph.consumers(entry)]
            assert readers == (everybody if made else [n for n in everybody if plan.nodes[n].on_bpu])


def test_rounds() -> None:
    """Drops after 6, 8, 12, 16, 24 .. samples, and none in an exhaustive run."""
    assert list(module._rounds(40, False)) == [6, 8, 12, 16, 24, 32, 40]
    assert list(module._rounds(40, True)) == [40]
    assert list(module._rounds(4, False)) == [4]


def test_only_clear_losses_are_dropped() -> None:
    """A candidate goes when its loss is above the best one's by three standard errors, paired by sample."""
    def agreements(errors: list[float]) -> list[list[Agreement]]:
        made = []
        for e in errors:
            a = Agreement()
            a.add(np.ones(4, np.float32), np.float32(1 + e) * np.ones(4, np.float32), distances=True)
            made.append([a])
        return made

    even, noisy = [0.1, 0.2, 0.1, 0.2, 0.1, 0.2], [0.3, 0.1, 0.3, 0.0, 0.2, 0.1]
    clear = [e + 0.1 for e in even]
    found = {0: agreements(even), 1: agreements(noisy), 2: agreements(clear)}
    assert module._beaten(found, METRICS["mae"]) == [2]
    found[1][0][0].abs_diff = float("nan")
    assert module._beaten(found, METRICS["mae"]) == []
