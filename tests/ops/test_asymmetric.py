"""Operators on tensors with zero points: as near to the real function as with symmetric ranges."""
from __future__ import annotations

import numpy as np
import pytest
from lowered import lowered, one_node

from ptqlab.arith.formats import QType
from ptqlab.graph import session

X = (np.random.default_rng(0).standard_normal((2, 6, 7, 8)) * 2 + 2).astype(np.float32)
OTHER = (np.random.default_rng(1).standard_normal((2, 6, 8, 5)) - 0.5).astype(np.float32)
GAMMA, BETA = (np.random.default_rng(i).uniform(0.5, 1.5, 8).astype(np.float32) for i in (2, 3))
CASES = {
    "Sigmoid": ({"x": X}, {}, {}),
    "Exp": ({"x": X}, {}, {}),
    "LeakyRelu": ({"x": X}, {}, {"alpha": 0.2}),
    "Abs": ({"x": X}, {}, {}),
    "Neg": ({"x": X}, {}, {}),
    "HardSigmoid": ({"x": X}, {}, {}),
    "Floor": ({"x": X}, {}, {}),
    "Softmax": ({"x": X}, {}, {"axis": 1}),
    "LogSoftmax": ({"x": X}, {}, {}),
    "LayerNormalization": ({"x": X}, {"s": GAMMA, "b": BETA}, {}),
    "InstanceNormalization": ({"x": X}, {"s": GAMMA[:6], "b": BETA[:6]}, {}),
    "LpNormalization": ({"x": X}, {}, {"axis": 1}),
    "MatMul": ({"x": X, "other": OTHER}, {}, {}),
}


@pytest.mark.parametrize("qtype", ["int8", "int16"])
@pytest.mark.parametrize("op", CASES)
def test_zero_points_take_part(op: str, qtype: str) -> None:
    """At what the codes of the inputs stand for: half a step of rounding, one and a half in int16."""
    feeds, constants, attributes = CASES[op]
    run = lowered(one_node(op, feeds, constants, **attributes), feeds, qtype=qtype, output=QType(qtype),
                  asymmetric=True)
    stored = run.quantized.integers["y"]
    assert run.quantized.integers["x"].zero_point != 0 and stored.zero_point != 0
    real = {name: run.real(name).astype(np.float32) for name in feeds}
    wanted = session(run.graph.model).run(None, real)[0] / run.step("y") + stored.zero_point
    low, high = stored.qtype.qmin, stored.qtype.qmax
    off = np.abs(run.codes["y"].astype(np.float64) - np.clip(wanted, low, high))
    assert off.max() <= (0.52 if qtype == "int8" else 1.5)
