"""The fit: its data file is what the published rows give, and it holds for networks it has not seen."""

from __future__ import annotations

import json

import numpy as np
import pytest
from benchmarks import fit_perf
from benchmarks.fit_perf import BASE_MARCH, NAMES, PAGE, PARAMETERS, Judged, Predictor, Rows

from ptqlab.perf import estimate


@pytest.fixture(scope="module")
def rows() -> Rows:
    return fit_perf.read()


@pytest.fixture(scope="module")
def judged(rows: Rows) -> Judged:
    return fit_perf.judge(rows)


def test_the_data_file_is_the_fit(rows: Rows, judged: Judged) -> None:
    """`parameters.json` holds what the script finds now."""
    kept, made = json.loads(PARAMETERS.read_text(encoding="utf-8")), fit_perf.parameter_file(rows, judged)
    assert set(kept) == set(made) and kept["basis"] == made["basis"]
    assert kept[BASE_MARCH] == pytest.approx(made[BASE_MARCH], rel=0.01)
    assert kept["nash-m to nash-e"] == pytest.approx(made["nash-m to nash-e"], rel=0.01)


def test_the_page_tells_the_same_errors(rows: Rows, judged: Judged) -> None:
    """PERFORMANCE.md was written by this fit."""
    from benchmarks.fit_perf_page import page

    kept, made = PAGE.read_text(encoding="utf-8").splitlines(), page(rows, judged).splitlines()
    for heading in ("# How good", "| within the fit |", "| **left out", "| baseline, left out: t0"):
        assert [x for x in kept if x.startswith(heading)] == [x for x in made if x.startswith(heading)]


def test_networks_never_seen(rows: Rows, judged: Judged) -> None:
    """Each family predicted by a fit without it: mean error within 4.5 % on both boards, no family beyond 12 %."""
    single = rows.only(rows.single)
    for fast in (False, True):
        assert fit_perf.mean(judged.outside[single.fast == fast]) < 0.045
        for name in dict.fromkeys(single.family):
            mine = (single.family == name) & (single.fast == fast)
            assert not mine.any() or fit_perf.mean(judged.outside[mine]) < 0.12, name


def test_baselines_are_far_behind(rows: Rows, judged: Judged) -> None:
    """The simple models miss three times as much on networks they have not seen."""
    for columns in ((0,), (0, 1, 2)):
        assert fit_perf.mean(fit_perf.baseline(rows, columns)) > 3 * fit_perf.mean(judged.outside)


def test_no_parameter_hangs_in_the_air(judged: Judged) -> None:
    """Leaving out any family moves no parameter by more than half: the data hold them."""
    for name, x in judged.left_out.items():
        worst = int(np.argmax(np.abs(x - judged.x)))
        assert abs(x[worst] - judged.x[worst]) < np.log(1.5), (name, NAMES[worst])


def test_the_fit_predicts_what_the_product_says(rows: Rows) -> None:
    """The fit's fast way over all networks at once equals `estimate` on each."""
    stored = json.loads(PARAMETERS.read_text(encoding="utf-8"))
    values = stored[BASE_MARCH] | {
        "ddr_ratio": stored["nash-m to nash-e"]["ddr"],
        "runtime_ratio": stored["nash-m to nash-e"]["runtime"],
    }
    predicted = Predictor(rows)(np.log([values[name] for name in NAMES]))
    for i in np.flatnonzero(rows.single)[::5]:
        march = "nash-m" if rows.fast[i] else "nash-e"
        found = estimate(rows.models[rows.model[i]].layers, march, older_runtime=bool(rows.older[i]))
        assert found.board_latency_us / 1e3 == pytest.approx(predicted[i])


@pytest.mark.parametrize(
    ("model", "family"),
    [
        ("YOLOv8x-CLS", "YOLOv8-CLS"),
        ("YOLO11n", "YOLO11"),
        ("YOLOv5mu", "YOLOv5"),
        ("MobileNetV2", "MobileNet"),
        ("ResNet152", "ResNet"),
        ("YOLO12s", "YOLO12"),
        ("YOLO11l-Pose", "YOLO11-Pose"),
    ],
)
def test_families(model: str, family: str) -> None:
    """All sizes of one architecture and task are one family: none of them helps to predict another."""
    assert fit_perf.family(model) == family
