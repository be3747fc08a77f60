"""Shape, type, scale and zero point of inputs and outputs, as hbm_infer tells them, and the way to real numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from core_models import EDGES
from image_nets import as_image, compiled, photos
from image_nets import floats as image_floats
from small import compiled as small_compiled

import ptqlab
from ptqlab.errors import PtqError
from ptqlab.pipeline.tensor_facts import data_type, tensor_facts


def test_a_float_interface_has_no_scale(tmp_path: Path) -> None:
    """float32 in and out, in every artifact: QUANTI_TYPE_NONE, and the arrays are what they are."""
    model, feeds = EDGES["two_inputs"]()
    run = small_compiled(model, feeds, tmp_path)
    for key in ("original_float", "calibrated", "hbm"):
        runtime = ptqlab.Runtime(run.artifacts[key])
        assert runtime.input_info["a"] == {
            "valid_shape": [1, 3, 8, 8],
            "stride": [768, 256, 32, 4],
            "tensor_type": "DATA_TYPE_F32",
            "quanti_type": "QUANTI_TYPE_NONE",
            "quantizeAxis": -1,
            "scale_data": [],
            "zero_point_data": [],
        }
        assert list(runtime.input_info) == runtime.input_names and list(runtime.output_info) == ["y"]
        assert runtime.real("a", feeds["a"]) is feeds["a"] and runtime.codes("a", feeds["a"]) is feeds["a"]


def test_removed_ends_are_done_with_these_facts(tmp_path: Path) -> None:
    """Without Quantize and Dequantize: `codes` makes the input, `real` reads the output, as the BPU does."""
    plain = ptqlab.Runtime(compiled(tmp_path / "plain").artifacts["hbm"])
    bare = ptqlab.Runtime(compiled(tmp_path / "bare", remove_node_type="Quantize;Dequantize").artifacts["hbm"])
    [fed], [out] = bare.input_names, bare.output_names
    told = bare.output_info[out]
    assert told["tensor_type"] == "DATA_TYPE_S32" and told["quanti_type"] == "QUANTI_TYPE_SCALE"
    assert told["quantizeAxis"] == 1 and len(told["scale_data"]) == len(told["zero_point_data"]) == 5
    assert bare.input_info[fed]["scale_data"] == [1 / 128] and bare.input_info[fed]["quantizeAxis"] == -1
    image = image_floats(photos()[0])
    [codes] = bare.run(None, {fed: bare.codes(fed, image)})
    assert np.array_equal(bare.real(out, codes), plain.run(None, {"x": image})[0])
    by_hand = codes * np.float32(told["scale_data"]).reshape(-1, 1, 1)
    assert np.array_equal(by_hand.astype(np.float32), bare.real(out, codes))


def test_planes_tell_the_stride_of_the_board(tmp_path: Path) -> None:
    """nv12: rows of 48 bytes are told as the 64 that a board wants, the shape without the padding."""
    runtime = ptqlab.Runtime(compiled(tmp_path / "out", **as_image("nv12")).artifacts["hbm"])
    luma, chroma = (runtime.input_info[name] for name in ("x_y", "x_uv"))
    assert (luma["valid_shape"], luma["stride"]) == ([1, 32, 48, 1], [2048, 64, 1, 1])
    assert (chroma["valid_shape"], chroma["stride"]) == ([1, 16, 24, 2], [1024, 64, 2, 1])
    assert luma["tensor_type"] == "DATA_TYPE_U8" and luma["quanti_type"] == "QUANTI_TYPE_NONE"


def test_an_unknown_tensor_is_refused_with_those_there_are(tmp_path: Path) -> None:
    """Neither input nor output: the names of all of them."""
    runtime = ptqlab.Runtime(compiled(tmp_path / "out").artifacts["hbm"])
    with pytest.raises(PtqError) as caught:
        runtime.real("z", np.zeros(1))
    assert str(caught.value) == (
        "Running the model: 1 problem\nPTQ120  tensor 'z'\n    found     no such input or output\n    expected  x, y"
    )


def test_the_words_of_types() -> None:
    """DATA_TYPE_ and letter and bits."""
    words = {
        "int8": "S8",
        "uint8": "U8",
        "int16": "S16",
        "int32": "S32",
        "float16": "F16",
        "float32": "F32",
        "bool": "BOOL",
    }
    assert {t: data_type(t) for t in words} == {t: f"DATA_TYPE_{w}" for t, w in words.items()}
    assert tensor_facts("x", (-1, 3), "float32", {}).stride == ()
