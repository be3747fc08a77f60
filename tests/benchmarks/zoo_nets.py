"""Structures that the zoo adds to `nets`: detectors after YOLOv8n and YOLO11n with their decoding, and a Swin stage.

Weights are random. They are written from the published descriptions of these networks, not from anyone's code.
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper

from . import photos
from .graphs import IR_VERSION, OPSET, GraphBuilder, RandomWeights, settle_batchnorm

CLASSES, BINS = 80, 16
STRIDES = (8, 16, 32)


class _CalmWeights(RandomWeights):
    """Random weights whose normalizations lie around 1, where SiLU is nearly straight.

    Around 0 a random net of this depth multiplies any disturbance from layer to layer, as no trained one does.
    """

    def __call__(self, name: str, shape: tuple[int, ...]) -> np.ndarray:
        value = super().__call__(name, shape)
        return value + np.float32(1) if name.endswith("bn.bias") else value


class _Detector(GraphBuilder):
    """Blocks of the YOLO family; every method takes and returns tensor names."""

    def cbs(self, x: str, path: str, c1: int, c2: int, kernel: int = 1, stride: int = 1, groups: int = 1) -> str:
        """Conv, BatchNormalization, SiLU written as Sigmoid and Mul."""
        x = self.batch_norm(self.conv(x, f"{path}.conv", c1, c2, kernel, stride, groups), f"{path}.bn", c2)
        return self.node("Mul", f"{path}.act", [x, self.node("Sigmoid", f"{path}.act", [x])])

    def halves(self, x: str, path: str, *sizes: int) -> list[str]:
        parts = [f"/{path.replace('.', '/')}/Split_output_{i}" for i in range(len(sizes))]
        self.node("Split", path, [x, self.constant(f"{path}.sizes", np.array(sizes, np.int64))], parts, axis=1)
        return parts

    def reshape(self, x: str, path: str, *shape: int) -> str:
        return self.node("Reshape", path, [x, self.constant(f"{path}.shape", np.array(shape, np.int64))])

    def bottleneck(self, x: str, path: str, c: int, add: bool, hidden: float = 1.0) -> str:
        y = self.cbs(x, f"{path}.cv1", c, int(c * hidden), 3)
        y = self.cbs(y, f"{path}.cv2", int(c * hidden), c, 3)
        return self.node("Add", path, [x, y]) if add else y

    def c2f(self, x: str, path: str, c1: int, c2: int, repeats: int, add: bool) -> str:
        half = c2 // 2
        parts = self.halves(self.cbs(x, f"{path}.cv1", c1, c2), path, half, half)
        for index in range(repeats):
            parts.append(self.bottleneck(parts[-1], f"{path}.m.{index}", half, add))
        joined = self.node("Concat", path, parts, axis=1)
        return self.cbs(joined, f"{path}.cv2", (2 + repeats) * half, c2)

    def c3k2(self, x: str, path: str, c1: int, c2: int, deep: bool, expand: float = 0.5) -> str:
        half = int(c2 * expand)
        parts = self.halves(self.cbs(x, f"{path}.cv1", c1, 2 * half), path, half, half)
        inner = f"{path}.m.0"
        if deep:
            y = self.cbs(parts[-1], f"{inner}.cv1", half, half // 2)
            for index in range(2):
                y = self.bottleneck(y, f"{inner}.m.{index}", half // 2, add=True)
            z = self.cbs(parts[-1], f"{inner}.cv2", half, half // 2)
            y = self.cbs(self.node("Concat", inner, [y, z], axis=1), f"{inner}.cv3", half, half)
        else:
            y = self.bottleneck(parts[-1], inner, half, add=True, hidden=0.5)
        joined = self.node("Concat", path, [*parts, y], axis=1)
        return self.cbs(joined, f"{path}.cv2", 3 * half, c2)

    def sppf(self, x: str, path: str, c: int) -> str:
        parts = [self.cbs(x, f"{path}.cv1", c, c // 2)]
        for index in range(3):
            pooled = self.node(
                "MaxPool", f"{path}.m.{index}", [parts[-1]], kernel_shape=[5, 5], pads=[2] * 4, strides=[1, 1]
            )
            parts.append(pooled)
        return self.cbs(self.node("Concat", path, parts, axis=1), f"{path}.cv2", 2 * c, c)

    def attention(self, x: str, path: str, c: int, side: int, heads: int = 2) -> str:
        """Convolutional attention with half as many channels in keys, and a depthwise position encoding."""
        depth, count = c // heads, side * side
        key = depth // 2
        y = self.conv(x, f"{path}.qkv.conv", c, c + 2 * heads * key, 1)
        y = self.batch_norm(y, f"{path}.qkv.bn", c + 2 * heads * key)
        y = self.reshape(y, f"{path}.heads", 0, heads, 2 * key + depth, count)
        parts = [f"/{path}/{n}" for n in ("q", "k", "v")]
        sizes = self.constant(f"{path}.sizes", np.array([key, key, depth], np.int64))
        self.node("Split", path, [y, sizes], parts, axis=2)
        q, k, v = parts
        y = self.node("MatMul", f"{path}.scores", [self.node("Transpose", f"{path}.q", [q], perm=[0, 1, 3, 2]), k])
        y = self.node("Mul", f"{path}.scale", [y, self.constant(f"{path}.scale", np.float32(key**-0.5).reshape(()))])
        y = self.node("Transpose", f"{path}.mixer", [self.node("Softmax", path, [y], axis=-1)], perm=[0, 1, 3, 2])
        y = self.reshape(self.node("MatMul", f"{path}.mix", [v, y]), f"{path}.merge", 0, c, side, side)
        flat = self.reshape(v, f"{path}.values", 0, c, side, side)
        where = self.batch_norm(self.conv(flat, f"{path}.pe.conv", c, c, 3, groups=c), f"{path}.pe.bn", c)
        y = self.node("Add", f"{path}.pe", [y, where])
        return self.batch_norm(self.conv(y, f"{path}.proj.conv", c, c, 1), f"{path}.proj.bn", c)

    def c2psa(self, x: str, path: str, c: int, side: int) -> str:
        half = c // 2
        a, b = self.halves(self.cbs(x, f"{path}.cv1", c, c), path, half, half)
        b = self.node("Add", f"{path}.attn", [b, self.attention(b, f"{path}.attn", half, side)])
        y = self.cbs(b, f"{path}.ffn.0", half, 2 * half)
        y = self.batch_norm(self.conv(y, f"{path}.ffn.1.conv", 2 * half, half, 1), f"{path}.ffn.1.bn", half)
        b = self.node("Add", f"{path}.ffn", [b, y])
        return self.cbs(self.node("Concat", path, [a, b], axis=1), f"{path}.cv2", c, c)

    def upsample(self, x: str, path: str) -> str:
        scales = self.constant("upsample.scales", np.array([1, 1, 2, 2], np.float32))
        return self.node("Resize", path, [x, "", scales], mode="nearest", nearest_mode="floor",
                         coordinate_transformation_mode="asymmetric")  # fmt: skip

    def head(self, levels: list[tuple[str, int]], path: str, size: int, depthwise: bool) -> str:
        """Boxes and classes of all levels, decoded: [N, 4 + CLASSES, anchors], boxes as centre and size in pixels."""
        flat = []
        for index, (x, c) in enumerate(levels):
            box = self.cbs(self.cbs(x, f"{path}.cv2.{index}.0", c, 64, 3), f"{path}.cv2.{index}.1", 64, 64, 3)
            box = self.conv(box, f"{path}.cv2.{index}.2", 64, 4 * BINS, 1, bias=True)
            kind = x
            for step, width in enumerate((c, CLASSES)):
                name = f"{path}.cv3.{index}.{step}"
                if depthwise:
                    kind = self.cbs(self.cbs(kind, f"{name}.0", width, width, 3, groups=width), f"{name}.1", width, 80)
                else:
                    kind = self.cbs(kind, name, width, CLASSES, 3)
            kind = self.conv(kind, f"{path}.cv3.{index}.2", CLASSES, CLASSES, 1, bias=True)
            joined = self.node("Concat", f"{path}.level.{index}", [box, kind], axis=1)
            flat.append(self.reshape(joined, f"{path}.level.{index}", 0, 4 * BINS + CLASSES, -1))
        x = self.node("Concat", f"{path}.all", flat, axis=2)
        box, kind = self.halves(x, path, 4 * BINS, CLASSES)
        box = self.reshape(box, f"{path}.dfl", 0, 4, BINS, -1)
        box = self.node("Softmax", f"{path}.dfl", [self.node("Transpose", f"{path}.dfl", [box], perm=[0, 2, 1, 3])],
                        axis=1)  # fmt: skip
        weights = self.constant(f"{path}.dfl.weight", np.arange(BINS, dtype=np.float32).reshape(1, BINS, 1, 1))
        box = self.reshape(self.node("Conv", f"{path}.dfl", [box, weights]), f"{path}.dfl.flat", 0, 4, -1)
        low, high = self.halves(box, f"{path}.sides", 2, 2)
        centres, strides = anchors(size)
        at = self.constant(f"{path}.anchors", centres)
        low, high = self.node("Sub", f"{path}.low", [at, low]), self.node("Add", f"{path}.high", [at, high])
        half = self.constant(f"{path}.half", np.array(2, np.float32))
        middle = self.node("Div", f"{path}.middle", [self.node("Add", f"{path}.middle", [low, high]), half])
        box = self.node("Concat", f"{path}.box", [middle, self.node("Sub", f"{path}.size", [high, low])], axis=1)
        box = self.node("Mul", f"{path}.pixels", [box, self.constant(f"{path}.strides", strides)])
        return self.node(
            "Concat", f"{path}.out", [box, self.node("Sigmoid", f"{path}.scores", [kind])], ["logits"], axis=1
        )

    def finished(self, name: str, size: int) -> onnx.ModelProto:
        """The checked network with the statistics of photos, so that scores and boxes stay in a sane range."""
        graph = helper.make_graph(
            self._nodes, name, [helper.make_tensor_value_info("input", TensorProto.FLOAT, [1, 3, size, size])],
            [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, 4 + CLASSES, anchors(size)[0].shape[2]])],
            list(self._initializers.values()),
        )  # fmt: skip
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
        crops = photos.photo_crops("calibration", 8)
        settled = settle_batchnorm(made, 0, np.concatenate([c.image for c in crops]), jitter=0.0)
        onnx.checker.check_model(settled, full_check=True)
        return settled


def anchors(size: int) -> tuple[np.ndarray, np.ndarray]:
    """(centres [1, 2, anchors] in cells, strides [1, anchors]) of all levels of a square image."""
    centres, strides = [], []
    for stride in STRIDES:
        cells = np.arange(size // stride) + 0.5
        x, y = np.meshgrid(cells, cells)
        centres.append(np.stack([x.ravel(), y.ravel()]))
        strides.append(np.full(x.size, stride))
    return np.concatenate(centres, 1)[None].astype(np.float32), np.concatenate(strides)[None].astype(np.float32)


def yolov8n_structure(size: int = photos.SIZE, seed: int = 0) -> onnx.ModelProto:
    """A detector of the YOLOv8n structure: C2f, SPPF, nearest Resize, Concat, DFL head with Softmax, decoding."""
    net = _Detector(_CalmWeights(seed))
    x = net.cbs("input", "model.0", 3, 16, 3, 2)
    x = net.c2f(net.cbs(x, "model.1", 16, 32, 3, 2), "model.2", 32, 32, 1, add=True)
    p3 = net.c2f(net.cbs(x, "model.3", 32, 64, 3, 2), "model.4", 64, 64, 2, add=True)
    p4 = net.c2f(net.cbs(p3, "model.5", 64, 128, 3, 2), "model.6", 128, 128, 2, add=True)
    x = net.c2f(net.cbs(p4, "model.7", 128, 256, 3, 2), "model.8", 256, 256, 1, add=True)
    p5 = net.sppf(x, "model.9", 256)
    x = net.node("Concat", "model.11", [net.upsample(p5, "model.10"), p4], axis=1)
    n4 = net.c2f(x, "model.12", 384, 128, 1, add=False)
    x = net.node("Concat", "model.14", [net.upsample(n4, "model.13"), p3], axis=1)
    n3 = net.c2f(x, "model.15", 192, 64, 1, add=False)
    x = net.node("Concat", "model.17", [net.cbs(n3, "model.16", 64, 64, 3, 2), n4], axis=1)
    m4 = net.c2f(x, "model.18", 192, 128, 1, add=False)
    x = net.node("Concat", "model.20", [net.cbs(m4, "model.19", 128, 128, 3, 2), p5], axis=1)
    m5 = net.c2f(x, "model.21", 384, 256, 1, add=False)
    net.head([(n3, 64), (m4, 128), (m5, 256)], "model.22", size, depthwise=False)
    return net.finished("yolov8n_structure", size)


def yolo11n_structure(size: int = photos.SIZE, seed: int = 0) -> onnx.ModelProto:
    """A detector of the YOLO11n structure: C3k2, SPPF, C2PSA with attention, depthwise class head, decoding."""
    net = _Detector(_CalmWeights(seed))
    x = net.cbs("input", "model.0", 3, 16, 3, 2)
    x = net.c3k2(net.cbs(x, "model.1", 16, 32, 3, 2), "model.2", 32, 64, False, 0.25)
    p3 = net.c3k2(net.cbs(x, "model.3", 64, 64, 3, 2), "model.4", 64, 128, False, 0.25)
    p4 = net.c3k2(net.cbs(p3, "model.5", 128, 128, 3, 2), "model.6", 128, 128, True)
    x = net.c3k2(net.cbs(p4, "model.7", 128, 256, 3, 2), "model.8", 256, 256, True)
    p5 = net.c2psa(net.sppf(x, "model.9", 256), "model.10", 256, size // 32)
    x = net.node("Concat", "model.12", [net.upsample(p5, "model.11"), p4], axis=1)
    n4 = net.c3k2(x, "model.13", 384, 128, False)
    x = net.node("Concat", "model.15", [net.upsample(n4, "model.14"), p3], axis=1)
    n3 = net.c3k2(x, "model.16", 256, 64, False)
    x = net.node("Concat", "model.18", [net.cbs(n3, "model.17", 64, 64, 3, 2), n4], axis=1)
    m4 = net.c3k2(x, "model.19", 192, 128, False)
    x = net.node("Concat", "model.21", [net.cbs(m4, "model.20", 128, 128, 3, 2), p5], axis=1)
    m5 = net.c3k2(x, "model.22", 384, 256, True)
    net.head([(n3, 64), (m4, 128), (m5, 256)], "model.23", size, depthwise=True)
    return net.finished("yolo11n_structure", size)


class _Swin(GraphBuilder):
    def reshape(self, x: str, path: str, *shape: int) -> str:
        return self.node("Reshape", path, [x, self.constant(f"{path}.shape", np.array(shape, np.int64))])

    def written_norm(self, x: str, path: str, width: int) -> str:
        """LayerNormalization in the primitive nodes that exporters below opset 17 write."""
        mean = self.node("ReduceMean", f"{path}.mean", [x], axes=[-1])
        centred = self.node("Sub", path, [x, mean])
        two = self.constant("norm.two", np.array(2, np.float32))
        square = self.node("Pow", path, [centred, two])
        spread = self.node("ReduceMean", f"{path}.variance", [square], axes=[-1])
        spread = self.node("Add", f"{path}.epsilon", [spread, self.constant("norm.epsilon", np.float32(1e-5))])
        y = self.node("Div", path, [centred, self.node("Sqrt", path, [spread])])
        y = self.node("Mul", path, [y, self.parameter(f"{path}.weight", width)])
        return self.node("Add", path, [y, self.parameter(f"{path}.bias", width)])

    def roll(self, x: str, path: str, shift: int, side: int) -> str:
        """Both spatial axes of [1, side, side, C], shifted around the edge by Slice and Concat."""
        for axis in (1, 2):
            name = f"{path}.{axis}"

            def piece(start: int, end: int, part: str, name: str = name, axis: int = axis, x: str = x) -> str:
                bounds = [self.constant(f"{name}.{part}.{i}", np.array([v], np.int64))
                          for i, v in enumerate((start, end, axis))]  # fmt: skip
                return self.node("Slice", f"{name}.{part}", [x, *bounds])

            cut = shift % side
            x = self.node("Concat", name, [piece(cut, side, "rest"), piece(0, cut, "first")], axis=axis)
        return x

    def block(self, x: str, path: str, width: int, heads: int, side: int, shift: int, window: int = 7) -> str:
        """Windowed attention with relative positions; `shift` > 0 adds the roll and its mask of -100."""
        n, count, depth = side // window, window * window, width // heads
        y = self.written_norm(x, f"{path}.norm1", width)
        y = self.roll(y, f"{path}.roll", shift, side) if shift else y
        y = self.reshape(y, f"{path}.windows", 1, n, window, n, window, width)
        y = self.node("Transpose", f"{path}.windows", [y], perm=[0, 1, 3, 2, 4, 5])
        y = self.reshape(y, f"{path}.tokens", n * n, count, width)
        y = self.matmul_add(y, f"{path}.qkv", width, 3 * width)
        y = self.reshape(y, f"{path}.heads", n * n, count, 3, heads, depth)
        y = self.node("Transpose", f"{path}.heads", [y], perm=[2, 0, 3, 1, 4])
        q, k, v = (
            self.node("Gather", f"{path}.{part}", [y, self.constant(f"part.{i}", np.array(i, np.int64))], axis=0)
            for i, part in enumerate("qkv")
        )
        q = self.node("Mul", f"{path}.scale", [q, self.constant("swin.scale", np.float32(depth**-0.5).reshape(()))])
        k = self.node("Transpose", f"{path}.k", [k], perm=[0, 1, 3, 2])
        y = self.node("MatMul", f"{path}.scores", [q, k])
        y = self.node("Add", f"{path}.position", [y, self.parameter(f"{path}.position", 1, heads, count, count)])
        if shift:
            mask = self.constant(f"{path}.mask", _shift_mask(side, window, shift)[None, :, None])
            y = self.reshape(y, f"{path}.groups", 1, n * n, heads, count, count)
            y = self.reshape(self.node("Add", f"{path}.masked", [y, mask]), f"{path}.flat", n * n, heads, count, count)
        y = self.node("MatMul", f"{path}.mix", [self.node("Softmax", path, [y], axis=-1), v])
        y = self.reshape(self.node("Transpose", f"{path}.merge", [y], perm=[0, 2, 1, 3]), f"{path}.merge",
                         n * n, count, width)  # fmt: skip
        y = self.matmul_add(y, f"{path}.proj", width, width)
        y = self.reshape(y, f"{path}.back", 1, n, n, window, window, width)
        y = self.reshape(self.node("Transpose", f"{path}.back", [y], perm=[0, 1, 3, 2, 4, 5]), f"{path}.image",
                         1, side, side, width)  # fmt: skip
        y = self.roll(y, f"{path}.unroll", -shift, side) if shift else y
        x = self.node("Add", f"{path}.residual1", [x, y])
        y = self.written_norm(x, f"{path}.norm2", width)
        y = self.gelu(self.matmul_add(y, f"{path}.fc1", width, 4 * width), f"{path}.act")
        return self.node("Add", f"{path}.residual2", [x, self.matmul_add(y, f"{path}.fc2", 4 * width, width)])


def _shift_mask(side: int, window: int, shift: int) -> np.ndarray:
    """-100 between tokens of a window that were no neighbours before the roll: [windows, tokens, tokens]."""
    bands = np.zeros(side, np.int64)
    bands[side - window : side - shift], bands[side - shift :] = 1, 2
    kind = bands[:, None] * 3 + bands[None]
    n = side // window
    kind = kind.reshape(n, window, n, window).transpose(0, 2, 1, 3).reshape(n * n, window * window)
    return np.where(kind[:, :, None] == kind[:, None], 0, -100).astype(np.float32)


def swin_structure(seed: int = 0, width: int = 96, heads: int = 3) -> onnx.ModelProto:
    """One stage of a Swin transformer on 28 x 28 tokens: a plain and a shifted block, norms in primitive nodes.

    Its input is the usual [1, 3, 224, 224], averaged to a quarter first so that a run stays short.
    """
    net, side = _Swin(RandomWeights(seed)), 28
    x = net.node("AveragePool", "shrink", ["input"], kernel_shape=[2, 2], strides=[2, 2])
    x = net.conv(x, "patch.proj", 3, width, 4, 4, pads=(0, 0), bias=True)
    x = net.node("Transpose", "patch", [x], perm=[0, 2, 3, 1])
    x = net.written_norm(x, "patch.norm", width)
    x = net.block(x, "blocks.0", width, heads, side, 0)
    x = net.block(x, "blocks.1", width, heads, side, 3)
    x = net.written_norm(x, "norm", width)
    x = net.node("ReduceMean", "pool", [x], axes=[1, 2], keepdims=0)
    net.classifier(x, "head", width, 100)
    return net.model("swin_structure", classes=100)
