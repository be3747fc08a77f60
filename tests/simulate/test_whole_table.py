"""Random small graphs over the whole operator table: the same bits everywhere, and no further off than scales imply."""
from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_graphs import GENERATORS, OPSET, grown
from small import Made, engines_agree, forced_steps, planned, stages

from ptqlab.arith.formats import QType
from ptqlab.arith.requantize import MULTIPLIER_BITS
from ptqlab.ops.spec import Role
from ptqlab.ops.table import OPERATORS, spec_of
from ptqlab.placement import Ask, Asks
from ptqlab.platforms import PLATFORMS

BPU = sorted(op for op, spec in OPERATORS.items() if spec.role is not Role.FLOAT)
# ONNX has them in later operator sets only; the optimizer makes one table of what exporters write instead
LATER = {"Gelu", "Swish"}
NAMES = sorted(GENERATORS)
# operators that interpolate: their weights have 7 bits, so that int16 results are known to a 256th of their range
INTERPOLATING = {"GridSample": 2.0**-8, "Resize": 2.0**-8}


def test_every_operator_of_the_bpu_has_a_generator() -> None:
    """A new operator of the table needs one in tests/random_graphs.py, or it would be in no random graph."""
    assert set(BPU) - LATER == set(GENERATORS)
    assert not [op for op in LATER if onnx.defs.has(op) and onnx.defs.get_schema(op, "").since_version <= OPSET]


def test_every_generator_makes_its_operator_for_the_bpu() -> None:
    """From any seed; whatever of it is no mover (which at head and tail inherits nothing) is on the BPU."""
    for op in NAMES:
        graphs = [grown(seed, [op]) for seed in range(2)]
        assert all(op in {n.op_type for n in graph.nodes} for graph in graphs), op
        asks = Asks({n.name: Ask(level="node") for n in graphs[0].nodes})
        graph, plan = planned(graphs[0].finished()[0], asks=asks)
        for node in graph.nodes:
            assert spec_of(node).role is Role.PASSIVE or plan.nodes[str(node.name)].on_bpu, node.name


def bound(made: Made, tensor: str, largest: Mapping[str, float]) -> float:
    """Steps by which an operator may differ from its float self on the same numbers, rounded to the same codes.

    One for the rounding; the multipliers have 15 bits, which for operands far larger than the result is more; tables of
    int16 tell their own error.
    """
    stored = made.integer.integers[tensor]
    producer = made.graph.producer(tensor)
    assert producer is not None
    group = made.plan.groups.get(made.plan.nodes[str(producer.name)].group)
    members = [made.graph.node(m) for m in group.members] if group else [producer]
    read = {str(v.name) for m in members for v in m.inputs if v is not None}
    step, reach = float(stored.scale.min()), max(abs(stored.qtype.qmin), stored.qtype.qmax)
    allowed = 1.02 + sum(largest.get(t, 0.0) for t in read) / step * 2.0**-MULTIPLIER_BITS
    for node in made.integer.model.graph:
        if str(node.outputs[0].name) == stored.name:
            allowed += float(node.metadata_props.get("ptqlab.table_error", "0"))
    return allowed + sum(reach * INTERPOLATING.get(m.op_type, 0.0) for m in members)


@pytest.mark.parametrize("op", NAMES)
@settings(max_examples=3)
@given(data=st.data())
def test_random_graphs_with(op: str, data: st.DataObject) -> None:
    """The operator between up to two others before and behind it, on a random march, in random types: reference, fast
    path and `.bc` in onnxruntime give the same bits, and every operator alone keeps within its bound."""
    others = st.lists(st.sampled_from(NAMES), max_size=2)
    seed = data.draw(st.integers(0, 2**31 - 1), label="seed")
    graph = grown(seed, [*data.draw(others, label="before"), op, *data.draw(others, label="behind")])
    model, feeds = graph.finished()
    march = data.draw(st.sampled_from(sorted(PLATFORMS)), label="march")
    types = ["int8", "int16", "dual-int16", *(t.value for t in PLATFORMS[march].float_types)]
    asked = {n.name: Ask(data.draw(st.sampled_from(types), label=n.name), level="node") for n in graph.nodes}
    output = data.draw(st.sampled_from([None, QType.INT8, QType.INT16]), label="output")
    made = stages(model, feeds, march=march, asks=Asks(asked, output))
    results = engines_agree(made.integer, feeds)
    largest = {t: float(np.abs(a).max()) for t, a in graph.values.items() if a.dtype == np.float32}
    for tensor, steps in forced_steps(made, feeds).items():
        if made.graph.producer(tensor) is not None:
            assert steps <= bound(made, tensor, largest), f"{tensor}: {steps} steps"
    for value in made.graph.outputs:
        assert results[str(value.name)].shape == made.graph.shape(str(value.name))
