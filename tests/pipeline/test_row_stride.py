"""nv12 with the row strides of a board: padded planes are taken as they are, wrong ones refused with the numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from image_nets import H, W, as_image, compiled, photos, to_nv12, to_yuv

import ptqlab
from ptqlab.artifacts.models import read_quantized, write_quantized
from ptqlab.errors import PtqError
from ptqlab.pipeline.row_stride import row_stride

Made = tuple[ptqlab.CompileResult, dict[str, np.ndarray]]


@pytest.fixture(scope="module", params=["nash-e", "nash-p"])
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Made:
    """A network of nv12, 48 wide: rows of 48 bytes, which both strides pad to 64."""
    folder: Path = tmp_path_factory.mktemp(request.param)
    return compiled(folder / "out", march=request.param, **as_image("nv12")), to_nv12(to_yuv(photos()[0]))


def widened(planes: dict[str, np.ndarray], y: int, uv: int) -> dict[str, np.ndarray]:
    """The planes in buffers with rows of so many pixels and chroma pairs, the rest full of noise."""
    noise = np.random.default_rng(0)
    out = {}
    for name, width in (("x_y", y), ("x_uv", uv)):
        plane = planes[name]
        out[name] = noise.integers(0, 256, (*plane.shape[:2], width, plane.shape[3]), np.uint8)
        out[name][:, :, : plane.shape[2]] = plane
    return out


@pytest.mark.parametrize("key", ["quantized", "hbm"])
@pytest.mark.parametrize("engine", ["fast", "reference", "onnxruntime"])
@pytest.mark.parametrize(("y", "uv"), [(64, 32), (128, 64), (48, 32)])
def test_padded_rows_give_the_same_bits(made: Made, key: str, engine: str, y: int, uv: int) -> None:
    """Rows of 64 and 128 bytes in one or both planes: what stands behind the image is not read."""
    run, planes = made
    runtime = ptqlab.Runtime(run.artifacts[key], engine=engine)
    [wanted] = runtime.run(None, planes)
    assert np.array_equal(runtime.run(None, widened(planes, y, uv))[0], wanted)


def test_wrong_rows_are_refused_with_the_numbers(made: Made) -> None:
    """Both planes in one refusal: bytes found, the image's, and the stride of the platform."""
    run, planes = made
    stride = 32 if run.record.march == "nash-e" else 64
    with pytest.raises(PtqError) as caught:
        ptqlab.Runtime(run.artifacts["hbm"]).run(None, widened(planes, 50, 25))
    assert str(caught.value) == (
        "Running the model: 2 problems\n"
        "PTQ625  input 'x_y'\n"
        f"    found     uint8 [1, {H}, 50, 1]: 50 bytes from row to row\n"
        f"    expected  48 bytes, [1, {H}, {W}, 1], or padded to a multiple of {stride}: 64 or more\n"
        "    do        pad each row at its end; the padding is not read\n"
        "PTQ625  input 'x_uv'\n"
        f"    found     uint8 [1, {H // 2}, 25, 2]: 50 bytes from row to row\n"
        f"    expected  48 bytes, [1, {H // 2}, {W // 2}, 2], or padded to a multiple of {stride}: 64 or more\n"
        "    do        pad each row at its end; the padding is not read"
    )


def test_stride_96_fits_one_platform_only(made: Made) -> None:
    """Three times 32 is no multiple of 64."""
    run, planes = made
    runtime, fed = ptqlab.Runtime(run.artifacts["hbm"]), widened(planes, 96, 48)
    if run.record.march == "nash-e":
        assert np.array_equal(runtime.run(None, fed)[0], runtime.run(None, planes)[0])
    else:
        with pytest.raises(PtqError, match="96 bytes from row to row"):
            runtime.run(None, fed)


@pytest.mark.parametrize("change", ["narrow", "tall", "float"])
def test_other_shapes_are_refused_as_ever(made: Made, change: str) -> None:
    """Too narrow, too high or of another type: no padding explains it."""
    run, planes = made
    fed = dict(planes)
    fed["x_y"] = {
        "narrow": planes["x_y"][:, :, :32],
        "tall": np.concatenate([planes["x_y"]] * 2, axis=1),
        "float": widened(planes, 64, 32)["x_y"].astype(np.float32),
    }[change]
    with pytest.raises(PtqError, match="PTQ120"):
        ptqlab.Runtime(run.artifacts["hbm"]).run(None, fed)


def test_only_planes_of_nv12_may_be_padded(tmp_path: Path) -> None:
    """An rgb image of 64 columns is another image, not a padded one."""
    run = compiled(tmp_path / "out", **as_image("rgb"))
    with pytest.raises(PtqError, match="PTQ120"):
        ptqlab.Runtime(run.artifacts["hbm"]).run(None, {"x": np.zeros((1, H, 64, 3), np.uint8)})


def test_the_documented_example() -> None:
    """220 x 220 on S100: rows of 224 bytes in both planes (documented)."""
    assert row_stride((1, 220, 220, 1), 32) == 224 and row_stride((1, 110, 110, 2), 32) == 224
    assert row_stride((1, 220, 224, 1), 32) == 224 and row_stride((1, 220, 225, 1), 64) == 256


def test_verify_takes_padded_planes(made: Made, tmp_path: Path) -> None:
    """The files of a board's input compare .bc and .hbm as they are."""
    from ptqlab.pipeline.verify import verify_files

    run, planes = made
    files = []
    for name, plane in widened(planes, 64, 32).items():
        np.save(tmp_path / f"{name}.npy", plane)
        files.append((name, tmp_path / f"{name}.npy"))
    found = verify_files((run.artifacts["quantized"], run.artifacts["hbm"]), [files])
    assert found.passed and found.mode == "consistency"
    artifact = read_quantized(run.artifacts["hbm"])
    weight = artifact.quantized.model.graph.initializers["conv_weight"]
    weight.const_value = ir.tensor(-weight.const_value.numpy(), name="conv_weight")
    write_quantized(artifact.quantized, tmp_path / "other.hbm", "hbm", dict(artifact.about))
    found = verify_files((run.artifacts["quantized"], tmp_path / "other.hbm"), [files])
    assert not found.passed and found.first_difference == "conv"
