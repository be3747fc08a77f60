"""Completion of %ptq lines."""
import pytest
from fake_pipeline import install
from IPython.core.completer import provisionalcompleter
from IPython.core.interactiveshell import InteractiveShell

from ptqlab.cli.parser import build
from ptqlab.notebook.complete import candidates

NODES = ["conv1", "head/softmax", "<script>alert(1)</script>", "a b", "it's"]


@pytest.mark.parametrize(("line", "word", "offered"), [
    ("", "", list(build().verbs())),
    ("co", "co", ["config", "compile", "cosine", "compare", "completion"]),
    ("completion ", "", ["bash", "zsh"]),
    ("ops --march nash-h", "nash-h", ["nash-h"]),
    ("config --schema q", "q", ["quant_config"]),
    ("--l", "--l", ["--lang"]),
    ("--lang ", "", ["en", "zh"]),
    ("compile --sk", "--sk", ["--skip"]),
    ("compile --skip ", "", ["export", "convert", "compile"]),
    ("compile --skip co", "co", ["convert", "compile"]),
    ("compile --march nash-h", "nash-h", ["nash-h"]),
    ("explain ", "", ["conv1", "head/softmax", "'<script>alert(1)</script>'", "'a b'", "'it'\"'\"'s'"]),
    ("explain head/s", "head/s", ["head/softmax"]),
    ("explain conv1 --r", "--r", ["--run"]),
    ("nonsense x", "x", []),
])
def test_candidates(line, word, offered):
    """Verbs, options, their choices, node names; names that a line would split are quoted."""
    assert candidates(build(), line, NODES) == (word, offered)


def test_paths(tmp_path, monkeypatch):
    """After -c only YAML files and folders, after --working-dir only folders; spaces in names are quoted."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.yaml").write_text("")
    (tmp_path / "net.onnx").write_text("")
    (tmp_path / "nets").mkdir()
    assert candidates(build(), "compile -c ne", []) == ("ne", ["net.yaml", "nets/"])
    assert candidates(build(), "compile -m ne", []) == ("ne", ["net.onnx", "nets/"])
    assert candidates(build(), "compile --working-dir ", []) == ("", ["nets/"])
    assert candidates(build(), "compile -c nets/", []) == ("nets/", [])
    assert candidates(build(), "check ne", []) == ("ne", ["net.onnx", "nets/"])
    (tmp_path / "net.hbm").write_text("")
    assert candidates(build(), "info ne", []) == ("ne", ["net.hbm", "net.onnx", "nets/"])
    assert candidates(build(), "verify net.onnx,ne", []) == ("ne", ["net.hbm", "net.onnx", "nets/"])
    assert candidates(build(), "compile --calibration-data x=ne", []) == ("ne", ["nets/"])


def complete(shell, text):
    with provisionalcompleter():
        return [made.text for made in shell.Completer.completions(text, len(text))]


def test_the_kernels_way_replaces_the_whole_word():
    """What a notebook front end receives: the text and the part of the line it replaces, dashes included."""
    shell = InteractiveShell()
    shell.run_line_magic("load_ext", "ptqlab")
    try:
        for line, text, start in (("%ptq compile --sk", "--skip", 13),
                                  ("x = %ptq compile --march nash-p", "nash-p", 25)):
            with provisionalcompleter():
                (made,) = shell.Completer.completions(line, len(line))
            assert (made.text, made.start, made.end) == (text, start, len(line))
    finally:
        shell.run_line_magic("unload_ext", "ptqlab")


def test_in_a_real_shell(monkeypatch, tmp_path):
    """IPython offers exactly our words, for lines and cells and after an assignment, and leaves other lines alone."""
    monkeypatch.chdir(tmp_path)
    install(monkeypatch, tmp_path / "out")
    shell = InteractiveShell()
    shell.run_line_magic("load_ext", "ptqlab")
    try:
        assert complete(shell, "%ptq compi") == ["compile"]
        assert complete(shell, "%%ptq compile --ski") == ["--skip"]
        assert complete(shell, "run = %ptq compile --skip e") == ["export"]
        assert "head/softmax" not in complete(shell, "%ptq explain ")
        shell.run_cell("%ptq compile -c net.yaml")
        assert "head/softmax" in complete(shell, "%ptq explain head/")
        shell.run_cell("compiled = 1")
        assert "compiled" in complete(shell, "compil")
        assert "compile" not in complete(shell, "print('%ptq comp")
    finally:
        shell.run_line_magic("unload_ext", "ptqlab")
