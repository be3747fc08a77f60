"""The inputs and outputs of a compiled model: colours, batch, removed nodes, debug outputs; on real photos."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from image_nets import MAX, H, W, as_image, compiled, floats, image_net, input_codes, photos, to_nv12, to_yuv
from models import init, ints, model, node, random, value

import ptqlab
from ptqlab.errors import PtqError
from ptqlab.examples import digits


def output(run: ptqlab.CompileResult, feeds: dict[str, np.ndarray], key: str = "quantized") -> np.ndarray:
    return ptqlab.Runtime(run.artifacts[key]).run(None, feeds)[0]


@pytest.fixture(scope="module")
def plain(tmp_path_factory) -> ptqlab.CompileResult:
    """Fed with floats."""
    return compiled(tmp_path_factory.mktemp("plain") / "out")


@pytest.mark.parametrize(("rt", "train"), [("rgb", "rgb"), ("bgr", "rgb"), ("rgb", "bgr"), ("bgr", "bgr")])
def test_bytes_give_what_floats_give(plain, tmp_path, rt, train):
    """rgb and bgr, same order or other: codes at the input and the outputs equal the featuremap's in every bit."""
    run = compiled(tmp_path / "out", **as_image(rt, train))
    for pixels in photos():
        trained = pixels if train == "rgb" else pixels[..., ::-1]
        fed = {"x": np.ascontiguousarray(pixels if rt == "rgb" else pixels[..., ::-1])}
        reference = {"x": floats(trained)}
        assert np.array_equal(input_codes(run, fed), input_codes(plain, reference))
        assert np.array_equal(output(run, fed), output(plain, reference))
        assert np.array_equal(output(run, fed, "hbm"), output(run, fed))


def test_yuv444_stays_within_two_codes(plain, tmp_path):
    """A camera's rounding of Y, U, V (half a step each) and ours of R, G, B: at most 2 per channel and pixel.

    R = Y + 1.402 V: 0.5 + 0.701 + 0.5 < 2;  G: 0.5 + 0.172 + 0.357 + 0.5 < 2;  B: 0.5 + 0.886 + 0.5 < 2. One code is
    one byte here. The bound is reached only in part, but it is no equality either: some pixels differ.
    """
    run = compiled(tmp_path / "out", **as_image("yuv444"))
    worst = 0
    for pixels in photos():
        codes = input_codes(run, {"x": to_yuv(pixels)}).astype(int)
        worst = max(worst, np.abs(codes - input_codes(plain, {"x": floats(pixels)}).astype(int)).max())
    assert 1 <= worst <= 2


