"""The effect of one slot: what its rounding alone does to the outputs, and how slots rank by it."""
from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from calibration_nets import mobile

from ptqlab.arith.formats import QType
from ptqlab.arith.metrics import Agreement
from ptqlab.arith.rounding import fake_quantize
from ptqlab.events import Watch
from ptqlab.graph import session
from ptqlab.quantize.calibrate import calibrate
from ptqlab.quantize.effects import slot_effects
from ptqlab.quantize.encode import encode_slots


def test_the_input_alone() -> None:
    """For the input of the model the effect is that of feeding rounded samples to the float model."""
    graph, plan, samples = mobile(3)
    encodings = encode_slots(plan, calibrate(graph, plan, samples, 3, Watch()))
    effects = slot_effects(graph, plan, encodings, samples, 3, Watch())
    assert set(effects) == set(encodings.slots)
    slots = encodings.slots
    e, runner, wanted = slots["x"], session(graph.model), Agreement()
    for sample in samples:
        rounded = {"x": fake_quantize(sample["x"], e.scale, e.zero_point, e.low, e.high)}
        wanted.add(runner.run(None, sample)[0], runner.run(None, rounded)[0], distances=True)
    np.testing.assert_allclose(effects["x"][0].sqnr, wanted.sqnr, rtol=1e-3)


def test_more_bits_hurt_less() -> None:
    """int16 for the same thresholds has an effect at least 30 dB smaller, for every slot, by any number of workers."""
    graph, plan, samples = mobile(3)
    wide_graph, wide_plan, _ = mobile(3, "int16")
    encodings = encode_slots(plan, calibrate(graph, plan, samples, 3, Watch()))
    narrow = slot_effects(graph, plan, encodings, samples, 3, Watch())
    encodings = encode_slots(wide_plan, calibrate(wide_graph, wide_plan, samples, 3, Watch()))
    assert {e.qtype for e in encodings.slots.values()} == {QType.INT16}
    wide = slot_effects(wide_graph, wide_plan, encodings, samples, 3, Watch())
    for slot in narrow:
        assert wide[slot][0].sqnr > narrow[slot][0].sqnr + 30
    with ThreadPoolExecutor(2) as pool:
        assert slot_effects(wide_graph, wide_plan, encodings, samples, 3, Watch(), pool) == wide
