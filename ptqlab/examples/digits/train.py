"""Train the digits network and write `digits.onnx`, `calibration.npz` and `heldout.npz`.

Run as `python -m ptqlab.examples.digits.train [--out FOLDER]`; needs torch and scikit-learn, and takes about
a minute on one core. One thread, fixed seeds and deterministic kernels make two runs on one machine with one
torch version equal; another processor or version may round otherwise and end a few images apart.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor, nn

SEED = 0
HELDOUT_FRACTION = 0.25
CALIBRATION_COUNT = 64
CLASSES = 10
EPOCHS = 120
BATCH = 64
PEAK_LEARNING_RATE = 3e-3
WEIGHT_DECAY = 2e-2
LABEL_SMOOTHING = 0.05
BACKGROUND = -1.0  # what an empty pixel is after normalisation


class ConvBn(nn.Module):
    """Convolution without bias, BatchNorm and, where named, an activation (`relu` or `relu6`)."""

    def __init__(
        self, inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1, activation: str = ""
    ) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
        self.bn = nn.BatchNorm2d(outputs)
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        x = self.bn(self.conv(x))
        if self.activation == "relu6":
            return F.relu6(x)
        return F.relu(x) if self.activation == "relu" else x


class InvertedResidual(nn.Module):
    """1x1 expansion, 3x3 depthwise and linear 1x1 projection; adds its input where the shapes agree."""

    def __init__(self, inputs: int, hidden: int, outputs: int, stride: int = 1) -> None:
        super().__init__()
        self.expand = ConvBn(inputs, hidden, 1, activation="relu6")
        self.depthwise = ConvBn(hidden, hidden, 3, stride, groups=hidden, activation="relu6")
        self.project = ConvBn(hidden, outputs, 1)
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        y = self.project(self.depthwise(self.expand(x)))
        return x + y if self.residual else y


class DigitsNet(nn.Module):
    """The example network: float32 images [N, 1, 8, 8] to logits [N, 10]."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = ConvBn(1, 16, 3, activation="relu")
        self.block1 = InvertedResidual(16, 48, 16)
        self.block2 = InvertedResidual(16, 64, 32, stride=2)
        self.block3 = InvertedResidual(32, 96, 32)
        self.block4 = ConvBn(32, 32, 3)  # plain residual block: ReLU comes after its Add
        self.head = ConvBn(32, 64, 1, activation="relu")
        self.classifier = nn.Linear(64, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = self.block3(self.block2(self.block1(self.stem(x))))
        x = F.relu(x + self.block4(x))
        return self.classifier(self.head(x).mean((2, 3)))


class GraphWriter:
    """Collects ONNX nodes whose names follow the module tree, such as `/block1/expand/conv/Conv`.

    The graph is written by hand, not traced: exporters fold BatchNorm into the convolution or choose names
    of their own, and the example is meant to show both BatchNorm folding and readable reports.
    """

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []

    def constant(self, name: str, value: np.ndarray | Tensor) -> str:
        """Store one float32 initializer and return its name; a name stored before is kept as it is."""
        if isinstance(value, Tensor):
            value = value.detach().numpy()
        if all(tensor.name != name for tensor in self.initializers):
            self.initializers.append(numpy_helper.from_array(np.asarray(value, np.float32), name))
        return name

    def node(self, kind: str, path: str, inputs: list[str], output: str = "", **attributes: object) -> str:
        """Append the node `/<path>/<kind>` and return the name of its one output."""
        name = f"/{path}/{kind}"
        output = output or f"{name}_output_0"
        self.nodes.append(helper.make_node(kind, inputs, [output], name=name, **attributes))
        return output

    def conv_bn(self, x: str, path: str, module: ConvBn) -> str:
        """Append convolution, BatchNormalization and activation of `module`."""
        key, conv, norm = path.replace("/", "."), module.conv, module.bn
        weight = self.constant(f"{key}.conv.weight", conv.weight)
        x = self.node(
            "Conv", f"{path}/conv", [x, weight],
            kernel_shape=list(conv.kernel_size), strides=list(conv.stride), group=conv.groups,
            pads=[int(side) for side in conv.padding] * 2, dilations=[1, 1],
        )  # fmt: skip
        state = norm.state_dict()
        parts = ("weight", "bias", "running_mean", "running_var")
        names = [self.constant(f"{key}.bn.{part}", state[part]) for part in parts]
        x = self.node("BatchNormalization", f"{path}/bn", [x, *names], epsilon=norm.eps)
        if module.activation == "relu6":
            low, high = (self.constant(f"relu6.{n}", np.array(v)) for n, v in (("min", 0.0), ("max", 6.0)))
            return self.node("Clip", f"{path}/act", [x, low, high])
        return self.node("Relu", f"{path}/act", [x]) if module.activation == "relu" else x

    def inverted_residual(self, x: str, path: str, module: InvertedResidual) -> str:
        """Append an inverted residual block with its Add, where it has one."""
        y = self.conv_bn(x, f"{path}/expand", module.expand)
        y = self.conv_bn(y, f"{path}/depthwise", module.depthwise)
        y = self.conv_bn(y, f"{path}/project", module.project)
        return self.node("Add", f"{path}/add", [x, y]) if module.residual else y


def export(network: DigitsNet) -> onnx.ModelProto:
    """Return the trained network as ONNX: `image` [1, 1, 8, 8] to `probabilities` [1, 10]."""
    writer = GraphWriter()
    x = writer.conv_bn("image", "stem", network.stem)
    for name in ("block1", "block2", "block3"):
        x = writer.inverted_residual(x, name, getattr(network, name))
    y = writer.conv_bn(x, "block4", network.block4)
    x = writer.node("Relu", "block4/act", [writer.node("Add", "block4/add", [x, y])])
    x = writer.conv_bn(x, "head", network.head)
    x = writer.node("Flatten", "flatten", [writer.node("GlobalAveragePool", "pool", [x])], axis=1)
    weight = writer.constant("classifier.weight", network.classifier.weight)
    bias = writer.constant("classifier.bias", network.classifier.bias)
    x = writer.node("Gemm", "classifier", [x, weight, bias], transB=1)
    writer.node("Softmax", "softmax", [x], output="probabilities", axis=1)
    graph = helper.make_graph(
        writer.nodes,
        "digits",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 1, 8, 8])],
        [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, [1, CLASSES])],
        writer.initializers,
    )
    opset = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=8, producer_name="ptqlab-digits")
    onnx.checker.check_model(model, full_check=True)
    return model


