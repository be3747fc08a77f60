"""The small ONNX writer that the benchmark networks are built with.

`GraphBuilder` appends nodes and asks a weight source for each parameter by its torch state-dict name and
shape. So one description of a network serves random weights and a trained checkpoint alike.
Node names follow the module tree, as in `/features/3/conv/1/1/BatchNormalization`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

OPSET = 17
IR_VERSION = 8

_GEMM_WEIGHTS = ("fc.weight", "classifier.1.weight", "head.weight")

WeightSource = Callable[[str, tuple[int, ...]], np.ndarray]
"""Gives the float32 array of a parameter, from its state-dict name and its shape."""


class RandomWeights:
    """Seeded random parameters: He for kernels of rank 4, 1/sqrt(fan in) for matrices, sane affine terms.

    BatchNorm statistics start at mean 0 and variance 1; `settle_batchnorm` puts true ones in their place.
    """

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)

    def __call__(self, name: str, shape: tuple[int, ...]) -> np.ndarray:
        if name.endswith("running_mean"):
            return np.zeros(shape, np.float32)
        if name.endswith("running_var"):
            return np.ones(shape, np.float32)
        centre, spread = 0.0, 0.1
        if len(shape) == 4:
            spread = np.sqrt(2 / np.prod(shape[1:]))
        elif len(shape) == 2:
            # Gemm weights lie [out, in], MatMul weights [in, out].
            spread = 1 / np.sqrt(shape[1] if name.endswith(_GEMM_WEIGHTS) else shape[0])
        elif name.endswith("weight"):
            centre = 1.0  # gamma of a normalisation
        return self._random.normal(centre, spread, shape).astype(np.float32)


class CheckpointWeights:
    """Parameters of a trained network, taken from its state dict of float32 arrays."""

    def __init__(self, state: Mapping[str, np.ndarray]) -> None:
        self._state = {name: value for name, value in state.items() if "num_batches_tracked" not in name}
        self._unused = set(self._state)

    def __call__(self, name: str, shape: tuple[int, ...]) -> np.ndarray:
        value = self._state[name]
        if value.shape != shape:
            raise ValueError(f"{name} is {value.shape} in the checkpoint, {shape} in the network")
        self._unused.discard(name)
        return np.ascontiguousarray(value, np.float32)

    def check_all_used(self) -> None:
        """Raise `ValueError` where the network left a parameter of the checkpoint out."""
        if self._unused:
            raise ValueError(f"the network does not use {sorted(self._unused)}")


class GraphBuilder:
    """Collects the nodes and initializers of one network; its methods take and return tensor names."""

    def __init__(self, weights: WeightSource) -> None:
        self._weights = weights
        self._nodes: list[onnx.NodeProto] = []
        self._initializers: dict[str, onnx.TensorProto] = {}

    def constant(self, name: str, value: np.ndarray) -> str:
        """Store an initializer under `name`, unless one has it already, and return the name."""
        if name not in self._initializers:
            self._initializers[name] = numpy_helper.from_array(value, name)
        return name

    def parameter(self, name: str, *shape: int) -> str:
        """Store the weight source's float32 array of this state-dict name and shape."""
        return self.constant(name, self._weights(name, shape))

    def node(
        self, kind: str, path: str, inputs: list[str], outputs: list[str] | None = None, **attributes: object
    ) -> str:
        """Append the node `/<path>/<kind>`, with dots of `path` as slashes; return its first output."""
        name = f"/{path.replace('.', '/')}/{kind}"
        outputs = outputs or [f"{name}_output_0"]
        self._nodes.append(helper.make_node(kind, inputs, outputs, name=name, **attributes))
        return outputs[0]

    def conv(
        self, x: str, path: str, inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1,
        pads: tuple[int, int] | None = None, bias: bool = False,
    ) -> str:  # fmt: skip
        """Append a square 2-D convolution; `pads` is (before, after) on both axes, centred by default."""
        before, after = pads if pads is not None else (kernel // 2, kernel // 2)
        names = [self.parameter(f"{path}.weight", outputs, inputs // groups, kernel, kernel)]
        if bias:
            names.append(self.parameter(f"{path}.bias", outputs))
        return self.node(
            "Conv", path, [x, *names], kernel_shape=[kernel, kernel], strides=[stride, stride],
            pads=[before, before, after, after], dilations=[1, 1], group=groups,
        )  # fmt: skip

    def batch_norm(self, x: str, path: str, channels: int, epsilon: float = 1e-5) -> str:
        """Append a BatchNormalization in inference form."""
        parts = ("weight", "bias", "running_mean", "running_var")
        names = [self.parameter(f"{path}.{part}", channels) for part in parts]
        return self.node("BatchNormalization", path, [x, *names], epsilon=epsilon)

    def relu6(self, x: str, path: str) -> str:
        """Append a Clip to 0..6; all of a network's share their two bounds."""
        low = self.constant("relu6.min", np.array(0, np.float32))
        high = self.constant("relu6.max", np.array(6, np.float32))
        return self.node("Clip", path, [x, low, high])

    def layer_norm(self, x: str, path: str, width: int) -> str:
        """Append a LayerNormalization over the last axis, which is `width` long."""
        names = [self.parameter(f"{path}.{part}", width) for part in ("weight", "bias")]
        return self.node("LayerNormalization", path, [x, *names], axis=-1, epsilon=1e-6)

    def matmul_add(self, x: str, path: str, inputs: int, outputs: int) -> str:
        """Append MatMul by a weight [inputs, outputs] and Add of a bias, as exporters write a Linear."""
        x = self.node("MatMul", path, [x, self.parameter(f"{path}.weight", inputs, outputs)])
        return self.node("Add", path, [self.parameter(f"{path}.bias", outputs), x])

    def gelu(self, x: str, path: str) -> str:
        """Append the exact Gelu, x * (1 + erf(x / sqrt(2))) * 0.5, in the five nodes that exporters write."""
        root, one, half = (
            self.constant(f"gelu.{name}", np.array(value, np.float32))
            for name, value in (("sqrt2", np.sqrt(2)), ("one", 1), ("half", 0.5))
        )
        inner = self.node("Erf", path, [self.node("Div", path, [x, root])])
        outer = self.node("Mul", path, [x, self.node("Add", path, [inner, one])])
        return self.node("Mul", f"{path}.half", [outer, half])

    def pooled_classifier(self, x: str, path: str, inputs: int, classes: int = 1000) -> str:
        """Append global average pool, Flatten and Gemm: [N, inputs, H, W] to `logits` [N, classes]."""
        x = self.node("Flatten", "flatten", [self.node("GlobalAveragePool", "avgpool", [x])], axis=1)
        return self.classifier(x, path, inputs, classes)

    def classifier(self, x: str, path: str, inputs: int, classes: int = 1000) -> str:
        """Append the Gemm that gives the network's output `logits`."""
        names = [self.parameter(f"{path}.weight", classes, inputs), self.parameter(f"{path}.bias", classes)]
        return self.node("Gemm", path, [x, *names], ["logits"], transB=1)

    def model(self, name: str, size: int = 224, classes: int = 1000) -> onnx.ModelProto:
        """Return the checked network, `input` float32 [1, 3, size, size] to `logits` [1, classes]."""
        graph = helper.make_graph(
            self._nodes,
            name,
            [helper.make_tensor_value_info("input", TensorProto.FLOAT, [1, 3, size, size])],
            [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, classes])],
            list(self._initializers.values()),
        )
        opset = [helper.make_opsetid("", OPSET)]
        model = helper.make_model(graph, opset_imports=opset, ir_version=IR_VERSION)
        onnx.checker.check_model(model, full_check=True)
        return model


def blob_images(count: int, size: int = 224, seed: int = 0) -> np.ndarray:
    """Return random images of unit variance with coarse and fine structure: float32 [count, 3, size, size].

    White noise would average out in the first layers and leave nearly constant activations behind.
    """
    random = np.random.default_rng(seed)
    image = np.zeros((count, 3, size, size))
    for cells in (4, 14, 56, size):
        grid = random.normal(0, 0.5, (count, 3, cells, cells))
        image += np.kron(grid, np.ones((size // cells, size // cells)))
    return image.astype(np.float32)


def settle_batchnorm(
    model: onnx.ModelProto, seed: int, images: np.ndarray | None = None, jitter: float = 0.1
) -> onnx.ModelProto:
    """Give each BatchNormalization of a random network the statistics that it would have learned.

    One run over random images (or the given ones) normalises every layer by its own batch and reads its mean and
    variance, so later layers see what they will see in use. The jitter stands for the gap between running and
    batch statistics; very deep nets add it up. Without this, activations of a random deep net vanish or explode.

    Args:
        model: a network as `GraphBuilder.model` gives it; changed in place.
        seed: seeds images and jitter.
        images: float32 [N, 3, H, W]; four random ones where not given.
        jitter: the gap, as a part of the deviation.

    Returns:
        `model`.
    """
    images = blob_images(4, seed=seed) if images is None else images
    probe = onnx.ModelProto()
    probe.CopyFrom(model)
    for value in (probe.graph.input[0], probe.graph.output[0]):
        value.type.tensor_type.shape.dim[0].dim_value = len(images)
    del probe.graph.node[:]
    names: list[str] = []  # of running mean and variance, as the probe's outputs give them
    for node in model.graph.node:
        if node.op_type != "BatchNormalization":
            probe.graph.node.append(node)
            continue
        x, gamma, beta, mean, variance = node.input
        new_mean, new_variance, centred, squared = (f"{node.name}/probe_{i}" for i in range(4))
        probe.graph.node.extend([
            helper.make_node("ReduceMean", [x], [new_mean], axes=[0, 2, 3], keepdims=1),
            helper.make_node("Sub", [x, new_mean], [centred]),
            helper.make_node("Mul", [centred, centred], [squared]),
            helper.make_node("ReduceMean", [squared], [new_variance], axes=[0, 2, 3], keepdims=0),
            helper.make_node("Squeeze", [new_mean], [f"{new_mean}_flat"]),
            helper.make_node(
                "BatchNormalization", [x, gamma, beta, f"{new_mean}_flat", new_variance], list(node.output)
            ),
        ])  # fmt: skip
        for name, output in ((mean, f"{new_mean}_flat"), (variance, new_variance)):
            names.append(name)
            probe.graph.output.append(helper.make_tensor_value_info(output, TensorProto.FLOAT, None))
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    providers = ["CPUExecutionProvider"]
    session = onnxruntime.InferenceSession(probe.SerializeToString(), options, providers=providers)
    measured = dict(zip(names, session.run(None, {"input": images})[1:], strict=True))

    random = np.random.default_rng(seed)
    for tensor in model.graph.initializer:
        if tensor.name.endswith("running_mean"):
            variance = measured[tensor.name.removesuffix("mean") + "var"]
            noise = random.normal(0, jitter, variance.shape)
            value = measured[tensor.name] + noise * np.sqrt(variance)
        elif tensor.name.endswith("running_var"):
            value = measured[tensor.name] * np.exp(random.normal(0, jitter, measured[tensor.name].shape))
        else:
            continue
        tensor.CopyFrom(numpy_helper.from_array(value.astype(np.float32), tensor.name))
    return model
