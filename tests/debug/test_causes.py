"""Built examples of what goes wrong: each gets its cause, and its remedy lifts the output."""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import pytest
from core_models import net
from models import init, node, random

from ptqlab import config as configuration
from ptqlab.config import QuantConfig
from ptqlab.debug.causes import CAUSES, Facts, bias_overflow, sqnr_without_mean
from ptqlab.debug.diagnosis import diagnose
from ptqlab.debug.network import Network, Quantizer
from ptqlab.errors import PtqError
from ptqlab.events import Watch
from ptqlab.pipeline.workbench import Candidate, Workbench

MAX: dict[str, Any] = {"model_config": {"activation": {"calibration_type": "max"}}}
WIDE_CONV = {**MAX, "node_config": {"conv": {"qtype": "int16"}}}


@dataclass
class Example:
    """A net, the samples that matter, and those it is calibrated with where these are others."""

    nodes: list
    inits: list
    data: dict[str, list[np.ndarray]]
    outputs: list[str] = field(default_factory=lambda: ["y"])
    calibrated_with: dict[str, list[np.ndarray]] | None = None
    quant: dict[str, Any] = field(default_factory=lambda: MAX)


def normal(*shape: int, scale: Any = 1.0, count: int = 2, seed: int = 0) -> list[np.ndarray]:
    return [(random(*shape, seed=100 * seed + i) * np.asarray(scale, np.float32)).astype(np.float32)
            for i in range(count)]


def conv(x: str, y: str, weights: np.ndarray, number: int = 0) -> tuple[list, list]:
    return [node("Conv", [x, f"w{number}"], y, f"conv{number}")], [init(f"w{number}", weights)]


def first(size: int, value: float) -> np.ndarray:
    """Ones but for the first."""
    out = np.ones(size, np.float32)
    out[0] = value
    return out


def outlier_in_an_image() -> Example:
    weights = random(6, 8, 1, 1, seed=1) * first(8, 1e-3).reshape(1, 8, 1, 1)
    return Example(*conv("x", "y", weights), {"x": normal(1, 8, 6, 6, scale=first(8, 60).reshape(1, 8, 1, 1))})


def outlier_in_rows() -> Example:
    weights = random(8, 5, seed=1) * first(8, 1e-3).reshape(8, 1)
    return Example([node("MatMul", ["x", "w"], "y", "mul")], [init("w", weights)],
                   {"x": normal(4, 8, scale=first(8, 60))})


def outlier_inside() -> Example:
    a = random(8, 4, 1, 1, seed=1) * first(8, 90).reshape(8, 1, 1, 1)
    b = random(6, 8, 1, 1, seed=2) * first(8, 1e-3).reshape(1, 8, 1, 1)
    one, two = conv("x", "h", a), conv("h", "y", b, 1)
    return Example(one[0] + two[0], one[1] + two[1], {"x": normal(1, 4, 6, 6)})


def spread_weights() -> Example:
    weights = random(6, 16, 3, 3, seed=1, scale=0.02)
    weights[:, 0, 0, 0] = 20.0
    quant = {**MAX, "node_config": {"conv0": {"qtype": "int16"}}}
    x = normal(1, 16, 6, 6, scale=first(16, 1e-3).reshape(1, 16, 1, 1))
    return Example(*conv("x", "y", weights), {"x": x}, quant=quant)


def concat(axis_moved: bool) -> Example:
    a, b = random(4, 3, 1, 1, seed=1), random(4, 3, 1, 1, seed=2) * np.float32(80)
    c = random(5, 8, 1, 1, seed=3)
    c[:, 4:] *= 1e-3
    nodes = [node("Conv", ["x", "a"], "ha", "conva"), node("Conv", ["x", "b"], "hb", "convb"),
             node("Concat", ["ha", "hb"], "h", "concat", axis=1)]
    if axis_moved:
        nodes.append(node("Reshape", ["h", "shape"], "g", "reshape"))
    nodes.append(node("Conv", ["g" if axis_moved else "h", "c"], "y", "convc"))
    inits = [init("a", a), init("b", b), init("c", c)]
    if axis_moved:
        inits.append(init("shape", np.array([1, 8, 9, 4]), np.int64))
    return Example(nodes, inits, {"x": normal(1, 3, 6, 6)})


