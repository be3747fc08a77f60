"""The compile run: stages in order, the same bytes twice, all artifacts or none."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from core_models import EDGES, FOUR, net, weights
from models import node
from small import compiled

import ptqlab
from ptqlab.errors import Interrupted, PtqError
from ptqlab.events import Event, Watch
from ptqlab.stages.record import Record

STAGES = [
    "prepare",
    "optimize",
    "place",
    "look at the calibration data",
    "calibrate",
    "convert",
    "compare",
    "compile",
    "estimate",
]


def small_model() -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    nodes = [
        node("Conv", ["x", "w"], "c", "conv"),
        node("Relu", ["c"], "r", "relu"),
        node("Conv", ["r", "w3"], "y", "end"),
    ]
    return net(nodes, ["y"], weights(**FOUR))


def files(folder: Path) -> dict[str, bytes]:
    """Contents by name, the log left out."""
    return {
        str(p.relative_to(folder)): p.read_bytes()
        for p in folder.rglob("*")
        if p.is_file() and p.name != "hb_compile.log"
    }


def without_time(record: Record) -> dict:
    return json.loads(record.to_json()) | {"timings": None}


def test_stages_come_in_order_and_are_timed(tmp_path: Path) -> None:
    """Every stage begins and ends once, in the order of the pipeline, and has a time in the record."""
    told: list[tuple[str, str]] = []
    watch = Watch(lambda event: told.append((event.kind, event.stage)))
    run = compiled(*small_model(), tmp_path, watch=watch)
    begun = [stage for kind, stage in told if kind == "start" and stage in STAGES]
    assert begun == STAGES
    assert [stage for kind, stage in told if kind == "end" and stage in STAGES] == STAGES
    timed = {"read calibration data" if s == STAGES[3] else s for s in STAGES}
    assert set(run.record.timings) == timed and all(t >= 0 for t in run.record.timings.values())


def test_two_runs_give_the_same_bytes(tmp_path: Path) -> None:
    """.bc, .hbm and every ONNX stage are byte for byte those of the first run; the record differs in its times only."""
    for name in ("residual_from_cpu", "concats"):
        model, feeds = EDGES[name]()
        first = compiled(model, feeds, tmp_path / name)
        before = files(tmp_path / name / "out")
        second = compiled(model, feeds, tmp_path / name)
        after = files(tmp_path / name / "out")
        assert set(before) == set(after)
        assert [n for n in before if before[n] != after[n] and not n.endswith("_record.json")] == []
        assert without_time(first.record) == without_time(second.record)


def test_the_record_survives_its_file(tmp_path: Path) -> None:
    """What is written beside the artifacts reads back as the record of the run, NaN and Inf included."""
    for name in ("two_inputs", "infinities_inside", "first_output_left_out"):
        run = compiled(*EDGES[name](), tmp_path / name)
        back = Record.load(tmp_path / name / "out" / "model_record.json")
        assert json.loads(back.to_json()) == json.loads(run.record.to_json()) or "NaN" in back.to_json()
        assert back.to_json() == run.record.to_json()
        assert ptqlab.load(tmp_path / name / "out").record == back or "NaN" in back.to_json()


COUNTED = ("look at the calibration data", "calibrate", "compare")
# after the beginning of the last stage nothing hears a stop any more: the run is over
STOPS = [("start", s) for s in STAGES[:-1]] + [("step", s) for s in COUNTED] + [("end", s) for s in STAGES[:-1]]


@pytest.mark.parametrize(("kind", "stage"), STOPS)
def test_a_stop_at_any_stage_leaves_what_was_there(kind: str, stage: str, tmp_path: Path) -> None:
    """Stopped by a listener: Interrupted, the earlier run's artifacts untouched, nothing half done left over."""
    model, feeds = small_model()
    compiled(model, feeds, tmp_path)
    before = files(tmp_path / "out")
    watch = Watch()

    def listener(event: Event) -> None:
        if (event.kind, event.stage) == (kind, stage):
            watch.stop()

    watch.listeners.append(listener)
    with pytest.raises(Interrupted):
        compiled(model, {"x": feeds["x"] * 2}, tmp_path, watch=watch)
    assert files(tmp_path / "out") == before
    assert not list((tmp_path / "out").glob(".*"))


def test_a_stop_before_the_first_stage_makes_nothing(tmp_path: Path) -> None:
    """A watch that is stopped already ends the run at once, in an empty folder too."""
    watch = Watch()
    watch.stop()
    with pytest.raises(Interrupted):
        compiled(*small_model(), tmp_path, watch=watch)
    assert files(tmp_path / "out") == {}


@pytest.mark.parametrize("fault", ["calibration data", "quant_config", "listener"])
def test_a_run_that_fails_leaves_what_was_there(fault: str, tmp_path: Path) -> None:
    """NaN in the data, a quant_config that does not fit, a listener that raises: the folder is as before."""
    model, feeds = small_model()
    compiled(model, feeds, tmp_path)
    before = files(tmp_path / "out")
    keywords: dict = {}
    expected: type[Exception] = PtqError
    if fault == "calibration data":
        feeds = {"x": np.full_like(feeds["x"], np.nan)}
    elif fault == "quant_config":
        keywords["quant_config"] = {"node_config": {"conv_typo": {"qtype": "int16"}}}
    else:

        def broken(event: Event) -> None:
            if event.stage == "compile":
                raise RuntimeError("listener")

        keywords["watch"], expected = Watch(broken), RuntimeError
    with pytest.raises(expected):
        compiled(model, feeds, tmp_path, **keywords)
    assert files(tmp_path / "out") == before
    assert not list((tmp_path / "out").glob(".*"))


@pytest.mark.parametrize(
    ("skip", "missing"),
    [
        ("export", {"quantized", "hbm"}),
        ("convert", {"quantized", "hbm"}),
        ("compile", {"hbm"}),
        (None, set()),
    ],
)
def test_skip_ends_the_run_early_and_the_record_says_so(skip: str | None, missing: set[str], tmp_path: Path) -> None:
    """What was made is published, what was skipped is not, quantized figures are empty without an integer model."""
    run = compiled(*small_model(), tmp_path, skip=skip)
    wanted = {"original_float", "optimized_float", "calibrated", "ptq", "quantized", "hbm", "node_info", "record"}
    assert {k for k in wanted if k in run.artifacts and Path(run.artifacts[k]).exists()} == wanted - missing
    assert run.record.complete == (skip is None)
    cosines = [row.quantized_cosine for row in run.record.nodes]
    assert all((c is None) == ("quantized" in missing) for c in cosines)


def test_random_data_stand_in_for_samples_and_are_told(tmp_path: Path) -> None:
    """Without calibration data the run goes on, says that its figures mean nothing, and is repeatable."""
    model, _ = small_model()
    onnx.save(model, tmp_path / "net.onnx")
    runs = [
        ptqlab.compile(model=tmp_path / "net.onnx", march="nash-e", working_dir=tmp_path / str(i), progress=False)
        for i in (0, 1)
    ]
    assert "PTQ301" in {f.code for f in runs[0].record.findings}
    assert [r.threshold for r in runs[0].record.nodes] == [r.threshold for r in runs[1].record.nodes]


def test_the_same_findings_are_told_once(tmp_path: Path) -> None:
    """No finding stands twice in the record, and each tells a known code."""
    run = compiled(*EDGES["all_zero"](), tmp_path)
    texts = [(f.code, f.message) for f in run.record.findings]
    assert len(texts) == len(set(texts)) and all(code.startswith("PTQ") for code, _ in texts)
