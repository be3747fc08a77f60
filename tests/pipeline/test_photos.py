"""Photos through the camera's format on the `.hbm`, and as floats through the calibrated model: the same answers."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from benchmarks import nets, photos
from image_nets import to_nv12, to_yuv

import ptqlab
from ptqlab.arith.metrics import Agreement


@pytest.mark.models
def test_nv12_on_the_hbm_classifies_as_the_calibrated_model(tmp_path: Path) -> None:
    """EfficientNet-Lite0 on five photos of one thing each: the same class or one as good, also with padded rows."""
    try:
        model = nets.efficientnet_lite0_imagenet(Path(tempfile.gettempdir()) / "ptqlab-models")
    except ImportError as error:
        pytest.skip(str(error))
    run = ptqlab.compile(
        model=model, march="nash-e", working_dir=tmp_path, progress=False,
        calibration_data={"input": photos.calibration_crops(8, normalise="lite")}, input_name="input",
        input_type_rt="nv12", input_type_train="rgb", input_layout_train="NCHW", mean_value="127",
        scale_value=str(1 / 128),
    )  # fmt: skip
    calibrated, hbm = ptqlab.Runtime(run.artifacts["calibrated"]), ptqlab.Runtime(run.artifacts["hbm"])
    agreement = Agreement()
    for photo in sorted(photos.OBJECT_PHOTOS):
        image = photos.centre_crop(photo, "lite")
        pixels = np.round(image.transpose(0, 2, 3, 1) * 128 + 127).astype(np.uint8)
        planes = {name.replace("x_", "input_"): plane for name, plane in to_nv12(to_yuv(pixels)).items()}
        [floats], [camera] = calibrated.run(None, {"input": image}), hbm.run(None, planes)
        # two kinds of cat, or what an astronaut is, may be as good as equal
        assert floats.ravel()[camera.argmax()] > floats.max() - 0.25, photo
        agreement.add(floats, camera)
        padded = {n: np.pad(p, [(0, 0), (0, 0), (0, 32 // p.shape[3]), (0, 0)]) for n, p in planes.items()}
        assert np.array_equal(hbm.run(None, padded)[0], camera)
    assert agreement.cosine > 0.98
