"""The quickstart in a real JupyterLab, in a real browser."""
import contextlib
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import nbformat
import pytest
from chromium import BROWSER_MARKS, CHROMIUM, FLAGS, TimeoutError, expect, sync_playwright

QUICKSTART = Path(__file__).parents[2] / "notebooks" / "00_quickstart.ipynb"
MINUTE = 60_000
#: A drawn plot; of a saved one the lab shows its picture until the mouse comes near.
PLOT = ".js-plotly-plot .trace path.point, .jp-RenderedPlotly img"
PICTURES = ((".ptqlab svg circle", "report"), (PLOT, "plot"), (".ptqlab dl", "explain"))

pytestmark = BROWSER_MARKS

RUN_ALL = """async () => {
    const app = window.jupyterapp, panel = app.shell.currentWidget;
    await panel.context.ready; await panel.sessionContext.ready; await panel.sessionContext.session.kernel.info;
    await app.commands.execute('notebook:run-all-cells');
}"""
START = RUN_ALL.replace("await app.commands", "app.commands")  # does not wait for the cells
SLOW = """\
import numpy as np
import ptqlab
from ptqlab.examples import digits

config = digits.write_config("demo_output")
ptqlab.compile(config, working_dir="demo_output/slow",
               calibration_data={"image": [np.random.rand(1, 1, 8, 8).astype("float32")] * 300_000})"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """A JupyterLab server on a folder of its own, with settings of its own; gives (address, folder)."""
    root = tmp_path_factory.mktemp("lab")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    names = ("_CONFIG_DIR", "_DATA_DIR", "_RUNTIME_DIR", "LAB_SETTINGS_DIR", "LAB_WORKSPACES_DIR")
    quiet = root / ".jupyterLAB_SETTINGS_DIR" / "@jupyterlab" / "apputils-extension"
    quiet.mkdir(parents=True)
    (quiet / "notification.jupyterlab-settings").write_text('{"fetchNews": "false"}')
    environment = os.environ | {f"JUPYTER{name}": str(root / f".jupyter{name}") for name in names}
    server = subprocess.Popen(
        [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", f"--port={port}",
         "--ServerApp.port_retries=0", "--IdentityProvider.token=", "--ServerApp.disable_check_xsrf=True",
         "--LabApp.news_url=None", "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
         f"--ServerApp.root_dir={root}", "--LabApp.expose_app_in_browser=True"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
    address = f"http://127.0.0.1:{port}"
    try:
        for _ in range(300):
            with contextlib.suppress(OSError):
                urllib.request.urlopen(address + "/api/status", timeout=1)
                break
            assert server.poll() is None, "the lab server ended"
            time.sleep(0.2)
        yield address, root
    finally:
        server.terminate()
        server.wait(30)


@pytest.fixture
def page(lab):
    """A page that collects every request to anywhere but the lab, and every error of the console."""
    address, _ = lab
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        made = browser.new_page(viewport={"width": 1300, "height": 1000})
        made.outside, made.complaints = [], []
        inside = (address, address.replace("http", "ws"), "data:", "blob:")
        made.on("request", lambda r: None if r.url.startswith(inside) else made.outside.append(r.url))
        made.on("pageerror", lambda e: made.complaints.append(str(e)))
        yield made
        browser.close()


def open_notebook(page, lab, name):
    page.goto(f"{lab[0]}/doc/tree/{name}?reset")
    page.locator(".jp-CodeCell").first.wait_for(timeout=MINUTE)
    page.wait_for_function("() => window.jupyterapp?.shell.currentWidget?.sessionContext", timeout=MINUTE)


def show(page, selector):
    """The first element of `selector`, scrolled to; the lab makes cells only when they come into view."""
    cells = page.evaluate("() => window.jupyterapp.shell.currentWidget.content.widgets.length")
    for patience, index in [(ms, index) for ms in (1500, 6000) for index in range(cells)]:
        page.evaluate("i => window.jupyterapp.shell.currentWidget.content.scrollToItem(i, 'start')", index)
        with contextlib.suppress(TimeoutError):
            found = page.locator(selector).first
            found.wait_for(timeout=patience)
            found.scroll_into_view_if_needed()
            return found
    pytest.fail(f"{selector} is nowhere in the notebook")


def picture(page, name, tmp_path):
    """A screenshot, kept where PTQLAB_SCREENSHOTS says."""
    folder = Path(os.environ.get("PTQLAB_SCREENSHOTS", tmp_path))
    folder.mkdir(parents=True, exist_ok=True)
    page.wait_for_timeout(1500)  # the lab draws what came into view
    page.screenshot(path=folder / f"{name}.png")


def errors(page):
    """What the cells of the open notebook raised, as text."""
    return page.evaluate("""() => window.jupyterapp.shell.currentWidget.content.model.toJSON().cells
        .flatMap(cell => cell.outputs ?? []).filter(output => output.output_type === 'error')
        .map(output => output.evalue)""")


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
    page.evaluate("() => window.jupyterapp.commands.execute('docmanager:save')")
    open_notebook(page, lab, "quick.ipynb")
    reports_and_plots_are_seen(page)
    page.evaluate("() => window.jupyterapp.commands.execute('apputils:change-theme', {theme: 'JupyterLab Dark'})")
    page.wait_for_function("() => document.body.dataset.jpThemeLight === 'false'", timeout=MINUTE)
    for part, name in PICTURES:
        show(page, part)
        picture(page, f"lab_dark_{name}", tmp_path)
    colour = show(page, ".ptqlab td").evaluate("e => getComputedStyle(e).color")
    assert min(int(part) for part in colour.strip("rgba()").split(",")[:3]) > 150
    assert page.outside == []
    assert page.complaints == []


def test_stop_in_the_middle_of_a_compile(lab, page, tmp_path):
    """The stop button leaves one readable line, no traceback, and a kernel that goes on."""
    cells = [nbformat.v4.new_code_cell(SLOW), nbformat.v4.new_code_cell("print('still', 'here')")]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=kernel), lab[1] / "slow.ipynb")
    open_notebook(page, lab, "slow.ipynb")
    page.evaluate(START)
    page.locator(".ptqlab progress").first.wait_for(timeout=MINUTE)
    picture(page, "lab_progress", tmp_path)
    page.evaluate("() => window.jupyterapp.commands.execute('notebook:interrupt-kernel')")
    outputs = page.locator(".jp-OutputArea-output")
    expect(outputs.filter(has_text="artifacts of earlier runs are untouched").first).to_be_visible(timeout=MINUTE)
    picture(page, "lab_stopped", tmp_path)
    assert len(errors(page)) == 1
    assert "Traceback" not in " ".join(outputs.all_inner_texts())
    page.locator(".jp-CodeCell .jp-Editor").nth(1).click()
    page.evaluate("() => window.jupyterapp.commands.execute('notebook:run-cell')")
    expect(outputs.filter(has_text="still here").first).to_be_visible(timeout=MINUTE)
