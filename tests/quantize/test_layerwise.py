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
from ptqlab.quantize.effects import entries_of, pooled, quantized_readers
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


def test_nothing_runs_when_all_is_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once every slot has one candidate left no more samples are read; progress is told to its end."""
    graph, plan, samples = mobile(16)
    asked = recipe(graph, plan, LISTS)
    search = Search(graph, plan, asked, options(graph, plan, asked, samples))
    monkeypatch.setattr(module, "_beaten", lambda found, *_: list(found)[1:])
    runs: list[int] = []
    plain = search.job.__call__
    monkeypatch.setattr(type(search.job), "__call__", lambda self, item: (runs.append(1), plain(item))[1])
    steps: list[int] = []
    watch = Watch(lambda e: steps.append(e.done or 0) if e.kind == "step" else None)
    choices = search.run(samples, 16, watch)
    assert (len(runs), steps[-1]) == (3, 16)
    assert all(c.chosen == search.candidates[s][0].method for s, c in choices.items())


def test_rounds() -> None:
    """Drops after 3, 4, 6, 8 .. 16, 20 .. 32, 40 .. samples, and none in an exhaustive run."""
    assert list(module._rounds(41, False)) == [3, 4, 6, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 41]
    assert list(module._rounds(41, True)) == [41]
    assert list(module._rounds(3, False)) == [3]


def agreements(errors: list[float]) -> list[list[Agreement]]:
    """One output of ones per sample, off by these errors."""
    made = []
    for e in errors:
        a = Agreement()
        a.add(np.ones(4, np.float32), np.float32(1 + e) * np.ones(4, np.float32), distances=True)
        made.append([a])
    return made


def test_only_clear_losses_are_dropped() -> None:
    """A candidate goes when over all samples it will hardly win: two standard errors of what is still to come."""
    even, noisy = [0.1, 0.2, 0.1, 0.2, 0.1, 0.2], [0.3, 0.1, 0.3, 0.2, 0.2, 0.2]
    clear = [e + 0.1 for e in even]
    found = {0: agreements(even), 1: agreements(noisy), 2: agreements(clear)}
    mae, local = METRICS["mae"], [1.0, 1.0, 1.0]
    assert module._beaten(found, local, 100, mae) == [2]
    # the fewer samples are to come, the less can change
    assert module._beaten(found, local, 7, mae) == [1, 2]
    found[1][0][0].abs_diff = float("nan")
    assert module._beaten(found, local, 100, mae) == []


def test_a_candidate_that_cuts_off_more_wins_late() -> None:
    """What rounds better by the histogram of all samples is dropped only on three times the evidence."""
    found = {0: agreements([0.10, 0.11, 0.10, 0.12]), 1: agreements([0.12, 0.13, 0.15, 0.14])}
    assert module._beaten(found, [1.0, 2.0], 1000, METRICS["mae"]) == [1]
    assert module._beaten(found, [2.0, 1.0], 1000, METRICS["mae"]) == []


def test_equals_are_decided_early() -> None:
    """Where two differ by less than 3 % of the loss, one of them goes as soon as that is clear."""
    found = {0: agreements([0.1001, 0.1002, 0.1000]), 1: agreements([0.1002, 0.1000, 0.1001])}
    assert len(module._beaten(found, [1.0, 1.0], 1000, METRICS["mae"])) == 1


@pytest.mark.parametrize("metric", [m for m in METRIC_WORDS if m != "chebyshev"])
def test_shares_in_the_loss_add_up(metric: str) -> None:
    """Pseudo values: their mean is the metric over all samples for means, and near to it for ratios."""
    made = agreements([0.1, 0.2, 0.15, 0.3, 0.25])
    shares = module._shares_in_loss(made, METRICS[metric])
    whole = METRICS[metric].score(pooled(made)) * (-1 if METRICS[metric].higher else 1)
    assert shares.mean() == pytest.approx(whole, rel=1e-6 if metric in ("mse", "mae", "mre") else 0.1)


def test_evidence_from_few_samples_weighs_less() -> None:
    """Student's t for two standard errors: 4.5 from three samples, 2.65 from six, 2 from many (by its table)."""
    for freedom, wanted in ((2, 4.53), (5, 2.65), (15, 2.18), (1000, 2.0)):
        assert module._student(freedom) == pytest.approx(wanted, rel=0.04)


def test_workers_share_the_slots_of_a_sample() -> None:
    """With too few samples for all workers each sample's slots are dealt out, every slot once."""
    racing = dict.fromkeys("abcde", (0, 1))
    assert module._shares(racing, 1, 1) == module._shares(racing, 2, 8) == [racing]
    parts = module._shares(racing, 2, 2)
    assert [sorted(p) for p in parts] == [["a", "c", "e"], ["b", "d"]]
    assert len(module._shares(racing, 64, 2)) == 4
