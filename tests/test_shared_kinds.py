"""Kinds of models and data that quantizers get wrong, each through the whole product by max and by kl.

Every kind is a builder of its own and what must hold for it, in figures; all executors give the same bits, and outputs
keep name, order, shape and type.
"""
from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from core_models import f32, net, weights
from models import Built, batch_norm, init, ints, model, node, random, value
from small import all_engines_agree, compiled

from ptqlab.errors import PtqError
from ptqlab.graph import session

METHODS = pytest.mark.parametrize(("method", "march"), [("max", "nash-e"), ("kl", "nash-p")])


def ran(built: Built, folder: Path, method: str, march: str, **more: Any) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """(the run, float outputs, outputs of all executors); names, shapes and types are as in the float model."""
    proto, feeds = built
    quant = {"model_config": {"activation": {"calibration_type": method}}} | more.pop("quant_config", {})
    run = compiled(proto, feeds, folder, march=march, samples=1, quant_config=quant, **more)
    got = all_engines_agree(run, feeds)
    runner = session(proto.SerializeToString(), optimise=False)
    wanted = dict(zip(runner.output_names, runner.run(None, {n: feeds[n] for n in runner.input_names}), strict=True))
    assert list(got) == list(wanted)
    for name, array in wanted.items():
        assert (got[name].shape, got[name].dtype) == (array.shape, array.dtype), name
    return run, wanted, got


def told(run: Any, code: str) -> list[str]:
    return [f.message for f in run.record.findings if f.code == code]


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    x, y = a.ravel().astype(np.float64), b.ravel().astype(np.float64)
    return float(x @ y / np.linalg.norm(x) / np.linalg.norm(y))


def step(run: Any, node_name: str) -> float:
    """The int8 step that a node's first operand has."""
    [row] = [r for r in run.record.nodes if r.node == node_name]
    assert row.threshold is not None
    return row.threshold / 127


@METHODS
def test_zeros_joined_to_a_live_branch_and_cut_out_again(method: str, march: str, tmp_path: Path) -> None:
    """The cut is exactly 0 in integers, has cosine 1.0 and the tag, and one warning names tensor and node."""
    nodes = [
        node("Conv", ["x", "w"], "c", "conv"), node("Concat", ["c", "zeros"], "j", "join", axis=1),
        node("Slice", ["j", "from", "to", "axis"], "cut", "cut"), node("Conv", ["cut", "w2"], "d", "behind"),
        node("Add", ["d", "c"], "y", "sum"), node("Conv", ["y", "w3"], "z", "end"),
    ]  # fmt: skip
    inits = [*weights(w=(3, 3, 1, 1), w2=(3, 2, 1, 1), w3=(2, 3, 1, 1)), init("zeros", np.zeros((1, 2, 8, 8), f32)),
             ints("from", 3), ints("to", 5), ints("axis", 1)]  # fmt: skip
    run, wanted, got = ran(net(nodes, ["z"], inits), tmp_path, method, march)
    [row] = [r for r in run.record.nodes if r.node == "cut"]
    assert (row.on, row.quantized_cosine, row.tags) == ("BPU", 1.0, ("all-zero",))
    assert cosine(wanted["z"], got["z"]) > 0.999
    [warned] = told(run, "PTQ532")
    assert warned == "all zero over all samples, beside a range that others set: cut (node cut, Slice)"


@METHODS
def test_a_flag_that_never_holds(method: str, march: str, tmp_path: Path) -> None:
    """A bool input is fed as bool; the product with the flag is all zero, told, and x comes out within half a step."""
    nodes = [
        node("Cast", ["flag"], "i", "number", to=onnx.TensorProto.INT32), node("Equal", ["i", "seven"], "e", "equal"),
        node("Cast", ["e"], "m", "mask", to=1), node("Mul", ["m", "x"], "p", "masked"),
        node("Add", ["x", "p"], "y", "sum"),
    ]  # fmt: skip
    built = net(nodes, ["y"], [init("seven", np.int32(7))],
                {"flag": np.array([[True, False] * 8]), "x": random(1, 16, seed=3)})  # fmt: skip
    run, wanted, got = ran(built, tmp_path, method, march)
    assert np.abs(wanted["y"] - got["y"]).max() <= 0.501 * step(run, "sum")
    assert any("node mask" in m for m in told(run, "PTQ501"))


