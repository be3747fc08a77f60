"""Functions too steep for the codes of their operand: found where values reach there, silent elsewhere."""
from __future__ import annotations

import numpy as np
import pytest
from core_models import f32, net
from models import init, node, random
from small import planned

from ptqlab.errors import Finding
from ptqlab.events import Watch
from ptqlab.placement import Ask, Asks
from ptqlab.quantize.calibrate import calibrate


def findings(op: str, x: np.ndarray, *before: object, qtype: str = "int8") -> list[Finding]:
    """What calibration says of one function of x, behind the nodes `before` that make p of x."""
    nodes = [*before, node(op, ["p" if before else "x"], "y", "f"), node("Conv", ["y", "one"], "z", "end")]
    inits = [init("one", np.ones((1, 1, 1), f32)), init("eps", f32(1e-10))]
    asks = Asks({name: Ask(qtype, level="node") for name in ("f", "square", "lift")})
    graph, plan = planned(net(nodes, ["z"], inits, {"x": x})[0], asks=asks)
    return [f for f in calibrate(graph, plan, [{"x": x}], 1, Watch()).findings if f.code == "PTQ516"]


def spread(low: float, high: float) -> np.ndarray:
    return np.linspace(low, high, 4096, dtype=f32)[None, None]


@pytest.mark.parametrize("qtype", ["int8", "int16"])
def test_a_logarithm_of_powers(qtype: str) -> None:
    """log(x^2 + 1e-10) is one table; from its code 0 to 1 it moves by a large part of its range in either type."""
    made = [node("Mul", ["x", "x"], "s", "square"), node("Add", ["s", "eps"], "p", "lift")]
    [told] = findings("Log", spread(0, 8), *made, qtype=qtype)
    top = {"int8": 127, "int16": 32767}[qtype]
    a, b = np.log(1e-10), np.log((8 / top) ** 2 + 1e-10)
    part = (b - a) / (np.log(64) - a)
    assert told.message == (
        f"neighbouring codes of an operand give results far apart: Log f ({qtype} 0 and {8 / top:.4g} give {a:.4g} and "
        f"{b:.4g}, {part:.0%} of its range)"
    )
    assert told.nodes == ("f",) and "recipe log-spectrum" in told.hint


def test_a_reciprocal_near_zero() -> None:
    """1/x of what reaches down to a step or two; the hint is another."""
    [told] = findings("Reciprocal", spread(0.05, 8))
    assert told.message.startswith("neighbouring codes of an operand give results far apart: Reciprocal f (int8 ")
    assert "Clip" in told.hint and "recipe" not in told.hint


@pytest.mark.parametrize(
    ("op", "low", "high"), [("Log", 4, 8), ("Reciprocal", 4, 8), ("Sqrt", 0, 8), ("Exp", -8, 8), ("Tanh", -2, 2)]
)
def test_silence_where_the_codes_are_fine_enough(op: str, low: float, high: float) -> None:
    """Away from the pole, and for functions that no code is too coarse for."""
    assert findings(op, spread(low, high)) == []


def test_a_range_of_few_codes_is_no_matter_of_the_function() -> None:
    """One value far out leaves the others six codes: a straight line is not steep."""
    assert findings("HardSwish", np.concatenate([spread(3, 3.5), np.full((1, 1, 1), 12, f32)], axis=2)) == []
    assert findings("Relu", spread(0, 1)) == []


def test_what_is_constant_or_zero_is_left_to_others() -> None:
    """No range, no finding."""
    assert findings("Log", np.zeros((1, 1, 8), f32)) == []
    assert findings("Log", np.full((1, 1, 8), 2, f32)) == []


def test_the_worst_stands_first() -> None:
    """Several functions in one finding."""
    x = spread(0.01, 8)
    nodes = [node("Reciprocal", ["x"], "r", "inverse"), node("Log", ["x"], "l", "log"),
             node("Conv", ["r", "w"], "y", "end"), node("Conv", ["l", "w"], "z", "end2")]  # fmt: skip
    graph, plan = planned(net(nodes, ["y", "z"], [init("w", random(1, 1, 1))], {"x": x})[0])
    [told] = [f for f in calibrate(graph, plan, [{"x": x}], 1, Watch()).findings if f.code == "PTQ516"]
    assert set(told.nodes) == {"inverse", "log"} and told.message.count("; ") == 1
