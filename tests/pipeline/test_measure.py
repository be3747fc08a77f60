"""Comparing three models tensor by tensor: the same figures as a comparison written out."""

from __future__ import annotations

import models
import numpy as np
import pytest
from core_models import EDGES, net
from models import init, random
from small import Made, planned, stages

from ptqlab.arith.rounding import dequantize
from ptqlab.events import Watch
from ptqlab.graph import session
from ptqlab.pipeline.measure import compared_tensors, differing_finding, measure
from ptqlab.simulate import ReferenceExecutor


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    x, y = a.astype(np.float64).ravel(), b.astype(np.float64).ravel()
    return float(x @ y / np.linalg.norm(x) / np.linalg.norm(y))


def truth(made: Made, feeds: dict[str, np.ndarray], tensor: str) -> np.ndarray:
    return session(made.graph.model, outputs=[tensor]).run([tensor], feeds)[0]


def integer(made: Made, feeds: dict[str, np.ndarray], tensor: str) -> np.ndarray:
    """The real numbers that the integer model has for a tensor."""
    info = made.integer.integers.get(tensor)
    if info is None:
        return ReferenceExecutor(made.integer, keep=[tensor]).run(feeds)[tensor]
    codes = ReferenceExecutor(made.integer, keep=[info.name]).run(feeds)[info.name]
    return dequantize(codes, np.asarray(info.scale), info.zero_point)


@pytest.mark.parametrize("name", ["two_inputs", "passive_chain", "cpu_islands", "concats", "outputs_that_are_read"])
@pytest.mark.parametrize("asymmetric", [False, True])
def test_every_cosine_is_that_of_the_real_numbers(name: str, asymmetric: bool) -> None:
    """Float against calibrated and float against integers, whatever form the tensors are compared in."""
    model, feeds = EDGES[name]()
    made = stages(model, feeds)
    if asymmetric:
        made = stages(
            model, feeds, bounds={s: (min(t.low, 0), max(t.high, 0)) for s, t in made.calibration.thresholds.items()}
        )
    found = measure(made.graph, made.plan, made.encodings, made.calibrated, made.integer, [feeds], 1, Watch())
    for node in made.graph.nodes:
        tensor = str(node.outputs[0].name)
        group = made.plan.groups.get(made.plan.nodes[str(node.name)].group)
        stored = group.output if group else tensor
        if truth(made, feeds, stored).dtype != np.float32:
            continue
        quantized, calibrated = found.of("quantized", tensor), found.of("calibrated", tensor)
        assert quantized is not None and calibrated is not None
        assert quantized.cosine == pytest.approx(
            cosine(truth(made, feeds, stored), integer(made, feeds, stored)), abs=2e-6
        ), tensor
        there = made.calibrated.names.get(stored, stored)
        seen = session(made.calibrated.model, outputs=[there], optimise=False).run([there], feeds)[0]
        assert calibrated.cosine == pytest.approx(cosine(truth(made, feeds, stored), seen), abs=2e-5), tensor


def test_distances_are_taken_at_the_outputs_in_real_numbers() -> None:
    """Chebyshev, L1 and L2 of an output are those of its float values, over all samples."""
    model, feeds = EDGES["two_inputs"]()
    made = stages(model, feeds)
    samples = [feeds, {k: v * np.float32(0.5) for k, v in feeds.items()}]
    found = measure(made.graph, made.plan, made.encodings, made.calibrated, made.integer, samples, 2, Watch()).of(
        "quantized", "y"
    )
    assert found is not None
    diff = np.concatenate([(truth(made, s, "y").astype(np.float64) - integer(made, s, "y")).ravel() for s in samples])
    assert found.chebyshev == pytest.approx(np.abs(diff).max(), rel=1e-4)
    assert found.l1 == pytest.approx(np.abs(diff).mean(), rel=1e-4)
    assert found.l2 == pytest.approx(np.linalg.norm(diff) / diff.size, rel=1e-4)
    assert found.samples == 2


def test_fused_and_reordered_tensors_share_the_figures_of_what_stands_for_them() -> None:
    """A reordering has the cosine of its input, a fused node that of its operator's output; outputs have their own."""
    graph, plan = planned(EDGES["passive_chain"]()[0])
    compared, same = compared_tensors(graph, plan)
    assert set(compared) == {"c", "y"} and same["t"] == "c"
    graph, plan = planned(EDGES["two_inputs"]()[0])
    compared, same = compared_tensors(graph, plan)
    assert (same["d"], same["e"]) == ("r", "r") and "d" not in compared
    everything = {str(o.name) for n in graph.nodes for o in n.outputs}
    assert set(compared) | set(same) == everything and not set(compared) & set(same)


def test_without_an_integer_model_only_the_calibrated_one_is_measured() -> None:
    """skip=convert: the integer figures stay empty, not 0 or 1."""
    model, feeds = EDGES["diamonds"]()
    made = stages(model, feeds)
    found = measure(made.graph, made.plan, made.encodings, made.calibrated, None, [feeds], 1, Watch())
    assert found.of("quantized", "y") is None
    assert found.of("calibrated", "y") is not None


def test_a_network_of_nothing_but_inputs_and_constants_is_measured() -> None:
    """No node to compare: no session, no crash."""
    from core_models import net
    from models import node

    model, feeds = net([node("Identity", ["x"], "y", "id")], ["y"], [])
    made = stages(model, feeds)
    found = measure(made.graph, made.plan, made.encodings, made.calibrated, made.integer, [feeds], 1, Watch())
    assert all(a.cosine == pytest.approx(1.0) for a in found.quantized.values())


def test_indices_are_counted_where_they_differ() -> None:
    """Two nearly equal columns: some of 64 winners change in int8, and the finding says how many are the same."""
    w = random(16, 10)
    w[:, 3] = w[:, 4] + np.float32(1e-4)
    nodes = [
        models.node("MatMul", ["x", "w"], "l", "scores"),
        models.node("ArgMax", ["l"], "best", "best", axis=1, keepdims=0),
        models.node("Shape", ["x"], "s", "shape"),
    ]
    model, feeds = net(nodes, ["best", "s"], [init("w", w)], {"x": random(64, 16)})
    made = stages(model, feeds)
    found = measure(made.graph, made.plan, made.encodings, made.calibrated, made.integer, [feeds, feeds], 2, Watch())
    wanted = truth(made, feeds, "best")
    got = ReferenceExecutor(made.integer).run(feeds)["best"]
    same = 2 * int((wanted == got).sum())
    assert 0 < same < 128
    [told] = differing_finding(found)
    counts = f"best {same} of 128 ({same / 128:.1%})"
    assert told.message == f"elements of integer outputs that equal the float model's: {counts}"
    assert (told.code, told.severity) == ("PTQ531", "note")
