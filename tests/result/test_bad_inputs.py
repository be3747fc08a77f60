"""quant_configs and calibration folders of the kinds that tools get wrong: the same answer from Python, from the shell
(exit code, no traceback) and from the notebook (one block, no traceback)."""
from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from IPython.core.interactiveshell import InteractiveShell
from models import init, ints, model, node, random, value

import ptqlab
from ptqlab.cli.main import main
from ptqlab.report import words
from ptqlab.result.compiled import CompileResult

X = random(1, 3, 8, 8, seed=1)
SAMPLES = {"x": [X]}


def conv_relu() -> onnx.ModelProto:
    """Conv, Relu (an output as well), Conv."""
    nodes = [node("Conv", ["x", "w", "b"], "c", "conv", pads=[1] * 4), node("Relu", ["c"], "r", "relu"),
             node("Conv", ["r", "w2"], "y", "conv2")]
    return model(nodes, [value("x", [1, 3, 8, 8])], [value("y", None), value("r", None)],
                 [init("w", random(4, 3, 3, 3)), init("b", random(4, seed=2)), init("w2", random(2, 4, 1, 1, seed=3))])


def passive_ends() -> onnx.ModelProto:
    """Reshape and Transpose at the head, Relu, Reshape and Concat behind the last Conv."""
    nodes = [
        node("Reshape", ["x", "s1"], "x4", "rs_h"), node("Transpose", ["x4"], "xt", "tr_h", perm=[0, 3, 1, 2]),
        node("Conv", ["xt", "w1"], "c1", "conv_h"), node("Relu", ["c1"], "r1", "relu_h"),
        node("Conv", ["r1", "w2"], "c2", "conv_t"), node("Relu", ["c2"], "r2", "relu_t"),
        node("Reshape", ["r2", "s2"], "f", "rs_t"), node("Concat", ["f", "f"], "y", "cat_t", axis=1)]
    return model(nodes, [value("x", [1, 192])], [value("y", None)],
                 [ints("s1", 1, 8, 8, 3), ints("s2", 1, 128), init("w1", random(4, 3, 1, 1)),
                  init("w2", random(2, 4, 1, 1, seed=2))])


def two_inputs() -> onnx.ModelProto:
    nodes = [node("Conv", ["x", "w"], "c", "conv"), node("Add", ["c", "x2"], "y", "add")]
    return model(nodes, [value("x", [1, 3, 8, 8]), value("x2", [1, 3, 8, 8])], [value("y", None)],
                 [init("w", random(3, 3, 1, 1))])


class Line:
    """One compile, run in three ways."""

    def __init__(self, net: onnx.ModelProto, quant: str | None, data: str) -> None:
        onnx.save(net, "net.onnx")
        self.keywords: dict[str, object] = {"model": "net.onnx", "march": "nash-e", "skip": "compile"}
        self.words = ["compile", "-m", "net.onnx", "--march", "nash-e", "--skip", "compile"]
        if quant is not None:
            Path("quant_config.json").write_text(quant, encoding="utf-8")
            self.keywords["quant_config"] = "quant_config.json"
            self.words += ["--quant-config", "quant_config.json"]
        pairs = [word.split("=") for word in data.split()]
        self.keywords["calibration_data"] = dict(pairs) if len(pairs) > 1 else pairs[0][-1]
        for word in data.split() if len(pairs) > 1 else [pairs[0][-1]]:
            self.words += ["--calibration-data", word]

    def python(self) -> CompileResult:
        return ptqlab.compile(**self.keywords, working_dir="python")

    def shell(self) -> int:
        return main([*self.words, "--working-dir", "shell"])

    def notebook(self) -> object:
        shell = InteractiveShell()
        shell.run_line_magic("load_ext", "ptqlab")
        try:
            return shell.run_cell(f"%ptq {' '.join(self.words)} --working-dir notebook")
        finally:
            shell.run_line_magic("unload_ext", "ptqlab")


