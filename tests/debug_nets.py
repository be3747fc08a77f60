"""Calibrated networks for the tests of the debugger."""
from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from calibration_nets import Feeds, mobile, recipe, with_shifts

from ptqlab.debug.network import Network
from ptqlab.events import Watch
from ptqlab.graph import FloatGraph, save
from ptqlab.quantize.calibrate import calibrate
from ptqlab.quantize.calibrated import calibrated_model
from ptqlab.quantize.encode import encode

CORRECTED = {"weight": {"bias_correction": {"num_sample": 2}}}


def calibrated(block: dict[str, Any] | None = None) -> tuple[FloatGraph, Any, list[Feeds]]:
    """Float graph, calibrated model and samples of an inverted residual block; {}: our default, with biases corrected
    for rounded inputs, too."""
    graph, plan, samples = mobile()
    asked = recipe(graph, plan, CORRECTED if block is None else block)
    found = calibrate(graph, plan, samples, len(samples), Watch(), asked)
    encodings = encode(graph, plan, with_shifts(graph, plan, found, samples) if block == {} else found)
    return graph, calibrated_model(graph, plan, encodings).model, samples


def network(block: dict[str, Any] | None = None) -> tuple[Network, list[Feeds]]:
    graph, model, samples = calibrated(block)
    return Network(model, graph.model), samples


def written(folder: Path) -> tuple[Path, Path]:
    """Files of a compile run: the calibrated model with its float model beside it, and a folder of samples."""
    graph, model, samples = calibrated()
    save(graph.model, folder / "net_optimized_float_model.onnx")
    save(model, folder / "net_calibrated_model.onnx")
    data = folder / "data"
    data.mkdir()
    for index, sample in enumerate(samples):
        np.save(data / f"{index}.npy", sample["x"])
    return folder / "net_calibrated_model.onnx", data
