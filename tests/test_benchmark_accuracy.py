"""Accuracy never falls below what was measured once: the floors of `benchmarks.cases`, for what calibration decides."""
from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from benchmarks import accuracy
from benchmarks.cases import ENTRIES, Case, Floor

from ptqlab.arith.metrics import Agreement
from ptqlab.graph import session
from ptqlab.passes import optimize

RECIPES = {"default": {}, "asymmetric": {"model_config": accuracy.ASYMMETRIC}}


def check_floor(name: str, case: Case) -> None:
    """Both recipes in int8, calibrated and simulated."""
    entry = ENTRIES[name]
    wanted = accuracy.outputs(session(optimize(case.graph()).model).run, case)
    for words, config in RECIPES.items():
        calibrated, simulated = accuracy.run_recipe(case, config, wanted)
        for score in (calibrated, simulated):
            assert score.above(entry.floor), f"{name} {words}: {score}"
        assert simulated.whole.sqnr >= calibrated.whole.sqnr - accuracy.LOSS


def test_digits_keep_35_db(tmp_path: Path) -> None:
    """The built-in network's logits on all unseen digits: 35 dB in int8 with and without zero points, simulated too."""
    check_floor("digits", ENTRIES["digits"].case(tmp_path, tmp_path, None))


@pytest.mark.models
@pytest.mark.slow
@pytest.mark.parametrize("name", ["mobilenet_v2", "efficientnet_lite0"])
def test_imagenet_networks_keep_their_cosine(name: str, tmp_path: Path) -> None:
    """Trained networks on 40 crops of photos that did not calibrate: above the best that plain methods reach."""
    cache = Path(tempfile.gettempdir()) / "ptqlab-models"
    try:
        case = ENTRIES[name].case(cache, tmp_path, 40)
    except ImportError as missing:
        pytest.skip(str(missing))
    check_floor(name, case)


def test_floors_are_floors() -> None:
    """Cosine, SQNR and equal answers each refuse what lies below."""
    agreement = Agreement()
    agreement.add(np.array([1.0, 2.0], np.float32), np.array([1.1, 2.0], np.float32), distances=True)
    made = accuracy.Score(agreement, Agreement(), "3 of 4 lines equal")
    assert made.above(Floor(cosine=0.99, sqnr=20.0))
    assert not made.above(Floor(cosine=0.9999))
    assert not made.above(Floor(sqnr=30.0))
    assert not made.above(Floor(answers=True))
    assert accuracy.Score(agreement, Agreement(), "4 of 4 lines equal").above(Floor(answers=True))
