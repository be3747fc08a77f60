"""Movers inside of a network: every kind between two operators that carry thresholds, codes only change their place."""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lowered import Lowered, lowered
from models import init, model, node, random, value
from small import MANY, every_form, same_bits

from ptqlab.graph import load, session
from ptqlab.ops.integer.movers import MOVERS
from ptqlab.passes import optimize
from ptqlab.placement import Ask, Asks, place
from ptqlab.platforms import platform
from ptqlab.stages.plan import Device

X = (1, 8, 4, 6)


def between(nodes: Sequence[object], constants: Mapping[str, object], reads: Sequence[str], shape: Sequence[int] = X,
            qtype: str = "int8") -> Lowered:
    """x -> Mul -> `nodes`, which read "a" -> an operator that the configuration names, for each tensor in `reads`."""
    body = [node("Mul", ["x", "two"], "a", "scale"), *nodes]
    body += [node("Relu", [t], f"y{i}", f"relu_{t}") for i, t in enumerate(reads)]
    net = model(body, [value("x", shape)], [value(f"y{i}", None) for i in range(len(reads))],
                [init("two", np.float32(2)), *(init(k, v) for k, v in constants.items())], opset=19)
    asks = {f"relu_{t}": Ask(qtype, level="node") for t in reads}
    return lowered(net, {"x": random(*shape, seed=3)}, {"x": random(*shape, seed=4)}, qtype=qtype, asks=asks)


def only_moved(made: Lowered, name: str, outputs: Sequence[str]) -> None:
    """The node is on the BPU; its outputs hold codes of "a" at its step, placed as in the float model."""
    assert made.plan.nodes[name].device is Device.BPU, made.plan.nodes[name].reason
    order = dict(zip(made.floats["a"].ravel(), made.codes["a"].ravel(), strict=True))
    for tensor in outputs:
        assert made.step(tensor) == made.step("a")
        wanted = np.array([order.get(v, 0) for v in made.floats[tensor].ravel()]).reshape(made.floats[tensor].shape)
        assert np.array_equal(made.codes[tensor], wanted)


I = np.int64  # noqa: E741
MOVES: dict[str, tuple[str, dict[str, object], dict[str, object]]] = {
    "expand": ("Expand", {"s": np.array([2, 8, 4, 6], I)}, {}),
    "tile": ("Tile", {"r": np.array([1, 2, 1, 3], I)}, {}),
    "depth_to_space_dcr": ("DepthToSpace", {}, {"blocksize": 2}),
    "depth_to_space_crd": ("DepthToSpace", {}, {"blocksize": 2, "mode": "CRD"}),
    "space_to_depth": ("SpaceToDepth", {}, {"blocksize": 2}),
    "gather_negative": ("Gather", {"i": np.array([[-1, 0], [2, -3]], I)}, {"axis": 3}),
    "gather_scalar": ("Gather", {"i": np.array(2, I)}, {"axis": -2}),
    "gather_elements": ("GatherElements", {"i": np.array([[[[0, -1, 2, 3, 1, 0]]]], I)}, {"axis": 2}),
    "gather_nd": ("GatherND", {"i": np.array([[0, 3], [0, -1]], I)}, {}),
    "gather_nd_batched": ("GatherND", {"i": np.array([[[1, 2], [7, -1]]], I)}, {"batch_dims": 1}),
    "slice_backwards": ("Slice", {"s": np.array([-1], I), "e": np.array([-1000], I), "a": np.array([2], I),
                                  "t": np.array([-2], I)}, {}),
    "pad_wrap": ("Pad", {"p": np.array([0, 0, 1, 2, 0, 0, 3, 1], I)}, {"mode": "wrap"}),
    "pad_reflect": ("Pad", {"p": np.array([0, 0, 1, 2, 0, 0, 3, 1], I)}, {"mode": "reflect"}),
    "pad_cut": ("Pad", {"p": np.array([0, 0, -1, 0, 0, 0, 1, -2], I)}, {}),
}


@pytest.mark.parametrize("qtype", ["int8", "int16"])
@pytest.mark.parametrize("case", MOVES)
def test_a_mover_keeps_codes_and_step(case: str, qtype: str) -> None:
    """Same bits in every form, and the codes are those of the input in other places."""
    op, operands, attributes = MOVES[case]
    operands = {f"c_{k}": v for k, v in operands.items()}
    made = between([node(op, ["a", *operands], "m", "op", **attributes)], operands, ["m"], qtype=qtype)
    only_moved(made, "op", ["m"])


@pytest.mark.parametrize(("operands", "attributes", "count"), [
    ({"sizes": np.array([1, 4, 3], I)}, {"axis": 1}, 3), ({}, {"axis": 1, "num_outputs": 2}, 2),
    ({}, {"axis": -3, "num_outputs": 3}, 3),
])
def test_split(operands: Mapping[str, object], attributes: Mapping[str, object], count: int) -> None:
    """Given sizes, equal parts, and parts of which the last is smaller: one Slice each, all at the input's step."""
    parts = [f"p{i}" for i in range(count)]
    made = between([node("Split", ["a", *operands], parts, "op", **attributes)], operands, parts)
    only_moved(made, "op", parts)
    assert made.operators().count("Slice") == count


def test_a_part_of_split_that_nobody_reads() -> None:
    """It costs no threshold, and the others are right, whichever it is."""
    for unread in range(3):
        parts = [f"p{i}" for i in range(3)]
        read = [p for i, p in enumerate(parts) if i != unread]
        made = between([node("Split", ["a", "z"], parts, "op", axis=1)], {"z": np.array([2, 5, 1], I)}, read)
        only_moved(made, "op", read)
        assert len(made.plan.sources) == 4


