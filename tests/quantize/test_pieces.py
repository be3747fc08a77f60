"""Cuts of a graph, and heads that give what the whole model gives."""
from __future__ import annotations

import numpy as np
import pytest
from core_models import f32, net, weights
from models import MODELS, node
from small import planned

from ptqlab.arith.formats import QType
from ptqlab.arith.rounding import fake_quantize
from ptqlab.graph import FloatGraph, session
from ptqlab.ops.spec import Encoding
from ptqlab.quantize.pieces import Head, Map, piece_model, quantizer_names
from ptqlab.quantize.trial import numbers_of


def values(graph: FloatGraph, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Every computed tensor of the model."""
    names = [str(o.name) for n in graph.nodes for o in n.outputs if o.name]
    return dict(feeds) | dict(zip(names, session(graph.model, outputs=names).run(None, feeds), strict=True))


def test_cuts_of_a_residual_block() -> None:
    """c0 alone is live before the branch and s alone behind it; d and e are not cuts."""
    nodes = [
        node("Conv", ["x", "w"], "c", "conv"), node("Conv", ["c", "w2"], "d", "conv2"),
        node("Conv", ["d", "w2"], "e", "conv3"), node("Add", ["c", "e"], "s", "add"),
        node("Conv", ["s", "w2"], "y", "end"),
    ]
    graph, _ = planned(net(nodes, ["y"], weights(w=(4, 3, 1, 1), w2=(4, 4, 1, 1)))[0])
    assert [c.tensor for c in Map(graph, pieces=100).cuts] == ["c", "s"]
    assert Map(graph, pieces=100).head(["d"]) == Head(("d",), ("c",), Map(graph, pieces=100).cuts[1], ())
    assert Map(graph, pieces=1).cuts == ()
    assert Map(graph, pieces=1).head(["d"]) == Head(("d",), ("c",), None, ("y",))


def test_an_output_on_the_way_is_computed_by_the_head_that_passes_it() -> None:
    """An output inside of a piece belongs to it, and an entry that is an output counts as one that changes."""
    nodes = [
        node("Conv", ["x", "w"], "c", "conv"), node("Conv", ["c", "w2"], "d", "conv2"),
        node("Relu", ["d"], "early", "relu"), node("Conv", ["early", "w2"], "y", "end"),
    ]
    graph, _ = planned(net(nodes, ["early", "y"], weights(w=(4, 3, 1, 1), w2=(4, 4, 1, 1)))[0])
    cuts = Map(graph, pieces=100)
    assert cuts.head(["c"]).results == ("d",)
    assert cuts.head(["d"]).results == ("early",)
    assert cuts.head(["early"]).results == ("early", "y")


@pytest.mark.parametrize(
    "name", ["mobile_block", "attention", "branches", "shared_constants", "arithmetic", "layout_moves"])
@pytest.mark.parametrize("pieces", [1, 3, 100])
def test_heads_and_pieces_behind_give_the_outputs(name: str, pieces: int) -> None:
    """From any float tensor, fed with what the float run has there, every output that depends on it comes out again."""
    model, feeds = MODELS[name]()
    graph, _ = planned(model)
    known = values(graph, feeds)
    cuts = Map(graph, pieces)
    outputs = {str(v.name) for v in graph.outputs}
    started = 0
    for tensor in [t for t in known if known[t].dtype == np.float32 and graph.consumers(t)]:
        head = cuts.head([tensor])
        if not head.results:
            continue
        started += 1
        made: dict[str, np.ndarray] = {}
        for piece in [head, *(cuts.behind(head.end) if head.end else [])]:
            given = {n: made.get(n, known[n]) for n in (*piece.entries, *piece.sides)}
            made |= dict(zip(piece.results, session(piece_model(graph, piece)).run(None, given), strict=True))
        for output in outputs & set(made):
            np.testing.assert_allclose(made[output], known[output], rtol=1e-4, atol=1e-5)
        assert outputs & set(made)
    assert started


def test_the_quantizer_of_a_head() -> None:
    """Readers that are named see the rounded tensor, the others the float one; the entry as an output is rounded."""
    nodes = [
        node("Relu", ["x"], "c", "first"), node("Mul", ["c", "k"], "d", "named"), node("Mul", ["c", "k"], "e", "other"),
    ]
    inits = [*weights(k=(1,))]
    feeds = {"x": np.linspace(-1, 3, 12, dtype=f32).reshape(1, 12)}
    model, _ = net(nodes, ["c", "d", "e"], inits, feeds)
    graph, _ = planned(model)
    known = values(graph, feeds)
    head = Map(graph).head(["c"])
    encoding = Encoding(QType.INT8, np.float32(3 / 255), -128)
    numbers = numbers_of(quantizer_names("piece"), encoding)
    runner = session(piece_model(graph, head, {"c": ["named"]}))
    made = dict(zip(head.results, runner.run(None, {"c": known["c"], **numbers}), strict=True))
    rounded = fake_quantize(known["c"], encoding.scale, encoding.zero_point, encoding.low, encoding.high)
    k = graph.array("k")
    np.testing.assert_array_equal(made["c"], rounded)
    np.testing.assert_array_equal(made["d"], rounded * k)
    np.testing.assert_array_equal(made["e"], known["e"])
