"""What-if: another quant_config gives the figures that a whole compile run gives, by computing what changed."""
from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ptqlab
from ptqlab import config as configuration
from ptqlab.config import QuantConfig
from ptqlab.errors import Interrupted, PtqError
from ptqlab.events import Watch
from ptqlab.examples import digits
from ptqlab.pipeline.whatif import WhatIf, edited

DATA = {"image": list(digits.calibration_samples()[:6, None])}
MIDDLE = "/block2/project/conv/Conv"
QUANTS: dict[str, dict[str, Any]] = {
    "nothing": {},
    "int16 in the middle": {"node_config": {MIDDLE: {"qtype": "int16"}}},
    "both operands": {"op_config": {"Conv": {"qtype": "dual-int16"}}},
    "on the CPU": {"node_config": {MIDDLE: {"ON": "CPU"}}},
    "the tail on the BPU": {"model_config": {"model_output_type": "int16"}},
    "asymmetric and max": {"model_config": {"activation": {"calibration_type": "max", "asymmetric": True}}},
    "per channel": {"node_config": {MIDDLE: {"activation": {"per_channel": True}}}},
    "a search": {"model_config": {"activation": {"calibration_type": ["max", "kl"]}, "modelwise_search": {}}},
}


def settings(folder: Path, **more: Any) -> dict[str, Any]:
    return {"model": digits.model_path(), "march": "nash-e", "calibration_data": DATA, "working_dir": folder, **more}


@pytest.fixture(scope="module")
def whatif(tmp_path_factory):
    return WhatIf(configuration.load(None, **settings(tmp_path_factory.mktemp("whatif"))))


@pytest.mark.parametrize("name", QUANTS)
def test_the_figures_are_those_of_a_whole_run(name: str, whatif: WhatIf, tmp_path: Path) -> None:
    """Outputs and latency of a quant_config equal those of compiling with it, edit after edit on one `WhatIf`."""
    placed = whatif.placed(QuantConfig.parse(QUANTS[name]))
    outcome = whatif.outcome(placed)
    run = ptqlab.compile(**settings(tmp_path, quant_config=QUANTS[name]), skip="compile", progress=False)
    rows = {row.tensor: row for row in run.record.outputs}
    assert list(outcome.outputs) == list(rows)
    for tensor, agreement in outcome.outputs.items():
        assert agreement.cosine == pytest.approx(rows[tensor].quantized_cosine, abs=1e-7)
        assert agreement.sqnr == pytest.approx(rows[tensor].sqnr, abs=1e-3)
    assert placed.estimate.latency_us == run.perf["latency_us"]
    assert placed.estimate.board_latency_us == run.perf["board_latency_us"]
    assert {n: p.device.value for n, p in placed.plan.nodes.items()} == {r.node: r.on for r in run.record.nodes}


def test_floats_of_the_vector_unit_are_measured_too(tmp_path: Path) -> None:
    """Where a march has floats, parts in float16 run as in a whole run."""
    quant = {"op_config": {"Add": {"qtype": "float16"}, "Softmax": {"qtype": "float16"}}}
    given = {**settings(tmp_path), "march": "nash-p"}
    whatif = WhatIf(configuration.load(None, **given))
    whatif.outcome(whatif.placed(QuantConfig.parse({})))
    outcome = whatif.outcome(whatif.placed(QuantConfig.parse(quant)))
    run = ptqlab.compile(**given, quant_config=quant, skip="compile", progress=False)
    assert outcome.cosine == pytest.approx(run.record.outputs[0].quantized_cosine, abs=1e-7)
    assert "float16" in {row.granted for row in run.record.nodes}


def test_only_what_an_edit_reaches_is_computed(tmp_path: Path) -> None:
    """An edit in the middle leaves the parts before it alone, and taking it back computes nothing."""
    whatif = WhatIf(configuration.load(None, **settings(tmp_path)))
    before, after = (whatif.placed(QuantConfig.parse(QUANTS[n])) for n in ("nothing", "int16 in the middle"))
    first = whatif.outcome(before)
    assert first.ran == first.parts
    second = whatif.outcome(after)
    assert 0 < second.ran < second.parts
    assert whatif.outcome(before) is first


def test_without_samples_placement_and_latency_are_known(tmp_path: Path) -> None:
    """A run without calibration data has a latency, and its outputs are refused with what to do."""
    given = settings(tmp_path)
    del given["calibration_data"]
    whatif = WhatIf(configuration.load(None, **given))
    placed = whatif.placed(QuantConfig.parse(QUANTS["int16 in the middle"]))
    assert placed.estimate.latency_us > 0
    with pytest.raises(PtqError) as told:
        whatif.outcome(placed)
    assert told.value.problems[0].hint == "give the samples: run.grid(data=...)"


def test_a_stop_is_heard_and_leaves_no_wrong_figures(whatif: WhatIf) -> None:
    """A stopped what-if raises, and the same question afterwards is answered in full."""
    placed = whatif.placed(QuantConfig.parse({"node_config": {"/stem/conv/Conv": {"qtype": "int16"}}}))
    watch = Watch()
    watch.listeners.append(lambda event: watch.stop() if event.done else None)
    with pytest.raises(Interrupted):
        whatif.outcome(placed, watch)
    outcome = whatif.outcome(placed)
    assert outcome.samples == len(DATA["image"])
    assert np.isfinite(outcome.cosine)


def test_what_placement_says_of_an_edit_is_told(whatif: WhatIf) -> None:
    """A type that has no effect is a finding about the node, as in a compile run."""
    placed = whatif.placed(QuantConfig.parse({"node_config": {"/flatten/Flatten": {"qtype": "int16"}}}))
    assert [(f.code, f.nodes) for f in placed.findings if f.code == "PTQ401"] == [("PTQ401", ("/flatten/Flatten",))]


def test_an_edited_configuration_is_one_that_loads_again(tmp_path: Path) -> None:
    """Older keys that say the same as quant_config do not stay beside an edited one."""
    older = configuration.load(None, **settings(tmp_path, calibration_type="max", max_percentile=0.999))
    made = edited(older, QuantConfig.parse({"model_config": {"activation": {"calibration_type": "kl"}}}))
    again = configuration.load(made.to_dict(), calibration_data=DATA)
    assert again.calibration.quant.to_dict() == {"model_config": {"activation": {"calibration_type": "kl"}}}
