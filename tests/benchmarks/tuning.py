"""ptqlab.tune on an ImageNet network: what calibration choices and a few int16 tensors are worth on other photos.

    python -m benchmarks.tuning MODEL.onnx [--tensors 5] [--crops 240]
"""
from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
import onnx

import ptqlab
from benchmarks import photos
from ptqlab.arith.metrics import Agreement


def score(run: ptqlab.CompileResult, key: str, name: str, crops: list[np.ndarray]) -> Agreement:
    """Agreement of an artifact with the float model, pooled over all crops."""
    reference, tried = (ptqlab.Runtime(run.artifacts[k]) for k in ("optimized_float", key))
    found = Agreement()
    for crop in crops:
        found.add(reference.run(None, {name: crop})[0], tried.run(None, {name: crop})[0], distances=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--tensors", type=int, default=5)
    parser.add_argument("--crops", type=int, default=240)
    given = parser.parse_args()
    normalise: photos.Normalise = "lite" if "lite" in given.model.name else "imagenet"
    name = onnx.load(given.model).graph.input[0].name
    with tempfile.TemporaryDirectory() as folder:
        found = ptqlab.tune(
            model=given.model, march="nash-e", working_dir=folder, metric="sqnr", target=60.0,
            calibration_data={name: photos.calibration_crops(normalise=normalise)}, max_tensors=given.tensors,
            progress=False)
        print(found)
        run = found.compile(working_dir=Path(folder) / "run", skip="compile", progress=False)
        crops = photos.scoring_crops(given.crops, normalise)
        for key in ("calibrated", "quantized"):
            figures = score(run, key, name, crops)
            print(f"{key}: {given.crops} scoring crops, cosine {figures.cosine:.4f}, SQNR {figures.sqnr:.2f} dB")


if __name__ == "__main__":
    main()
