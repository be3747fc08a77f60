"""Sequential bias correction: outputs of the calibrated model get the float mean, in order; other samples decide."""
from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from calibration_nets import Feeds, mobile, recipe
from core_models import net, weights
from models import node, random
from small import planned

from ptqlab.config import QuantConfig
from ptqlab.events import Watch
from ptqlab.graph import FloatGraph, session
from ptqlab.quantize.calibrate import calibrate
from ptqlab.quantize.calibrated import calibrated_model
from ptqlab.quantize.encode import encode
from ptqlab.quantize.sequential import sequential_corrections
from ptqlab.stages.plan import Plan

ASKED = {"activation": {"calibration_type": "max", "max_percentile": 0.95},
         "weight": {"bias_correction": {"num_sample": 2, "metric": "mse", "order": "sequential"}}}


def products() -> tuple[FloatGraph, Plan, list[Feeds]]:
    """MatMul without bias, Relu, Gemm."""
    nodes = [node("MatMul", ["x", "w"], "m", "mm"), node("Relu", ["m"], "r", "relu"),
             node("Gemm", ["r", "w2", "b"], "y", "fc")]
    samples = [{"x": random(7, 6, seed=i)} for i in range(4)]
    graph, plan = planned(net(nodes, ["y"], weights(w=(6, 5), w2=(5, 4), b=(4,)), samples[0])[0])
    return graph, plan, samples


def means(model: Any, names: dict[str, str], samples: list[Feeds]) -> dict[str, np.ndarray]:
    """Channel means of tensors of a model over samples."""
    runner = session(model, outputs=list(names.values()), optimise=False)
    total: dict[str, np.ndarray] = {}
    for sample in samples:
        for name, array in zip(names, runner.run(list(names.values()), sample), strict=True):
            mean = array.mean(axis=(0, *range(2, array.ndim)) if array.ndim == 4 else 0)
            total[name] = total.get(name, 0) + mean / len(samples)
    return total


@pytest.mark.parametrize("make", [mobile, products])
def test_every_output_gets_the_float_mean(make: Any) -> None:
    """In the calibrated model with all corrections the mean output of every operator is that of the float model."""
    graph, plan, samples = make()
    found = calibrate(graph, plan, samples, len(samples), Watch(), recipe(graph, plan))
    corrections = sequential_corrections(graph, plan, found, samples, 3, Watch())
    assert set(corrections) == set(found.means)
    corrected = replace(found, corrections=corrections)
    model = calibrated_model(graph, plan, encode(graph, plan, corrected)).model
    wanted = means(graph.model, {n: str(graph.node(n).outputs[0].name) for n in corrections}, samples[:3])
    held = {str(n.name): n for n in model.graph}
    behind = {n: held.get(f"{n}_bias_correction", held[n]) for n in corrections}
    got = means(model, {n: str(v.outputs[0].name) for n, v in behind.items()}, samples[:3])
    for name in corrections:
        np.testing.assert_allclose(got[name], wanted[name], atol=2e-6 + 1e-5 * np.abs(wanted[name]).max())


@pytest.mark.parametrize("kept", [True, False])
def test_samples_that_set_neither_decide(kept: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sequential against local on the next samples; scores and decision are in the answers."""
    graph, plan, samples = mobile(5)

    def judged(graph: Any, plan: Any, both: Any, samples: Any, indices: Any, *_: Any) -> list[float]:
        assert list(indices) == [2, 3]
        assert both[0].corrections and not both[1].corrections
        return [0.9, 0.8] if kept else [0.8, 0.9]

    monkeypatch.setattr("ptqlab.quantize.confirm.scores", judged)
    found = calibrate(graph, plan, samples, 5, Watch(), recipe(graph, plan, ASKED))
    assert found.answers["sequential"]["kept"] is kept
    assert bool(found.corrections) is kept
    assert found.means


def test_the_configuration() -> None:
    """order is local or sequential, local when left out, and survives the way to JSON and back."""
    parsed = QuantConfig.parse({"model_config": ASKED})
    assert QuantConfig.parse(parsed.to_dict()) == parsed
    assert parsed.bias_correction is not None and parsed.bias_correction.order == "sequential"
    local = QuantConfig.parse({"model_config": {"weight": {"bias_correction": {}}}})
    assert "order" not in str(local.to_dict())
