"""Mobile networks whose static latency on nash-e is published but was never fitted, as ONNX graphs with zero weights.

The published figures are the compiler's static estimates (README files of rdk_model_zoo_s); the published numbers of
operations tell that the structures are the right ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import onnx
from perf.structures import Builder

# kernel, expansion, outputs, repeats, first stride
LITE0 = (
    (3, 1, 16, 1, 1), (3, 6, 24, 2, 2), (5, 6, 40, 2, 2), (3, 6, 80, 3, 2), (5, 6, 112, 3, 1), (5, 6, 192, 4, 2),
    (3, 6, 320, 1, 1),
)  # fmt: skip
# kernel, hidden channels, outputs, squeeze, activation, stride
V3_LARGE = (
    (3, 16, 16, False, "relu", 1), (3, 64, 24, False, "relu", 2), (3, 72, 24, False, "relu", 1),
    (5, 72, 40, True, "relu", 2), (5, 120, 40, True, "relu", 1), (5, 120, 40, True, "relu", 1),
    (3, 240, 80, False, "HardSwish", 2), (3, 200, 80, False, "HardSwish", 1), (3, 184, 80, False, "HardSwish", 1),
    (3, 184, 80, False, "HardSwish", 1), (3, 480, 112, True, "HardSwish", 1), (3, 672, 112, True, "HardSwish", 1),
    (5, 672, 160, True, "HardSwish", 2), (5, 960, 160, True, "HardSwish", 1), (5, 960, 160, True, "HardSwish", 1),
)  # fmt: skip
# Universal inverted bottlenecks: first depthwise kernel, second one, stride, expansion, outputs
V4_SMALL = (
    (5, 5, 2, 3, 96), (0, 3, 1, 2, 96), (0, 3, 1, 2, 96), (0, 3, 1, 2, 96), (0, 3, 1, 2, 96), (3, 0, 1, 4, 96),
    (3, 3, 2, 6, 128), (5, 5, 1, 4, 128), (0, 5, 1, 4, 128), (0, 5, 1, 3, 128), (0, 3, 1, 4, 128), (0, 3, 1, 4, 128),
)  # fmt: skip
V4_MEDIUM = (
    (3, 5, 2, 4, 80), (3, 3, 1, 2, 80), (3, 5, 2, 6, 160), (3, 3, 1, 4, 160), (3, 3, 1, 4, 160), (3, 5, 1, 4, 160),
    (3, 3, 1, 4, 160), (3, 0, 1, 4, 160), (0, 0, 1, 2, 160), (3, 0, 1, 4, 160), (5, 5, 2, 6, 256), (5, 5, 1, 4, 256),
    (3, 5, 1, 4, 256), (3, 5, 1, 4, 256), (0, 0, 1, 4, 256), (3, 0, 1, 4, 256), (3, 5, 1, 2, 256), (5, 5, 1, 4, 256),
    (0, 0, 1, 4, 256), (0, 0, 1, 4, 256), (5, 0, 1, 2, 256),
)  # fmt: skip


def rounded(channels: float) -> int:
    """The nearest multiple of 8 that is not more than a tenth below."""
    near = max(8, int(channels + 4) // 8 * 8)
    return near if near >= 0.9 * channels else near + 8


class Mobile(Builder):
    """Adds the blocks of mobile networks."""

    def act(self, y: str, act: str) -> str:
        if act in ("HardSwish", "HardSigmoid"):
            more = {"alpha": 1 / 6} if act == "HardSigmoid" else {}
            return self.node(act, [y], self.channels[y], self.sides[y], **more)
        return super().act(y, act)

    def squeeze(self, y: str) -> str:
        channels = self.channels[y]
        scale = self.conv(self.node("GlobalAveragePool", [y], channels, 1), rounded(channels / 4), act="relu")
        scale = self.conv(scale, channels, act="HardSigmoid")
        return self.node("Mul", [y, scale], channels, self.sides[y])

    def joined(self, x: str, y: str, stride: int) -> str:
        return self.add(y, x) if stride == 1 and self.channels[x] == self.channels[y] else y

    def end(self, x: str, act: str) -> onnx.ModelProto:
        """Pooling first, then two layers on single pixels."""
        x = self.conv(self.node("GlobalAveragePool", [x], self.channels[x], 1), 1280, act=act)
        x = self.node("Flatten", [x], 1280, 1, axis=1)
        constants = [self.constant("fc.weight", np.zeros((1000, 1280), np.float32)),
                     self.constant("fc.bias", np.ones(1000, np.float32))]  # fmt: skip
        return self.model([self.node("Gemm", [x, *constants], 1000, 1, transB=1)])


def efficientnet_lite0() -> onnx.ModelProto:
    """EfficientNet-Lite0, 224x224."""
    net = Mobile(224)
    x = net.conv("images", 32, 3, 2, act="relu6")
    for kernel, expansion, outputs, repeats, first in LITE0:
        for repeat in range(repeats):
            stride, hidden = first if repeat == 0 else 1, net.channels[x] * expansion
            y = net.conv(x, hidden, act="relu6") if expansion > 1 else x
            y = net.conv(net.conv(y, hidden, kernel, stride, hidden, "relu6"), outputs)
            x = net.joined(x, y, stride)
    return net.model([net.classifier(net.conv(x, 1280, act="relu6"))])


def mobilenet_v3_large() -> onnx.ModelProto:
    """MobileNetV3-large, 224x224, with squeeze and excitation."""
    net = Mobile(224)
    x = net.conv("images", 16, 3, 2, act="HardSwish")
    for kernel, hidden, outputs, squeeze, act, stride in V3_LARGE:
        y = net.conv(x, hidden, act=act) if hidden != net.channels[x] else x
        y = net.conv(y, hidden, kernel, stride, hidden, act)
        x = net.joined(x, net.conv(net.squeeze(y) if squeeze else y, outputs), stride)
    return net.end(net.conv(x, 960, act="HardSwish"), "HardSwish")


def mobilenet_v4(blocks: tuple[tuple[int, int, int, int, int], ...], small: bool) -> onnx.ModelProto:
    """MobileNetV4 with convolutions only: small at 224x224, medium at 256x256."""
    net = Mobile(224 if small else 256)
    x = net.conv("images", 32, 3, 2, act="relu")
    if small:
        x = net.conv(net.conv(x, 32, 3, 2, act="relu"), 32, act="relu")
        x = net.conv(net.conv(x, 96, 3, 2, act="relu"), 64, act="relu")
    else:
        x = net.conv(net.conv(x, 128, 3, 2, act="relu"), 48)
    for first, second, stride, expansion, outputs in blocks:
        inputs, y = net.channels[x], x
        if first:
            y = net.conv(y, inputs, first, 1 if second else stride, inputs)
        hidden = rounded(inputs * expansion)
        y = net.conv(y, hidden, act="relu")
        if second:
            y = net.conv(y, hidden, second, stride, hidden, "relu")
        x = net.joined(x, net.conv(y, outputs), stride)
    return net.end(net.conv(x, 960, act="relu"), "relu")


@dataclass(frozen=True)
class Check:
    """A published static figure of nash-e: microseconds and operations."""

    name: str
    us: float
    operations: int
    build: Callable[[], onnx.ModelProto]


CHECKS = (
    Check("EfficientNet-Lite0", 234.8, 770_375_104, efficientnet_lite0),
    Check("MobileNetV3-large", 382.1, 433_179_520, mobilenet_v3_large),
    Check("MobileNetV4-small", 175.5, 372_011_136, lambda: mobilenet_v4(V4_SMALL, True)),
    Check("MobileNetV4-medium", 405.2, 2_160_488_448, lambda: mobilenet_v4(V4_MEDIUM, False)),
)
