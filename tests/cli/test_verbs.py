"""What the verbs do with their arguments."""
from pathlib import Path

import pytest
from fake_pipeline import install

import ptqlab
from ptqlab.cli.parser import Usage, build, parse
from ptqlab.cli.values import files_of, folders, shapes
from ptqlab.cli.verbs import VERBS, Session, chosen_run, run_compile, run_demo
from ptqlab.errors import PtqError


def arguments(*words):
    return parse(build(), words)


def compiled(*words):
    return run_compile(arguments("compile", *words), Session())


@pytest.fixture
def fake(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    return install(monkeypatch, tmp_path / "model_output")


def test_compile_by_configuration_and_by_keywords(fake):
    """Options reach the configuration under the names of the Python call."""
    compiled("-c", "c.yaml", "--march", "nash-m", "--working-dir", "w")
    assert (fake.source, fake.keywords) == (Path("c.yaml"), {"march": "nash-m", "working_dir": Path("w")})
    compiled("-m", "n.onnx", "--march", "nash-e", "-i", "x", "1x3x8x8", "--quant-config",
                          "q.json", "--calibration-data", "x=d", "--calibration-data", "y=e", "--prefix", "p",
                          "--skip", "compile")
    assert fake.source is None
    assert fake.keywords == {"model": Path("n.onnx"), "march": "nash-e", "input_shape": {"x": (1, 3, 8, 8)},
                             "prefix": "p", "quant_config": Path("q.json"),
                             "calibration_data": {"x": Path("d"), "y": Path("e")}, "skip": "compile"}
    assert fake.skip == "compile"


def test_input_shape_beside_a_configuration_is_told(fake, tmp_path):
    """Documented: it has no effect there; so the log says it instead of keeping quiet."""
    compiled("-c", "c.yaml", "-i", "x", "1x3")
    assert "input_shape" not in fake.keywords
    assert "PTQ202 -i/--input-shape has no effect" in (tmp_path / "model_output" / "hb_compile.log").read_text()


@pytest.mark.parametrize(("words", "answer"), [
    ("", "give -c FILE"),
    ("-c c.yaml -m n.onnx", "leave out -m"),
    ("-c c.yaml -m n.bc", "recompiling a .bc is not there yet"),
    ("-m n.bc --march nash-e", "recompiling a .bc is not there yet"),
    ("-c c.yaml --fast-perf", "--fast-perf takes -m"),
    ("-c c.yaml --core-num 2", "set core_num in the configuration"),
    ("-m n.onnx --calibration-data d --core-num 2", "set core_num in the configuration"),
    ("-m n.onnx --skip compile", "-m alone is a check, which takes no --skip"),
    ("-m n.onnx --working-dir w --prefix p", "takes no --working-dir, --prefix"),
    ("--fast-perf -m n.onnx --calibration-data d", "takes no --calibration-data"),
])
def test_a_line_that_means_nothing_is_a_usage_error(fake, words, answer):
    """The refusals of hb_compile (documented), and options that would be ignored in the mode of the line."""
    with pytest.raises(Usage, match=answer):
        compiled(*words.split())


def test_caffe_is_refused_with_the_way_out(fake):
    """--proto and Caffe suffixes, in every verb that takes a model."""
    for words in ("compile -m n.caffemodel --proto n.prototxt", "check n.caffemodel --march nash-e",
                  "config -s -m n.onnx -p n.prototxt", "fast-perf --proto n.prototxt --march nash-e"):
        args = arguments(*words.split())
        with pytest.raises(PtqError, match="export the network to ONNX"):
            VERBS[args.verb](args, Session())


def test_shapes():
    """All bad pairs are told at once, and a name given twice."""
    assert shapes([["a", "1x3x224x224"], ["b", "7"]]) == {"a": (1, 3, 224, 224), "b": (7,)}
    with pytest.raises(PtqError) as caught:
        shapes([["a", "1x3x"], ["b", "0x2"], ["c", "1,3"], ["d", "1x-1"], ["e", "1"], ["e", "2"], ["f", "9" * 5000]])
    assert [p.where for p in caught.value.problems] == [f"--input-shape {n}" for n in "abcdfe"]


def test_folders():
    """One folder, or one per input; a mixture is refused."""
    assert folders(["d"]) == Path("d")
    assert folders(["a=d", "b=e=f"]) == {"a": Path("d"), "b": Path("e=f")}
    with pytest.raises(PtqError, match="NAME=DIR"):
        folders(["a=d", "e", "=f"])


def test_the_chosen_run(fake, tmp_path):
    """--run, else the session's last, else ./model_output, else a refusal that says so."""
    with pytest.raises(PtqError, match="no run was named"):
        chosen_run(arguments("explain", "n"), Session())
    run = ptqlab.compile("c.yaml")
    assert chosen_run(arguments("explain", "n"), Session()).record.to_json() == run.record.to_json()
    assert chosen_run(arguments("explain", "n"), Session(run)) is run
    other = run.save(tmp_path / "kept")
    assert chosen_run(arguments("explain", "n", "--run", str(other)), Session(run)).directory == other


def test_demo_writes_the_example_and_compiles_it(fake, tmp_path):
    """The digits network with its data lies in the folder, the run's artifacts below it."""
    run = run_demo(arguments("demo", "--working-dir", str(tmp_path / "demo"), "--march", "nash-m"), Session())
    assert fake.source == tmp_path / "demo" / "config.yaml"
    assert "nash-m" in fake.source.read_text()
    assert run.directory == tmp_path / "demo" / "model_output"


def test_files(tmp_path):
    """NAME=FILE or FILE; a file whose name holds the sign is a file; empty ones are refused."""
    odd = tmp_path / "a=b.npy"
    odd.write_text("")
    assert files_of(["x=f.npy", "g.npy", str(odd)], "infer") == [
        ("x", Path("f.npy")), ("", Path("g.npy")), ("", odd)]
    with pytest.raises(PtqError) as caught:
        files_of(["x=", "=f", ""], "infer")
    assert len(caught.value.problems) == 3