@pytest.mark.parametrize("video", [False, True])
def test_nv12_is_yuv444_with_shared_chroma(plain, tmp_path, video):
    """Blocks of one colour lose nothing by sharing chroma, so the bound of yuv444 holds (video range: steps of
    255 / 219 and 255 / 224, 0.58 + 1.01 + 0.5 = 2.1 for B, so 2 in whole numbers)."""
    more = {"input_space_and_range": "bt601_video"} if video else {}
    run = compiled(tmp_path / "out", **as_image("nv12", **more))
    assert {i.name: i.shape for i in ptqlab.Runtime(run.artifacts["hbm"]).inputs} == {
        "x_y": (1, H, W, 1), "x_uv": (1, H // 2, W // 2, 2)}
    for photo in photos():
        pixels = photo[:, ::2, ::2].repeat(2, axis=1).repeat(2, axis=2)
        planes = to_nv12(to_yuv(pixels, video))
        difference = input_codes(run, planes).astype(int) - input_codes(plain, {"x": floats(pixels)}).astype(int)
        assert np.abs(difference).max() <= 2
        assert np.array_equal(output(run, planes, "hbm"), output(run, planes))


def test_nv12_of_any_photo_equals_yuv444_of_its_planes(tmp_path):
    """In every bit: nv12 is yuv444 whose chroma was averaged and repeated."""
    nv12 = compiled(tmp_path / "a", **as_image("nv12"))
    yuv444 = compiled(tmp_path / "b", **as_image("yuv444"))
    for pixels in photos():
        planes = to_nv12(to_yuv(pixels))
        full = np.concatenate([planes["x_y"], planes["x_uv"].repeat(2, axis=1).repeat(2, axis=2)], axis=3)
        assert np.array_equal(output(nv12, planes), output(yuv444, {"x": full}))


def test_video_range_is_for_nv12_only(tmp_path):
    """Any other type with bt601_video is refused (documented)."""
    with pytest.raises(PtqError, match="bt601_video"):
        compiled(tmp_path / "out", **as_image("rgb", input_space_and_range="bt601_video"))


def test_a_network_of_nhwc(tmp_path):
    """layout_train NHWC, with a reader of the float tensor on the CPU: bytes give what floats give."""
    net = ptqlab.insert_transpose(image_net(tmp_path / "net.onnx"), "x", output=tmp_path / "nhwc.onnx")
    data = [np.full((1, H, W, 3), 127 / 128, np.float32)]
    run = compiled(tmp_path / "out", net, input_shape={"x": (1, H, W, 3)}, calibration_data=data,
                   **as_image("rgb") | {"input_layout_train": "NHWC"})
    fed = {"x": photos()[0]}
    floating = compiled(tmp_path / "floats", net, input_shape={"x": (1, H, W, 3)}, calibration_data=data)
    reference = {"x": np.ascontiguousarray(floats(photos()[0]).transpose(0, 2, 3, 1))}
    assert np.array_equal(output(run, fed), output(floating, reference))


@pytest.mark.parametrize("separate", [False, True])
def test_a_batch_equals_its_images(plain, tmp_path, separate):
    """input_batch 2, in one input or in two: every image gives what it gives alone."""
    run = compiled(tmp_path / "out", input_batch=2, separate_batch=separate)
    images = [floats(p) for p in photos()[:2]]
    fed = dict(zip(("x_0", "x_1"), images, strict=True)) if separate else {"x": np.concatenate(images)}
    assert [i.name for i in ptqlab.Runtime(run.artifacts["hbm"]).inputs] == list(fed)
    alone = np.concatenate([output(plain, {"x": image}) for image in images])
    assert np.array_equal(output(run, fed), alone)
    assert np.array_equal(output(run, fed, "hbm"), alone)


def test_a_batch_of_nv12_images(tmp_path):
    """separate_batch with camera bytes: two planes for each image."""
    run = compiled(tmp_path / "out", input_batch=2, separate_batch=True, **as_image("nv12"))
    single = compiled(tmp_path / "one", **as_image("nv12"))
    planes = [to_nv12(to_yuv(p)) for p in photos()[:2]]
    fed = {name.replace("x_", f"x_{i}_"): plane for i, p in enumerate(planes) for name, plane in p.items()}
    alone = np.concatenate([output(single, p) for p in planes])
    assert np.array_equal(output(run, fed), alone)


def test_a_model_that_cannot_run_a_batch_is_refused(tmp_path):
    """A fixed Reshape inside: refused with the reason, not compiled wrongly."""
    nodes = [node("Conv", ["x", "w"], "c", "conv"), node("Reshape", ["c", "s"], "y", "reshape")]
    onnx.save(model(nodes, [value("x", [1, 3, 4, 4])], [value("y", None)],
                    [init("w", random(2, 3, 1, 1)), ints("s", 2, 16)]), tmp_path / "fixed.onnx")
    with pytest.raises(PtqError, match="batch"):
        ptqlab.compile(model=tmp_path / "fixed.onnx", march="nash-e", input_batch=2, working_dir=tmp_path / "out",
                       calibration_data=[random(1, 3, 4, 4)], quant_config=MAX)


def test_removed_ends_are_the_hosts_work(plain, tmp_path):
    """Without Quantize and Dequantize the host does it with scale and zero point: the same numbers, and told."""
    run = compiled(tmp_path / "out", remove_node_type="Quantize;Dequantize")
    runtime = ptqlab.Runtime(run.artifacts["hbm"])
    (fed,), (out,) = runtime.inputs, runtime.outputs
    assert (fed.dtype, out.dtype) == ("int8", "int32")
    image = floats(photos()[0])
    held = runtime.encodings["x"]
    codes = np.clip(np.floor(image / np.float32(held["scale"]) + np.float32(0.5)), -128, 127).astype(np.int8)
    (accumulated,) = runtime.run(None, {fed.name: codes})
    expected = output(plain, {"x": image})
    (scale,) = [e["scale"] for e in runtime.encodings.values() if e["tensor"] == out.name]
    assert np.array_equal(accumulated.astype(np.float32) * np.asarray(scale, np.float32), expected)
    assert (tmp_path / "out" / "deleted_nodes_info.txt").read_text().splitlines()[0].startswith("Quantize x_quantize")
    # the model with all nodes is the one of the plain run
    assert np.array_equal(output(run, {"x": image}), expected)


def test_dumps(tmp_path):
    """dump_all_layers_output: every operator with weights as a further output; dump_calibration_data: what was fed."""
    run = compiled(tmp_path / "out", debug_mode="dump_all_layers_output;dump_calibration_data")
    runtime = ptqlab.Runtime(run.artifacts["quantized"])
    assert runtime.output_names == ["y", "r"]
    image = floats(photos()[0])
    held = runtime.encodings["r"]
    values = runtime.run(["r"], {"x": image})[0]
    codes = input_codes(run, {"x": image}, "r").astype(np.float32) - np.float32(held["zero_point"])
    assert np.array_equal(values, codes * np.float32(held["scale"]))
    dumped = sorted((tmp_path / "out" / "calibration_data" / "x").glob("*.npy"))
    assert [p.name for p in dumped] == ["0.npy", "1.npy"]
    calibrated = ptqlab.Runtime(run.artifacts["calibrated"])
    assert calibrated.run(None, {"x": np.load(dumped[0])})[0].shape == (1, 5, H, W)
    assert np.load(dumped[0])[0, 0, 0, 0] == np.float32(127 / 128)


def test_chosen_outputs(tmp_path):
    """output_nodes cuts the graph: the node's output is the model's output."""
    run = compiled(tmp_path / "out", output_nodes="relu")
    assert ptqlab.Runtime(run.artifacts["hbm"]).output_names == ["r"]
    assert list(run.outputs["TensorName"]) == ["r"]


@pytest.mark.parametrize(("limit", "found"), [(0.2, "/block4/conv/Conv"), (1e6, "no operator takes longer")])
def test_advice_names_operators_slower_than_its_limit(tmp_path: Path, limit: float, found: str) -> None:
    """`advice: us` in the YAML is answered by a note with the slow operators and why, or that there are none."""
    run = ptqlab.compile(digits.write_config(tmp_path), working_dir=tmp_path / "out", progress=False, advice=limit)
    (note,) = [f for f in run.record.findings if f.code == "PTQ460"]
    assert found in note.message
