"""Numbers of the BPU segments in the plan, and the parts that the integer model is run in."""

from __future__ import annotations

import pytest
from core_models import EDGES
from small import planned, stages


def segments(name: str) -> dict[str, int | None]:
    plan = planned(EDGES[name]()[0])[1]
    return {n.name: n.segment for n in plan.nodes.values()}


def test_cpu_islands_separate_segments() -> None:
    """Each operator on the CPU between BPU operators begins a new segment, in order of execution."""
    assert segments("cpu_islands") == {"conv": 0, "cpu1": None, "conv2": 1, "cpu2": None, "mul": 2, "conv3": 2}


def test_a_convolution_whose_residual_comes_late_runs_with_it() -> None:
    """conv2 could run before the CPU, but is one operator with the Add behind it: both are in the second segment."""
    assert segments("residual_from_cpu") == {"conv": 0, "cpu": None, "conv2": 1, "add": 1, "conv3": 1}


def test_quantizing_an_input_early_makes_no_segment() -> None:
    """The input is read by the CPU first; its quantizer waits for the Add that reads it."""
    assert segments("input_read_late") == {"cpu": None, "add": 0, "conv": 0}
    made = stages(*EDGES["input_read_late"]())
    assert [p.device for p in made.integer.parts] == ["CPU", "BPU"]


@pytest.mark.parametrize("name", sorted(EDGES))
def test_the_plan_and_the_integer_model_have_the_same_segments(name: str) -> None:
    """Every BPU operator runs in the part whose number the plan gives its nodes, and no part is left over."""
    made = stages(*EDGES[name]())
    runs = {node: part.segment for part in made.integer.parts for node in part.nodes}
    for node in made.plan.nodes.values():
        if node.on_bpu and node.group == node.name:
            assert runs[node.name] == node.segment, node.name
    assert len({p.segment for p in made.integer.parts if p.device == "BPU"}) == made.plan.segments
    for group in made.plan.groups.values():
        assert len({made.plan.nodes[m].segment for m in group.members}) == 1, f"{group.main} is torn apart"
