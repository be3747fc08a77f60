"""Gather of a constant table by computed indices: the table is held in codes, the indices stay as they are."""
from __future__ import annotations

import numpy as np
import pytest
from lowered import Lowered, lowered
from models import init, model, node, random, value

from ptqlab.arith.rounding import quantize
from ptqlab.errors import PtqError
from ptqlab.ops.spec import Role
from ptqlab.ops.table import spec_of
from ptqlab.placement import Ask
from ptqlab.simulate import FastExecutor, ReferenceExecutor
from ptqlab.stages.plan import Device

TABLE = random(9, 4, seed=3)


def embedded(ids: np.ndarray, table: np.ndarray = TABLE, qtype: str = "int8", asymmetric: bool = False,
             axis: int = 0, other: np.ndarray | None = None) -> Lowered:
    """ids -> Gather of a table -> MatMul, both without a request of their own; calibrated with `other` indices."""
    nodes = [node("Gather", ["table", "ids"], "e", "op", axis=axis), node("Relu", ["e"], "r", "relu"),
             node("MatMul", ["r", "w"], "y", "mm")]
    width = np.take(table, ids, axis).shape[-1]
    dtype = {np.dtype(np.int32): 6, np.dtype(np.int64): 7}[ids.dtype]
    net = model(nodes, [value("ids", ids.shape, dtype)], [value("y", None)],
                [init("table", table), init("w", random(width, 3, seed=5))], opset=19)
    return lowered(net, {"ids": ids}, *([] if other is None else [{"ids": other}]), qtype=qtype, asymmetric=asymmetric,
                   asks={n.name: Ask(qtype, level="model") for n in nodes})


@pytest.mark.parametrize("asymmetric", [False, True])
@pytest.mark.parametrize("qtype", ["int8", "int16"])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_rows_of_codes(dtype: type, qtype: str, asymmetric: bool) -> None:
    """Every output is the code of its element of the table, in the type that its reader asks for; -1 is the last."""
    made = embedded(np.array([[3, 0, -1], [8, 3, 5]], dtype), qtype=qtype, asymmetric=asymmetric)
    assert made.plan.nodes["op"].device is Device.BPU and made.plan.tensors["e"].stored == qtype
    encoding = made.encodings.slots[made.plan.tensors["e"].slot]
    wanted = quantize(made.floats["e"], encoding.scale, encoding.zero_point, encoding.low, encoding.high)
    assert made.codes["e"].dtype == encoding.qtype.numpy and np.array_equal(made.codes["e"], wanted)
    assert np.abs(made.real("e") - made.floats["e"]).max() <= 0.51 * made.step("e")
    assert made.cosine("y") > 0.999


def test_by_hand() -> None:
    """A threshold of 12.7 makes steps of a tenth: the row of 12.7, -1 and 0.34 is 127, -10 and 3."""
    table = np.array([[0, 0, 0], [12.7, -1, 0.34]], np.float32)
    made = embedded(np.array([1, 0]), table)
    assert made.step("e") == pytest.approx(0.1) and made.codes["e"].tolist() == [[127, -10, 3], [0, 0, 0]]


def test_along_another_axis() -> None:
    """Columns of the table, by one index that is a scalar in its own right."""
    made = embedded(np.array([2, 1, 1]), axis=1)
    assert np.abs(made.real("e") - TABLE[:, [2, 1, 1]]).max() <= 0.51 * made.step("e")


def test_entries_that_calibration_never_chose_are_told() -> None:
    """They saturate at the end of the range, and a finding says how many."""
    table = TABLE.copy()
    table[0, :3] = (50.0, -50.0, np.finfo(np.float32).max)
    made = embedded(np.array([2, 3]), table)
    [finding] = [f for f in made.quantized.findings if f.code == "PTQ515"]
    assert (finding.nodes, finding.severity) == (("op",), "note") and "3 of 36 entries" in finding.message
    held = next(v.const_value.numpy() for v in made.quantized.model.graph.initializers.values()
                if v.shape is not None and v.shape.numpy() == table.shape and v.dtype is not None
                and v.dtype.numpy() == np.int8)
    assert held[0, :3].tolist() == [127, -128, 127]
    assert not [f for f in embedded(np.arange(9)).quantized.findings if f.code == "PTQ515"]


@pytest.mark.parametrize("index", [9, -10])
@pytest.mark.parametrize("engine", [ReferenceExecutor, FastExecutor])
def test_an_index_outside_of_the_table_is_refused(engine: type, index: int) -> None:
    """Indices are data; the message says which one."""
    made = embedded(np.array([1, 0]))
    with pytest.raises(PtqError, match=str(index)):
        engine(made.quantized).run({"ids": np.array([1, index])})


def test_what_is_an_embedding() -> None:
    """A computed table or constant indices make an ordinary mover."""
    made = embedded(np.array([1]))
    assert spec_of(made.graph.node("op")).role is Role.ACTIVE and spec_of("Gather").role is Role.PASSIVE
    nodes = [node("Mul", ["x", "x"], "a", "scale"), node("Gather", ["a", "i"], "y", "op")]
    net = model(nodes, [value("x", [3, 2])], [value("y", None)], [init("i", np.array([1, 0]))], opset=19)
    mover = lowered(net, {"x": random(3, 2)}, asks={"scale": Ask("int8", level="node"), "op": Ask(level="node")})
    assert spec_of(mover.graph.node("op")).role is Role.PASSIVE
