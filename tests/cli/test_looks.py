"""config, ops, perf and completion in the shell."""
from __future__ import annotations

import json
import shutil
import subprocess

import onnx
import pytest
import yaml
from models import init, model, node, random, value

import ptqlab
from ptqlab.cli.completion import script
from ptqlab.cli.main import main
from ptqlab.cli.parser import build
from ptqlab.config import config_schema, quant_config_schema
from ptqlab.examples import digits
from ptqlab.report import words


@pytest.fixture(autouse=True)
def here(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(words._state, "language", "en")


def two_inputs() -> None:
    nodes = [node("Conv", ["img", "w"], ["c"], "conv"), node("Add", ["c", "state"], ["y"], "add")]
    onnx.save(model(nodes, [value("img", ["N", 3, 8, 8]), value("state", [1, 4, 8, 8])], [value("y", None)],
                    [init("w", random(4, 3, 1, 1))]), "two.onnx")


def test_config_writes_what_hb_config_generator_writes(tmp_path, capsys):
    """Names of the files (documented), the values of the model filled in, never over a file that is there."""
    two_inputs()
    assert main(["config", "-f", "-m", "two.onnx", "--march", "nash-m"]) == 0
    assert "full_compile_config.yaml" in capsys.readouterr().out
    held = yaml.safe_load((tmp_path / "full_compile_config.yaml").read_text(encoding="utf-8"))
    assert held["model_parameters"]["march"] == "nash-m"
    inputs = held["input_parameters"]
    assert (inputs["input_name"], inputs["input_shape"]) == ("img;state", "1x3x8x8;1x4x8x8")
    assert (inputs["input_type_rt"], inputs["input_type_train"]) == ("nv12;featuremap", "bgr;featuremap")
    assert held["calibration_parameters"]["cal_data_dir"].count(";") == 1
    assert main(["config", "-s"]) == 0
    kept = (tmp_path / "simple_compile_config.yaml").read_text(encoding="utf-8")
    assert "onnx_model: ./model.onnx" in kept
    assert main(["config", "-s", "--march", "nash-p"]) == 1
    assert "--force" in capsys.readouterr().err
    assert (tmp_path / "simple_compile_config.yaml").read_text(encoding="utf-8") == kept
    assert main(["config", "-s", "--march", "nash-p", "--force"]) == 0
    assert "march: nash-p" in (tmp_path / "simple_compile_config.yaml").read_text(encoding="utf-8")


def test_schemas_are_json(capsys):
    """`config --schema` prints the schema of the YAML, `config --schema quant_config` that of the JSON."""
    assert main(["config", "--schema"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(config_schema()))
    assert main(["config", "--schema", "quant_config"]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == quant_config_schema()["title"]


@pytest.mark.parametrize(("line", "code", "answer"), [
    ("config", 2, "required"), ("config -s -f", 2, "not allowed"), ("config -c", 2, "custom operators"),
    ("config -s -i x 1x3", 2, "give -m"), ("config -s -m none.onnx", 1, "none.onnx"),
    ("ops --op Convv", 1, "did you mean Conv"), ("perf --layers none.jsonl --march nash-e", 1, "none.jsonl"),
    ("perf --layers a.jsonl", 2, "needs --march"), ("perf --march nash-e", 2, "--layers"),
    ("perf", 1, "no run was named"),
])
def test_refusals(capsys, line, code, answer):
    """Each line says what is missing; no traceback."""
    assert main(line.split()) == code
    err = capsys.readouterr().err
    assert answer in err and "Traceback" not in err


def test_ops_lists_the_table_and_explains_one_operator(capsys):
    """One row for every operator; with --op all its rules; JSON holds the same."""
    assert main(["ops", "--march", "nash-e"]) == 0
    out = capsys.readouterr().out
    assert "Operators of the BPU on nash-e" in out and "| Conv " in out
    assert main(["ops", "--op", "softmax"]) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith("  Softmax: BPU, active")
    assert main(["ops", "--json", "--op", "Conv"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["op_type"] == "Conv" and row["engine"] == "TAE" and len(row["rules"]) > 1
    assert {r.op_type for r in ptqlab.operators("nash-p").rows} >= {"Conv", "Softmax", "ArgMax"}


def test_perf_of_tables_and_of_a_run(capsys, tmp_path):
    """Layer tables give a row each, as text and JSON; a run tells its own estimate."""
    header = {"model": "tiny", "input": [1, 3, 8, 8]}
    layer = {"op": "Conv", "in": [[1, 3, 8, 8]], "out": [1, 16, 8, 8], "k": [3, 3], "s": [1, 1], "macs": 27648,
             "wb": 432, "ib": 192, "ob": 1024, "src": [-1], "net_out": 1}
    (tmp_path / "tiny.jsonl").write_text(f"{json.dumps(header)}\n{json.dumps(layer)}\n")
    assert main(["perf", "--layers", "tiny.jsonl", "tiny.jsonl", "--march", "nash-e", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [r["model"] for r in rows] == ["tiny", "tiny"]
    assert set(rows[0]) >= {"march", "latency_us", "board_latency_us", "fps_1_thread", "fps_2_threads"}
    assert main(["perf", "--layers", "tiny.jsonl", "--march", "nash-e"]) == 0
    assert "| tiny " in capsys.readouterr().out
    ptqlab.fast_perf(model=digits.model_path(), march="nash-e")
    assert main(["perf"]) == 0
    assert "FPS, two threads" in capsys.readouterr().out
    assert main(["perf", "--run", "model_output", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["latency_us"] > 0


def offered(line: str, tmp_path) -> list[str]:
    """What bash offers behind `line`, by the script itself."""
    words = line.split(" ")
    body = f"""
{script(build(), "bash")}
COMP_WORDS=({" ".join(f"'{w}'" for w in words)}); COMP_CWORD={len(words) - 1}
_ptqlab; printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    done = subprocess.run(["bash", "--norc", "-c", body], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize(("line", "words"), [
    ("ptqlab che", ["check"]),
    ("ptqlab --la", ["--lang"]),
    ("ptqlab --lang ", ["en", "zh"]),
    ("ptqlab check --march nash-b", ["nash-b", "nash-b-lite", "nash-b-plus"]),
    ("ptqlab compile --sk", ["--skip"]),
    ("ptqlab compile --skip ", ["export", "convert", "compile"]),
    ("ptqlab compile -c ", ["nets/", "net.yaml"]),
    ("ptqlab check n", ["nets/", "net.onnx"]),
    ("ptqlab info net", ["nets/", "net.onnx", "net.hbm"]),
    ("ptqlab completion ", ["bash", "zsh"]),
    ("ptqlab compile --working-dir n", ["nets/"]),
])
def test_bash_completes(tmp_path, line, words):
    """Verbs, options, their choices, and files of the right kind."""
    (tmp_path / "nets").mkdir()
    for name in ("net.onnx", "net.yaml", "net.hbm"):
        (tmp_path / name).write_text("")
    assert offered(line, tmp_path) == words


def test_zsh_gets_the_same_by_its_bash_layer(capsys):
    """The zsh script declares itself and loads the layer that runs bash completions."""
    assert main(["completion", "zsh"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("#compdef ptqlab\nautoload -U +X bashcompinit")
    assert out.split("_ptqlab_paths() {")[1].strip() == script(build(), "bash").split("_ptqlab_paths() {")[1].strip()
