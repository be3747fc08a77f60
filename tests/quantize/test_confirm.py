"""Steps of weights by squared error: what they are, and that they are kept only where the outputs come nearer."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from calibration_nets import mobile, recipe
from core_models import net
from models import init, node, random
from small import planned

from ptqlab.arith.formats import QType
from ptqlab.arith.rounding import quantize
from ptqlab.config import QuantConfig
from ptqlab.errors import PtqError
from ptqlab.events import Watch
from ptqlab.quantize.calibrate import calibrate
from ptqlab.quantize.encode import encode
from ptqlab.quantize.heldout import scores
from ptqlab.quantize.weights import SHRINKS, channel_axis, channel_scales, dequantized, least_error_scales

ASKED = {"activation": {"calibration_type": "max"}, "weight": {"calibration_type": "mse"}}


@pytest.mark.parametrize("op", ["Conv", "grouped", "ConvTranspose", "Gemm", "MatMul"])
def test_no_other_step_has_a_smaller_error(op: str) -> None:
    """Channel by channel: of all steps tried the one with the smallest squared error of the weights."""
    shapes = {"Conv": (4, 32, 3, 3), "grouped": (4, 16, 3, 3), "ConvTranspose": (32, 3, 3, 3), "Gemm": (5, 300),
              "MatMul": (300, 5)}
    more = {"grouped": {"group": 2}, "ConvTranspose": {"group": 2}, "Gemm": {"transB": 1}}.get(op, {})
    x = random(3, 300) if op in ("Gemm", "MatMul") else random(1, 32, 6, 6)
    weight = random(*shapes[op], seed=3)
    model = net([node("Conv" if op == "grouped" else op, ["x", "w"], "y", "n", **more)], ["y"], [init("w", weight)],
                {"x": x})[0]
    made = planned(model)[0].node("n")
    raw = made.inputs[1].const_value.numpy()  # type: ignore[union-attr]
    group = 2 if op == "ConvTranspose" else 1
    scale = channel_scales(raw, channel_axis(made), group)
    found = least_error_scales(made, raw, scale, QType.INT8)

    def errors(steps: np.ndarray) -> np.ndarray:
        from ptqlab.quantize.weights import per_weight

        along = per_weight(made, steps, raw.ndim)
        wrong = (raw - quantize(raw, along, 0, -128, 127) * along).astype(float) ** 2
        channel = np.broadcast_to(per_weight(made, np.arange(scale.size), raw.ndim), raw.shape)
        return np.array([wrong[channel == c].sum() for c in range(scale.size)])

    best = errors(found)
    for shrink in SHRINKS:
        assert (best <= errors((scale * np.float32(shrink)).astype(np.float32)) * (1 + 1e-9)).all()
    assert (found <= scale).all()
    assert (found < scale).any()


@pytest.mark.parametrize("kept", [True, False])
def test_the_outputs_decide(kept: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The better score decides; it stands in the answers, and only then the weights change."""
    graph, plan, samples = mobile(3)

    def judged(graph: Any, plan: Any, both: Any, samples: Any, indices: Any, metric: str, *_: Any) -> list[float]:
        assert [c.weights for c in both] == ["mse", "max"]
        assert (list(indices), metric) == ([0, 1, 2], "cosine-similarity")
        return [0.9, 0.8] if kept else [0.8, 0.9]

    monkeypatch.setattr("ptqlab.quantize.confirm.scores", judged)
    found = calibrate(graph, plan, samples, 3, Watch(), recipe(graph, plan, ASKED))
    assert found.weights == ("mse" if kept else "max")
    assert found.answers["weights"]["kept"] is kept
    plain = calibrate(graph, plan, samples, 3, Watch(), recipe(graph, plan, {"activation": ASKED["activation"]}))
    a, b = (encode(graph, plan, c).weights["conv0"] for c in (found, plain))
    assert np.array_equal(a.codes, b.codes) is not kept
    raw = graph.constant(graph.node("conv0").inputs[1])
    errors = [float(((raw - dequantized(graph.node("conv0"), w)) ** 2).sum()) for w in (a, b)]
    assert errors[0] < errors[1] if kept else errors[0] == errors[1]


def test_scores_are_those_of_the_calibrated_models() -> None:
    """Better thresholds score better, over the samples that were named."""
    graph, plan, samples = mobile(4)
    good = calibrate(graph, plan, samples, 4, Watch(), recipe(graph, plan))
    bad = calibrate(graph, plan, samples, 4, Watch(), recipe(
        graph, plan, {"activation": {"calibration_type": "max", "max_percentile": 0.6}}))
    for indices in ([0], [1, 3]):
        a, b = scores(graph, plan, [good, bad], samples, indices, "sqnr", Watch())
        assert a > b + 3
    assert scores(graph, plan, [good], samples, [0], "sqnr", Watch()) != scores(
        graph, plan, [good], samples, [2], "sqnr", Watch())


def test_the_configuration() -> None:
    """weight.calibration_type is max or mse, survives the way to JSON and back, and is off by default."""
    parsed = QuantConfig.parse({"model_config": ASKED})
    assert parsed.to_dict() == {"model_config": ASKED}
    assert QuantConfig.parse(parsed.to_dict()) == parsed
    graph, plan, _ = mobile(1)
    assert recipe(graph, plan, ASKED).weights == "mse"
    assert recipe(graph, plan).weights == "max"
    with pytest.raises(PtqError) as refused:
        QuantConfig.parse({"model_config": {"weight": {"calibration_type": "kl"}}})
    assert "max, mse" in str(refused.value)
