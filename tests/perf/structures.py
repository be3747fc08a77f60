"""Known networks as ONNX graphs with zero weights: only their shapes matter here."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from ptqlab.graph import load
from ptqlab.passes import optimize
from ptqlab.perf import Layer, from_plan
from ptqlab.placement import Asks, place
from ptqlab.platforms import platform

OPSET, IR_VERSION = 17, 8


def layers_of(model: onnx.ModelProto, asks: Asks | None = None) -> tuple[Layer, ...]:
    """Layers of a model on nash-e, the whole way: file, optimizer, plan."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.onnx"
        onnx.save(model, path)
        graph = optimize(load(path))
        return from_plan(graph, place(graph, platform("nash-e"), asks))


class Builder:
    """Appends nodes; methods take and return tensor names. Channels and sizes are followed along."""

    def __init__(self, size: int) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, onnx.TensorProto] = {}
        self.channels = {"images": 3}
        self.sides = {"images": size}
        self.size = size

    def node(self, op: str, inputs: list[str], channels: int, side: int, outputs: int = 1, **attributes: object) -> str:
        name = f"{op}_{len(self.nodes)}"
        names = [f"{name}.{i}" for i in range(outputs)] if outputs > 1 else [f"{name}.out"]
        self.nodes.append(helper.make_node(op, inputs, names, name=name, **attributes))
        for each in names:
            self.channels[each], self.sides[each] = channels, side
        return names[0]

    def constant(self, name: str, value: np.ndarray) -> str:
        self.constants.setdefault(name, numpy_helper.from_array(value, name))
        return name

    def conv(self, x: str, outputs: int, kernel: int = 1, stride: int = 1, group: int = 1, act: str = "") -> str:
        inputs, side = self.channels[x], self.sides[x]
        shape = (outputs, inputs // group, kernel, kernel)
        weight = self.constant(f"w{len(self.constants)}", np.zeros(shape, np.float32))
        bias = self.constant(f"b{outputs}", np.ones(outputs, np.float32))
        y = self.node(
            "Conv",
            [x, weight, bias],
            outputs,
            -(-side // stride),
            kernel_shape=[kernel, kernel],
            strides=[stride, stride],
            pads=[kernel // 2] * 4,
            group=group,
        )
        return self.act(y, act)

    def act(self, y: str, act: str) -> str:
        channels, side = self.channels[y], self.sides[y]
        if act == "silu":
            return self.node("Mul", [y, self.node("Sigmoid", [y], channels, side)], channels, side)
        if act == "relu6":
            bounds = [self.constant("zero", np.float32(0)), self.constant("six", np.float32(6))]
            return self.node("Clip", [y, *bounds], channels, side)
        return self.node("Relu", [y], channels, side) if act == "relu" else y

    def add(self, a: str, b: str) -> str:
        return self.node("Add", [a, b], self.channels[a], self.sides[a])

    def concat(self, parts: list[str]) -> str:
        return self.node("Concat", parts, sum(self.channels[p] for p in parts), self.sides[parts[0]], axis=1)

    def pool(self, x: str, kernel: int, stride: int) -> str:
        return self.node(
            "MaxPool",
            [x],
            self.channels[x],
            -(-self.sides[x] // stride),
            kernel_shape=[kernel, kernel],
            strides=[stride, stride],
            pads=[kernel // 2] * 4,
        )

    def halves(self, x: str) -> tuple[str, str]:
        half = self.channels[x] // 2
        first = self.node(
            "Split", [x, self.constant(f"halves{half}", np.array([half, half]))], half, self.sides[x], 2, axis=1
        )
        return first, f"{first[:-1]}1"

    def reshape(self, x: str, *shape: int) -> str:
        key = "shape" + "x".join(map(str, shape))
        return self.node("Reshape", [x, self.constant(key, np.array(shape))], 0, 0)

    def up(self, x: str) -> str:
        scales = self.constant("scales", np.array([1, 1, 2, 2], np.float32))
        return self.node(
            "Resize",
            [x, "", scales],
            self.channels[x],
            2 * self.sides[x],
            mode="nearest",
            coordinate_transformation_mode="asymmetric",
            nearest_mode="floor",
        )

    def classifier(self, x: str, classes: int = 1000) -> str:
        channels = self.channels[x]
        x = self.node("Flatten", [self.node("GlobalAveragePool", [x], channels, 1)], channels, 1, axis=1)
        weight = self.constant("fc.weight", np.zeros((classes, channels), np.float32))
        bias = self.constant("fc.bias", np.ones(classes, np.float32))
        return self.node("Gemm", [x, weight, bias], classes, 1, transB=1)

    def model(self, outputs: list[str]) -> onnx.ModelProto:
        image = helper.make_tensor_value_info("images", TensorProto.FLOAT, [1, 3, self.size, self.size])
        out = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
        graph = helper.make_graph(self.nodes, "net", [image], out, list(self.constants.values()))
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)


def resnet152() -> onnx.ModelProto:
    """ResNet-152 as first published (stride in the first 1x1), 224x224, BatchNormalization folded."""
    net = Builder(224)
    x = net.pool(net.conv("images", 64, 7, 2, act="relu"), 3, 2)
    for stage, (width, blocks) in enumerate(((64, 3), (128, 8), (256, 36), (512, 3))):
        for block in range(blocks):
            stride = 2 if stage and not block else 1
            y = net.conv(net.conv(x, width, 1, stride, act="relu"), width, 3, act="relu")
            y = net.conv(y, 4 * width)
            shortcut = x if block else net.conv(x, 4 * width, 1, stride)
            x = net.act(net.add(y, shortcut), "relu")
    return net.model([net.classifier(x)])


def mobilenet_v2() -> onnx.ModelProto:
    """MobileNetV2, 224x224, BatchNormalization folded."""
    net = Builder(224)
    x = net.conv("images", 32, 3, 2, act="relu6")
    stages = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
    for expansion, outputs, repeats, first in stages:
        for repeat in range(repeats):
            stride, hidden = first if repeat == 0 else 1, net.channels[x] * expansion
            y = net.conv(x, hidden, act="relu6") if expansion > 1 else x
            y = net.conv(net.conv(y, hidden, 3, stride, hidden, "relu6"), outputs)
            x = net.add(x, y) if stride == 1 and net.channels[x] == outputs else y
    return net.model([net.classifier(net.conv(x, 1280, act="relu6"))])


class Yolo11(Builder):
    """Blocks of YOLO11, size n: convolutions with SiLU, split and concat around small stacks, one attention block."""

    def silu(self, x: str, outputs: int, kernel: int = 1, stride: int = 1, group: int = 1) -> str:
        return self.conv(x, outputs, kernel, stride, group, "silu")

    def bottleneck(self, x: str, outputs: int, ratio: float) -> str:
        return self.add(x, self.silu(self.silu(x, int(outputs * ratio), 3), outputs, 3))

    def stack(self, x: str, outputs: int, ratio: float, inner_stack: bool) -> str:
        """C3k2 with one repeat: a plain bottleneck or a smaller stack inside."""
        a, b = self.halves(self.silu(x, 2 * int(outputs * ratio)))
        width = self.channels[b]
        c = self.deep(b, width) if inner_stack else self.bottleneck(b, width, 0.5)
        return self.silu(self.concat([a, b, c]), outputs)

    def deep(self, x: str, outputs: int) -> str:
        left = self.silu(x, outputs // 2)
        for _ in range(2):
            left = self.bottleneck(left, outputs // 2, 1.0)
        return self.silu(self.concat([left, self.silu(x, outputs // 2)]), outputs)

    def pyramid(self, x: str, outputs: int) -> str:
        parts = [self.silu(x, self.channels[x] // 2)]
        for _ in range(3):
            parts.append(self.pool(parts[-1], 5, 1))
        return self.silu(self.concat(parts), outputs)

    def attention(self, x: str) -> str:
        """One block of attention with a feed-forward part on half of the channels."""
        outputs, side = self.channels[x], self.sides[x]
        a, b = self.halves(self.silu(x, outputs))
        width = outputs // 2
        heads, cells = width // 64, side * side
        qkv = self.reshape(self.conv(b, 2 * width), 1, heads, 128, cells)
        q = self.node("Split", [qkv, self.constant("qkv", np.array([32, 32, 64]))], 0, 0, 3, axis=2)
        k, v = f"{q[:-1]}1", f"{q[:-1]}2"
        scores = self.node("MatMul", [self.node("Transpose", [q], 0, 0, perm=[0, 1, 3, 2]), k], 0, 0)
        scores = self.node("Mul", [scores, self.constant("scale", np.float32(32**-0.5))], 0, 0)
        weights = self.node("Transpose", [self.node("Softmax", [scores], 0, 0, axis=-1)], 0, 0, perm=[0, 1, 3, 2])
        mixed, values = (self.reshape(t, 1, width, side, side) for t in (self.node("MatMul", [v, weights], 0, 0), v))
        for t in (mixed, values):
            self.channels[t], self.sides[t] = width, side
        b = self.add(b, self.conv(self.add(mixed, self.conv(values, width, 3, 1, width)), width))
        b = self.add(b, self.conv(self.silu(b, 2 * width), width))
        return self.silu(self.concat([a, b]), outputs)

    def head(self, x: str, boxes: int, classes: int, width: int) -> list[str]:
        box = self.conv(self.silu(self.silu(x, boxes, 3), boxes, 3), boxes)
        y = self.silu(self.silu(x, self.channels[x], 3, 1, self.channels[x]), width)
        y = self.conv(self.silu(self.silu(y, width, 3, 1, width), width), classes)
        return [self.node("Transpose", [t], 0, 0, perm=[0, 2, 3, 1]) for t in (box, y)]


def yolo11n() -> onnx.ModelProto:
    """YOLO11n for detection, 640x640, six outputs with the channels last."""
    net = Yolo11(640)
    x = net.stack(net.silu(net.silu("images", 16, 3, 2), 32, 3, 2), 64, 0.25, False)
    p3 = net.stack(net.silu(x, 64, 3, 2), 128, 0.25, False)
    p4 = net.stack(net.silu(p3, 128, 3, 2), 128, 0.5, True)
    x = net.stack(net.silu(p4, 256, 3, 2), 256, 0.5, True)
    p5 = net.attention(net.pyramid(x, 256))
    n4 = net.stack(net.concat([net.up(p5), p4]), 128, 0.5, False)
    n3 = net.stack(net.concat([net.up(n4), p3]), 64, 0.5, False)
    m4 = net.stack(net.concat([net.silu(n3, 64, 3, 2), n4]), 128, 0.5, False)
    m5 = net.stack(net.concat([net.silu(m4, 128, 3, 2), p5]), 256, 0.5, True)
    return net.model([out for level in (m5, m4, n3) for out in net.head(level, 64, 80, 80)])