def load_split() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return training images, training labels, held-out images, held-out labels.

    Images are float32 [N, 1, 8, 8] in -1..1, labels int64 [N]. The split is stratified and fixed, so the
    committed files and a new training always agree on what is held out.
    """
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    levels, labels = load_digits(return_X_y=True)
    images = (levels.astype(np.float32) / 8 - 1).reshape(-1, 1, 8, 8)
    train_x, test_x, train_y, test_y = train_test_split(
        images, labels.astype(np.int64), test_size=HELDOUT_FRACTION, stratify=labels, random_state=SEED
    )
    return train_x, train_y, test_x, test_y


def calibration_indices(labels: np.ndarray) -> np.ndarray:
    """Choose `CALIBRATION_COUNT` rows, as evenly over the classes as the count allows: int64 [64]."""
    by_class = [np.flatnonzero(labels == digit) for digit in range(CLASSES)]
    # Round robin over the classes, so that any prefix of the samples is balanced as well.
    return np.array([by_class[i % CLASSES][i // CLASSES] for i in range(CALIBRATION_COUNT)])


def augment(images: Tensor, generator: torch.Generator) -> Tensor:
    """Rotate, scale and shift each image of [N, 1, 8, 8] at random, by up to about one pixel."""
    count = len(images)

    def uniform(limit: float) -> Tensor:
        return (torch.rand(count, generator=generator) * 2 - 1) * limit

    angle, scale = uniform(math.radians(12)), 1 + uniform(0.1)
    cosine, sine = torch.cos(angle) * scale, torch.sin(angle) * scale
    shift_x, shift_y = uniform(0.25), uniform(0.25)  # a pixel is 0.25 in a grid that spans -1..1
    matrix = torch.stack([cosine, -sine, shift_x, sine, cosine, shift_y], 1).view(count, 2, 3)
    grid = F.affine_grid(matrix, list(images.shape), align_corners=False)
    # grid_sample pads with 0: move the background there and back.
    return F.grid_sample(images - BACKGROUND, grid, align_corners=False) + BACKGROUND


def train(images: np.ndarray, labels: np.ndarray) -> DigitsNet:
    """Train a network from scratch and return it in evaluation mode.

    Args:
        images: float32 [N, 1, 8, 8] in -1..1.
        labels: int64 [N].
    """
    torch.manual_seed(SEED)
    generator = torch.Generator().manual_seed(SEED)
    network = DigitsNet().train()
    optimizer = torch.optim.AdamW(network.parameters(), lr=PEAK_LEARNING_RATE, weight_decay=WEIGHT_DECAY)
    steps = math.ceil(len(images) / BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, PEAK_LEARNING_RATE, total_steps=steps * EPOCHS, pct_start=0.1
    )
    x, y = torch.from_numpy(images), torch.from_numpy(labels)
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(x), generator=generator).split(BATCH):
            logits = network(augment(x[rows], generator))
            loss = F.cross_entropy(logits, y[rows], label_smoothing=LABEL_SMOOTHING)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    return network.eval()


def check_export(model: onnx.ModelProto, network: DigitsNet, images: np.ndarray) -> float:
    """Return the largest difference between the ONNX and the torch probabilities; raise above 1e-5."""
    import onnxruntime

    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    exported = np.concatenate([session.run(None, {"image": image[np.newaxis]})[0] for image in images])
    with torch.no_grad():
        expected = network(torch.from_numpy(images)).softmax(1).numpy()
    worst = float(np.abs(exported - expected).max())
    if worst > 1e-5:
        raise RuntimeError(f"the exported network differs from the trained one by {worst:.2e}")
    return worst


def main() -> None:
    """Train, export, check and write the three files."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    here = Path(__file__).resolve().parent
    parser.add_argument("--out", type=Path, default=here, help="folder to write to (default: this package)")
    out: Path = parser.parse_args().out
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)

    train_x, train_y, test_x, test_y = load_split()
    network = train(train_x, train_y)
    model = export(network)
    worst = check_export(model, network, test_x)
    out.mkdir(parents=True, exist_ok=True)
    onnx.save(model, out / "digits.onnx")
    np.savez_compressed(out / "calibration.npz", images=train_x[calibration_indices(train_y)])
    np.savez_compressed(out / "heldout.npz", images=test_x, labels=test_y)

    with torch.no_grad():
        correct = int((network(torch.from_numpy(test_x)).argmax(1).numpy() == test_y).sum())
    parameters = sum(parameter.numel() for parameter in network.parameters())
    print(f"parameters        {parameters}")
    print(f"held-out accuracy {correct}/{len(test_y)} = {correct / len(test_y):.2%}")
    print(f"torch vs ONNX     {worst:.1e} (largest difference of a probability)")


if __name__ == "__main__":
    main()
