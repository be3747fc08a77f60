"""LSTM and GRU written out: the same numbers in every form, on the BPU, and what is left as it is with its reason."""
from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from core_models import f32, net
from models import Built, init, node, random
from small import all_engines_agree, compiled

from ptqlab.graph import load, session
from ptqlab.passes import optimize
from ptqlab.passes.recurrent import GATES, MOST_STEPS

SIDES = {"forward": 1, "reverse": 1, "bidirectional": 2}


def layer(op: str, direction: str = "forward", bias: bool = True, states: bool = False, steps: int = 4,
          **attributes: object) -> Built:
    """A recurrent layer of 2 sequences, 3 inputs and 4 states, with all of its outputs."""
    sides, gates, batch, inputs, hidden = SIDES[direction], GATES[op], 2, 3, 4
    count = 2 if op == "LSTM" else 1
    names = ["h0", "c0"][:count]
    inits = [init("w", random(sides, gates * hidden, inputs, seed=1, scale=0.6)),
             init("r", random(sides, gates * hidden, hidden, seed=2, scale=0.6)),
             *([init("b", random(sides, 2 * gates * hidden, seed=3, scale=0.3))] if bias else [])]  # fmt: skip
    feeds = {"x": random(steps, batch, inputs, seed=4)}
    if states:
        feeds |= {name: random(sides, batch, hidden, seed=5 + i, scale=0.5) for i, name in enumerate(names)}
    operands = ["x", "w", "r", "b" if bias else "", "", *(names if states else [])]
    outputs = ["y", "yh", "yc"][: count + 1]
    nodes = [node(op, operands, outputs, "layer", hidden_size=hidden, direction=direction, **attributes)]
    return net(nodes, outputs, inits, feeds)


FORMS = [
    (op, direction, bias, states, late)
    for op, direction, bias, states, late in itertools.product(GATES, SIDES, (False, True), (False, True), (0, 1))
    if op == "GRU" or not late
]


@pytest.mark.parametrize(("op", "direction", "bias", "states", "late"), FORMS)
def test_the_same_numbers(op: str, direction: str, bias: bool, states: bool, late: int) -> None:
    """Every direction, with and without bias and initial states, both forms of the reset; names and shapes stay."""
    more = {"linear_before_reset": late} if op == "GRU" else {}
    proto, feeds = layer(op, direction, bias, states, **more)
    graph = optimize(load(proto))
    assert not {n.op_type for n in graph.nodes} & {op, "Identity"}
    names = [str(v.name) for v in graph.outputs]
    for a, b in zip(session(proto.SerializeToString()).run(names, feeds), session(graph.model).run(names, feeds),
                    strict=True):  # fmt: skip
        assert a.shape == b.shape and np.allclose(a, b, atol=1e-6)
    assert graph.aliases["layer"] in {str(n.name) for n in graph.nodes}


def test_what_nobody_reads_is_not_written() -> None:
    """Only the last state is used: no tensor of all steps is made."""
    proto, _ = layer("GRU")
    del proto.graph.output[0]
    graph = optimize(load(proto))
    assert [str(v.name) for v in graph.outputs] == ["yh"]
    assert "Concat" not in {n.op_type for n in graph.nodes}


@pytest.mark.parametrize(
    ("op", "more", "reason"),
    [
        ("LSTM", {"steps": MOST_STEPS + 1}, f"{MOST_STEPS + 1} steps; at most {MOST_STEPS} are written out"),
        ("LSTM", {"activations": ["Relu", "Tanh", "Tanh"]}, "activations Relu, Tanh, Tanh"),
        ("GRU", {"clip": 3.0}, "it clips, or couples its gates"),
        ("LSTM", {"input_forget": 1}, "it clips, or couples its gates"),
    ],
)
def test_left_as_it_is(op: str, more: dict, reason: str) -> None:
    """Each refusal is told with the node and what it has."""
    from ptqlab.events import Watch

    lines: list[str] = []
    watch = Watch()
    watch.log = lines.append  # type: ignore[method-assign]
    graph = optimize(load(layer(op, **more)[0]), watch)
    assert op in {n.op_type for n in graph.nodes}
    assert f"layer ({op}) left as it is: {reason}" in lines


@pytest.mark.parametrize("op", list(GATES))
def test_a_layer_between_convolutions_runs_on_the_bpu(op: str, tmp_path: Path) -> None:
    """Convolution, recurrent layer, MatMul: one segment, the same bits everywhere, near the float model in int8."""
    gates, hidden = GATES[op], 6
    nodes = [
        node("Conv", ["x", "k"], "c", "conv"), node("Transpose", ["c"], "t", "turn", perm=[2, 0, 1]),
        node(op, ["t", "w", "r", "b"], ["y"], "layer", hidden_size=hidden),
        node("Squeeze", ["y", "axis"], "s", "squeeze"), node("MatMul", ["s", "out"], "z", "product"),
    ]  # fmt: skip
    inits = [
        init("k", random(5, 3, 1)), init("w", random(1, gates * hidden, 5, seed=1, scale=0.4)),
        init("r", random(1, gates * hidden, hidden, seed=2, scale=0.4)), init("out", random(hidden, 4, seed=4)),
        init("b", random(1, 2 * gates * hidden, seed=3, scale=0.3)), init("axis", [1], np.int64),
    ]  # fmt: skip
    proto, feeds = net(nodes, ["z"], inits, {"x": random(1, 3, 6, seed=7).astype(f32)})
    run = compiled(proto, feeds, tmp_path)
    got = all_engines_agree(run, feeds)["z"]
    wanted = session(proto.SerializeToString()).run(["z"], feeds)[0]
    assert run.record.segments == 1 and all(r.on == "BPU" for r in run.record.nodes)
    assert float((wanted * got).sum() / np.linalg.norm(wanted) / np.linalg.norm(got)) > 0.998
