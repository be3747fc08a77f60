"""What each layer gives every engine to do, in units that no platform changes: padded MACs, elements, bytes.

Padding, passes and type factors are our definitions; which of them board latencies support is told in PERFORMANCE.md.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ptqlab.arith.formats import QType
from ptqlab.ops.functions import FUNCTIONS
from ptqlab.perf.layer import FREE_OPS, TAE_OPS, Layer, elements, results

# Channels are padded to multiples of 16 (documented); an image, up to four channels, has a layout of its own.
CHANNELS, IMAGE_CHANNELS = 16, 4
# Weights of a layer beyond this many bytes do not stay at the MACs but are streamed to them (our definition; board
# latencies prefer it to any padding, and any size from 0.3 to 0.6 MB serves them equally well).
WEIGHT_BUFFER = 512 << 10
# A matrix of attention keeps so much on chip; what is beyond goes through DDR while the operator runs (guess: no row of
# the fit has a larger one; larger YOLO12 are known to be slower than an estimate without it).
ATTENTION_BYTES = 3 << 20
# A MAC takes this many times the work of int8 x int8 (our definition), by bits of features and weights.
MAC_FACTOR = {(8, 8): 1.0, (16, 8): 2.0, (16, 16): 4.0, (8, 16): 2.0}
# Behind a TAE operator a clamp or a constant factor costs nothing; every other activation is a table look-up.
FREE_ACTIVATIONS = ("", "relu", "relu6", "clip", "scale")


@dataclass(frozen=True)
class Passes:
    """How often an operator outside of the TAE goes over its elements.

    table, plain   look-ups and arithmetic passes;  reading  counted over what it reads or writes, whichever is more,
                   else over what it writes
    commands       1; 0 where nothing is done at all
    engine         unit that runs it (documented); the AAE works beside the others and is hidden (documented: mostly)
    """

    table: float = 0
    plain: float = 1
    reading: bool = False
    commands: float = 1
    engine: str = "VAE"


TABLE = Passes(table=1, plain=0)
MOVE = Passes(engine="TRANS")
POOL = Passes(reading=True, engine="AAE")
REDUCE = Passes(reading=True)
REDUCTIONS = ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin")
# exponential by table; maximum, sum and product are one pass each
SOFTMAX = Passes(table=1, plain=3, reading=True)
# mean, difference, square and mean, product, scale and shift; tables only for one value a row
NORM = Passes(plain=6, reading=True)
PASSES: dict[str, Passes] = {
    **dict.fromkeys((*FUNCTIONS, "HardSigmoid", "LeakyRelu", "PRelu"), TABLE),
    "Div": Passes(table=1, plain=1),
    **dict.fromkeys(("Softmax", "LogSoftmax"), SOFTMAX),
    **dict.fromkeys(("LayerNormalization", "GroupNormalization", "InstanceNormalization", "LpNormalization"), NORM),
    **dict.fromkeys(("MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool"), POOL),
    "Resize": Passes(engine="AAE"),
    "GridSample": Passes(plain=2, engine="AAE"),
    **dict.fromkeys(("Concat", "Slice", "Split", "Transpose", "Gather", "Pad", "Expand", "Tile", "DepthToSpace",
                     "SpaceToDepth"), MOVE),
    **dict.fromkeys((*REDUCTIONS, "ArgMax", "ArgMin", "TopK", "CumSum"), REDUCE),
    **dict.fromkeys(FREE_OPS, Passes(plain=0, commands=0, engine="TRANS")),
}  # fmt: skip
OTHERWISE = Passes()
COLUMNS = ("spatial", "pointwise", "depthwise", "matmul", "streamed", "table", "plain", "hidden", "commands", "load",
           "store")  # fmt: skip


@dataclass(frozen=True)
class Work:
    """Work of all layers, one row each (float64), columns as in COLUMNS.

    spatial, pointwise, depthwise, matmul   padded MACs by kind, times the factor of their types
    streamed        share of the weights that does not fit the weight buffer, 0 to 1
    table, plain    elements through look-up tables / plain vector passes, times bytes of an element
    hidden          the same for the AAE, which works beside the others
    commands        operators of the BPU, each of which has a fixed cost
    load            bytes of weights from DDR, and of matrices of attention to and from it
    store           bytes of results that leave the BPU
    """

    rows: np.ndarray

    def column(self, name: str) -> np.ndarray:
        found: np.ndarray = self.rows[:, COLUMNS.index(name)]
        return found


def work_of(layers: Sequence[Layer]) -> Work:
    """The work of layers in order; what runs on the CPU is no work for the BPU."""
    leaving = set(results(layers))
    rows = [row(layer, index in leaving, is_virtual(layers, index)) for index, layer in enumerate(layers)]
    return Work(np.array(rows, np.float64).reshape(-1, len(COLUMNS)))


def is_virtual(layers: Sequence[Layer], index: int) -> bool:
    """A Concat that only reductions read: they read its parts where these are (stack and sum; our definition)."""
    readers = [layers[c] for c in layers[index].consumers]
    return layers[index].op == "Concat" and bool(readers) and all(r.op in REDUCTIONS for r in readers)


def row(layer: Layer, leaves: bool, virtual: bool = False) -> tuple[float, ...]:
    """One row of `Work`; `leaves` says that the result leaves the BPU, `virtual` that nothing is done at all."""
    if not layer.on_bpu or virtual:
        return (0.0,) * len(COLUMNS)
    load, store = float(layer.weight_bytes + sum(spilled(layer))), float(layer.write_bytes) if leaves else 0.0
    size = max(layer.qtype.bits, layer.output_qtype.bits) / 8
    if layer.op in TAE_OPS:
        kinds = {"spatial": 0.0, "pointwise": 0.0, "depthwise": 0.0, "matmul": 0.0}
        kinds[mac_kind(layer)] = padded_macs(layer) * mac_factor(layer.qtype, layer.weight_qtype)
        streamed = max(0.0, 1 - WEIGHT_BUFFER / layer.weight_bytes) if layer.weight_bytes else 0.0
        table = 0.0 if layer.act in FREE_ACTIVATIONS else layer.writes * size
        return (*kinds.values(), streamed, table, 0.0, 0.0, 1.0, load, store)
    passes = passes_of(layer.op)
    over = (max(layer.reads, layer.writes) if passes.reading else layer.writes) * size
    beside = passes.engine == "AAE"
    plain, hidden = (0.0, passes.plain * over) if beside else (passes.plain * over, 0.0)
    return (0.0, 0.0, 0.0, 0.0, 0.0, passes.table * over, plain, hidden, passes.commands, load, store)


def spilled(layer: Layer) -> tuple[int, int]:
    """Bytes that an operator of attention reads from, and writes to DDR: what is beyond ATTENTION_BYTES of a matrix."""
    if layer.weights or layer.op not in ("MatMul", "Softmax"):
        return 0, 0
    sizes = [elements(shape) * layer.qtype.bits // 8 for shape in layer.inputs]
    written = layer.writes * layer.output_qtype.bits // 8
    return sum(max(0, size - ATTENTION_BYTES) for size in sizes), max(0, written - ATTENTION_BYTES)


def passes_of(op: str) -> Passes:
    """The passes of an operator outside of the TAE; one plain pass where nothing is known."""
    return PASSES.get(op, OTHERWISE)


def mac_kind(layer: Layer) -> str:
    """Which rate of the TAE applies."""
    if layer.op == "MatMul" and not layer.weights:
        return "matmul"
    if layer.is_depthwise:
        return "depthwise"
    return "spatial" if math.prod(layer.kernel) > 1 else "pointwise"


def mac_factor(features: QType, weights: QType) -> float:
    """int16 features cost twice, dual-int16 four times the MACs of int8; float16 features are granted as int16."""
    return MAC_FACTOR[16 if features.bits > 8 else 8, weights.bits]


def padded_macs(layer: Layer) -> float:
    """MACs with channels filled up to what the TAE computes at once."""
    if layer.op not in ("Conv", "ConvTranspose") or layer.is_depthwise:
        return float(layer.macs)
    inside, outside = layer.inputs[0][1] / layer.group, layer.output[1] / layer.group
    wide = IMAGE_CHANNELS if inside <= IMAGE_CHANNELS else _up(inside)
    return layer.macs * (wide / inside) * (_up(outside) / outside)


def _up(channels: float) -> float:
    return math.ceil(channels / CHANNELS) * CHANNELS


def input_bytes(layers: Sequence[Layer]) -> int:
    """Bytes of the network's inputs: images as nv12 (1.5 bytes a pixel), everything else in the type of its reader.

    A 4-D input with three channels and even height and width is taken for an image, as fast-perf does.
    """
    found: dict[int, int] = {}
    for layer in layers:
        for source, shape in zip(layer.sources, layer.inputs, strict=True):
            if source < 0:
                whole = elements(shape)
                size = whole // 2 if is_image(shape) else whole * layer.qtype.bits // 8
                found[source] = max(size, found.get(source, 0))
    return sum(found.values())


def is_image(shape: tuple[int, ...]) -> bool:
    return len(shape) == 4 and shape[1] == 3 and shape[2] % 2 == 0 and shape[3] % 2 == 0
