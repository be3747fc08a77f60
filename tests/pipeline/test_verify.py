"""verify: cosine or number by number, the tables of hb_verifier, exit code 1 where two models differ."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from models import init, model, node, random, value

import ptqlab
from ptqlab.artifacts.models import read_quantized, write_quantized
from ptqlab.cli.main import main
from ptqlab.errors import PtqError
from ptqlab.pipeline.verify import verify_files

MAX = {"model_config": {"activation": {"calibration_type": "max"}}}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Two convolutions of an image fed as rgb, its Dequantize removed."""
    folder = tmp_path_factory.mktemp("verify")
    nodes = [
        node("Conv", ["x", "w1"], "a", "conv1"),
        node("Relu", ["a"], "r", "relu"),
        node("Conv", ["r", "w2"], "y", "conv2"),
    ]
    weights = [init("w1", random(4, 3, 3, 3)), init("w2", random(5, 4, 1, 1))]
    onnx.save(model(nodes, [value("x", [1, 3, 8, 8])], [value("y", None)], weights), folder / "net.onnx")
    return ptqlab.compile(
        model=folder / "net.onnx", march="nash-e", working_dir=folder / "out", input_type_rt="rgb",
        input_type_train="rgb", input_layout_train="NCHW", mean_value="127.5", scale_value="0.0078431372549",
        remove_node_type="Dequantize", quant_config=MAX,
        calibration_data=[random(1, 3, 8, 8, seed=seed) for seed in range(4)])