@pytest.mark.parametrize("form", ["where -inf", "add -inf", "add the least float"])
@METHODS
def test_masks_in_front_of_a_softmax(method: str, march: str, form: str, tmp_path: Path) -> None:
    """Masked positions are exactly 0 behind the Softmax, and the mask leaves the others their steps."""
    hidden = np.triu(np.ones((6, 6), bool), 1)[None, None]
    lowest = f32(np.finfo(f32).min) if "least" in form else f32(-np.inf)
    if form.startswith("where"):
        masked = node("Where", ["hidden", "low", "s"], "m", "mask")
        inits = [init("hidden", hidden), init("low", lowest)]
    else:
        masked, inits = node("Add", ["s", "low"], "m", "mask"), [init("low", np.where(hidden, lowest, f32(0)))]
    nodes = [node("MatMul", ["q", "k"], "s", "scores"), masked, node("Softmax", ["m"], "p", "softmax", axis=-1),
             node("MatMul", ["p", "v"], "y", "mix")]  # fmt: skip
    shapes = {"q": (1, 2, 6, 8), "k": (1, 2, 8, 6), "v": (1, 2, 6, 8)}
    feeds = {name: random(*shape, seed=i, scale=0.7) for i, (name, shape) in enumerate(shapes.items())}
    run, wanted, got = ran(net(nodes, ["p", "y"], inits, feeds), tmp_path, method, march)
    assert not got["p"][np.broadcast_to(hidden, got["p"].shape)].any()
    assert cosine(wanted["y"], got["y"]) > 0.999
    assert any("mask" in m for m in told(run, "PTQ512"))


@METHODS
def test_a_pruned_channel_gives_its_bias(method: str, march: str, tmp_path: Path) -> None:
    """No weights are left in channel 2: it is 0.75 within a step, and nothing is NaN."""
    w = random(4, 3, 3, 3, seed=8)
    w[2] = 0
    inits = [init("w", w), init("b", np.array([0.1, -0.4, 0.75, 2.0], f32)), *weights(w2=(2, 4, 1, 1))]
    nodes = [node("Conv", ["x", "w", "b"], "c", "conv"), node("Conv", ["c", "w2"], "y", "end")]
    run, _, got = ran(net(nodes, ["c", "y"], inits), tmp_path, method, march)
    assert np.abs(got["c"][:, 2] - 0.75).max() <= step(run, "end")
    assert all(np.isfinite(a).all() for a in got.values())


@METHODS
def test_boxes_and_scores_in_one_tensor(method: str, march: str, tmp_path: Path) -> None:
    """At the tail each branch keeps its own step; inside, where they share one, the branch that dies is named."""
    def built(behind: bool) -> Built:
        nodes = [
            node("Mul", ["raw", "pixels"], "boxes", "to_pixels"), node("Sigmoid", ["logits"], "scores", "sigmoid"),
            node("Concat", ["boxes", "scores"], "j", "head", axis=1),
        ]  # fmt: skip
        more = [node("Conv", ["j", "w"], "y", "look")] if behind else []
        feeds = {"raw": np.abs(random(1, 4, 20, seed=7)), "logits": random(1, 3, 20, seed=9)}
        inits = [init("pixels", f32(320)), *(weights(w=(2, 7, 1)) if behind else [])]
        return net(nodes + more, ["y" if behind else "j"], inits, feeds)

    _, wanted, got = ran(built(False), tmp_path / "tail", method, march)
    scores = wanted["j"][:, 4:], got["j"][:, 4:]
    assert np.abs(scores[0] - scores[1]).max() < 0.01
    run, _, _ = ran(built(True), tmp_path / "inside", method, march)
    [warning] = told(run, "PTQ513")
    assert "head" in warning and "scores reaches" in warning


@METHODS
def test_one_fixed_value(method: str, march: str, tmp_path: Path) -> None:
    """No histogram has one bin only: T is the value, and the data are told to be constant."""
    nodes = [node("Conv", ["x", "w"], "c", "conv"), node("Relu", ["c"], "r", "relu"),
             node("Conv", ["r", "w2"], "y", "end")]  # fmt: skip
    built = net(nodes, ["y"], weights(w=(4, 3, 1, 1), w2=(2, 4, 1, 1)), {"x": np.full((1, 3, 8, 8), 0.125, f32)})
    run, wanted, got = ran(built, tmp_path, method, march)
    assert step(run, "conv") == pytest.approx(0.125 / 127) and cosine(wanted["y"], got["y"]) > 0.999
    assert told(run, "PTQ363") == ["input x holds the one fixed value 0.125 in every sample"]


