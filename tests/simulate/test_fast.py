"""The fast path: float32 carries the integers, and onnxruntime may rewrite what it likes without changing a bit."""

from __future__ import annotations

import numpy as np
import pytest
from core_models import EDGES, f32, net, weights
from hypothesis import given
from hypothesis import strategies as st
from models import init, node, random
from small import QUICK, engines_agree, same_bits, stages

from ptqlab.arith.formats import QType
from ptqlab.placement import Ask, Asks
from ptqlab.simulate import FastExecutor, ReferenceExecutor


def test_a_tail_is_not_fused_with_its_dequantize() -> None:
    """Conv and a multiplication per channel behind it are two roundings; onnxruntime would make one of them."""
    model, feeds = net(
        [node("Conv", ["x", "w"], "c", "conv")], ["c"], weights(w=(16, 3, 3, 3)), {"x": random(1, 3, 16, 16)}
    )
    integer = stages(model, feeds).integer
    same_bits(FastExecutor(integer).run(feeds)["c"], ReferenceExecutor(integer).run(feeds)["c"], "tail")


def test_raw_results_are_the_carried_numbers() -> None:
    """raw=True leaves 8 and 16 bit codes in float32, as whole numbers; their values are those of the codes."""
    model, feeds = EDGES["two_inputs"]()
    integer = stages(model, feeds).integer
    names = [t.name for t in integer.integers.values()]
    raw, plain = (FastExecutor(integer, keep=names, raw=r).run(feeds) for r in (True, False))
    for tensor, info in integer.integers.items():
        assert np.array_equal(raw[info.name], plain[info.name]), tensor
        if info.qtype is not QType.INT32:
            assert raw[info.name].dtype == np.float32


def test_a_clamp_turned_round_bounds_what_reads_it() -> None:
    """Clip(0.9, -0.9) is -0.9 everywhere: the next sums are bounded by that, and every engine gives the same."""
    nodes = [
        node("Conv", ["x", "w"], "c", "conv"),
        node("Clip", ["c", "lo", "hi"], "k", "clip"),
        node("Conv", ["k", "w2"], "y", "conv2", pads=[1] * 4),
    ]
    inits = [init("w", random(4, 3, 1, 1)), init("lo", f32(0.9)), init("hi", f32(-0.9)), init("w2", random(2, 4, 3, 3))]
    model, feeds = net(nodes, ["y"], inits)
    for qtype in ("int8", "int16"):
        asks = Asks({n: Ask(qtype, level="node") for n in ("conv", "clip", "conv2")})
        engines_agree(stages(model, feeds, asks=asks).integer, feeds)


@pytest.mark.parametrize("build", ["hostile_names", "colliding_names"])
def test_names_of_its_own_never_meet_those_of_the_model(build: str) -> None:
    """Tensors called constant_0, conv/0 or .constant_1 are nobody else's."""
    model, feeds = EDGES[build]()
    engines_agree(stages(model, feeds).integer, feeds)


@QUICK
@given(st.data())
def test_random_networks_agree_in_every_engine(data: st.DataObject) -> None:
    """Chains of random operators with random types and zero points: the same bits by all engines."""
    draw = data.draw
    channels, size = 3, draw(st.integers(4, 9))
    nodes, inits, names, last = [], [], [], "x"
    for index in range(draw(st.integers(2, 5))):
        op = draw(
            st.sampled_from(
                ["Conv", "Depthwise", "Relu", "Add", "Mul", "MaxPool", "AveragePool", "Clip", "Concat", "Scale"]
            )
        )
        out, name = f"t{index}", f"n{index}"
        if op == "Conv":
            channels, before = draw(st.integers(1, 5)), channels
            inits.append(init(f"w{index}", random(channels, before, 3, 3, seed=index)))
            nodes.append(node("Conv", [last, f"w{index}"], out, name, pads=[1] * 4))
        elif op == "Depthwise":
            inits += [
                init(f"w{index}", random(channels, 1, 3, 3, seed=index)),
                init(f"b{index}", random(channels, seed=index)),
            ]
            nodes.append(node("Conv", [last, f"w{index}", f"b{index}"], out, name, pads=[1] * 4, group=channels))
        elif op in ("Add", "Mul", "Concat"):
            nodes.append(node(op, [last, last], out, name, **({"axis": 1} if op == "Concat" else {})))
            channels = channels * 2 if op == "Concat" else channels
        elif op in ("MaxPool", "AveragePool"):
            nodes.append(node(op, [last], out, name, kernel_shape=[3, 3], pads=[1] * 4))
        elif op == "Scale":
            inits.append(init(f"k{index}", random(channels, 1, 1, seed=index)))
            nodes.append(node("Mul", [last, f"k{index}"], out, name))
        elif op == "Clip":
            inits += [init(f"lo{index}", f32(-0.3)), init(f"hi{index}", f32(0.9))]
            nodes.append(node("Clip", [last, f"lo{index}", f"hi{index}"], out, name))
        else:
            nodes.append(node("Relu", [last], out, name))
        names.append(name)
        last = out
    model, feeds = net(nodes, [last], inits, {"x": random(1, 3, size, size)})
    asks = {name: Ask(draw(st.sampled_from(["int8", "int16"])), level="node") for name in names}
    made = stages(model, feeds, asks=Asks(asks, draw(st.sampled_from([None, QType.INT8, QType.INT16]))))
    ranges = {
        s: (min(t.low, 0.0), max(t.high, 0.0))
        for s, t in made.calibration.thresholds.items()
        if not t.tags and draw(st.booleans())
    }
    engines_agree(stages(model, feeds, asks=Asks(asks), bounds=ranges).integer, feeds)
