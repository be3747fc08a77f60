"""The built-in example: a small convolutional network that reads 8x8 handwritten digits.

The network (`digits.onnx`, about 26 thousand parameters) has the parts that make quantization interesting:
depthwise convolutions, inverted residual blocks, ReLU6 and residual additions. Its BatchNormalizations are
left in the graph. `train.py` trained it on scikit-learn's `load_digits`; nothing here needs torch or
scikit-learn.

Every image is float32 in NCHW order with one channel of 8x8 pixels, already normalised from the data set's
grey levels 0..16 to -1..1 (`level / 8 - 1`). The network's input `image` is [1, 1, 8, 8], its output
`probabilities` is [1, 10].
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

__all__ = [
    "calibration_samples",
    "heldout",
    "model_path",
    "write_calibration_folder",
    "write_config",
]

_HERE = Path(__file__).resolve().parent

_CONFIG = """\
# Quantizes the digits example. The paths are relative to the folder of this file.
model_parameters:
  onnx_model: ./digits.onnx
  march: "{march}"
  working_dir: ./model_output
  output_model_file_prefix: digits

input_parameters:
  input_name: image
  input_type_rt: featuremap
  input_type_train: featuremap

calibration_parameters:
  cal_data_dir: ./calibration
  quant_config: {{model_config: {{activation: {{calibration_type: max}}}}}}

compiler_parameters:
  compile_mode: latency
  optimize_level: O2
  core_num: 1
"""


def model_path() -> Path:
    """Return the path of the float network `digits.onnx` (opset 17, IR version 8, about 110 kB)."""
    return _HERE / "digits.onnx"


def calibration_samples() -> np.ndarray:
    """Return the calibration images: float32 [64, 1, 8, 8] in -1..1, balanced over the ten digits.

    They come from the part of the data that the network was trained on, never from `heldout()`.
    """
    import numpy as np

    with np.load(_HERE / "calibration.npz", allow_pickle=False) as archive:
        return archive["images"]


def heldout() -> tuple[np.ndarray, np.ndarray]:
    """Return the images kept out of training, and what digit each shows.

    Returns:
        images: float32 [450, 1, 8, 8] in -1..1.
        labels: int64 [450], each 0..9.
    """
    import numpy as np

    with np.load(_HERE / "heldout.npz", allow_pickle=False) as archive:
        return archive["images"], archive["labels"]


def write_calibration_folder(directory: str | Path) -> Path:
    """Write the calibration images as one file each: `0000.npy`, `0001.npy`, ..., float32 [1, 1, 8, 8].

    Args:
        directory: the folder to write into; made with its parents where it is missing. Other files in it
            stay.

    Returns:
        The folder, as a `Path`.
    """
    import numpy as np

    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    for index, sample in enumerate(calibration_samples()):
        np.save(folder / f"{index:04d}.npy", sample[np.newaxis], allow_pickle=False)
    return folder


def write_config(directory: str | Path, march: str = "nash-e") -> Path:
    """Write all that is needed to quantize the example: network, calibration images and `config.yaml`.

    Args:
        directory: the folder to write `digits.onnx`, `calibration/*.npy` and `config.yaml` into; made where
            it is missing. Files of these names are overwritten.
        march: the processor architecture to name in the config, such as `nash-e` or `nash-m`.

    Returns:
        The path of `config.yaml`. Its own paths are relative to the folder it lies in.

    Raises:
        ValueError: `march` has a character other than letters, digits, `-`, `_` and `.`.
    """
    if not march or not march.replace("-", "").replace("_", "").replace(".", "").isalnum():
        raise ValueError(f"march must be a plain name such as 'nash-e', not {march!r}")
    folder = Path(directory)
    write_calibration_folder(folder / "calibration")
    shutil.copyfile(model_path(), folder / "digits.onnx")
    config = folder / "config.yaml"
    config.write_text(_CONFIG.format(march=march), encoding="utf-8")
    return config
