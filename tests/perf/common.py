"""What the tests of the estimate share: published tables, small layers."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from ptqlab.arith.formats import QType
from ptqlab.perf.layer import Layer, linked
from ptqlab.perf.table import LayerTable, read_layers

DATA = Path(__file__).parent / "data"


@cache
def table(name: str) -> LayerTable:
    """A published network's layer table."""
    return read_layers(DATA / "board_layers" / f"{name}.jsonl.gz")


def conv(
    name: str,
    source: int,
    inputs: int = 64,
    outputs: int = 64,
    side: int = 32,
    kernel: int = 3,
    group: int = 1,
    act: str = "relu",
    **rest: object,
) -> Layer:
    """A convolution of stride 1 on a square map."""
    weights = outputs * (inputs // group) * kernel * kernel
    return Layer(
        name,
        "Conv",
        ((1, inputs, side, side),),
        ((1, outputs, side, side),),
        (source,),
        act=act,
        kernel=(kernel, kernel),
        stride=(1, 1),
        group=group,
        macs=weights * side * side,
        weights=weights,
        reads=inputs * side * side,
        writes=outputs * side * side,
        **rest,
    )  # type: ignore[arg-type]


def other(
    name: str, op: str, sources: tuple[int, ...], shape: tuple[int, ...] = (1, 64, 32, 32), **rest: object
) -> Layer:
    """An operator without weights that keeps the shape."""
    size = 1
    for d in shape:
        size *= d
    return Layer(name, op, (shape,) * len(sources), (shape,), sources, reads=size * len(sources), writes=size, **rest)  # type: ignore[arg-type]


def chain() -> tuple[Layer, ...]:
    """Image, three convolutions with a residual Add, pooling and a Softmax on the CPU behind the tail."""
    image = Layer(
        "stem",
        "Conv",
        ((1, 3, 64, 64),),
        ((1, 64, 32, 32),),
        (-1,),
        act="silu",
        kernel=(3, 3),
        stride=(2, 2),
        macs=64 * 27 * 1024,
        weights=64 * 27,
        reads=3 * 64 * 64,
        writes=64 * 1024,
    )
    return linked(
        [
            image,
            conv("a", 0, act="silu"),
            conv("b", 1),
            other("add", "Add", (0, 2)),
            other("pool", "MaxPool", (3,)),
            conv("tail", 4, outputs=10, kernel=1, act="", tail=True),
            other("probabilities", "Softmax", (5,), (1, 10, 32, 32), tail=True, net_out=True, device="CPU"),
        ]
    )


def with_types(layer: Layer, features: QType, weights: QType = QType.INT8) -> Layer:
    from dataclasses import replace

    return replace(layer, qtype=features, output_qtype=features, weight_qtype=weights)