def unequal_add() -> Example:
    nodes = [node("Add", ["p", "q"], "s", "add"), node("Clip", ["s", "low", "high"], "h", "clip"),
             node("Conv", ["h", "w"], "y", "conv")]
    inits = [init("low", -3.0, np.float32), init("high", 3.0, np.float32), init("w", random(5, 4, 1, 1, seed=4))]
    return Example(nodes, inits, {"p": normal(1, 4, 6, 6, scale=50.0), "q": normal(1, 4, 6, 6, seed=1)})


def one_sign() -> Example:
    weights = random(6, 8, 1, 1, seed=1)
    x = [np.random.default_rng(i).uniform(0, 1, (1, 8, 6, 6)).astype(np.float32) for i in range(2)]
    return Example(*conv("x", "y", weights), {"x": x})


def single_values() -> Example:
    weights = random(6, 4, 1, 1, seed=1)
    x = normal(1, 4, 64, 64, scale=0.1)
    for array in x:
        array[0, :, 0, 0] = 100.0
    return Example(*conv("x", "y", weights), {"x": x})


def masked() -> Example:
    x = normal(1, 4, 8, 8)
    for index, array in enumerate(x):
        array[np.random.default_rng(index).random(array.shape) < 0.2] = -900.0
    nodes = [node("Clip", ["x", "low", "high"], "h", "clip"), node("Conv", ["h", "w"], "y", "conv")]
    inits = [init("low", -3.0, np.float32), init("high", 3.0, np.float32), init("w", random(5, 4, 1, 1, seed=4))]
    return Example(nodes, inits, {"x": x})


def other_scale(factor: float) -> Example:
    weights = random(6, 4, 1, 1, seed=1)
    return Example(*conv("x", "y", weights), {"x": normal(1, 4, 6, 6, scale=factor)},
                   calibrated_with={"x": normal(1, 4, 6, 6, seed=3)})


def one_value() -> Example:
    nodes = [node("Mul", ["x", "s"], "h", "mul"), node("Conv", ["h", "w"], "y", "conv")]
    one = np.full((1, 4, 6, 6), 0.1349, np.float32)
    other, x = one.copy(), normal(1, 4, 6, 6)
    other[0, 0, 0, 0] = 1.27
    for array in x:
        array[0, 0, 0, 0] = 0.0
    return Example(nodes, [init("w", random(4, 4, 1, 1, seed=1))], {"x": x, "s": [one, one]},
                   calibrated_with={"x": x, "s": [other, other]})


def cut_off() -> Example:
    one, two = conv("x", "h", random(8, 4, 1, 1, seed=1)), conv("h", "y", random(6, 8, 1, 1, seed=2), 1)
    quant = {**MAX, "node_config": {"conv1": {"activation": {"calibration_type": "max", "max_percentile": 0.8}}}}
    return Example(one[0] + two[0], one[1] + two[1], {"x": normal(1, 4, 6, 6)}, quant=quant)


def boxes_and_scores() -> Example:
    """Boxes in pixels and scores below one, in one Concat, of which the scores are what counts."""
    weights = random(5, 10, 1, 1, seed=3)
    weights[:, :4] *= 1e-3
    nodes = [node("Conv", ["x", "a"], "boxes", "boxes"), node("Conv", ["x", "b"], "s", "score"),
             node("Sigmoid", ["s"], "scores", "sigmoid"), node("Concat", ["boxes", "scores"], "h", "concat", axis=1),
             node("Conv", ["h", "w"], "y", "conv")]
    inits = [init("a", random(4, 3, 1, 1, seed=1) * np.float32(100)), init("b", random(6, 3, 1, 1, seed=2)),
             init("w", weights)]
    return Example(nodes, inits, {"x": normal(1, 3, 6, 6)})


def depthwise_spread() -> Example:
    """Depthwise: the tap in the middle is a thousand times the others, and falls on values next to zero."""
    weights = random(6, 1, 3, 3, seed=1, scale=0.02)
    weights[:, 0, 1, 1] = 20.0
    x = normal(1, 6, 8, 8)
    for array in x:
        array[:, :, ::2, ::2] *= 1e-3
    nodes = [node("Conv", ["x", "w"], "y", "conv", group=6, strides=[2, 2], pads=[1, 1, 1, 1])]
    return Example(nodes, [init("w", weights)], {"x": x}, quant=WIDE_CONV)