@pytest.fixture(autouse=True)
def here(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(words._state, "language", "en")


def refused(line: Line, capsys: pytest.CaptureFixture[str], parts: tuple[str, ...]) -> None:
    """All three refuse with the same text, which holds every part; nothing is written but the log."""
    with pytest.raises(ptqlab.PtqError) as caught:
        line.python()
    told = str(caught.value)
    assert all(part in told for part in parts), told
    capsys.readouterr()
    assert line.shell() == 1
    out, err = capsys.readouterr()
    assert out == "" and err.endswith(told + "\n")
    result = line.notebook()
    out, err = capsys.readouterr()
    assert isinstance(result.error_in_exec, ptqlab.PtqError)
    assert told in out + err and "Traceback" not in out + err
    for folder in ("python", "shell", "notebook"):
        assert {p.name for p in Path(folder).glob("*")} <= {"hb_compile.log"}


def taken(line: Line, capsys: pytest.CaptureFixture[str], parts: tuple[str, ...]) -> CompileResult:
    """All three compile to the same rows and tell the same findings, which hold every part."""
    run = line.python()
    told = "\n".join(str(f) for f in run.warnings)
    assert all(part in told for part in parts), told
    capsys.readouterr()
    assert line.shell() == 0
    out, _ = capsys.readouterr()
    assert all(part in out for part in parts) and "Traceback" not in out
    result = line.notebook()
    out, err = capsys.readouterr()
    assert "Traceback" not in out + err
    assert result.result.record.nodes == ptqlab.load("shell").record.nodes == run.record.nodes
    return run


# name -> (network, text of quant_config, refused, what is said)
CONFIGS: dict[str, tuple[Callable[[], onnx.ModelProto], str, bool, tuple[str, ...]]] = {
    "unknown node": (conv_relu, '{"node_config": {"conv_typo": {"qtype": "int16"}}}', True,
                     ("quant_config.json:1", "unknown node conv_typo", "conv2")),
    "unknown type": (conv_relu, '{"node_config": {"conv": {"qtype": "int12"}}}', True,
                     ("node_config.conv.qtype", '"int12"', "int8, int16")),
    "unknown level": (conv_relu, '{"nodes_config": {"conv": {"qtype": "int16"}}}', True,
                      ("unknown top-level key nodes_config", "model_config, op_config, subgraph_config, node_config")),
    "input that is not there": (conv_relu, '{"node_config": {"conv": {"input3": "int16"}}}', True,
                                ("input 3 of conv, which has 3 inputs", "input0, input1, input2")),
    "no JSON": (conv_relu, '{"node_config": ', True, ("quant_config.json:1",)),
    "passive operator": (passive_ends, '{"node_config": {"cat_t": {"qtype": "int16"}}}', False,
                         ("cat_t: int16 was asked for in node_config and has no effect", "only moves data")),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_a_quant_config(name, capsys):
    """Refused with place, what was found and what is allowed; or taken, with the request answered."""
    net, text, refusal, parts = CONFIGS[name]
    folder = Path("data/x")
    folder.mkdir(parents=True)
    np.save(folder / "0.npy", X.reshape(1, 192) if net is passive_ends else X)
    line = Line(net(), text, "x=data/x")
    (refused if refusal else taken)(line, capsys, parts)


def test_levels_of_a_quant_config(capsys):
    """node > op > model; and an empty quant_config is the same as none."""
    Path("data/x").mkdir(parents=True)
    np.save("data/x/0.npy", X)
    text = json.dumps({"model_config": {"all_node_type": "int16"}, "op_config": {"Conv": {"qtype": "int8"}},
                       "node_config": {"conv2": {"qtype": "int16"}}})
    run = taken(Line(conv_relu(), text, "x=data/x"), capsys, ())
    asked = dict(zip(run.nodes["Node"], run.nodes["Asked"], strict=True))
    assert asked == {"conv": "int8", "relu": "int16", "conv2": "int16"}
    empty = taken(Line(conv_relu(), "{}", "x=data/x"), capsys, ())
    none = Line(conv_relu(), None, "x=data/x").python()
    assert empty.record.nodes == none.record.nodes and empty.record.outputs == none.record.outputs


def empty(folder: Path) -> None:
    """Nothing."""


def one(name: str, array: np.ndarray) -> Callable[[Path], None]:
    return lambda folder: np.save(folder / name, array, allow_pickle=True)


def several(*arrays: np.ndarray) -> Callable[[Path], None]:
    return lambda folder: [np.save(folder / f"{i}.npy", a) for i, a in enumerate(arrays)]


def mixed(folder: Path) -> None:
    np.save(folder / "0.npy", X)
    (folder / ".DS_Store").write_bytes(b"\0\1")
    (folder / "notes.txt").write_text("hi")
    (folder / "sub").mkdir()
    np.save(folder / "sub" / "1.npy", X)


def cut_off(folder: Path) -> None:
    np.save(folder / "0.npy", X)
    content = (folder / "0.npy").read_bytes()
    (folder / "0.npy").write_bytes(content[: len(content) // 2])


def with_nan(folder: Path) -> None:
    for index in range(3):
        array = random(1, 3, 8, 8, seed=index)
        if index == 1:
            array[0, 0, 0, :2] = np.nan
        np.save(folder / f"{index}.npy", array)


# name -> (writer, refused, what is said)
FOLDERS: dict[str, tuple[Callable[[Path], object], bool, tuple[str, ...]]] = {
    "empty": (empty, True, ("no sample found", "data/x")),
    "float64": (one("0.npy", X.astype(np.float64)), False, ("float64", "float32")),
    "one axis too many": (one("0.npy", X[None]), True, ("0.npy", "1x1x3x8x8", "1x3x8x8")),
    "other layout": (one("0.npy", X.transpose(0, 2, 3, 1).copy()), True, ("0.npy", "1x8x8x3", "NHWC")),
    "no batch": (one("0.npy", X[0]), False, ("3x8x8",)),
    "other things in the folder": (mixed, False, (".DS_Store", "notes.txt", "sub")),
    "pickled": (one("0.npy", np.array([{"a": 1}], object)), True, ("0.npy", "pickled")),
    "cut off": (cut_off, True, ("0.npy", "cut off")),
    "NaN": (with_nan, True, ("1.npy", "NaN", "2 ")),
    "all zero": (several(*[np.zeros_like(X)] * 3), False, ("zero",)),
}


@pytest.mark.parametrize("name", FOLDERS)
def test_a_calibration_folder(name, capsys):
    """Refused naming the file, what was found and what was wanted; or taken, with what was done about it."""
    write, refusal, parts = FOLDERS[name]
    folder = Path("data/x")
    folder.mkdir(parents=True)
    write(folder)
    line = Line(conv_relu(), None, "x=data/x")
    if refusal:
        refused(line, capsys, parts)
        return
    run = taken(line, capsys, parts)
    thresholds = run.nodes["Threshold"].dropna()
    assert (thresholds > 0).all() and np.isfinite(thresholds).all()
    if name != "all zero":
        assert run.outputs["Quantized Cosine"].min() > 0.99
    assert not run.nodes["Quantized Cosine"].isna().any()


def test_unequal_counts(capsys):
    """Two inputs with 3 and 2 samples: both names and both counts."""
    for name, count in (("x", 3), ("x2", 2)):
        Path("data", name).mkdir(parents=True)
        for index in range(count):
            np.save(f"data/{name}/{index}.npy", random(1, 3, 8, 8, seed=index))
    refused(Line(two_inputs(), None, "x=data/x x2=data/x2"), capsys, ("x", "x2", "3", "2"))


def test_ranges_that_differ_a_million_times(capsys):
    """First sample up to 0.001, second up to 1000: the threshold is 1000, whatever the histogram began with."""
    Path("data/x").mkdir(parents=True)
    unit = X / np.abs(X).max()
    np.save("data/x/0.npy", (unit * np.float32(1e-3)))
    np.save("data/x/1.npy", (unit * np.float32(1e3)))
    text = '{"model_config": {"activation": {"calibration_type": "max"}}}'
    run = taken(Line(conv_relu(), text, "x=data/x"), capsys, ())
    assert run.nodes.set_index("Node").loc["conv", "Threshold"] == pytest.approx(1000, rel=1e-6)


def test_order_and_encoding_of_files_do_not_matter(capsys):
    """Big-endian and Fortran-ordered arrays, and names that sort badly as text: the same numbers."""
    Path("a/x").mkdir(parents=True)
    Path("b/x").mkdir(parents=True)
    arrays = [random(1, 3, 8, 8, seed=i) for i in range(3)]
    for name, array in zip(("1", "2", "10"), arrays, strict=True):
        np.save(f"a/x/{name}.npy", array)
        np.save(f"b/x/{name}.npy", np.asfortranarray(array) if name == "2" else array.astype(">f4"))
    runs = [Line(conv_relu(), None, f"x={d}/x").python() for d in "ab"]
    assert runs[0].record.nodes == runs[1].record.nodes
