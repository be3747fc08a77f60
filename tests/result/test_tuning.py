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
from ptqlab.debug.greedy import Raise, raised
from ptqlab.errors import Interrupted, PtqError
from ptqlab.events import Watch
from ptqlab.result.tuner import calibration_choices
from ptqlab.result.tuning import tune

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
    """A tensor that gains a little less and costs nothing is worth more than one that costs a tenth of the whole."""
    dear, free = Raise("int16", "x", {"a": "int16"}, 1.0, 10.0), Raise("int16", "y", {"b": "int16"}, 0.6, 0.0)
    assert free.worth(100.0) > dear.worth(100.0) and dear.worth(1e6) > free.worth(1e6)


def test_a_wider_type_is_never_replaced_by_a_lesser_one():
    """int16 for a tensor leaves a node in dual-int16 or float16 as it is."""
    assert [raised(asked, "int16") for asked in (None, "int8", "int16", "dual-int16", "float16")] == [
        "int16", "int16", "int16", "dual-int16", "float16"]
    assert raised("int16", "dual-int16") == "dual-int16" and raised("dual-int16", "float16") == "float16"


def test_weights_are_raised_where_they_are_what_hurts(tmp_path):
    """One large weight per channel: int16 activations help little, dual-int16 does."""
    weights = random(6, 16, 3, 3, seed=1, scale=0.02)
    weights[:, 0, 0, 0] = 20.0
    weights_in = np.ones((1, 16, 1, 1), np.float32)
    weights_in[0, 0] = 1e-3
    onnx.save(net([node("Conv", ["x", "w"], "y", "conv")], ["y"], [init("w", weights)],
                  {"x": random(1, 16, 6, 6)})[0], tmp_path / "net.onnx")
    data = {"x": [(random(1, 16, 6, 6, seed=i) * weights_in).astype(np.float32) for i in range(3)]}
    result = tune(model=tmp_path / "net.onnx", march="nash-e", calibration_data=data, working_dir=tmp_path,
                  quant_config=MAX, target=30.0, metric="sqnr", calibration=False, progress=False)
    assert result.reached and result.best.dual == 1 and "dual-int16 for conv" in result.best.what
    assert QuantConfig.parse(result.quant_config).for_node("conv", "Conv").qtype == "dual-int16"
    assert result.frame["Dual Weights"].max() == 1 and "with weights in int16" in str(result)


def test_the_second_operand_of_a_product_is_raised_too(tmp_path):
    """An outlier in the second tensor of a MatMul, which int16 alone leaves in int8."""
    wide = np.ones((8, 1), np.float32)
    wide[0] = 200.0
    onnx.save(net([node("MatMul", ["p", "q"], "y", "product")], ["y"], [], {"p": random(4, 8), "q": random(8, 4)})[0],
              tmp_path / "net.onnx")
    data = {"p": [(random(4, 8, seed=i) / wide.T).astype(np.float32) for i in range(3)],
            "q": [(random(8, 4, seed=9 + i) * wide).astype(np.float32) for i in range(3)]}
    result = tune(model=tmp_path / "net.onnx", march="nash-e", calibration_data=data, working_dir=tmp_path,
                  quant_config=MAX, target=40.0, metric="sqnr", calibration=False, progress=False)
    assert result.reached and len(result.steps) == 2 and result.best.what == "dual-int16 for product"


def test_float16_where_the_march_has_it(tmp_path):
    """Values over many powers of two: int16 holds the small ones badly, float16 does."""
    factor = init("k", np.float32(3.0))
    nodes = [node("Mul", ["x", "k"], "h", "scale"), node("Log", ["h"], "y", "log")]
    onnx.save(net(nodes, ["y"], [factor], {"x": np.abs(random(1, 4, 6, 6)) + 1})[0], tmp_path / "net.onnx")
    random_powers = [np.random.default_rng(i).uniform(-14, 4, (1, 4, 6, 6)) for i in range(3)]
    data = {"x": [np.exp(p).astype(np.float32) for p in random_powers]}
    asked = {"model": tmp_path / "net.onnx", "calibration_data": data, "quant_config": MAX, "target": 50.0,
             "metric": "sqnr", "calibration": False, "progress": False}
    result = tune(march="nash-p", working_dir=tmp_path / "p", **asked)
    assert result.reached and result.best.float16 >= 1 and "float16 for" in " ".join(s.what for s in result.steps)
    without = tune(march="nash-e", working_dir=tmp_path / "e", **asked)
    assert not without.reached and all(s.float16 == 0 for s in without.steps)