def depthwise_shift() -> Example:
    """Depthwise: weights that cancel each other on values that are all alike."""
    weights = np.random.default_rng(0).uniform(0.2, 1, (8, 1, 3, 3)).astype(np.float32)
    weights -= weights.mean((2, 3), keepdims=True) * np.float32(0.98)
    x = [(4 + 0.05 * random(1, 8, 10, 10, seed=i)).astype(np.float32) for i in range(2)]
    return Example([node("Conv", ["x", "w"], "y", "conv", group=8)], [init("w", weights)], {"x": x}, quant=WIDE_CONV)


def constant_rows() -> Example:
    """Two of eight rows deviate by less than a step."""
    x = normal(8, 16, seed=5)
    for array in x:
        array[0], array[3] = 2.0 + 0.004 * array[0], -1.0 + 0.006 * array[3]
    return Example([node("LayerNormalization", ["x", "g", "b"], "y", "norm", axis=-1)],
                   [init("g", np.ones(16, np.float32)), init("b", np.zeros(16, np.float32))], {"x": x})


def large_bias() -> Example:
    """One bias for all, far beyond what 32 bits hold in steps of the product; the Softmax on the CPU takes it away."""
    nodes = [node("Gemm", ["x", "w", "b"], "h", "gemm"), node("Softmax", ["h"], "y", "soft", axis=-1)]
    inits = [init("w", random(4096, 4, seed=1, scale=1e-3)), init("b", np.full(4, 1e5, np.float32))]
    return Example(nodes, inits, {"x": normal(4, 4096, seed=2)}, quant={**MAX, "node_config": {"soft": {"ON": "CPU"}}})


def index_in_int8() -> Example:
    """Positions up to 600 that are counted on by one and looked up."""
    positions = [np.random.default_rng(i).integers(0, 600, (1, 40)).astype(np.float32) for i in range(2)]
    nodes = [node("Add", ["p", "one"], "a", "add"), node("Cast", ["a"], "i", "cast", to=7),
             node("Gather", ["table", "i"], "y", "gather", axis=0)]
    return Example(nodes, [init("one", np.float32(1.0)), init("table", random(700, 6, seed=1))], {"p": positions})


def where_masked(value: float, clipped: bool) -> Example:
    """Values marked by Where, before a Softmax or before a Clip and a Conv."""
    marks = [np.random.default_rng(9 + i).random((1, 4, 8, 8)) < 0.2 for i in range(2)]
    nodes = [node("Where", ["m", "low", "x"], "h", "where")]
    inits = [init("low", np.float32(value))]
    if clipped:
        nodes += [node("Clip", ["h", "least", "most"], "c", "clip"), node("Conv", ["c", "w"], "y", "conv")]
        inits += [init("least", np.float32(-3)), init("most", np.float32(3)), init("w", random(5, 4, 1, 1, seed=4))]
    else:
        nodes.append(node("Softmax", ["h"], "y", "soft", axis=-1))
    return Example(nodes, inits, {"x": normal(1, 4, 8, 8), "m": marks})


def plain() -> Example:
    return Example(*conv("x", "y", random(6, 8, 1, 1, seed=1)), {"x": normal(1, 8, 6, 6)})


EXAMPLES = {
    "outlier in an image": (outlier_in_an_image, "outlier_channel", 10.0),
    "outlier in rows": (outlier_in_rows, "outlier_channel", 10.0),
    "outlier inside": (outlier_inside, "outlier_channel", 10.0),
    "spread weights": (spread_weights, "weight_spread", 10.0),
    "depthwise spread": (depthwise_spread, "weight_spread", 10.0),
    "depthwise shift": (depthwise_shift, "mean_shift", 10.0),
    "concat": (lambda: concat(False), "unbalanced_concat", 10.0),
    "concat behind a mover": (lambda: concat(True), "unbalanced_concat", 10.0),
    "boxes and scores": (boxes_and_scores, "unbalanced_concat", 10.0),
    "unequal add": (unequal_add, "unbalanced_add", 3.0),
    "one sign": (one_sign, "dead_range", 2.0),
    "single values": (single_values, "dead_range", 6.0),
    "mask": (masked, "mask_value", 10.0),
    "mask of a Where": (lambda: where_masked(-900.0, True), "mask_value", 10.0),
    "smallest float as mask": (lambda: where_masked(-3.4e38, True), "mask_value", 10.0),
    # a mask that saturates is no trouble: what is left is that of eight bits
    "-Inf mask before a Softmax": (lambda: where_masked(-np.inf, False), "too_few_bits", 4.0),
    "float mask before a Softmax": (lambda: where_masked(-1e4, False), "too_few_bits", 4.0),
    "constant rows": (constant_rows, "constant_row", 10.0),
    "large bias": (large_bias, "bias_overflow", 10.0),
    "index": (index_in_int8, "integer_index", 10.0),
    "data too large": (lambda: other_scale(200.0), "wrong_calibration_data", 10.0),
    "data too small": (lambda: other_scale(0.01), "wrong_calibration_data", 10.0),
    "one value": (one_value, "zero_or_constant", 3.0),
    "cut off": (cut_off, "clipped", 6.0),
    "plain": (plain, "too_few_bits", 2.0),
}