@pytest.fixture(autouse=True)
def here(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    pixels = np.random.default_rng(5).integers(0, 256, (1, 8, 8, 3), np.uint8)
    np.save("pixels.npy", pixels)
    np.save("float.npy", ((pixels.transpose(0, 3, 1, 2) - np.float32(127.5)) * np.float32(0.0078431372549)))


def feeds():
    return {"x": np.load("float.npy")}, {"x": np.load("pixels.npy")}


def other(run, tmp_path):
    """The .hbm with one weight of conv2 changed."""
    artifact = read_quantized(run.artifacts["hbm"])
    quantized = artifact.quantized
    name = next(str(v.name) for n in quantized.model.graph if n.name == "conv2"
                for v in n.inputs if v is not None and v.const_value is not None and v.const_value.dtype.name == "INT8"
                and len(v.shape or ()) == 4)
    value = quantized.model.graph.initializers[name]
    codes = value.const_value.numpy().copy()
    codes.flat[0] += 9
    value.const_value = ir.tensor(codes, name=name)
    path = tmp_path / "other.hbm"
    write_quantized(quantized, path, "hbm", dict(artifact.about))
    return path


def test_onnx_against_bc_by_cosine(run):
    """Each model gets the feed that fits it; the table names node and tensor; nothing can fail."""
    found = ptqlab.verify(run.artifacts["calibrated"], run.artifacts["quantized"], feeds())
    (row,) = found.found.outputs
    assert found.found.mode == "cosine" and found.passed
    assert row.cosine > 0.999 and row.name == "y" and row.node == "conv2"
    assert "| NodeName | TensorName | CosineSimilarity |" in str(found)


def test_bc_against_hbm_number_by_number(run):
    """The model with nodes removed equals the hbm in every number."""
    found = ptqlab.verify(run.artifacts["quantized_removed"], run.artifacts["hbm"], feeds()[1])
    assert found.found.mode == "consistency" and found.passed
    assert bool(found.outputs.loc[0, "consistent"]) and found.outputs.loc[0, "mismatched"] == 0
    assert "True" in str(found) and "0/180 (0.0000%)" in str(found)


def test_the_first_node_that_differs_is_named(run, tmp_path):
    """One changed weight: not passed, the count, the largest difference, and the node."""
    path = other(run, tmp_path)
    found = ptqlab.verify(run.artifacts["hbm"], path, feeds()[1]).found
    assert not found.passed and found.first_difference == "conv2"
    assert 0 < found.outputs[0].mismatched <= 64 and found.outputs[0].max_abs > 0


def test_the_shell(run, tmp_path, capsys):
    """Data sets of hb_verifier: the original one, then the runtime one; exit code 0 and 1."""
    onnx_bc = f"{run.artifacts['original_float']},{run.artifacts['quantized']}"
    assert main(["verify", onnx_bc, "-i", "float.npy", "-i", "pixels.npy"]) == 0
    assert "CosineSimilarity" in capsys.readouterr().out
    same = f"{run.artifacts['quantized_removed']},{run.artifacts['hbm']}"
    assert main(["verify", "-m", same, "-i", "x=pixels.npy", "-c", "6"]) == 0
    assert "all outputs agree (|a - b| <= 1e-6)" in capsys.readouterr().out
    assert main(["verify", f"{run.artifacts['hbm']},{other(run, tmp_path)}", "-i", "pixels.npy"]) == 1
    assert "First node that differs: conv2" in capsys.readouterr().out


def test_the_original_data_is_enough_against_a_bc(run, capsys):
    """The bytes of the image inputs are made from the float data, which is told: the same cosine as with the bytes."""
    pair = f"{run.artifacts['calibrated']},{run.artifacts['quantized']}"
    assert main(["verify", pair, "-i", "float.npy", "-i", "pixels.npy"]) == 0
    given = capsys.readouterr().out
    assert main(["verify", pair, "-i", "float.npy"]) == 0
    derived = capsys.readouterr().out
    assert derived.startswith(given.rstrip("\n"))
    assert "The bytes of the image inputs of model_quantized_model.bc were made from the float data." in derived


@pytest.mark.parametrize(("words", "answer", "code"), [
    ("{bc} -i float.npy", "two models", 2), ("{bc},{hbm} -i float.npy", "uint8 [1, 8, 8, 3]", 1),
    ("{bc},{hbm} -i nothing.npy", "nothing.npy", 1), ("{bc},nowhere.hbm -i pixels.npy", "nowhere.hbm", 1),
    ("{bc},{hbm} -m a,b -i pixels.npy", "once", 2)])
def test_refusals(run, capsys, words, answer, code):
    """What does not fit is named; no traceback."""
    line = words.format(bc=run.artifacts["quantized"], hbm=run.artifacts["hbm"])
    assert main(["verify", *line.split()]) == code
    err = capsys.readouterr().err
    assert answer in err and "Traceback" not in err


def test_models_that_share_no_output(run, tmp_path):
    """Two models of different outputs cannot be compared."""
    nodes = [node("Relu", ["x"], "z", "relu")]
    onnx.save(model(nodes, [value("x", [1, 3, 8, 8])], [value("z", None)], []), tmp_path / "o.onnx")
    with pytest.raises(PtqError, match="PTQ642"):
        ptqlab.verify(run.artifacts["original_float"], tmp_path / "o.onnx", feeds()[0])


@pytest.fixture(scope="module", params=["batch", "inputs of their own", "some inputs", "nv12", "nv12 of their own"])
def batched(request, tmp_path_factory):
    """Two images in one run, as one input or as two, floats or camera bytes; and what one image gives."""
    from image_nets import as_image, compiled

    folder = tmp_path_factory.mktemp("batched")
    more = as_image("nv12") if "nv12" in request.param else {}
    split = {"separate_name": "x"} if "some" in request.param else {"separate_batch": "own" in request.param}
    return compiled(folder / "out", input_batch=2, **split, **more), bool(more)


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("key", ["quantized", "hbm"])
def test_a_model_with_a_batch_is_fed_from_the_float_data(batched, key, count):
    """One image stands for the whole batch, two are the two of it: cosine of all outputs, the derived feed is told."""
    from image_nets import floats, photos

    run, image = batched
    np.save("images.npy", np.concatenate([floats(p) for p in photos()[:count]]))
    pair = f"{run.artifacts['calibrated']},{run.artifacts[key]}"
    found = verify_files(tuple(pair.split(",")), [[("", Path("images.npy"))]])
    [row] = found.outputs
    assert row.count == 2 * 5 * 32 * 48
    assert row.cosine > (0.98 if image else 0.999)
    one_input = ptqlab.Runtime(run.artifacts[key]).input_names == ["x"]
    assert found.derived == ("" if one_input and count == 2 else Path(run.artifacts[key]).name)


def test_images_of_another_number_do_not_fit(batched, capsys):
    """Three images are neither one nor a batch of two: refused with what the model takes."""
    from image_nets import floats, photos

    run, _ = batched
    np.save("images.npy", np.concatenate([floats(p) for p in photos()[:3]]))
    assert main(["verify", f"{run.artifacts['calibrated']},{run.artifacts['quantized']}", "-i", "images.npy"]) == 1
    assert "the files hold float32 [3, 3, 32, 48]" in capsys.readouterr().err


def test_first_difference_of_a_bc_and_an_hbm(run, tmp_path, capsys):
    """.bc against another .hbm, and two .bc, which are compared by cosine: the node whose codes part first."""
    path = other(run, tmp_path)
    pair = f"{run.artifacts['quantized_removed']},{path}"
    assert main(["verify", pair, "-i", "pixels.npy"]) == 1
    assert "First node that differs: conv2" in capsys.readouterr().out
    second = tmp_path / "other.bc"
    artifact = read_quantized(path)
    write_quantized(artifact.quantized, second, "bc", dict(artifact.about))
    found = ptqlab.verify(run.artifacts["quantized_removed"], second, feeds()[1]).found
    assert found.mode == "cosine" and found.outputs[0].cosine < 1 and found.first_difference == "conv2"
    assert main(["verify", f"{run.artifacts['quantized_removed']},{second}", "-i", "pixels.npy"]) == 0
    assert "First node that differs: conv2" in capsys.readouterr().out
    same = ptqlab.verify(run.artifacts["quantized_removed"], run.artifacts["quantized_removed"], feeds()[1]).found
    assert same.first_difference == ""
