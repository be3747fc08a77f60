"""The verbs debug and tune: flags as hmct-debugger has them, results as the Python functions give them."""
from __future__ import annotations

import numpy as np
import pytest
from debug_nets import written

from ptqlab.cli.debugging import QTYPES, truth
from ptqlab.cli.main import main
from ptqlab.cli.parser import build, parse
from ptqlab.debug import raising
from ptqlab.errors import PtqError
from ptqlab.examples import digits


def test_sensitivity_prints_and_writes_the_table(tmp_path, capsys):
    """Lists are text; the log holds what is printed."""
    model, data = written(tmp_path)
    words = ["debug", "get-sensitivity-of-nodes", str(model), str(data), "-m", "[mse,'cosine-similarity']", "-n",
             "weight", "-d", "2", "-v", "True", "-s", str(tmp_path / "log")]
    assert main(words) == 0
    shown = capsys.readouterr().out
    assert shown == (tmp_path / "log" / "weight_sensitivity.log").read_text()
    assert shown.splitlines()[1].split() == ["node", "mse", "cosine-similarity"]


def test_accumulated_error_and_causes(tmp_path, capsys):
    """Two curves go into a page; diagnose names cause and remedy."""
    model, data = written(tmp_path)
    assert main(["debug", "plot-acc-error", str(model), str(data), "-q", "[weight,activation]", "-a", "True", "-s",
                 str(tmp_path / "plots")]) == 0
    assert capsys.readouterr().out.startswith("2 curves") and (tmp_path / "plots" / "accumulated_error.html").is_file()
    assert main(["debug", "diagnose", str(model), str(data), "-w", "2"]) == 0
    told = capsys.readouterr().out.splitlines()
    assert len(told) == 2 and all("Do: " in line for line in told)


def test_the_other_sub_commands(tmp_path, capsys):
    """Pages, a table, an analysis, and everything at once, with the flags of hmct-debugger."""
    model, data = (str(p) for p in written(tmp_path))
    out = str(tmp_path / "out")
    lines = {
        "plot-distribution": ["-n", "[conv0,x_HzCalibration]", "-s", out],
        "get-channelwise-data-distribution": ["-n", "['conv0']", "-a", "1", "-s", out],
        "tensor-analysis": ["-n", "[conv0]", "-s", out, "-np", "4"],
        "sensitivity-analysis": ["-p", "0.9999999", "-q", "int16", "-sd", out],
        "runall": ["-s", out, "-nt", "[weight]", "-nm", "[mse]", "-v", "False", "-avm", "True"],
    }
    shown = {}
    for name, words in lines.items():
        assert main(["debug", name, model, data, *words]) == 0, name
        shown[name] = capsys.readouterr().out
    assert shown["plot-distribution"].startswith("2 pages") and shown["tensor-analysis"].startswith("conv0: min ")
    assert float(shown["sensitivity-analysis"].splitlines()[-1].split()[-1]) > 0.999
    files = {p.name for p in (tmp_path / "out").rglob("*")}
    assert {"conv0.html", "tensor_analysis.csv", "sensitivity_analysis.html", "sensitivity_of_weight.log"} <= files


def test_sensitivity_of_a_run_and_of_a_file(tmp_path, capsys, monkeypatch):
    """The table of a run with its own data; a file with its folder, float16, a cache and the heatmap."""
    monkeypatch.chdir(tmp_path)
    config = digits.write_config(tmp_path / "example")
    assert main(["compile", "-c", str(config), "--working-dir", "out", "--skip", "compile"]) == 0
    capsys.readouterr()
    assert main(["sensitivity", "--run", "out", "-d", "1", "-p", "node", "-m", "sqnr"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("Sensitivity of ") and "int16" in shown
    model, data = (str(p) for p in written(tmp_path))
    words = ["-t", "[int8,float16]", "--march", "nash-p", "--workers", "1", "-q", "--cache", "kept", "-o", "a.html"]
    assert main(["sensitivity", model, data, *words]) == 0
    assert "float16" in capsys.readouterr().out and "plotly" in (tmp_path / "a.html").read_text()
    assert list((tmp_path / "kept").iterdir())
    assert main(["sensitivity", model, data, "--run", "out"]) == 2 and "or --run" in capsys.readouterr().err


def test_the_worst_samples_become_a_folder(tmp_path, capsys):
    """A line per sample, worst first; the folder holds them and can be debugged with."""
    model, data = (str(p) for p in written(tmp_path))
    out = tmp_path / "worst"
    assert main(["debug", "select-sensitive-samples", model, data, "-m", "sqnr", "-n", "2", "-s", str(out)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 and float(lines[0].split()[-1]) <= float(lines[1].split()[-1])
    files = sorted((out / "x").iterdir())
    assert [f.name for f in files] == [f"000{i}_{line.split()[0]}.npy" for i, line in enumerate(lines)]
    assert (np.load(files[0]) == np.load(tmp_path / "data" / f"{lines[0].split()[0]}.npy")).all()
    assert main(["debug", "get-sensitivity-of-nodes", model, str(out / "x")]) == 0


def test_tune_from_the_command_line(tmp_path, capsys):
    """A configuration, a target it meets at once; the files lie where they were asked for."""
    config = digits.write_config(tmp_path / "example")
    assert main(["tune", "-c", str(config), "--target", "0.9", "--save-dir", str(tmp_path / "tuned")]) == 0
    assert "reached" in capsys.readouterr().out
    names = {"quant_config.json", "final_quant_config.json", "tuning_report.md"}
    assert names <= {p.name for p in (tmp_path / "tuned").iterdir()}


@pytest.mark.parametrize(("words", "answer"), [
    (["debug"], "required: SUB"), (["debug", "diagnoses", "m", "d"], "invalid choice: 'diagnoses'"),
    (["tune", "-c", "a.yaml", "--target", "much"], "takes a number or none"),
    (["tune"], "give -c FILE"), (["tune", "-c", "a.yaml", "-m", "b.onnx"], "give -c FILE"),
])
def test_lines_that_are_not_taken(words, answer, capsys):
    """Exit code 2 and what is wrong."""
    assert main(words) == 2 and answer in capsys.readouterr().err


def test_truth_as_text():
    """True and False in any case; anything else is told."""
    assert truth("True", "-v") and not truth("false", "-v")
    with pytest.raises(PtqError, match="True or False"):
        truth("yes", "-v")


def test_documented_defaults():
    """Defaults of hmct-debugger."""
    args = parse(build(), ["debug", "get-sensitivity-of-nodes", "m.onnx", "d"])
    assert QTYPES == raising.QTYPES
    assert (args.metrics, args.node_type, args.data_num, args.save_dir) == ("cosine-similarity", "node", 1, None)