def test_data_and_updates_of_scatter_share_one_step() -> None:
    """Updates ten times as large as the data set the common threshold; both stand at that step."""
    indices = np.array([[0, 0], [0, 2]], I)
    nodes = [node("ScatterND", ["a", "i", "u"], "m", "op")]
    made = between(nodes, {"i": indices, "u": random(2, 4, 6, seed=9, scale=10)}, ["m"])
    assert made.plan.nodes["op"].device is Device.BPU
    assert made.step("m") == made.step("a") == pytest.approx(np.abs(made.floats["m"]).max() / 127, rel=0.2)
    assert np.abs(made.real("m") - made.floats["m"]).max() <= 0.6 * made.step("m")


def test_scatter_elements_into_a_constant() -> None:
    """Computed updates in constant data: the output has a threshold of its own."""
    indices = np.array([[[[0, 1, 2, 3, 0, 1]]]], I)
    nodes = [node("Slice", ["a", "s", "e", "d"], "u", "cut"),
             node("ScatterElements", ["k", "i", "u"], "m", "op", axis=2)]
    constants = {"k": random(*X, seed=5), "i": indices, "s": np.array([0, 0], I), "e": np.array([1, 1], I),
                 "d": np.array([1, 2], I)}
    made = between(nodes, constants, ["m"])
    assert made.plan.nodes["op"].device is Device.BPU
    assert np.abs(made.real("m") - made.floats["m"]).max() <= 1.01 * max(made.step("m"), made.step("u"))


def test_reasons_on_the_cpu() -> None:
    """Computed indices, a table that is not finite and a reduction: the rule and what the node has."""
    net = model(
        [node("Mul", ["x", "two"], "a", "scale"), node("Gather", ["a", "ids"], "g", "computed"),
         node("Gather", ["table", "ids"], "t", "embedding"),
         node("ScatterElements", ["a", "k", "a"], "s", "adds", axis=0, reduction="add")],
        [value("x", [3, 2]), value("ids", [2], 7)], [value("g", None), value("t", None), value("s", None)],
        [init("two", np.float32(2)), init("table", np.array([[np.inf, -np.inf]], np.float32)),
         init("k", np.zeros((3, 2), I))], opset=19)
    plan = place(optimize(load(net)), platform("nash-e"), Asks({"scale": Ask("int8", level="node")}))
    rules = [plan.nodes[n].rule for n in ("computed", "embedding", "adds")]
    assert rules == ["constant_indices", "finite_table", "no_reduction"]
    assert "reduction add" in plan.nodes["adds"].reason and "ids are computed" in plan.nodes["computed"].reason


@MANY
@given(st.sampled_from(["DepthToSpace", "SpaceToDepth"]), st.sampled_from(["DCR", "CRD"]), st.integers(1, 3),
       st.sampled_from([np.int8, np.int16]))
def test_blocks_in_every_form(op: str, mode: str, block: int, dtype: type) -> None:
    """The same bits in reference, fast path and function, and SpaceToDepth is the way back from DCR."""
    shape = (2, 2 * block * block, 3, 2) if op == "DepthToSpace" else (2, 2, 3 * block, 2 * block)
    x = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    attributes = {"blocksize": block, "to": 3 if dtype is np.int8 else 5}
    y = every_form(op, {"x": x}, {}, attributes | ({"mode": mode} if op == "DepthToSpace" else {}))
    if op == "DepthToSpace" and mode == "DCR":
        assert np.array_equal(every_form("SpaceToDepth", {"x": y}, {}, attributes), x)


def test_depth_to_space_by_hand() -> None:
    """Four channels of one pixel become a 2 x 2 block, in either mode alike."""
    x = np.arange(1, 5, dtype=np.int8).reshape(1, 4, 1, 1)
    for mode in ("DCR", "CRD"):
        y = every_form("DepthToSpace", {"x": x}, {}, {"blocksize": 2, "mode": mode, "to": 3})
        assert y.tolist() == [[[[1, 2], [3, 4]]]]


NUMPY: dict[str, Callable[[], tuple[list[np.ndarray], dict[str, object]]]] = {
    "Expand": lambda: ([random(3, 1), np.array([2, 1, 4], I)], {}),
    "Tile": lambda: ([random(3, 2), np.array([2, 3], I)], {}),
    "Gather": lambda: ([random(3, 4), np.array([[-4, 3]], I)], {"axis": 1}),
    "GatherElements": lambda: ([random(3, 4), np.array([[-1, 0], [2, 1]], I)], {"axis": 0}),
    "GatherND": lambda: ([random(2, 3, 4), np.array([[[1]], [[-3]]], I)], {"batch_dims": 1}),
    "ScatterND": lambda: ([random(3, 4), np.array([[1], [-1]], I), random(2, 4, seed=1)], {}),
    "ScatterElements": lambda: ([random(3, 4), np.array([[1, 2]], I), random(1, 2, seed=1)], {"axis": 1}),
}


@pytest.mark.parametrize("op", NUMPY)
def test_numpy_agrees_with_onnxruntime(op: str) -> None:
    """The reference of each mover, on its own and with negative indices."""
    arrays, attributes = NUMPY[op]()
    names = ["x", *(f"c{i}" for i in range(1, len(arrays)))]
    net = model([node(op, names, "y", "op", **attributes)], [value("x", arrays[0].shape)], [value("y", None)],
                [init(n, a) for n, a in zip(names[1:], arrays[1:], strict=True)], opset=19)
    wanted = session(ir.from_proto(net), optimise=False).run(None, {"x": arrays[0]})[0]
    same_bits(np.ascontiguousarray(MOVERS[op](attributes, *arrays)), wanted, op)
