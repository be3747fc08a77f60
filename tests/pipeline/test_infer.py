"""infer: arrays in files through a model, arrays in files out."""

from __future__ import annotations

import numpy as np
import pytest

import ptqlab
from ptqlab.cli.main import main
from ptqlab.errors import PtqError
from ptqlab.examples import digits


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return ptqlab.compile(model=digits.model_path(), march="nash-e", working_dir=tmp_path_factory.mktemp("out"),
                          calibration_data=[digits.calibration_samples()[:1]],
                          quant_config={"model_config": {"activation": {"calibration_type": "max"}}})


@pytest.fixture(autouse=True)
def here(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", digits.heldout()[0][:1])


@pytest.mark.parametrize("key", ["original_float", "quantized", "hbm"])
def test_the_file_holds_what_the_runtime_gives(run, key):
    """Outputs in the file equal those of Runtime in every bit."""
    path = run.artifacts[key]
    files = ptqlab.infer(path, "x.npy", "out").files
    (expected,) = ptqlab.Runtime(path).run(None, {"image": np.load("x.npy")})
    assert np.array_equal(np.load(files["probabilities"]), expected)


def test_dumped_tensors(run):
    """Integers and their dequantized values differ by scale and zero point; "all" is every integer tensor."""
    path, tensor = run.artifacts["quantized"], "/stem/act/Relu_output_0"
    real = np.load(ptqlab.infer(path, {"image": "x.npy"}, "a", dump=[tensor]).files[tensor])
    codes = np.load(ptqlab.infer(path, {"image": "x.npy"}, "b", dump=["all"], integers=True).files[tensor])
    held = ptqlab.Runtime(path).encodings[tensor]
    assert codes.dtype == np.int8
    centred = codes.astype(np.float32) - np.float32(held["zero_point"])
    assert np.array_equal(real, centred * np.float32(held["scale"]))


def test_forms(run):
    """bin is the raw bytes, txt one number a line."""
    path = run.artifacts["quantized"]
    plain = np.load(ptqlab.infer(path, "x.npy", "a").files["probabilities"])
    raw = ptqlab.infer(path, "x.npy", "a", form="bin").files["probabilities"].read_bytes()
    lines = ptqlab.infer(path, "x.npy", "a", form="txt").files["probabilities"].read_text().split()
    assert raw == plain.astype("<f4").tobytes()
    assert np.array_equal(np.array(lines, np.float32), plain.ravel())


@pytest.mark.parametrize(("words", "answer", "code"), [
    ("-i y.npy", "y.npy", 1), ("-i nothing=x.npy", "known: image", 1), ("-i x.npy --dump stem", "no such integer", 1),
    ("-i x.npy -i x.npy", "given twice", 2), ("-i archive.npz", "archive", 1), ("-i object.npy", "cannot be read", 1),
    ("-i broken.npy", "cannot be read", 1), ("-i wrong.npy", "float64", 1),
    ("-i x.npy --form csv", "invalid choice", 2)])
def test_refusals_of_the_shell(run, capsys, words, answer, code):
    """Each says what is wrong; no traceback, nothing written."""
    np.savez("archive.npz", np.zeros(3))
    np.save("object.npy", np.array([{}], object), allow_pickle=True)
    np.save("wrong.npy", np.zeros((1, 1, 8, 8)))
    with open("broken.npy", "wb") as file, open("x.npy", "rb") as good:
        file.write(good.read()[:100])
    assert main(["infer", str(run.artifacts["quantized"]), "-o", "out", *words.split()]) == code
    err = capsys.readouterr().err
    assert answer in err and "Traceback" not in err


def test_a_float_model_dumps_nothing(run):
    """Its tensors are no integers: refused with what can."""
    with pytest.raises(PtqError, match=r"a \.bc or \.hbm"):
        ptqlab.infer(run.artifacts["optimized_float"], "x.npy", "out", dump=["all"])
