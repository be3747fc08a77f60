"""Help in the language of views."""
import pytest

from ptqlab.artifacts.tables import width
from ptqlab.cli.help import language_in, wrapped
from ptqlab.cli.main import main
from ptqlab.report import words


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    """Every test begins and ends in English."""
    monkeypatch.delenv("PTQLAB_LANG", raising=False)
    monkeypatch.setitem(words._state, "language", "")


@pytest.mark.parametrize(("line", "language"), [
    ("check -m a.onnx", ""), ("--lang zh check", "zh"), ("check --lang=zh", "zh"), ("--lang zh check --lang en", "en"),
    ("--lang xx", ""), ("check --lang", ""),
])
def test_a_line_chooses_its_language(line, language):
    """--lang before or behind the verb, with or without =; the last one counts, what is unknown is not taken."""
    assert language_in(line.split()) == language


def test_help_in_chinese(capsys):
    """Help is Chinese where the line or the environment asks for it, options and verbs keep their names."""
    assert main(["--lang", "zh", "compile", "-h"]) == 0
    shown = capsys.readouterr().out
    assert "量化并仿真模型" in shown and "选项:" in shown and "--calibration-data [NAME=]DIR" in shown
    assert main(["--lang", "en", "compile", "-h"]) == 0
    assert "quantize a model" in capsys.readouterr().out


def test_a_refused_line_in_chinese(capsys):
    """What argparse does not take is said in Chinese, with the nearest verb."""
    assert main(["--lang", "zh", "inferx"]) == 2
    shown = capsys.readouterr().err
    assert "参数 VERB 不能取 'inferx'" in shown and "是不是 'infer'？" in shown


def test_wrapped_by_columns():
    """A Chinese character takes two columns and may end a line; words and closing marks are not torn off."""
    lines = wrapped("校准样本目录；多输入模型写 NAME=，可重复 cosine-similarity", 16)
    assert lines == ["校准样本目录；多", "输入模型写", "NAME=，可重复", "cosine-similarity"]
    assert all(width(line) <= 17 for line in lines)
