"""What each layer gives every engine to do, in units that no platform changes: padded MACs, elements, bytes.

Padding, passes and type factors are our definitions; which of them board latencies support is told in PERFORMANCE.md.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ptqlab.arith.formats import QType
from ptqlab.perf.layer import FREE_OPS, Layer, elements, results

# Channels are padded to these multiples; an image at the input (up to four channels) has its own layout.
INPUT_CHANNELS, OUTPUT_CHANNELS, IMAGE_CHANNELS = 16, 64, 4
# A MAC takes this many times the work of int8 x int8.
MAC_FACTOR = {(8, 8): 1.0, (16, 8): 2.0, (16, 16): 4.0, (8, 16): 2.0}
# Activations that are no clamp cost a table look-up on every element.
CLAMPS = ("", "relu", "relu6", "clip")


@dataclass(frozen=True)
class Passes:
    """How often a vector operator goes over its elements.

    table, plain   look-ups and arithmetic passes;  reading  counted over what it reads, else over what it writes
    commands       operators it becomes on the BPU;  engine  unit that runs it (documented)
    """

    table: float = 0
    plain: float = 1
    reading: bool = False
    commands: float = 1
    engine: str = "VAE"


TABLE = Passes(table=1, plain=0)
MOVE = Passes(commands=0, engine="TRANS")
POOL = Passes(reading=True, engine="AAE")
REDUCE = Passes(reading=True)
PASSES: dict[str, Passes] = {
    **dict.fromkeys(("Sigmoid", "Tanh", "Exp", "Log", "Sqrt", "Erf", "Gelu", "HardSwish", "HardSigmoid", "LeakyRelu",
                     "Elu", "Selu", "Softplus", "Softsign", "Mish", "Swish", "Sin", "Cos", "Tan", "Atan", "Reciprocal",
                     "Pow", "Celu", "PRelu", "Rsqrt", "Acos", "Asin"), TABLE),
    "Div": Passes(table=1, plain=1, commands=2),
    # max, subtract, exponential, sum, reciprocal, multiply: one table and four passes over the whole tensor
    "Softmax": Passes(table=1, plain=4, reading=True, commands=5),
    "LogSoftmax": Passes(table=1, plain=4, reading=True, commands=5),
    # mean, subtract, square, mean, rsqrt, multiply, scale and shift: tables only on one value a row
    **dict.fromkeys(("LayerNormalization", "GroupNormalization", "InstanceNormalization", "LpNormalization"),
                    Passes(plain=6, reading=True, commands=6)),
    **dict.fromkeys(("MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool"), POOL),
    "Resize": Passes(engine="AAE"),
    "GridSample": Passes(plain=2, engine="AAE"),
    **dict.fromkeys(("Concat", "Slice", "Split", "Transpose", "Gather", "Pad", "Expand", "Tile", "DepthToSpace",
                     "SpaceToDepth"), MOVE),
    **dict.fromkeys(("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ArgMax", "ArgMin", "TopK", "CumSum"),
                    REDUCE),
    **dict.fromkeys(FREE_OPS, Passes(plain=0, commands=0, engine="TRANS")),
}
OTHERWISE = Passes()
# Fields of `Work`, in the order of its columns.
COLUMNS = ("spatial", "pointwise", "depthwise", "matmul", "table", "plain", "commands", "load", "store",
           "vector_engine")
ENGINES = ("VAE", "AAE", "TRANS")


@dataclass(frozen=True)
class Work:
    """Work of all layers, one row each (float64).

    spatial, pointwise, depthwise, matmul   padded MACs by kind, times the factor of their types
    table, plain    elements through look-up tables / through plain vector passes, times bytes of an element
    commands        operators of the BPU, each of which has a fixed cost
    load, store     bytes of weights from DDR, of results that leave the network
    vector_engine   0 VAE, 1 AAE, 2 TRANS: whose timeline the vector part belongs to
    """

    rows: np.ndarray

    def column(self, name: str) -> np.ndarray:
        return self.rows[:, COLUMNS.index(name)]


def work_of(layers: Sequence[Layer]) -> Work:
    """The work of layers in order; what runs on the CPU is no work for the BPU."""
    leaving = set(results(layers))
    rows = [row(layer, index in leaving) for index, layer in enumerate(layers)]
    return Work(np.array(rows, np.float64).reshape(-1, len(COLUMNS)))


def row(layer: Layer, leaves: bool) -> tuple[float, ...]:
    """One row of `Work`; `leaves` says that the result leaves the BPU."""
    if not layer.on_bpu:
        return (0.0,) * len(COLUMNS)
    load, store = float(layer.weight_bytes), float(layer.write_bytes) if leaves else 0.0
    size = max(layer.output_qtype.bits, layer.qtype.bits if layer.is_tae else 0) / 8
    if layer.is_tae:
        kinds = {"spatial": 0.0, "pointwise": 0.0, "depthwise": 0.0, "matmul": 0.0}
        kinds[mac_kind(layer)] = padded_macs(layer) * mac_factor(layer.qtype, layer.weight_qtype)
        table = 0.0 if layer.act in CLAMPS else layer.writes * size
        return (*kinds.values(), table, 0.0, 1.0, load, store, 0.0)
    passes = PASSES.get(layer.op, OTHERWISE)
    over = max(layer.reads, layer.writes) if passes.reading else layer.writes
    size = max(layer.qtype.bits, layer.output_qtype.bits) / 8
    return (0.0, 0.0, 0.0, 0.0, passes.table * over * size, passes.plain * over * size, passes.commands, load, store,
            float(ENGINES.index(passes.engine)))


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
    wide = IMAGE_CHANNELS if inside <= IMAGE_CHANNELS else _up(inside, INPUT_CHANNELS)
    return layer.macs * (wide / inside) * (_up(outside, OUTPUT_CHANNELS) / outside)


def _up(count: float, multiple: int) -> float:
    return math.ceil(count / multiple) * multiple


def input_bytes(layers: Sequence[Layer]) -> int:
    """Bytes of the network's inputs: images as nv12 (1.5 bytes a pixel), everything else one byte an element.

    A 4-D input with three channels and even height and width is taken for an image, as fast-perf does.
    """
    found = {s: shape for layer in layers for s, shape in zip(layer.sources, layer.inputs, strict=True) if s < 0}
    return sum(elements(s) // 2 if _is_image(s) else elements(s) for s in found.values())


def _is_image(shape: tuple[int, ...]) -> bool:
    return len(shape) == 4 and shape[1] == 3 and shape[2] % 2 == 0 and shape[3] % 2 == 0
