"""Float tensors back to camera bytes."""

from __future__ import annotations

import numpy as np
import pytest
from image_nets import MEAN, SCALE, floats, photos, to_nv12, to_yuv

from ptqlab.pipeline.runtime_feed import image_inputs, runtime_feed
from ptqlab.quantize.camera import camera_bytes
from ptqlab.stages.interface import ImageInput


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_every_colour_of_a_photo(layout):
    """Bytes come back exactly; yuv444 and nv12 are the standard's rounded values; bgr is rgb the other way round."""
    for pixels in photos()[:3]:
        x = floats(pixels) if layout == "NCHW" else floats(pixels).transpose(0, 2, 3, 1)
        made = {rt: camera_bytes(ImageInput("x", rt, "rgb", layout, (MEAN,), (SCALE,)), x)
                for rt in ("rgb", "bgr", "yuv444", "nv12")}
        assert np.array_equal(made["rgb"]["x"], pixels)
        assert np.array_equal(made["bgr"]["x"], pixels[..., ::-1])
        assert np.array_equal(made["yuv444"]["x"], to_yuv(pixels))
        wanted = to_nv12(to_yuv(pixels))
        assert all(np.array_equal(made["nv12"][name], wanted[name]) for name in wanted)
        video = camera_bytes(ImageInput("x", "nv12", "rgb", layout, (MEAN,), (SCALE,), True), x)
        assert np.array_equal(video["x_y"], to_yuv(pixels, True)[..., :1])
        swapped = camera_bytes(ImageInput("x", "yuv444", "bgr", layout, (MEAN,), (SCALE,)),
                               x[:, ::-1] if layout == "NCHW" else x[..., ::-1])
        assert np.array_equal(swapped["x"], to_yuv(pixels))


def test_gray_and_values_between_bytes():
    """Gray keeps its layout; values between and beyond bytes become the nearest."""
    x = np.array([-5.0, 0.4, 0.5, 254.6, 300.0, 7.0], np.float32).reshape(1, 1, 2, 3)
    (made,) = camera_bytes(ImageInput("x", "gray", "gray", "NCHW"), x).values()
    assert made.ravel().tolist() == [0, 0, 1, 255, 255, 7] and made.shape == (1, 1, 2, 3)


def test_settings_of_an_artifact():
    """Lists with one entry per input; what the file does not say, or says wrongly, derives nothing."""
    given = {"input_name": "a;b", "input_type_rt": "rgb;featuremap", "input_type_train": "bgr;featuremap",
             "mean_value": "1 2 3;None", "scale_value": "0.5;None"}
    (image,) = image_inputs(given).values()
    assert (image.name, image.type_rt, image.type_train, image.mean, image.scale) == (
        "a", "rgb", "bgr", (1.0, 2.0, 3.0), (0.5,))
    feed = {"a": np.zeros((1, 3, 2, 2), np.float32), "b": np.ones(3, np.float32)}
    made, repeats = runtime_feed({"input_parameters": given}, feed)
    assert repeats == 1 and made["b"] is feed["b"] and made["a"].tolist() == [[[[3, 2, 1]] * 2] * 2]
    for bad in ({}, {"input_parameters": 7}, {"input_parameters": given | {"mean_value": "x;y"}},
                {"input_parameters": given | {"mean_value": "1 2;None"}},
                {"input_parameters": given | {"input_type_rt": "rgb;rgb;rgb"}},
                {"input_parameters": given | {"input_batch": 2}}):
        assert runtime_feed(bad, feed) is None
