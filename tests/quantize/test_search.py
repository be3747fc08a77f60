"""modelwise_search: one session for all candidates gives what their calibrated models give, and the best wins."""
from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from calibration_nets import Feeds, mobile, options, recipe

from ptqlab.arith.metrics import METRICS, Agreement
from ptqlab.config.quant_fields import METRICS as METRIC_WORDS
from ptqlab.events import Event, Watch
from ptqlab.graph import session
from ptqlab.quantize.calibrate import calibrate
from ptqlab.quantize.calibrated import calibrated_model
from ptqlab.quantize.encode import encode, encode_slots
from ptqlab.quantize.trial import Trial
from ptqlab.stages.calibration import Calibration

LISTS = {"activation": {"calibration_type": ["max", "kl", "mse"], "asymmetric": [False, True]}}


def by_hand(found: Calibration, samples: list[Feeds], metric: str) -> float:
    """Score of a calibration by its calibrated model, as the calibrated artifact would give it."""
    graph, plan, _ = mobile(1)
    model = calibrated_model(graph, plan, encode(graph, plan, found)).model
    plain, fake = session(graph.model), session(model)
    agreements = [Agreement() for _ in graph.outputs]
    for sample in samples:
        for agreement, a, b in zip(agreements, plain.run(None, sample), fake.run(None, sample), strict=True):
            agreement.add(a, b, distances=True)
    return METRICS[metric].score(agreements)


def test_a_trial_is_the_calibrated_model() -> None:
    """With the numbers of one calibration after the other, the outputs are those of their calibrated models."""
    graph, plan, samples = mobile(3)
    asked = recipe(graph, plan, LISTS)
    found = options(graph, plan, asked, samples)
    base = calibrate(graph, plan, samples, 3, Watch())
    trial = Trial(graph, plan, encode(graph, plan, base))
    for index in range(6):
        tried = replace(base, thresholds={slot: o.thresholds[index] for slot, o in found.items()})
        got = trial.run(samples[0], trial.numbers(encode_slots(plan, tried)))[0]
        wanted = session(calibrated_model(graph, plan, encode(graph, plan, tried)).model).run(None, samples[0])[0]
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("metric", METRIC_WORDS)
def test_the_best_candidate_wins(metric: str) -> None:
    """Scores are those of the calibrated models; the chosen one is the best of them, and all are in the answers."""
    graph, plan, samples = mobile(4)
    block = LISTS | {"modelwise_search": {"metric": metric}}
    asked = recipe(graph, plan, block)
    found = calibrate(graph, plan, samples, 4, Watch(), asked)
    scores = found.answers["scores"]
    assert [s["method"] for s in scores] == [m.word for m in asked.slots["x"].methods]
    made = options(graph, plan, asked, samples)
    for index, score in enumerate(scores):
        tried = replace(found, thresholds={slot: o.thresholds[index] for slot, o in made.items()})
        assert score["score"] == pytest.approx(by_hand(tried, samples, metric), rel=1e-3, abs=1e-6)
    best = [s for s in scores if s["chosen"]]
    assert len(best) == 1
    assert not any(METRICS[metric].better(s["score"], best[0]["score"]) for s in scores)
    index = scores.index(best[0])
    assert all(found.thresholds[slot] == o.thresholds[index] for slot, o in made.items())
    assert found.method == f"{best[0]['method']} (modelwise search)"


def test_equal_candidates_are_tried_once_and_the_first_wins() -> None:
    """num_bin 300 and 301 give the same thresholds here: one run, equal scores, the first is taken."""
    graph, plan, samples = mobile(2)
    block = {"activation": {"calibration_type": "max", "max_percentile": [1.0, 1.0 - 1e-12]}}
    asked = recipe(graph, plan, block)
    found = calibrate(graph, plan, samples, 2, Watch(), asked)
    scores = found.answers["scores"]
    assert len(scores) == 2
    assert scores[0]["score"] == scores[1]["score"]
    assert [s["chosen"] for s in scores] == [True, False]


def test_lists_of_nodes_are_searched_by_themselves() -> None:
    """A node with a list of its own is searched after the rest, and only its slot changes."""
    graph, plan, samples = mobile(3)
    asked = recipe(graph, plan, {"activation": {"calibration_type": ["max", "mse"]}},
                   node_config={"conv2": {"activation": {"calibration_type": ["kl", "max"]}}})
    logs: list[str] = []
    watch = Watch(lambda e: logs.append(e.text) if e.kind == "log" else None)
    found = calibrate(graph, plan, samples, 3, watch, asked)
    slot = plan.tensors[str(graph.node("conv2").inputs[0].name)].slot
    assert found.thresholds[slot].method.split(":")[0] in ("kl", "max")
    assert [s["slots"] for s in found.answers["scores"]] == [4, 4, 1, 1]
    assert len([line for line in logs if line.startswith("Select ")]) == 2


def test_workers_and_a_stop_change_nothing() -> None:
    """Threads give the same scores to the bit, and a stopped search goes on where it was."""
    graph, plan, samples = mobile(5)
    asked = recipe(graph, plan, LISTS)
    alone = calibrate(graph, plan, samples, 5, Watch(), asked)
    with ThreadPoolExecutor(3) as pool:
        assert calibrate(graph, plan, samples, 5, Watch(), asked, pool) == alone

    class Memory(dict[str, bytes]):
        def put(self, key: str, data: bytes) -> None:
            self[key] = data

    store = Memory()

    def stop(event: Event) -> None:
        if event.stage == "search" and event.kind == "step" and event.done == 2:
            watch.stop()

    watch = Watch(stop)
    with pytest.raises(KeyboardInterrupt):
        calibrate(graph, plan, samples, 5, watch, asked, None, store)
    runs: list[Any] = []
    plain = Trial.run
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trial, "run", lambda self, *a: (runs.append(1), plain(self, *a))[1])
        assert calibrate(graph, plan, samples, 5, Watch(), asked, None, store) == alone
    tried = len({s["score"] for s in alone.answers["scores"]})
    assert len(runs) == 3 * tried
