"""Work of layers, checked by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from perf.common import chain, conv, other, with_types

from ptqlab.arith.formats import QType
from ptqlab.perf.layer import Layer, linked
from ptqlab.perf.work import (
    ATTENTION_BYTES,
    COLUMNS,
    WEIGHT_BUFFER,
    input_bytes,
    is_virtual,
    padded_macs,
    row,
    spilled,
    work_of,
)


def work(layer: Layer, leaves: bool = False) -> dict[str, float]:
    """The entries of a row that are not 0."""
    return {name: value for name, value in zip(COLUMNS, row(layer, leaves), strict=True) if value}


def test_convolutions_by_kind() -> None:
    """3x3, 1x1 and depthwise convolutions go to rates of their own; Relu costs nothing, SiLU a look-up an element."""
    assert work(conv("a", -1)) == {"spatial": 37748736, "commands": 1, "load": 36864}
    assert work(conv("a", -1, kernel=1)) == {"pointwise": 4194304, "commands": 1, "load": 4096}
    assert work(conv("a", -1, group=64)) == {"depthwise": 589824, "commands": 1, "load": 576}
    assert work(conv("a", -1, act="silu"))["table"] == 65536
    assert "table" not in work(conv("a", -1, act="scale"))


@pytest.mark.parametrize(
    ("inputs", "outputs", "group", "factor"),
    [
        (16, 16, 1, 1.0),
        (24, 16, 1, 32 / 24),
        (16, 40, 1, 48 / 40),
        (3, 16, 1, 4 / 3),
        (4, 16, 1, 1.0),
        (5, 16, 1, 16 / 5),
        (48, 48, 3, 1.0),
        (24, 24, 3, (16 / 8) * (16 / 8)),
    ],
)
def test_channels_are_padded_to_16(inputs: int, outputs: int, group: int, factor: float) -> None:
    """Within each group; an image of up to four channels has a layout of its own."""
    layer = conv("a", -1, inputs=inputs, outputs=outputs, group=group)
    assert padded_macs(layer) == pytest.approx(layer.macs * factor)


def test_types_scale_the_work() -> None:
    """int16 features twice, dual-int16 four times the MACs; table and bytes with the bits; float16 MACs as int16."""
    layer = conv("a", -1, act="silu")
    one, two = work(layer), work(with_types(layer, QType.INT16))
    assert (two["spatial"], two["table"], two["load"]) == (2 * one["spatial"], 2 * one["table"], one["load"])
    four = work(with_types(layer, QType.INT16, QType.INT16))
    assert (four["spatial"], four["load"]) == (4 * one["spatial"], 2 * one["load"])
    assert work(with_types(layer, QType.FLOAT16)) == two


def test_large_weights_are_streamed() -> None:
    """The share of the weights beyond the buffer; in bytes, so dual-int16 reaches it sooner."""
    small, large = conv("a", -1, 128, 128), conv("a", -1, 512, 512)
    assert "streamed" not in work(small)
    assert work(large)["streamed"] == pytest.approx(1 - WEIGHT_BUFFER / large.weights)
    wide = conv("a", -1, 192, 192)
    assert "streamed" not in work(wide) and "streamed" in work(with_types(wide, QType.INT16, QType.INT16))


def test_other_operators() -> None:
    """Passes over elements: Softmax a table and three passes, Concat what it writes, pooling what it reads, beside."""
    assert work(other("a", "Softmax", (-1,))) == {"table": 65536, "plain": 3 * 65536, "commands": 1}
    assert work(other("a", "Concat", (-1, -2))) == {"plain": 65536, "commands": 1}
    pool = replace(other("a", "MaxPool", (-1,)), writes=16384)
    assert work(pool) == {"hidden": 65536, "commands": 1}
    assert work(other("a", "Reshape", (-1,))) == {}
    assert work(other("a", "SomethingNew", (-1,))) == {"plain": 65536, "commands": 1}
    assert work(other("a", "Add", (-1, -2), device="CPU")) == {}


def test_matmul_of_two_activations() -> None:
    """It has a rate of its own; with constant weights it is a 1x1."""
    layer = Layer(
        "a",
        "MatMul",
        ((1, 8, 64, 32), (1, 8, 32, 64)),
        ((1, 8, 64, 64),),
        (-1, -2),
        macs=1 << 20,
        reads=32768,
        writes=32768,
    )
    assert work(layer) == {"matmul": 1 << 20, "commands": 1}
    assert "pointwise" in work(replace(layer, weights=1024))


def test_matrices_of_attention_beyond_the_chip() -> None:
    """What is beyond the limit goes through DDR, on either side, in the bytes of its type."""
    size = ATTENTION_BYTES + 1000
    layer = Layer("a", "MatMul", ((1, 1, 4, 4),), ((1, 1, 1, size),), (-1,), writes=size)
    assert spilled(layer) == (0, 1000)
    assert spilled(replace(layer, inputs=((1, 1, 1, size),), qtype=QType.INT16)) == (ATTENTION_BYTES + 2000, 1000)
    assert spilled(replace(layer, op="Add")) == (0, 0) and spilled(replace(layer, weights=4)) == (0, 0)
    assert work(layer)["load"] == 1000


def test_stack_and_sum_needs_no_stack() -> None:
    """A Concat that only reductions read is no work; one that anybody else reads is."""
    made = linked([conv("a", -1), other("stack", "Concat", (0, 0)), other("sum", "ReduceSum", (1,))])
    assert is_virtual(made, 1)
    assert not is_virtual(linked([*made, conv("b", 1)]), 1)
    assert not work_of(made).rows[1].any()


def test_results_are_stored() -> None:
    """What leaves the BPU is stored: four bytes an element at a tail."""
    assert work_of(chain()).column("store").tolist() == [0, 0, 0, 0, 0, 4 * 10240, 0]


def test_inputs() -> None:
    """An image comes as nv12, 1.5 bytes a pixel; everything else in its reader's type; one input is counted once."""
    image = Layer("a", "Conv", ((1, 3, 64, 64),), ((1, 8, 64, 64),), (-1,))
    assert input_bytes([image]) == 64 * 64 * 3 // 2
    assert input_bytes([replace(image, inputs=((1, 3, 63, 64),))]) == 3 * 63 * 64
    assert input_bytes(linked([conv("a", -1), conv("b", -1), conv("c", -2)])) == 2 * 65536
    assert input_bytes([with_types(conv("a", -1), QType.INT16)]) == 2 * 65536
