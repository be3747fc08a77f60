"""What a type means for one node."""
from __future__ import annotations

import numpy as np
import pytest
from core_models import net
from debug_nets import network
from models import init, node, random
from small import stages

from ptqlab.debug.cuts import Effects
from ptqlab.debug.network import Half, Network, partial_model
from ptqlab.debug.variants import type_problems, types_of, variant
from ptqlab.events import Watch
from ptqlab.graph import session
from ptqlab.platforms import platform

E, P = platform("nash-e"), platform("nash-p")


def attention():
    """A product of two tensors behind a Softmax, and a Conv."""
    nodes = [node("Conv", ["x", "w"], "c", "conv"), node("Softmax", ["c"], "s", "soft", axis=-1),
             node("MatMul", ["s", "c"], "p", "mix"), node("Conv", ["p", "v"], "y", "last")]
    inits = [init("w", random(4, 4, 1, 1, seed=1)), init("v", random(4, 4, 1, 1, seed=2))]
    feeds = {"x": random(1, 4, 6, 6, seed=9)}
    made = stages(net(nodes, ["y"], inits, feeds)[0], feeds)
    return Network(made.calibrated.model, made.graph.model), feeds


def test_types_follow_the_march():
    """float16 is tried where the march has it; asked for elsewhere it is refused, as are words that are no types."""
    assert types_of("nash-p", None)[0] == ("int8", "int16", "float16")
    assert types_of("nash-e", None)[0] == types_of(None, None)[0] == ("int8", "int16")
    assert types_of(None, ["float16"]) == (("float16",), P)
    wrong = type_problems(*types_of("nash-e", ["float16", "int4"]))
    assert [p.found for p in wrong] == ["'int4'", "'float16' for nash-e"] and "nash-h, nash-p" in wrong[1].expected
    assert not type_problems(("int8", "float16"), P) and len(type_problems((), E)) == 1


def test_int16_of_a_conv_is_of_its_activations():
    """int16 leaves weights in int8, dual-int16 does not; parts can be asked for alone."""
    apart, _ = network()
    bits = {word: {q.kind: q.bits for q in variant(apart, "conv0", "node", word, E)[0].values()}
            for word in ("int8", "int16", "dual-int16")}
    assert bits == {"int8": {"activation": 8, "weight": 8}, "int16": {"activation": 16, "weight": 8},
                    "dual-int16": {"activation": 16, "weight": 16}}
    assert [q.bits for q in variant(apart, "conv0", "weight", "int16", E)[0].values()] == [16]
    assert variant(apart, "conv0", "weight", "float16", P) == ({}, "")
    assert variant(apart, "add", "node", "dual-int16", E)[1] == "int16"


def test_of_two_tensors_the_second_stands_where_weights_do():
    """int16 for a product of two tensors is int16 times int8."""
    apart, _ = attention()
    first, second = apart.of_input("mix", 0), apart.of_input("mix", 1)
    chosen, granted = variant(apart, "mix", "node", "int16", E)
    assert [chosen[q].bits for q in (*first, *second)] == [16, 8] and granted == "int16"
    chosen, granted = variant(apart, "mix", "node", "dual-int16", E)
    assert [chosen[q].bits for q in (*first, *second)] == [16, 16] and granted == "dual-int16"


def test_float16_of_a_vector_operator():
    """What it reads and what it writes are rounded to float16; the cut graph gives what the whole one does."""
    apart, feeds = attention()
    chosen, granted = variant(apart, "soft", "node", "float16", P)
    assert chosen == {"soft:float16": Half("soft", True)} and granted == "float16"
    runner = session(partial_model(apart, chosen, outputs=["s", "y"]))
    got, output = runner.run(None, feeds)
    c, y = session(apart.graph.model, outputs=["c", "y"]).run(None, feeds)
    x = c.astype(np.float16).astype(np.float32)
    exact = np.exp(x - x.max(-1, keepdims=True))
    wanted = (exact / exact.sum(-1, keepdims=True)).astype(np.float16).astype(np.float32)
    assert np.abs(got - wanted).max() <= 2.0**-11 and np.array_equal(got.astype(np.float16).astype(np.float32), got)
    [(_, _, [found])] = Effects(apart).run({"soft": chosen}, [feeds], Watch())
    assert found.squared_error == pytest.approx(float(np.sum((output - y).astype(np.float64) ** 2)), rel=1e-3) != 0


def test_float16_of_a_convolution():
    """The array computes in integers: int16 activations, int8 weights, and a result in float16."""
    apart, feeds = attention()
    chosen, granted = variant(apart, "conv", "node", "float16", P)
    assert granted == "int16" and chosen["conv:float16"] == Half("conv", False)
    assert sorted(q.bits for q in chosen.values() if not isinstance(q, Half)) == [8, 16]
    got = session(partial_model(apart, chosen, outputs=["c"])).run(None, feeds)[0]
    assert np.array_equal(got.astype(np.float16).astype(np.float32), got)
