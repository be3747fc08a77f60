"""The quickstart in a real JupyterLab, in a real browser."""
import shutil
from pathlib import Path

from chromium import BROWSER_MARKS, expect
from lab import MINUTE, RUN_ALL, START, command, darken, errors, open_notebook, picture, run_cell, show, write_notebook

QUICKSTART = Path(__file__).parents[2] / "notebooks" / "00_quickstart.ipynb"
#: A drawn plot; of a saved one the lab shows its picture until the mouse comes near.
PLOT = ".js-plotly-plot .trace path.point, .jp-RenderedPlotly img"
PICTURES = ((".ptqlab svg circle", "report"), (PLOT, "plot"), (".ptqlab dl", "explain"))

pytestmark = BROWSER_MARKS

SLOW = """\
import numpy as np
import ptqlab
from ptqlab.examples import digits

config = digits.write_config("demo_output")
ptqlab.compile(config, working_dir="demo_output/slow",
               calibration_data={"image": [np.random.rand(1, 1, 8, 8).astype("float32")] * 300_000})"""


def reports_and_plots_are_seen(page):
    expect(show(page, ".ptqlab .ptqlab-badge")).to_have_text("complete")
    show(page, ".ptqlab svg circle")
    show(page, "table.dataframe td:text-is('/stem/conv/Conv')")
    show(page, PLOT)
    show(page, ".ptqlab dt:text-is('Why')")


def test_quickstart_in_jupyterlab(lab, page, tmp_path):
    """Run all: report, tables and plot are seen, nothing is fetched from outside; saved and reopened they are
    seen again without running; in the dark theme the text is light."""
    shutil.copy(QUICKSTART, lab[1] / "quick.ipynb")
    open_notebook(page, lab, "quick.ipynb")
    page.evaluate(RUN_ALL)
    assert errors(page) == []
    reports_and_plots_are_seen(page)
    for part, name in PICTURES:
        show(page, part)
        picture(page, f"lab_{name}", tmp_path)
    command(page, "docmanager:save")
    open_notebook(page, lab, "quick.ipynb")
    reports_and_plots_are_seen(page)
    darken(page)
    for part, name in PICTURES:
        show(page, part)
        picture(page, f"lab_dark_{name}", tmp_path)
    colour = show(page, ".ptqlab td").evaluate("e => getComputedStyle(e).color")
    assert min(int(part) for part in colour.strip("rgba()").split(",")[:3]) > 150
    assert page.outside == []
    assert page.complaints == []


def test_stop_in_the_middle_of_a_compile(lab, page, tmp_path):
    """The stop button leaves one readable line, no traceback, and a kernel that goes on."""
    write_notebook(lab, "slow.ipynb", SLOW, "print('still', 'here')")
    open_notebook(page, lab, "slow.ipynb")
    page.evaluate(START)
    page.locator(".ptqlab progress").first.wait_for(timeout=MINUTE)
    picture(page, "lab_progress", tmp_path)
    command(page, "notebook:interrupt-kernel")
    outputs = page.locator(".jp-OutputArea-output")
    expect(outputs.filter(has_text="artifacts of earlier runs are untouched").first).to_be_visible(timeout=MINUTE)
    picture(page, "lab_stopped", tmp_path)
    assert len(errors(page)) == 1
    assert "Traceback" not in " ".join(outputs.all_inner_texts())
    run_cell(page, 1)
    expect(outputs.filter(has_text="still here").first).to_be_visible(timeout=MINUTE)
