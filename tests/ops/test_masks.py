"""Masks in front of a Softmax: they never set a threshold, come out as 0, and are told."""
from __future__ import annotations

import numpy as np
import pytest
from lowered import Lowered, lowered
from models import init, model, node, random, value

from ptqlab.graph import load
from ptqlab.ops.masks import is_mask, masked_tensors, without_masks
from ptqlab.placement import Ask

INF, LOWEST = -np.inf, np.finfo(np.float32).min
CAUSAL = np.triu(np.ones((4, 4), bool), 1)


def attention(kind: str, fill: float, qtype: str = "int8") -> tuple[Lowered, np.ndarray]:
    """q k^T, mask, Softmax, v, all on the BPU; `kind`: where, add (a constant), computed (an input times fill)."""
    fill32 = np.float32(fill)
    inits = [init("fill", fill32), init("scale", np.float32(0.35))]
    inputs = [value("q", [2, 4, 8]), value("k", [2, 8, 4]), value("v", [2, 4, 8])]
    feeds = {"q": random(2, 4, 8, seed=3), "k": random(2, 8, 4, seed=4), "v": random(2, 4, 8, seed=5)}
    if kind == "where":
        mask = [node("Where", ["c", "fill", "s"], "m", "mask")]
        inits.append(init("c", CAUSAL))
    elif kind == "add":
        mask = [node("Add", ["s", "c"], "m", "mask")]
        inits.append(init("c", np.where(CAUSAL, fill32, np.float32(0))))
    else:
        mask = [node("Mul", ["hidden", "fill"], "c", "grow"), node("Add", ["s", "c"], "m", "mask")]
        inputs.append(value("hidden", [4, 4]))
        feeds["hidden"] = CAUSAL.astype(np.float32)
    nodes = [node("MatMul", ["q", "k"], "r", "qk"), node("Mul", ["r", "scale"], "s", "scale"), *mask,
             node("Softmax", ["m"], "p", "softmax", axis=-1), node("MatMul", ["p", "v"], "y", "pv")]
    net = model(nodes, inputs, [value("y", None)], inits, opset=19)
    return lowered(net, feeds, qtype=qtype, asks={n.name: Ask(qtype, level="node") for n in nodes}), CAUSAL


@pytest.mark.parametrize("qtype", ["int8", "int16"])
@pytest.mark.parametrize(("kind", "fill"), [
    ("where", INF), ("where", LOWEST), ("where", -1e9), ("where", -100.0), ("add", INF), ("add", -1e9), ("add", -100.0),
    ("computed", -1e9), ("computed", LOWEST), ("computed", -1e4),
])
def test_attention_with_a_mask(kind: str, fill: float, qtype: str) -> None:
    """Masked probabilities are 0 in int8 and next to it in int16, and the result is that of the float model."""
    made, masked = attention(kind, fill, qtype)
    assert np.abs(made.real("p")[:, masked]).max() <= (0 if qtype == "int8" else 2e-3)
    assert made.cosine("y") > 0.995
    scores = made.floats["s"]
    assert np.abs(scores).max() <= made.encodings.thresholds["m"] <= np.abs(scores).max() + 8
    told = [f for f in made.quantized.findings if f.code == "PTQ512"]
    assert [f.nodes for f in told] == ([("mask",)] if kind != "computed" else [])


def test_the_finding() -> None:
    """Node, mask and what stands for it."""
    made, _ = attention("where", INF)
    lowest = -128 * made.step("m")
    [told] = [f for f in made.quantized.findings if f.code == "PTQ512"]
    assert str(told) == (
        f"PTQ512 Where mask: its mask of -inf is held as {lowest:.4g}, the lowest code; the mask did not "
        "set the threshold Do: in front of a Softmax the lowest code is 8 or more below the largest value of every "
        "row, and masked positions come out as 0; nothing has to be done")


@pytest.mark.parametrize(("op", "constant"), [("Sub", 290.0), ("Add", -290.0)])
def test_a_mean_that_is_taken_off_is_no_mask(op: str, constant: float) -> None:
    """What moves every position alike masks none, and nothing is told of it."""
    net = model([node(op, ["x", "mean"], "c", "centre"), node("Mul", ["c", "half"], "y", "mul")],
                [value("x", [1, 8])], [value("y", None)],
                [init("mean", np.float32(constant)), init("half", np.float32(0.5))], opset=19)
    names = ("centre", "mul")
    made = lowered(net, {"x": 290 + random(1, 8, seed=1)}, asks={n: Ask("int8", level="node") for n in names})
    assert [f.code for f in made.quantized.findings if f.code == "PTQ512"] == []


def test_what_is_a_mask() -> None:
    """Far below zero and nothing far above; a learned bias or an image mean is none."""
    assert is_mask(np.array([0, -np.inf], np.float32)) and is_mask(np.float32(-100)) and is_mask(np.array([3.0, -50.0]))
    assert not is_mask(np.array([100.0, -100.0])) and not is_mask(np.array([-5.0])) and not is_mask(np.array([-100]))
    assert not is_mask(np.zeros(0, np.float32))


def test_rows_by_hand() -> None:
    """-100 becomes 8 below the largest of its row; a row of masks alone becomes zeros; the rest stays."""
    x = np.array([[1.0, -100.0, -20.0], [-np.inf, -np.inf, -np.inf], [-40.0, -41.0, -1e9]], np.float32)
    assert without_masks(x, 30.0).tolist() == [[1, -7, -20], [0, 0, 0], [-40, -41, -48]]
    assert without_masks(x, 200.0).tolist() == [[1, -100, -20], [0, 0, 0], [-40, -41, -48]]


def test_which_tensors_are_watched() -> None:
    """Up to the mask through movers and a bias behind it; not where the Softmax runs along another axis."""
    net = model(
        [node("Add", ["x", "mask"], "a"), node("Add", ["a", "bias"], "b"), node("Reshape", ["b", "shape"], "r"),
         node("Softmax", ["r"], "y", axis=-1), node("Add", ["x", "mask"], "o"), node("Softmax", ["o"], "z", axis=0)],
        [value("x", [2, 3])], [value("y", None), value("z", None)],
        [init("mask", np.float32(-100)), init("bias", random(3)), init("shape", np.array([1, 2, 3]))], opset=19)
    assert masked_tensors(load(net).nodes) == {"a": 30.0, "b": 30.0}
