"""The layer form: all that the estimate knows of a model, whether it came from a layer table or from a plan."""
from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ptqlab.arith.formats import QType
from ptqlab.errors import Problem, PtqError

Shape = tuple[int, ...]
# Operators that multiply and accumulate: the TAE.
TAE_OPS = ("Conv", "ConvTranspose", "Gemm", "MatMul")
# Operators that only rename a tensor: no data moves.
FREE_OPS = ("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Dropout", "Cast")


@dataclass(frozen=True)
class Layer:
    """One operator as the BPU runs it, with what is computed inside it.

    name          unique;  nodes  the nodes of the graph it computes (empty: just `name`)
    op            ONNX operator type;  act  activation computed inside ("relu", "relu6", "clip", "silu", ... or "")
    add           a residual is added inside; it is the last of `inputs`
    inputs        shapes of the activations it reads;  outputs  shapes of what it writes
    kernel, stride, group   of convolutions and pooling; empty and 1 elsewhere
    macs          multiply-accumulates without padding
    weights, reads, writes  elements, which are bytes at int8
    sources       for each input the index of the layer that writes it; -1 is the first input of the network, -2 the
                  second ...;  consumers  indices of the layers that read it
    net_out       its result leaves the network;  tail  no quantized operator follows
    qtype         type of its features;  output_qtype  type it writes;  weight_qtype  int8, or int16 for dual-int16
    device        "BPU" or "CPU";  segment  number of the BPU segment, None for the only one and on the CPU
    """

    name: str
    op: str
    inputs: tuple[Shape, ...]
    outputs: tuple[Shape, ...]
    sources: tuple[int, ...]
    consumers: tuple[int, ...] = ()
    act: str = ""
    add: bool = False
    kernel: Shape = ()
    stride: Shape = ()
    group: int = 1
    macs: int = 0
    weights: int = 0
    reads: int = 0
    writes: int = 0
    net_out: bool = False
    tail: bool = False
    qtype: QType = QType.INT8
    output_qtype: QType = QType.INT8
    weight_qtype: QType = QType.INT8
    device: str = "BPU"
    segment: int | None = None
    nodes: tuple[str, ...] = ()

    @property
    def on_bpu(self) -> bool:
        return self.device == "BPU"

    @property
    def output(self) -> Shape:
        return self.outputs[0]

    @property
    def is_tae(self) -> bool:
        return self.op in TAE_OPS

    @property
    def is_depthwise(self) -> bool:
        """Every channel has its own kernel."""
        return self.op == "Conv" and self.group > 1 and self.group == self.inputs[0][1]

    @property
    def weight_bytes(self) -> int:
        return self.weights * self.weight_qtype.bits // 8

    @property
    def high_precision(self) -> bool:
        """It leaves the network as int32 or float32 accumulator, four bytes an element."""
        return self.tail and self.is_tae

    @property
    def write_bytes(self) -> int:
        return self.writes * (4 if self.high_precision else self.output_qtype.bits // 8)


def linked(layers: Iterable[Layer]) -> tuple[Layer, ...]:
    """The layers with `consumers` filled in from their sources."""
    made = list(layers)
    readers: dict[int, list[int]] = {}
    for index, layer in enumerate(made):
        for source in dict.fromkeys(layer.sources):
            readers.setdefault(source, []).append(index)
    return tuple(replace(layer, consumers=tuple(readers.get(i, ()))) for i, layer in enumerate(made))


def results(layers: Sequence[Layer]) -> tuple[int, ...]:
    """Indices of the BPU layers whose result leaves the BPU: for the network's outputs or for a layer on the CPU."""
    return tuple(i for i, layer in enumerate(layers) if layer.on_bpu and (
        layer.net_out or layer.tail or any(not layers[c].on_bpu for c in layer.consumers)))


def elements(shape: Shape) -> int:
    return math.prod(shape)


def check(layers: Sequence[Layer], where: str = "layers") -> None:
    """Raise PtqError when the layers do not form a network in order of execution."""
    problems = [] if layers else [Problem("PTQ150", where, "no layer", "at least one layer")]
    names: set[str] = set()
    for index, layer in enumerate(layers):
        if layer.name in names:
            problems.append(Problem("PTQ150", where, f"two layers named {layer.name!r}", "one name for each layer"))
        names.add(layer.name)
        if len(layer.sources) != len(layer.inputs):
            problems.append(Problem("PTQ150", f"{where}: {layer.name}", f"{len(layer.sources)} sources for "
                                    f"{len(layer.inputs)} inputs", "one source for each input"))
        late = [s for s in layer.sources if s >= index]
        if late:
            problems.append(Problem("PTQ150", f"{where}: {layer.name}", f"it reads layer {late[0]}, which comes later",
                                    "layers in order of execution"))
    if not problems and any(a.consumers != b.consumers for a, b in zip(layers, linked(layers), strict=True)):
        problems.append(Problem("PTQ150", where, "consumers do not follow from the sources", "layers from `linked`"))
    if problems:
        raise PtqError(problems, "performance estimate")
