"""int32 tensors of the model itself: on the BPU as they are, beside what is quantized; other integers on the CPU."""
from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lowered import Lowered, lowered
from models import init, ints, model, node, random, value
from small import QUICK

from ptqlab.ops.integer import INTEGER_OPS
from ptqlab.ops.integer.compare import COMPARISONS
from ptqlab.ops.integer.movers import STANDARD
from ptqlab.ops.native import NATIVE
from ptqlab.placement import Ask
from ptqlab.stages.plan import Device

INT32, INT64 = onnx.TensorProto.INT32, onnx.TensorProto.INT64


def run(dtype: int, *feeds: np.ndarray) -> Lowered:
    """Mul, Add, Max, Neg and a Transpose of two integer inputs, beside a quantized product."""
    nodes = [node("Mul", ["a", "b"], "p", "mul"), node("Add", ["p", "k"], "s", "add"),
             node("Max", ["s", "a"], "m", "max"), node("Neg", ["m"], "n", "neg"),
             node("Transpose", ["n"], "y", "turn", perm=[1, 0]),
             node("MatMul", ["x", "w"], "z", "mm")]
    net = model(nodes, [value("a", [2, 3], dtype), value("b", [3], dtype), value("x", [2, 4])],
                [value("y", [3, 2], dtype), value("z", None)],
                [init("k", feeds[0][0].astype(feeds[0].dtype)), init("w", random(4, 3))], opset=19)
    return lowered(net, {"a": feeds[0], "b": feeds[1], "x": random(2, 4, seed=2)})


def test_int32_runs_on_the_bpu_untouched() -> None:
    """No quantizer, no threshold; exact, and wrapping around as int32 does, in every executor."""
    a = np.array([[2**30, -7, 3], [2**31 - 1, 5, 0]], np.int32)
    made = run(INT32, a, np.array([4, -2, 9], np.int32))
    for name in ("mul", "add", "max", "neg", "turn"):
        plan = made.plan.nodes[name]
        assert (plan.device, plan.granted, plan.rule) == (Device.BPU, "int32", "native-integers")
    assert made.operators()[:5] == ["Mul", "Add", "Max", "Neg", "Transpose"]
    assert set(made.plan.tensors) == {"x"} and np.array_equal(made.outputs["y"], made.floats["y"])


def test_int64_stays_on_the_cpu() -> None:
    """The BPU has no int64."""
    made = run(INT64, np.arange(6, dtype=np.int64).reshape(2, 3), np.arange(3, dtype=np.int64))
    assert {made.plan.nodes[n].device for n in ("mul", "add", "max", "neg", "turn")} == {Device.CPU}
    assert np.array_equal(made.outputs["y"], made.floats["y"])


def test_a_type_asked_for_changes_nothing() -> None:
    """int16 on an int32 product; on the CPU where that is asked for."""
    net = model([node("Mul", ["a", "a"], "y", "op")], [value("a", [3], INT32)], [value("y", [3], INT32)])
    a = {"a": np.array([1, 2, 300000], np.int32)}
    assert lowered(net, a, asks={"op": Ask("int16", level="node")}).plan.nodes["op"].granted == "int32"
    assert lowered(net, a, asks={"op": Ask("int8", on="CPU", level="node")}).plan.nodes["op"].device is Device.CPU


def test_what_is_behind_an_int32_operator_keeps_its_place() -> None:
    """It is no operator with weights: a Relu behind it, in float, runs on the BPU as it would alone."""
    nodes = [node("Add", ["a", "a"], "s", "add"), node("Cast", ["s"], "f", "cast", to=1),
             node("Relu", ["f"], "y", "relu")]
    net = model(nodes, [value("a", [4], INT32)], [value("y", [4])])
    made = lowered(net, {"a": np.array([1, -2, 30, -4], np.int32)})
    assert [made.plan.nodes[n].device.value for n in ("add", "cast", "relu")] == ["BPU", "CPU", "BPU"]


@QUICK
@given(st.sampled_from(["Add", "Sub", "Mul", "Max", "Min"]),
       st.lists(st.integers(-(2**31), 2**31 - 1), min_size=4, max_size=4))
def test_arithmetic_agrees_with_onnxruntime(op: str, numbers: list[int]) -> None:
    """Any int32 numbers, overflow included."""
    net = model([node(op, ["a", "b"], "y", "op")], [value("a", [4], INT32), value("b", [4], INT32)],
                [value("y", [4], INT32)])
    a = np.array(numbers, np.int32)
    made = lowered(net, {"a": a, "b": a[::-1].copy()})
    assert made.plan.nodes["op"].on_bpu and np.array_equal(made.outputs["y"], made.floats["y"])


@pytest.mark.parametrize("op", ["Gather", "Slice"])
def test_moves_with_indices(op: str) -> None:
    """Constant indices are int64 and stay so."""
    operands = [ints("i", 1, -1)] if op == "Gather" else [ints("i", -1), ints("e", -9), ints("d", 0), ints("t", -1)]
    net = model([node(op, ["a", *(o.name for o in operands)], "y", "op")], [value("a", [4], INT32)],
                [value("y", None, INT32)], operands, opset=19)
    made = lowered(net, {"a": np.arange(4, dtype=np.int32)})
    assert made.plan.nodes["op"].on_bpu and np.array_equal(made.outputs["y"], made.floats["y"])


@QUICK
@given(st.sampled_from(sorted(COMPARISONS)), st.booleans(),
       st.lists(st.integers(-(2**31), 2**31 - 1), min_size=4, max_size=4))
def test_comparisons_of_int32(op: str, constant: bool, numbers: list[int]) -> None:
    """On the BPU between any int32 numbers, computed or constant; logic and a Cast to float behind it as well."""
    a, b = np.array(numbers, np.int32), np.array([numbers[0], *numbers[:0:-1]], np.int32)
    nodes = [node(op, ["a", "b"], "c", "compare"), node("Not", ["c"], "n", "turn"),
             node("Cast", ["n"], "f", "cast", to=1), node("MatMul", ["f", "w"], "y", "product")]  # fmt: skip
    infos, inits, feeds = [value("a", [1, 4], INT32)], [init("w", random(4, 3))], {"a": a[None]}
    if constant:
        inits.append(init("b", b[None]))
    else:
        infos.append(value("b", [1, 4], INT32))
        feeds["b"] = b[None]
    made = lowered(model(nodes, infos, [value("y", None)], inits), feeds)
    assert all(made.plan.nodes[n].on_bpu for n in ("compare", "turn", "cast"))
    assert made.plan.nodes["compare"].rule == "native-integers"
    assert np.allclose(made.outputs["y"], made.floats["y"], atol=0.05)


def test_every_native_operator_has_a_kernel() -> None:
    """The table and the reference executor know the same ones; comparisons have integer operators of their own."""
    assert set(NATIVE) - set(COMPARISONS) <= set(STANDARD) and set(COMPARISONS) <= set(INTEGER_OPS)
