"""onnxruntime's static quantization on the samples of a case: per-channel QDQ int8, the other tool in every table here.

The model it gets is our optimized float graph, so BatchNormalizations are folded and shapes are known, as its own
pre-processing would leave it.
"""
from __future__ import annotations

import contextlib
import io
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

Feeds = dict[str, np.ndarray]
BINS = 2048


@dataclass(frozen=True)
class Way:
    """One way to calibrate. `symmetric`: activations without zero points."""

    words: str
    method: str
    symmetric: bool = False
    options: tuple[tuple[str, Any], ...] = ()


WAYS = (
    Way("MinMax, symmetric", "MinMax", symmetric=True),
    Way("MinMax", "MinMax"),
    Way("Percentile", "Percentile", options=(("num_bins", BINS),)),
    Way("Entropy, 2048 bins", "Entropy", options=(("num_bins", BINS), ("num_quantized_bins", 128))),
)


def reader(samples: Sequence[Feeds]) -> Any:
    """What onnxruntime reads calibration data from."""
    from onnxruntime.quantization import CalibrationDataReader

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.rest = iter(samples)

        def get_next(self) -> Feeds | None:
            return next(self.rest, None)

    return Reader()


def calibrators(path: Path, samples: Sequence[Feeds]) -> Iterator[tuple[str, float]]:
    """CPU seconds of its calibration alone, by every way: the same float tensors, its own histograms."""
    from onnxruntime.quantization.calibrate import CalibrationMethod, create_calibrator

    for way in WAYS[1:]:
        started = time.process_time()
        with contextlib.redirect_stdout(io.StringIO()):  # it prints its progress
            calibrator = create_calibrator(path, calibrate_method=CalibrationMethod[way.method],
                                           augmented_model_path=f"{path}.augmented", extra_options=dict(way.options))
            calibrator.collect_data(reader(samples))
            calibrator.compute_data()
        yield way.words, time.process_time() - started


def quantize(model: Path, samples: Sequence[Feeds], way: Way, out: Path) -> Path:
    """The QDQ model: int8, weights per channel."""
    from onnxruntime.quantization import CalibrationMethod, QuantFormat, QuantType, quantize_static

    module = import_module("onnxruntime.quantization.quantize")  # a function of the package has the same name
    plain = module.create_calibrator

    def with_bins(*args: Any, extra_options: dict[str, Any], **more: Any) -> Any:
        return plain(*args, extra_options={**extra_options, **dict(way.options)}, **more)

    # quantize_static hands no number of bins on
    with patch.object(module, "create_calibrator", with_bins), contextlib.redirect_stdout(io.StringIO()):
        quantize_static(
            str(model), str(out), reader(samples), quant_format=QuantFormat.QDQ, per_channel=True,
            activation_type=QuantType.QInt8, weight_type=QuantType.QInt8,
            calibrate_method=CalibrationMethod[way.method],
            extra_options={"ActivationSymmetric": way.symmetric, "CalibTensorRangeSymmetric": way.symmetric},
        )
    return out