def test_what_is_not_needed_is_taken_back(given, tmp_path):
    """Raised on the way to the target and then of no use: the step without it is kept, and is no slower."""
    result = tune(**given, target=28.0, metric="sqnr", calibration=False, save_dir=tmp_path)
    best = result.best
    assert all(s.latency_us >= best.latency_us or not s.kept for s in result.steps if result.goal.met(s))
    pruned = [s for s in result.steps if s.what.startswith("without ")]
    assert all(s.kept == (s.sqnr >= 28.0 and s.latency_us <= best.latency_us) for s in pruned)


def test_the_user_measures(given, tmp_path):
    """The share of samples whose largest value stays in its place; its figure is in frame, page and report."""
    from ptqlab.graph import load, session

    runner = session(load(given["model"]).model)
    places = [int(runner.run(None, {"x0": x})[0].argmax()) for x in given["calibration_data"]["x0"]]

    def accuracy(outputs, number):
        return float(outputs["x4"].argmax() == places[number])

    result = tune(**given, target=1.0, metric=accuracy, calibration=False, save_dir=tmp_path)
    assert result.reached and list(result.frame["accuracy"])[-1] == result.best.judged == 1.0
    assert "accuracy" in str(result) and "accuracy of that step: 1.0000" in (tmp_path / "tuning_report.md").read_text()


def test_as_accurate_as_the_latency_allows(given, tmp_path):
    """Without a target it goes on until nothing helps, within the budget."""
    free = tune(**given, target=None, calibration=False, save_dir=tmp_path)
    assert free.best.int16 > 1 and not free.reached and free.best.sqnr == max(s.sqnr for s in free.steps if s.kept)
    budget = tune(**given, target=None, calibration=False, max_latency_us=free.steps[0].latency_us, save_dir=tmp_path)
    assert budget.best.latency_us <= free.steps[0].latency_us and budget.best.sqnr <= free.best.sqnr
    assert "no target" in str(budget)


def test_scoring_data_of_its_own(given, tmp_path):
    """Steps are scored on other samples than those that calibrate."""
    other = {"x0": [random(1, 6, 8, 8, seed=90 + i) for i in range(2)]}
    a = tune(**given, target=0.1, scoring_data=other, save_dir=tmp_path).steps[0]
    b = tune(**given, target=0.1, save_dir=tmp_path).steps[0]
    assert a.sqnr != b.sqnr and abs(a.sqnr - b.sqnr) < 6


def test_the_report_is_one_page(given, tmp_path):
    """html with the figure and nothing from outside; names are escaped in both forms."""
    model = onnx.load(given["model"])
    for made in model.graph.node:
        made.name = made.name.replace("conv2", "a<b>|c")
    onnx.save(model, tmp_path / "odd.onnx")
    tune(**{**given, "model": tmp_path / "odd.onnx"}, target=28.0, metric="sqnr", save_dir=tmp_path)
    page, text = ((tmp_path / f"tuning_report.{kind}").read_text() for kind in ("html", "md"))
    assert "<svg" in page and "http" not in page.replace("http://www.w3.org/2000/svg", "")
    assert "a<b>" not in page and "int16 for a&lt;b&gt;|c" in page and "int16 for a&lt;b>\\|c" in text


@pytest.mark.parametrize(("wrong", "words"), [
    ({"metric": "mse"}, "cosine-similarity, sqnr or a function"), ({"target": float("nan")}, "a finite number"),
    ({"data_num": 0}, "a whole number from 1"), ({"calibration_data": None}, "samples to calibrate with"),
])
def test_refusals(given, wrong, words):
    """Settings that mean nothing are told."""
    with pytest.raises(PtqError, match=words):
        tune(**{**given, **wrong})