@METHODS
def test_ties_and_a_relu_whose_zero_is_zero(method: str, march: str, tmp_path: Path) -> None:
    """Half steps go away from zero whatever the machine; the lowest value behind a Relu is exactly 0."""
    halves = (np.arange(-6, 6) + 0.5) / 8
    x = np.concatenate([halves, [127 / 8, 0, 0, 0]]).astype(f32)[None]
    nodes = [node("Add", ["x", "none"], "y", "add"), node("Relu", ["y"], "r", "relu")]
    proto, feeds = net(nodes, ["y", "r"], [init("none", np.zeros((1, 16), f32))], {"x": x})
    run = compiled(proto, feeds, tmp_path, march=march, samples=1,
                   quant_config={"model_config": {"activation": {"calibration_type": "max"}}})  # fmt: skip
    got = all_engines_agree(run, feeds)
    assert np.rint(got["y"][0, :12] * 8).tolist() == [-6, -5, -4, -3, -2, -1, 1, 2, 3, 4, 5, 6]
    nodes = [node("Conv", ["x", "w", "b"], "c", "conv"), node("Relu", ["c"], "r", "relu"),
             node("Conv", ["r", "w2"], "y", "end")]  # fmt: skip
    built = net(nodes, ["r", "y"], weights(w=(4, 3, 3, 3), b=(4,), w2=(2, 4, 1, 1)))
    _, _, got = ran(built, tmp_path / "relu", method, march)
    assert got["r"].min() == 0.0


@METHODS
def test_one_weight_for_two_ranges(method: str, march: str, tmp_path: Path) -> None:
    """Weights and bias shared by two convolutions whose inputs differ 100 times: each has its own bias codes."""
    nodes = [node("Conv", ["x", "w", "b"], "y1", "near"), node("Mul", ["x", "less"], "x2", "less"),
             node("Conv", ["x2", "w", "b"], "y2", "far")]  # fmt: skip
    built = net(nodes, ["y1", "y2"], [*weights(w=(4, 3, 3, 3), b=(4,)), init("less", f32(0.01))])
    _, wanted, got = ran(built, tmp_path, method, march)
    assert all(cosine(wanted[y], got[y]) > 0.999 for y in ("y1", "y2"))


@METHODS
def test_a_bias_beyond_32_bits(method: str, march: str, tmp_path: Path) -> None:
    """Weights next to nothing beside a bias of 3: the step is widened, told, and the output right."""
    inits = [init("w", random(4, 3, 1, 1, scale=1e-9)), init("b", np.array([3, -3, 1, 2], f32)),
             *weights(w2=(2, 4, 1, 1))]  # fmt: skip
    nodes = [node("Conv", ["x", "w", "b"], "c", "conv"), node("Conv", ["c", "w2"], "y", "end")]
    run, wanted, got = ran(net(nodes, ["c", "y"], inits), tmp_path, method, march)
    assert cosine(wanted["y"], got["y"]) > 0.999
    assert "conv (4)" in told(run, "PTQ510")[0]


@METHODS
def test_normalizations_that_no_convolution_may_take(method: str, march: str, tmp_path: Path) -> None:
    """At the input, behind a Relu, behind a Concat, and behind a convolution that is an output itself."""
    widths = {"a": 3, "b": 4, "d": 7, "e": 3}
    parts = {name: batch_norm(name, width, seed=i) for i, (name, width) in enumerate(widths.items())}

    def norm(name: str, x: str, y: str) -> Any:
        return node("BatchNormalization", [x, *parts[name][0]], y, f"norm_{name}")

    nodes = [
        norm("a", "x", "n1"), node("Conv", ["n1", "w"], "c", "conv"), node("Relu", ["c"], "r", "relu"),
        norm("b", "r", "n2"), node("Concat", ["n2", "x"], "j", "join", axis=1), norm("d", "j", "n3"),
        node("Conv", ["n3", "w2"], "c2", "conv2"), norm("e", "c2", "y"),
    ]  # fmt: skip
    inits = [*weights(w=(4, 3, 1, 1), w2=(3, 7, 1, 1)), *(c for _, constants in parts.values() for c in constants)]
    _, wanted, got = ran(net(nodes, ["y", "c2"], inits), tmp_path, method, march)
    assert all(cosine(wanted[y], got[y]) > 0.995 for y in wanted)


