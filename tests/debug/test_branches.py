"""What the branches of a Concat lose by sharing a threshold."""
from __future__ import annotations

import numpy as np
import pytest
from core_models import net
from models import init, node, random
from small import stages

from ptqlab import debug
from ptqlab.debug.network import Network


def test_the_small_branch_loses(tmp_path):
    """One branch is 80 times the other, which has few codes; with a threshold of its own it would gain about 38 dB."""
    nodes = [node("Conv", ["x", "a"], "small", "conva"), node("Conv", ["x", "b"], "large", "convb"),
             node("Concat", ["small", "large"], "h", "concat", axis=1), node("Conv", ["h", "c"], "y", "convc")]
    inits = [init("a", random(4, 3, 1, 1, seed=1)), init("b", random(4, 3, 1, 1, seed=1) * np.float32(80)),
             init("c", random(5, 8, 1, 1, seed=3))]
    feeds = {"x": random(1, 3, 6, 6)}
    made = stages(net(nodes, ["y"], inits, feeds)[0], feeds)
    small, large = debug.concat_losses(Network(made.calibrated.model, made.graph.model), [feeds["x"]])
    assert (small.tensor, large.tensor, small.concat) == ("small", "large", "concat")
    assert small.codes < 8 and large.codes > 60 and small.threshold == large.threshold
    assert small.loss == pytest.approx(20 * np.log10(80), abs=8) and abs(large.loss) < 1.5
    assert f"reaches {small.largest:g}" in str(small)
