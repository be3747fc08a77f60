"""Two small networks of the zoo: the pitch tracker CREPE with its trained weights, and the structure of BlazeFace.

Both are written from the papers that describe them (Kim et al. 2018; Bazarevsky et al. 2019).
"""
from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

from .graphs import IR_VERSION, OPSET, CheckpointWeights, GraphBuilder, RandomWeights
from .torch_file import read_tensors

Ports = list[onnx.ValueInfoProto]


def _ports(**shapes: list[int]) -> Ports:
    return [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]


class _Builder(GraphBuilder):
    def finished(self, name: str, inputs: Ports, outputs: Ports) -> onnx.ModelProto:
        graph = helper.make_graph(self._nodes, name, inputs, outputs, list(self._initializers.values()))
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
        onnx.checker.check_model(made, full_check=True)
        return made

    def reshape(self, x: str, path: str, *shape: int) -> str:
        return self.node("Reshape", path, [x, self.constant(f"{path}.shape", np.array(shape, np.int64))])

    def pad(self, x: str, path: str, *pads: int) -> str:
        return self.node("Pad", path, [x, self.constant(f"{path}.pads", np.array(pads, np.int64))])


def crepe_tiny(checkpoint: Path) -> onnx.ModelProto:
    """CREPE tiny: `frames` [1, 1024] of sound at 16 kHz, mean 0 and deviation 1, to `pitch` [1, 360] in 20 cent steps.

    Its BatchNormalizations stand behind the Relus, so that no convolution can take them in.
    """
    weights = CheckpointWeights(read_tensors(checkpoint))
    net, channels = _Builder(weights), 1
    x = net.reshape("frames", "input", 1, 1, 1024, 1)
    for layer, width in enumerate((128, 16, 16, 16, 32, 64), start=1):
        kernel, stride, pads = (512, 4, (254, 254)) if layer == 1 else (64, 1, (31, 32))
        path = f"conv{layer}"
        x = net.pad(x, f"{path}.pad", 0, 0, pads[0], 0, 0, 0, pads[1], 0)
        names = [net.parameter(f"{path}.weight", width, channels, kernel, 1), net.parameter(f"{path}.bias", width)]
        x = net.node("Conv", path, [x, *names], kernel_shape=[kernel, 1], strides=[stride, 1])
        x = net.batch_norm(net.node("Relu", path, [x]), f"{path}_BN", width, epsilon=1e-3)
        x = net.node("MaxPool", path, [x], kernel_shape=[2, 1], strides=[2, 1])
        channels = width
    x = net.reshape(net.node("Transpose", "flat", [x], perm=[0, 2, 1, 3]), "flat", 1, 256)
    names = [net.parameter("classifier.weight", 360, 256), net.parameter("classifier.bias", 360)]
    x = net.node("Gemm", "classifier", [x, *names], transB=1)
    net.node("Sigmoid", "pitch", [x], ["pitch"])
    weights.check_all_used()
    return net.finished("crepe_tiny", _ports(frames=[1, 1024]), _ports(pitch=[1, 360]))


class _ShortSteps(RandomWeights):
    """Random weights whose branches beside a shortcut are small, so that depth does not make the numbers grow."""

    def __call__(self, name: str, shape: tuple[int, ...]) -> np.ndarray:
        return super().__call__(name, shape) * np.float32(0.3 if "pointwise.weight" in name else 1)


class _BlazeFace(_Builder):
    def block(self, x: str, path: str, c1: int, c2: int, stride: int = 1) -> str:
        """Depthwise 5 x 5 and 1 x 1, a shortcut that is pooled and padded with empty channels, Relu."""
        pads = (2, 2) if stride == 1 else (1, 2)
        y = self.conv(x, f"{path}.depthwise", c1, c1, 5, stride, c1, pads, bias=True)
        y = self.conv(y, f"{path}.pointwise", c1, c2, 1, bias=True)
        if stride == 2:
            x = self.node("MaxPool", f"{path}.pool", [x], kernel_shape=[2, 2], strides=[2, 2])
        if c2 > c1:
            x = self.pad(x, f"{path}.channels", 0, 0, 0, 0, 0, c2 - c1, 0, 0)
        return self.node("Relu", path, [self.node("Add", path, [x, y])])


def blazeface_structure(seed: int = 0) -> onnx.ModelProto:
    """BlazeFace with random weights: `input` [1, 3, 128, 128] to `scores` [1, 896, 1] and `boxes` [1, 896, 16]."""
    net = _BlazeFace(_ShortSteps(seed))
    x = net.conv("input", "stem", 3, 24, 5, 2, pads=(1, 2), bias=True)
    x, width = net.node("Relu", "stem", [x]), 24
    stages = ((24, 1), (24, 1), (48, 2), (48, 1), (48, 1), (96, 2), (96, 1), (96, 1), (96, 2), (96, 1), (96, 1))
    levels: list[tuple[str, int]] = []
    for index, (wider, stride) in enumerate(stages):
        if index == 8:
            levels.append((x, 2))
        x, width = net.block(x, f"blocks.{index}", width, wider, stride), wider
    levels.append((x, 6))
    for head, size in (("scores", 1), ("boxes", 16)):
        parts = []
        for index, (level, anchors) in enumerate(levels):
            path = f"{head}.{index}"
            y = net.conv(level, path, 96, anchors * size, 1, bias=True)
            parts.append(net.reshape(net.node("Transpose", path, [y], perm=[0, 2, 3, 1]), path, 1, -1, size))
        net.node("Concat", head, parts, [head], axis=1)
    return net.finished("blazeface_structure", _ports(input=[1, 3, 128, 128]),
                        _ports(scores=[1, 896, 1], boxes=[1, 896, 16]))  # fmt: skip