@METHODS
def test_the_nearest_of_two(method: str, march: str, tmp_path: Path) -> None:
    """ArgMax with a Cast is on the BPU, without one it is not; how many winners change is told in numbers."""
    w = random(16, 10, seed=2)
    w[:, 3] = w[:, 4] + f32(1e-4)
    nodes = [
        node("MatMul", ["x", "w"], "l", "scores"), node("ArgMax", ["l"], "free", "free", axis=1, keepdims=0),
        node("ArgMax", ["l"], "i", "held", axis=1), node("Cast", ["i"], "best", "cast", to=onnx.TensorProto.INT16),
    ]  # fmt: skip
    proto = model(nodes, [value("x", [64, 16])],
                  [value("free", [64], onnx.TensorProto.INT64), value("best", [64, 1], onnx.TensorProto.INT16)],
                  [init("w", w)])  # fmt: skip
    run, wanted, got = ran((proto, {"x": random(64, 16, seed=3)}), tmp_path, method, march)
    on = {r.node: r.on for r in run.record.nodes}
    assert (on["free"], on["held"], on["cast"]) == ("CPU", "BPU", "BPU")
    same = int((wanted["best"] == got["best"]).sum())
    assert 32 < same < 64 and f"best {same} of 64" in told(run, "PTQ531")[0]


@METHODS
def test_the_end_of_a_network_and_who_brings_it_back(method: str, march: str, tmp_path: Path) -> None:
    """Behind the last convolution everything is on the CPU; a type for the Relu brings it back, one for the Concat
    alone does nothing and says so."""
    nodes = [
        node("Conv", ["x", "w"], "c", "first"), node("Relu", ["c"], "r", "relu"),
        node("Conv", ["r", "w2"], "d", "last"), node("Relu", ["d"], "s", "relu_end"),
        node("Reshape", ["s", "flat"], "f", "flat_end"),
        node("Concat", ["f", "f"], "y", "join_end", axis=1),
    ]  # fmt: skip
    built = net(nodes, ["y"], [*weights(w=(4, 3, 1, 1), w2=(2, 4, 1, 1)), ints("flat", 1, 128)])

    def placed(name: str, folder: str) -> tuple[dict[str, str], list[str]]:
        quant = {"node_config": {name: {"qtype": "int8"}}} if name else {}
        run, _, _ = ran(built, tmp_path / folder, method, march, quant_config=quant)
        return {r.node: r.on for r in run.record.nodes}, told(run, "PTQ401")

    plain, _ = placed("", "a")
    assert [plain[n] for n in ("last", "relu_end", "flat_end", "join_end")] == ["BPU", "CPU", "CPU", "CPU"]
    assert placed("relu_end", "b")[0]["relu_end"] == "BPU"
    alone, warned = placed("join_end", "c")
    assert alone == plain and len(warned) == 1 and warned[0].startswith("join_end: int8 was asked for in node_config")


def test_names_that_bite_and_shapes_that_lie(tmp_path: Path) -> None:
    """Paths, markup, 200 characters, `a/b` beside `a_b`; a stated shape that is wrong is overruled and told."""
    long = "n" * 200
    nodes = [
        node("Conv", ["x", "w"], "../../evil", "<script>alert(1)</script>"), node("Relu", ["../../evil"], "a/b", long),
        node("Conv", ["a/b", "w2"], "a_b", "a/b"), node("Relu", ["a_b"], "y", "a_b"),
    ]  # fmt: skip
    proto, feeds = net(nodes, ["y"], weights(w=(4, 3, 1, 1), w2=(2, 4, 1, 1)))
    proto.graph.value_info.append(value("a/b", [1, 4, 9, 9]))
    onnx.save(proto, tmp_path / "net.onnx")
    run = compiled(proto, feeds, tmp_path / "in", samples=1)
    all_engines_agree(run, feeds)
    assert {r.node for r in run.record.nodes} == {"<script>alert(1)</script>", long, "a/b", "a_b"}
    assert any("a/b" in m for m in told(run, "PTQ134"))
    assert not list(tmp_path.rglob("*evil*"))


def test_one_value_that_is_no_number(tmp_path: Path) -> None:
    """The sample is refused by input, place and count; what is in the model is not touched."""
    proto, feeds = net([node("Conv", ["x", "w"], "y", "conv")], ["y"], weights(w=(4, 3, 1, 1)))
    feeds["x"][0, 2, 1, 5] = np.nan
    with pytest.raises(PtqError) as caught:
        compiled(proto, feeds, tmp_path, samples=1)
    [problem] = caught.value.problems
    assert (problem.code, problem.where) == ("PTQ306", "input x, sample 0")
    assert problem.found == "NaN: 1 of 192 values, the first at [0, 2, 1, 5]"
