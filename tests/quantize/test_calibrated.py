"""The calibrated model: quantizers where the BPU stores integers, names that survive, nearness to the integers."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from core_models import EDGES, FOUR, net, weights
from models import node
from small import Made, forced_steps, planned, stages

from ptqlab.arith.formats import QType
from ptqlab.arith.rounding import fake_quantize
from ptqlab.graph import session
from ptqlab.ops.calibration_node import DOMAIN
from ptqlab.placement import Ask, Asks
from ptqlab.quantize.calibrated import with_folded_weights

CHAIN = [node("Conv", ["x", "w"], "c", "conv"), node("Relu", ["c"], "r", "relu"), node("Conv", ["r", "w3"], "y", "end")]


def chain(*outputs: str, asks: Asks | None = None) -> tuple[Made, dict[str, np.ndarray]]:
    model, feeds = net(CHAIN, list(outputs or ("y",)), weights(**FOUR))
    return stages(model, feeds, asks=asks), feeds


def quantizers(made: Made) -> dict[str, ir.Node]:
    return {str(n.name): n for n in made.calibrated.model.graph if n.domain == DOMAIN}


def run(made: Made, feeds: dict[str, np.ndarray], *tensors: str, optimise: bool = False) -> list[np.ndarray]:
    names = [made.calibrated.names.get(t, t) for t in tensors]
    return session(made.calibrated.model, outputs=names, optimise=optimise).run(names, feeds)


def test_quantizers_stand_at_inputs_stored_results_and_weights_and_nowhere_else() -> None:
    """Input, the Relu's result, two weights: four nodes; none inside of a group, none on a high-precision output."""
    made, _ = chain()
    assert set(quantizers(made)) == {
        "x_HzCalibration",
        "r_HzCalibration",
        "w_conv_HzCalibration",
        "w3_end_HzCalibration",
    }
    kinds = {n.attributes["kind"].as_string() for n in quantizers(made).values()}
    assert kinds == {"activation", "weight"}
    assert [str(v.name) for v in made.calibrated.model.graph.outputs] == ["y"]


def test_a_quantizer_does_what_its_attributes_say() -> None:
    """The result is fake quantization with the attributes as numpy computes it, for activations and weights."""
    made, feeds = chain()
    at = quantizers(made)["x_HzCalibration"].attributes
    scale = np.float32(at["scales"].value[0])
    assert at["thresholds"].value[0] == pytest.approx(float(scale) * 127)
    got = run(made, feeds, "x")[0]
    assert (
        got.tobytes()
        == fake_quantize(feeds["x"], scale, at["zero_point"].value, at["low"].value, at["high"].value).tobytes()
    )
    weight = quantizers(made)["w_conv_HzCalibration"]
    scales = np.array(weight.attributes["scales"].value, np.float32).reshape(4, 1, 1, 1)
    wanted = fake_quantize(made.graph.array("w"), scales, 0, -128, 127)
    assert run(made, feeds, str(weight.outputs[0].name))[0].tobytes() == wanted.tobytes()
    assert np.array_equal(made.encodings.weights["conv"].codes, np.round(wanted / scales))


def test_an_output_that_the_bpu_stores_holds_what_the_board_gives() -> None:
    """The output `r` keeps its name and is quantized; its unquantized form has another name."""
    made, feeds = chain("y", "r")
    assert made.calibrated.names["r"] == "r"
    step = float(made.encodings.slots["r"].scale)
    values = run(made, feeds, "r")[0] / step
    assert np.abs(values - np.round(values)).max() < 1e-3


def test_a_reader_of_another_type_gets_a_quantizer_of_its_own() -> None:
    """x is stored in int16 and read in int8 by one convolution: one more quantizer on that edge."""
    nodes = [node("Conv", ["x", "w"], "c", "narrow"), node("Conv", ["x", "w"], "d", "wide")]
    model, feeds = net(nodes, ["c", "d"], weights(**FOUR))
    made = stages(model, feeds, asks=Asks({"wide": Ask("int16", level="node")}))
    activations = {n: q.attributes["bits"].value for n, q in quantizers(made).items() if not n.startswith("w_")}
    assert activations == {"x_HzCalibration": 16, "x_int8_HzCalibration": 8}


def test_names_that_the_model_uses_already_are_left_to_it() -> None:
    """Outputs named like tensors of the core hold the float tensor of that name, quantized."""
    for name in ("colliding_names", "float_suffixes", "hostile_names"):
        model, feeds = EDGES[name]()
        made = stages(model, feeds)
        graph = made.calibrated.model.graph
        assert [str(v.name) for v in graph.outputs] == [v.name for v in model.graph.output]
        names = [str(n.name) for n in graph]
        assert len(names) == len(set(names))
        outputs = [str(v.name) for v in graph.outputs]
        truth = session(made.graph.model, outputs=outputs).run(outputs, feeds)
        for output, wanted, got in zip(outputs, truth, run(made, feeds, *outputs), strict=True):
            error = np.abs(got - wanted).max() / np.abs(wanted).max()
            assert error < 0.05, f"{name}: {output} is off by {error:.3f}"


