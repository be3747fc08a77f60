"""Branches that lose their codes to a common threshold are named, with what is left of them."""
from __future__ import annotations

import numpy as np
import pytest
from models import init, model, node, value

from ptqlab.errors import Finding
from ptqlab.events import Watch
from ptqlab.graph import load
from ptqlab.passes import optimize
from ptqlab.placement import Ask, Asks, place
from ptqlab.platforms import platform
from ptqlab.quantize.calibrate import calibrate


def joined(scale: float, qtype: str = "int8", tail: bool = False) -> list[Finding]:
    """Boxes up to 640 and scores up to 1 (times `scale`) in one Concat, which a Relu reads unless `tail`."""
    nodes = [node("Mul", ["b", "k"], "boxes", "to_pixels"), node("Sigmoid", ["s"], "p", "scores"),
             node("Mul", ["p", "grow"], "q", "grow"),
             node("Concat", ["boxes", "q"], "y" if tail else "c", "head", axis=1)]
    nodes += [] if tail else [node("Relu", ["c"], "y", "relu")]
    net = model(nodes, [value("b", [1, 4]), value("s", [1, 4])], [value("y", None)],
                [init("k", np.float32(640)), init("grow", np.float32(scale))])
    graph = optimize(load(net))
    plan = place(graph, platform("nash-e"), Asks({str(n.name): Ask(qtype, level="node") for n in graph.nodes}))
    sample = {"b": np.array([[0, 0.25, 0.5, 1]], np.float32), "s": np.array([[-20, 0, 1, 20]], np.float32)}
    found = calibrate(graph, plan, [sample], 1, Watch())
    return [f for f in found.findings if f.code == "PTQ513"]


def test_the_branch_that_dies_is_named() -> None:
    """Scores of 1 beside boxes of 640: no code at all is left of them."""
    [found] = joined(1.0)
    assert found.nodes == ("head",)
    assert found.message == (
        "Concat head: its operands share the threshold 640, which leaves the small ones almost nothing: "
        "q reaches 1, 0 codes, SQNR -3 dB at best")


@pytest.mark.parametrize(("scale", "qtype", "tail"),
                         [(100.0, "int8", False), (1.0, "int16", False), (1.0, "int8", True)])
def test_nothing_to_tell(scale: float, qtype: str, tail: bool) -> None:
    """Branches of one size, enough codes in int16, and a Concat that runs in float on the CPU."""
    assert not joined(scale, qtype, tail)