def bench(example: Example, folder, data) -> Workbench:
    feeds = {name: arrays[0] for name, arrays in example.data.items()}
    path = folder / "net.onnx"
    onnx.save(net(example.nodes, example.outputs, example.inits, feeds)[0], path)
    settings = configuration.load(model=path, march="nash-e", calibration_data=data, working_dir=folder / "out")
    return Workbench(settings, 2, Watch())


def sqnr(made: Candidate, graph, data) -> float:
    """SQNR in dB of the worst output on the samples that matter."""
    from ptqlab.arith.metrics import Agreement
    from ptqlab.graph import session

    reference, calibrated = session(graph.model), session(made.calibrated.model)
    sums: list[Agreement] = []
    for index in range(len(next(iter(data.values())))):
        sample = {name: arrays[index] for name, arrays in data.items()}
        pairs = list(zip(reference.run(None, sample), calibrated.run(None, sample), strict=True))
        sums = sums or [Agreement() for _ in pairs]
        for total, (a, b) in zip(sums, pairs, strict=True):
            total.add(a, b, distances=True)
    return min(s.sqnr for s in sums)


@pytest.mark.parametrize("name", EXAMPLES)
def test_cause_and_remedy(name, tmp_path):
    """The worst quantizer gets the cause that was built in; the remedy lifts the output."""
    build, cause, gain = EXAMPLES[name]
    example = build()
    before = bench(example, tmp_path, example.calibrated_with or example.data)
    made = before.candidate(QuantConfig.parse(example.quant), Watch())
    found = diagnose(Network(made.calibrated.model, before.graph.model), example.data)
    assert found[0].cause == cause, [str(f) for f in found]
    remedy = found[0].remedy
    after = bench(example, tmp_path, example.data) if remedy.data else before
    better = after.candidate(QuantConfig.parse(remedy.applied(example.quant)), Watch())
    was, now = sqnr(made, before.graph, example.data), sqnr(better, before.graph, example.data)
    assert now > was + gain, f"{was:.1f} dB before, {now:.1f} dB after: {found[0]}"
    assert found[0].sentence.endswith(".") and "Do: " in str(found[0])


def test_every_cause_has_a_sentence():
    """The docstring is what users read: one sentence, and names are distinct; each has a built example."""
    names = [cause.__name__ for cause, _ in CAUSES]
    assert len(set(names)) == len(names) == 14
    assert {cause for _, cause, _ in EXAMPLES.values()} == set(names)
    assert all(cause.__doc__ and cause.__doc__.rstrip().endswith(".") for cause, _ in CAUSES)


def test_a_widened_scale_is_seen():
    """Weights that use few of their codes had their scale widened for a bias."""
    scale = np.array([0.01, 0.01], np.float32).reshape(2, 1, 1, 1)
    weights = np.array([1.27, 0.05], np.float32).reshape(2, 1, 1, 1) * np.ones((2, 3, 1, 1), np.float32)
    quantizer = Quantizer("w", "weight", "w", scale, 0, -128, 127, 8, scale.ravel() * 127)
    assert "1 channels use at most 5 of 127" in str(bias_overflow(Facts(quantizer, weights, ("conv",), ("Conv",))))


def test_a_large_mean_hides_nothing():
    """SQNR of the mean-removed signal is that of the signal alone."""
    x = random(1000, seed=1)
    y = x + 0.01 * random(1000, seed=2)
    assert sqnr_without_mean(x + 100, y + 100) == pytest.approx(sqnr_without_mean(x, y), abs=0.01)
    assert sqnr_without_mean(x, x) == float("inf")


def test_without_data_it_is_refused(tmp_path):
    """A network alone names no samples."""
    example = plain()
    made = bench(example, tmp_path, example.data).candidate(QuantConfig.parse(MAX), Watch())
    with pytest.raises(PtqError, match="PTQ553"):
        diagnose(Network(made.calibrated.model))
