"""Findings of calibration: each on data made for it, with its numbers, and silence on good data."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from core_models import f32, net
from models import init, node, random
from small import planned

from ptqlab.config.quant import QuantConfig
from ptqlab.errors import Finding
from ptqlab.events import Watch
from ptqlab.quantize.calibrate import calibrate
from ptqlab.quantize.recipe import make_recipe

CODES = ("PTQ521", "PTQ522", "PTQ523", "PTQ524", "PTQ525", "PTQ526")


def findings(samples: list[np.ndarray], block: dict[str, Any]) -> dict[str, Finding]:
    """Findings about the tensors x and y of conv(relu(conv(x))), by code."""
    nodes = [
        node("Conv", ["x", "one"], "c", "first"), node("Add", ["c", "k"], "s", "shift"),
        node("Conv", ["s", "one"], "y", "end"),
    ]
    inits = [init("one", np.eye(8, dtype=f32).reshape(8, 8, 1, 1)), init("k", np.full((1, 1, 1, 1), 0.5, f32))]
    graph, plan = planned(net(nodes, ["y"], inits, {"x": samples[0]})[0])
    recipe = make_recipe(graph, plan, QuantConfig.parse({"model_config": block}))
    found = calibrate(graph, plan, [{"x": s} for s in samples], len(samples), Watch(), recipe)
    return {f.code: f for f in found.findings if f.code in CODES}


def samples(count: int = 8, scale: float = 1.0) -> list[np.ndarray]:
    return [random(1, 8, 16, 16, seed=i, scale=scale) for i in range(count)]


MSE = {"activation": {"calibration_type": "mse"}}


def test_good_data_is_not_talked_about() -> None:
    """Steady samples of both signs: no finding at all."""
    assert findings(samples(), MSE) == {}


def test_unsteady() -> None:
    """Every second sample reaches three times as far: both figures stand in the finding."""
    uneven = [s * (3 if i % 2 else 1) for i, s in enumerate(samples())]
    told = findings(uneven, {"activation": {"calibration_type": "max"}})["PTQ521"]
    a, b = (max(float(np.abs(s).max()) for s in uneven[i::2]) for i in (0, 1))
    assert f"x ({a:.4g} and {b:.4g})" in told.message
    assert "halves of the samples" in told.message
    assert "more varied samples" in told.hint


def test_clipped() -> None:
    """Percentile 0.9 leaves a tenth outside, and says so in percent."""
    told = findings(samples(), {"activation": {"calibration_type": "max", "max_percentile": 0.9}})["PTQ522"]
    shares = [float(part.split("%")[0]) for part in told.message.split("(")[1:]]
    assert shares and all(9.0 < share < 11.0 for share in shares)


@pytest.mark.parametrize("least", [-0.37, -0.75, -2.0])
def test_values_on_the_minimum_are_not_cut(least: float) -> None:
    """Most values on the minimum of an asymmetric range: the zero point moves the end by a part of a step, which
    rounds them and cuts nothing."""
    flat = [np.where(s < 0, least, s).astype(f32) for s in samples()]
    told = findings(flat, {"activation": {"calibration_type": "mse", "asymmetric": True}})
    assert "PTQ522" not in told


def test_few_codes() -> None:
    """One value a hundred times larger than all others leaves them a code or two."""
    spiked = samples()
    for s in spiked:
        s[0, 0, 0, 0] = 500.0
    told = findings(spiked, {"activation": {"calibration_type": "max", "max_percentile": [1.0 - 1e-9]}})["PTQ523"]
    assert "codes)" in told.message
    assert "int16" in told.hint


def test_outlier_channel() -> None:
    """A channel that reaches 50 times as far is named with its number."""
    loud = samples()
    for s in loud:
        s[:, 5] *= 50
    told = findings(loud, MSE)["PTQ524"]
    assert "x (channel 5 reaches " in told.message
    assert told.severity == "warning"


def test_one_sided() -> None:
    """Tensors that never change sign are named in a note that advises asymmetric, unless they are asymmetric."""
    positive = [np.abs(s) + 1 for s in samples()]
    told = findings(positive, MSE)["PTQ525"]
    assert (told.severity, told.message.split(" never")[0]) == ("note", "2 tensors")
    assert "asymmetric" in told.hint
    assert "PTQ525" not in findings(positive, {"activation": {"calibration_type": "mse", "asymmetric": True}})


@pytest.mark.parametrize(("count", "warned"), [(8, True), (16, False)])
def test_searches_need_samples(count: int, warned: bool) -> None:
    """A search on fewer than 16 samples is warned of."""
    told = findings(samples(count), {"activation": {"calibration_type": ["max", "mse"]}})
    assert ("PTQ526" in told) == warned
    if warned:
        assert "on 8 samples" in told["PTQ526"].message
