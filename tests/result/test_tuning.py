"""Mixed precision until a target: steps, stops, files, what the user fixed."""
from __future__ import annotations

import json

import numpy as np
import onnx
import pytest
from core_models import net
from models import init, node, random

import ptqlab
from ptqlab.config import QuantConfig
from ptqlab.debug.greedy import Raise, raises
from ptqlab.errors import Interrupted, PtqError
from ptqlab.events import Watch
from ptqlab.result.tuning import calibration_choices, tune

MAX = {"model_config": {"activation": {"calibration_type": "max"}}}


@pytest.fixture(scope="module")
def given(tmp_path_factory):
    """A chain of Convs whose third input holds an outlier, which int8 cannot represent."""
    folder = tmp_path_factory.mktemp("tune")
    nodes, inits = [], []
    for i in range(4):
        nodes += [node("Conv", [f"x{i}", f"w{i}"], f"c{i}", f"conv{i}", pads=[1, 1, 1, 1]),
                  node("Relu", [f"c{i}"], f"x{i + 1}", f"relu{i}")]
        inits.append(init(f"w{i}", random(6, 6, 3, 3, seed=i, scale=0.2)))
    large, small = np.float32([60, 1, 1, 1, 1, 1]), np.float32([1e-3, 1, 1, 1, 1, 1])
    inits[1] = init("w1", random(6, 6, 3, 3, seed=1, scale=0.2) * large.reshape(-1, 1, 1, 1))
    inits[2] = init("w2", random(6, 6, 3, 3, seed=2, scale=0.2) * small.reshape(1, -1, 1, 1))
    feeds = {"x0": random(1, 6, 8, 8, seed=30)}
    onnx.save(net(nodes, ["x4"], inits, feeds)[0], folder / "net.onnx")
    data = {"x0": [random(1, 6, 8, 8, seed=40 + i) for i in range(4)]}
    return {"model": folder / "net.onnx", "march": "nash-e", "calibration_data": data, "working_dir": folder / "out",
            "quant_config": MAX, "progress": False}


def test_the_tensor_that_hurts_is_raised_until_the_target(given, tmp_path):
    """One tensor in int16 lifts the output by more than 10 dB; the files say the same as the result."""
    result = tune(**given, target=28.0, metric="sqnr", calibration=False, save_dir=tmp_path)
    first, best = result.steps[0], result.best
    assert result.reached and best.int16 == 1 and best.sqnr > first.sqnr + 10
    assert result.quant_config["node_config"] == {"conv2": {"qtype": "int16"}}
    assert json.loads((tmp_path / "quant_config.json").read_text()) == result.quant_config
    final = json.loads((tmp_path / "final_quant_config.json").read_text())
    assert final["node_config"] == {"conv2": {"qtype": "int16"}}
    text = (tmp_path / "tuning_report.md").read_text()
    assert "reached" in text and "int16 for conv2" in text
    assert list(result.frame["What"]) == [s.what for s in result.steps]
    run = result.compile(working_dir=tmp_path / "run", progress=False)
    assert run.outputs["SQNR"].min() > first.sqnr + 9
    assert result.simulated[1] == pytest.approx(run.outputs["SQNR"].min(), abs=0.5)


def test_what_the_user_fixed_stays(given, tmp_path):
    """node_config wins: a node the user wants in int8 is not raised."""
    quant = {**MAX, "node_config": {"conv2": {"qtype": "int8"}}}
    result = tune(**{**given, "quant_config": quant}, target=60.0, metric="sqnr", calibration=False, save_dir=tmp_path)
    asked = QuantConfig.parse(result.quant_config)
    assert asked.for_node("conv2", "Conv").qtype == "int8" and not result.reached
    assert all("conv2" not in step.what for step in result.steps)


def test_limits_hold(given, tmp_path):
    """No more tensors than allowed, and no step that is slower than allowed is taken."""
    none = tune(**given, target=90.0, metric="sqnr", calibration=False, max_tensors=1, save_dir=tmp_path)
    assert none.best.int16 == 1 and max(s.int16 for s in none.steps) == 1
    limit = none.steps[0].latency_us
    cheap = tune(**given, target=90.0, metric="sqnr", calibration=False, max_latency_us=limit, save_dir=tmp_path)
    assert cheap.best.latency_us <= limit


def test_a_stop_keeps_the_best(given, tmp_path):
    """Stopped after three steps: the best of them is written; stopped at once: nothing is."""
    watch = Watch()
    watch.listeners.append(lambda e: watch.stop() if e.kind == "step" and e.stage == "tune" and e.done == 3 else None)
    result = tune(**given, target=90.0, metric="sqnr", save_dir=tmp_path / "a", watch=watch)
    assert result.stopped and len(result.steps) == 3 and (tmp_path / "a" / "tuning_report.md").is_file()
    with pytest.raises(Interrupted):
        tune(**given, save_dir=tmp_path / "b", watch=watch)
    assert not (tmp_path / "b").exists()


def test_pareto(given, tmp_path):
    """On the curve no step is beaten in both figures by another."""
    result = ptqlab.tune(**given, target=90.0, metric="sqnr", save_dir=tmp_path)
    for step in result.pareto:
        assert not [s for s in result.steps if s.latency_us <= step.latency_us and s.sqnr > step.sqnr]
    assert "Steps" in str(result) and result._repr_mimebundle_()["text/html"]


def test_calibration_choices_keep_the_method_of_the_user():
    """A named method stays; asymmetric and bias correction are added; what is there is not tried again."""
    quants = dict(calibration_choices(MAX))
    assert quants["asymmetric"]["model_config"]["activation"] == {"calibration_type": "max", "asymmetric": True}
    assert set(quants) == {"bias correction", "asymmetric", "asymmetric, bias correction"}
    corrected = {"model_config": {"weight": {"bias_correction": {"num_sample": 4}}}}
    assert "bias correction" not in dict(calibration_choices(corrected))
    assert MAX == {"model_config": {"activation": {"calibration_type": "max"}}}


def test_the_order_is_gain_per_latency():
    """A tensor that gains a little less and costs nothing comes before one that costs a tenth of the whole."""
    cost = {"a": 10.0, "b": 0.0}
    found = raises({"x": 1.0, "y": 0.6, "z": 0.5}, {"x": ["a"], "y": ["b"], "z": ["c"]}, ["c"],
                   lambda change: sum(cost[n] for n in change), 100.0)
    assert [r.slot for r in found] == ["y", "x"]
    assert isinstance(found[0], Raise) and found[0].worth(100.0) > found[1].worth(100.0)


@pytest.mark.parametrize(("wrong", "words"), [
    ({"metric": "mse"}, "cosine-similarity, sqnr"), ({"target": float("nan")}, "a finite number"),
    ({"data_num": 0}, "a whole number from 1"), ({"calibration_data": None}, "samples to calibrate with"),
])
def test_refusals(given, wrong, words):
    """Settings that mean nothing are told."""
    with pytest.raises(PtqError, match=words):
        tune(**{**given, **wrong})
