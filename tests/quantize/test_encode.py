"""From thresholds to encodings: slots in their stored type, views in narrower ones, weights per operator."""

from __future__ import annotations

import numpy as np
import pytest
from core_models import EDGES, FOUR, net, weights
from hypothesis import given
from hypothesis import strategies as st
from models import node, random
from small import MANY, stages

from ptqlab.arith.formats import QType
from ptqlab.placement import Ask, Asks
from ptqlab.stages.calibration import Encodings, asymmetric, symmetric


@pytest.mark.parametrize(("qtype", "levels"), [(QType.INT8, 127), (QType.INT16, 32767)])
def test_a_symmetric_step_is_the_threshold_over_the_largest_code(qtype: QType, levels: int) -> None:
    """T = 127 gives step 1 in int8; the zero point is 0, T itself is the largest code."""
    made = symmetric(float(levels), qtype)
    assert (made.scale, made.zero_point, made.code(levels), made.code(-levels)) == (np.float32(1), 0, levels, -levels)


@MANY
@given(st.floats(-1e4, 0), st.floats(0.01, 1e4), st.sampled_from([QType.INT8, QType.INT16]))
def test_an_asymmetric_range_holds_zero_exactly(low: float, high: float, qtype: QType) -> None:
    """Zero is a code, the zero point is inside of the type, and both ends are met within a step."""
    made = asymmetric(low, high, qtype)
    assert qtype.qmin <= made.zero_point <= qtype.qmax
    assert made.code(0.0) == made.zero_point
    step = float(made.scale)
    assert abs((made.code(high) - made.zero_point) * step - high) <= step * 1.001
    assert abs((made.code(low) - made.zero_point) * step - low) <= step * 1.001


def test_codes_of_infinities_and_ties() -> None:
    """Infinite bounds are the ends of the type; ties go away from zero as in the quantizer."""
    made = symmetric(127.0, QType.INT8)
    assert [made.code(v) for v in (np.inf, -np.inf, 1e30, 0.5, -0.5, 2.5)] == [127, -128, 127, 1, -1, 3]


def test_a_view_has_the_same_range_with_fewer_codes() -> None:
    """A slot stored in int16 and read in int8 keeps its threshold; asymmetric ranges stay asymmetric."""
    stored = {"s": symmetric(6.0, QType.INT16), "a": asymmetric(-1.0, 3.0, QType.INT16)}
    encodings = Encodings(stored, {}, (), {"s": 6.0, "a": 3.0}, {"a": (-1.0, 3.0)})
    assert encodings.view("s", QType.INT16) is stored["s"]
    assert encodings.view("s", QType.INT8) == symmetric(6.0, QType.INT8)
    assert encodings.view("a", QType.INT8) == asymmetric(-1.0, 3.0, QType.INT8)


def test_every_slot_and_every_weighted_operator_is_encoded() -> None:
    """Slots in the plan's stored type; weights for each convolution, also those that share their tensors."""
    made = stages(*EDGES["two_inputs"](), asks=Asks({"conv4": Ask("int16", level="node")}))
    assert set(made.encodings.slots) == set(made.plan.sources)
    for slot, encoding in made.encodings.slots.items():
        assert encoding.qtype is made.plan.tensors[slot].stored
    assert set(made.encodings.weights) == {"conv", "conv2", "conv3", "conv4"}


def test_shared_weights_and_bias_are_encoded_for_each_reader() -> None:
    """Two convolutions share weight and bias, their inputs differ 100 times: each has its own integer bias."""
    nodes = [node("Conv", ["x", "w", "b"], "c", "conv"), node("Conv", ["z", "w", "b"], "d", "conv2")]
    made = stages(
        *net(
            nodes, ["c", "d"], weights(w=(4, 3, 1, 1), b=(4,)), {"x": random(1, 3, 8, 8), "z": random(1, 3, 8, 8) * 100}
        )
    )
    first, second = made.encodings.weights["conv"], made.encodings.weights["conv2"]
    assert np.array_equal(first.codes, second.codes)
    assert first.bias.tolist() == pytest.approx((second.bias * 100).tolist(), abs=51)


def test_the_bias_is_at_the_scale_of_the_type_that_the_operator_reads() -> None:
    """A tensor stored in int16 but read in int8 by one convolution: that one's bias counts int8 steps."""
    nodes = [node("Conv", ["x", "w", "b"], "c", "narrow"), node("Conv", ["x", "w", "b"], "d", "wide")]
    made = stages(
        *net(nodes, ["c", "d"], weights(w=(4, 3, 1, 1), b=(4,))), asks=Asks({"wide": Ask("int16", level="node")})
    )
    narrow, wide = made.encodings.weights["narrow"].bias, made.encodings.weights["wide"].bias
    assert np.abs(wide / narrow / (32767 / 127) - 1).max() < 0.05


def test_widened_channels_are_told_once_for_all() -> None:
    """Biases that do not fit: one note names the operators and how many channels."""
    made = stages(*EDGES["wide_bias"]())
    told = [f for f in made.encodings.findings if f.code == "PTQ510"]
    assert (
        len(told) == 1 and told[0].nodes == ("conv",) and "conv (2)" in told[0].message and told[0].severity == "note"
    )


def test_means_that_are_not_finite_correct_no_bias() -> None:
    """A correction from infinite data would poison the bias: it is left as it is."""
    from dataclasses import replace

    from ptqlab.quantize.encode import encode

    made = stages(*net([node("Conv", ["x", "w"], "c", "conv")], ["c"], weights(**FOUR)))
    broken = replace(made.calibration, means={"conv": np.full((3, 1, 1), np.inf)})
    assert np.array_equal(
        encode(made.graph, made.plan, broken).weights["conv"].bias, made.encodings.weights["conv"].bias
    )
    fine = replace(made.calibration, means={"conv": np.full((3, 1, 1), 50.0)})
    assert not np.array_equal(
        encode(made.graph, made.plan, fine).weights["conv"].bias, made.encodings.weights["conv"].bias
    )


def test_weights_that_are_no_numbers_count_as_zero_and_are_told() -> None:
    """NaN and Inf in weights and bias: finite codes, one warning that names the operator."""
    made = stages(*EDGES["broken_weights"]())
    weight = made.encodings.weights["conv"]
    assert np.isfinite(weight.scale).all() and weight.codes[0, 0].item() == 0 and weight.bias[2] == 0
    told = [f for f in made.encodings.findings if f.code == "PTQ519"]
    assert [f.nodes for f in told] == [("conv",)] and "conv hold NaN or Inf" in told[0].message
