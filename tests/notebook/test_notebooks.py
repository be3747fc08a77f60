"""Every tutorial runs from start to end, and is committed without outputs."""
import re
from pathlib import Path

import nbclient
import nbformat
import pytest

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))


@pytest.fixture(params=NOTEBOOKS, ids=lambda p: p.stem)
def notebook(request):
    return nbformat.read(request.param, as_version=4)


def test_there_are_notebooks():
    """The parametrized tests below are about something."""
    assert "00_quickstart" in [p.stem for p in NOTEBOOKS]


def test_committed_without_outputs(notebook):
    """No output, no execution count, no path of a machine: differences show what was written."""
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert cell.outputs == []
            assert cell.execution_count is None
    nbformat.validate(notebook)


def test_bilingual(notebook):
    """Every text cell speaks English and Chinese."""
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            assert re.search(r"[\u4e00-\u9fff]", cell.source), cell.source
            assert re.search(r"[A-Za-z]{4} ", cell.source), cell.source


def execute(notebook, folder):
    nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(folder)}}).execute()
    return [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]


def test_runs_from_start_to_end(notebook, tmp_path):
    """Executed in an empty folder; no error, and no widget that a saved notebook could not show."""
    outputs = execute(notebook, tmp_path)
    assert not [o for o in outputs if o.output_type == "error"]
    assert not [o for o in outputs if "application/vnd.jupyter.widget-view+json" in o.get("data", {})]
    assert len(nbformat.writes(notebook)) < 1_000_000


def test_quickstart_shows_what_it_promises(tmp_path):
    """Report, node table, plot and explanation are there, and int8 loses less than one point of accuracy."""
    (path,) = [p for p in NOTEBOOKS if p.stem == "00_quickstart"]
    outputs = execute(nbformat.read(path, as_version=4), tmp_path)
    pages = [o.data.get("text/html", "") for o in outputs if "data" in o]
    assert sum("Model outputs" in page for page in pages) == 2
    assert any("Quantized Cosine" in page and "Reason" in page and "<table" in page for page in pages)
    assert any("application/vnd.plotly.v1+json" in o.get("data", {}) for o in outputs)
    assert any("<dt>Why</dt>" in page for page in pages)
    (table,) = [page for page in pages if "<th>accuracy</th>" in page]
    exact, int8, mixed = map(float, re.findall(r"<td>([\d.]+)</td>", table))
    assert exact > 0.97
    assert min(int8, mixed) > exact - 0.01
