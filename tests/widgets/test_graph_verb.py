"""The verbs `graph` and `dashboard`: a widget in a notebook, a page or a word of advice in a shell."""
import pytest
from graph_runs import write_run
from IPython.core.interactiveshell import InteractiveShell

from ptqlab.cli.main import main
from ptqlab.report import words
from ptqlab.widgets.graph import GraphView


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(words._state, "language", "en")
    write_run(tmp_path / "model_output")
    return tmp_path


@pytest.fixture
def shell(folder):
    made = InteractiveShell()
    made.run_line_magic("load_ext", "ptqlab")
    yield made
    made.run_line_magic("unload_ext", "ptqlab")


def test_a_shell_writes_a_page(folder, capsys):
    """With -o the page is written and named; a second time it takes the place of the first."""
    for color in ("qtype", "on"):
        assert main(["graph", "-o", "g.html", "--color", color]) == 0
        assert capsys.readouterr().out.strip() == "g.html"
    page = (folder / "g.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html><html lang='en'>")
    assert "<title>digits, nash-e: optimized model, 24 nodes</title>" in page and "where the node runs" in page
    assert main(["graph", "pool", "--hops", "1", "-o", "g.html"]) == 0
    assert "3 of 24 nodes" in (folder / "g.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(("line", "said"), [
    (["graph"], "graph: a widget, which needs a notebook: %ptq graph, or graph -o FILE.html writes a page"),
    (["dashboard"], "dashboard: a widget, which needs a notebook: %ptq dashboard"),
    (["graph", "--stage", "optimised", "-o", "g.html"], "did you mean 'optimized'?")])
def test_what_a_shell_cannot_show(folder, capsys, line, said):
    """A line that needs a notebook, and a choice that is none, end with what to do instead."""
    assert main(line) == 2
    assert said in capsys.readouterr().err


def test_a_refusal_leaves_no_page(folder, capsys):
    """An unknown node and a stage that the run did not reach: the refusal, and no file."""
    assert main(["graph", "/block1/conv/Con", "-o", "g.html"]) == 1
    assert "did you mean '/block1/conv/Conv'" in capsys.readouterr().err
    assert main(["graph", "--stage", "hbm", "-o", "g.html"]) == 1
    assert "the run left no hbm model" in capsys.readouterr().err
    assert not (folder / "g.html").exists()


def test_the_magic_gives_the_widget(shell):
    """`%ptq graph NODE` is the widget, cut around the node and in the colour asked for."""
    view = shell.run_cell("%ptq graph pool --hops 1 --color on").result
    assert isinstance(view, GraphView)
    assert (view.color, len(view.graph.outline.nodes), view.selected) == ("on", 3, ["pool"])