def test_onnxruntime_gives_nearly_the_same_with_and_without_its_rewriting() -> None:
    """Rewriting may move a tie by one step, no more."""
    made, feeds = chain("y", "r")
    plain, rewritten = run(made, feeds, "r")[0], run(made, feeds, "r", optimise=True)[0]
    assert np.abs(plain - rewritten).max() <= float(made.encodings.slots["r"].scale) * 1.001


def test_folded_weights_are_those_of_the_quantizers_to_the_bit() -> None:
    """The form used for comparing holds what each weight's quantizer gives; results differ by float sums only."""
    for name in ("two_inputs", "gemm_chain", "matmul_forms"):
        model, feeds = EDGES[name]()
        made = stages(model, feeds)
        folded = with_folded_weights(made.calibrated, made.encodings)
        quantized = [
            str(q.outputs[0].name) for q in quantizers(made).values() if q.attributes["kind"].as_string() == "weight"
        ]
        for weight, wanted in zip(quantized, run(made, feeds, *quantized), strict=True):
            assert folded.graph.initializers[weight].const_value.numpy().tobytes() == wanted.tobytes()
        outputs = [str(v.name) for v in made.graph.outputs]
        for a, b in zip(run(made, feeds, *outputs), session(folded, outputs=outputs).run(None, feeds), strict=True):
            assert np.abs(a - b).max() < np.abs(a).max() * 0.02


# operators whose integers differ from rounded floats by requantization only (tables have bounds of their own)
LINEAR = {
    "outputs_that_are_read",
    "rank_0_tensors",
    "one_axis",
    "colliding_names",
    "matmul_forms",
    "gemm_chain",
    "all_zero",
    "dead_behind_large",
    "huge_values",
    "wide_bias",
    "pads",
    "pools",
    "means",
    "slices",
    "diamonds",
    "residual_from_cpu",
    "input_read_late",
    "concats",
    "constant_beside_large",
    "passive_chain",
    "odd_clips",
    "two_inputs",
    "branches_that_capture",
    "vector_unit_only",
    "masks",
}


@pytest.mark.parametrize("name", sorted(LINEAR))
@pytest.mark.parametrize(("form", "bound"), [("int8", 1), ("int8 with zero points", 1), ("int16", 2)])
def test_each_operator_differs_from_the_integer_model_by_requantization_only(name: str, form: str, bound: int) -> None:
    """Fed the same stored numbers, each operator's stored result is at most 1 step (int8) or 2 steps (int16) away.

    What may differ: ties and the float32 sum (half a step), and the 15-bit multiplier, whose relative error of 2^-15
    is 0.004 steps at full scale in int8 and 1 step in int16; the bias, rounded to an accumulator step, hides in both.
    """
    model, feeds = EDGES[name]()
    graph, _ = planned(model)
    asks = Asks({str(n.name): Ask(form.split()[0], level="model") for n in graph.nodes}, QType(form.split()[0]))
    made = stages(model, feeds, asks=asks)
    if "zero" in form:
        ranges = {s: (min(t.low, 0.0), max(t.high, 0.0)) for s, t in made.calibration.thresholds.items() if not t.tags}
        made = stages(model, feeds, asks=asks, bounds=ranges)
    steps = forced_steps(made, feeds)
    assert max(steps.values(), default=0) <= bound * 1.001, steps


def test_a_bias_correction_is_part_of_the_calibrated_model() -> None:
    """What integers add to a bias, the calibrated model adds too, for Conv, Gemm and MatMul."""
    from dataclasses import replace

    from ptqlab.quantize.calibrated import calibrated_model
    from ptqlab.quantize.encode import encode
    from ptqlab.quantize.lower import lower

    for name, means in (
        ("two_inputs", {"conv3": np.full((4, 1, 1), 40.0)}),
        ("gemm_chain", {"g1": np.full(6, 40.0)}),
        ("matmul_forms", {"mm2": np.full(6, 40.0), "mm4": np.full(6, -30.0)}),
    ):
        model, feeds = EDGES[name]()
        made = stages(model, feeds)
        encodings = encode(made.graph, made.plan, replace(made.calibration, means=means))
        assert all(encodings.weights[n].correction.any() for n in means)
        corrected = replace(
            made,
            encodings=encodings,
            calibrated=calibrated_model(made.graph, made.plan, encodings),
            integer=lower(made.graph, made.plan, encodings),
        )
        steps = forced_steps(corrected, feeds)
        assert max(steps.values()) <= 1.001, (name, steps)
        before = run(made, feeds, *(str(v.name) for v in made.graph.outputs))
        after = run(corrected, feeds, *(str(v.name) for v in made.graph.outputs))
        assert any(not np.array_equal(a, b) for a, b in zip(before, after, strict=True))
