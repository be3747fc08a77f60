"""JupyterLab and Notebook 7 for browser tests: a server of their own, and what one does on an open page."""
import contextlib
import os
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import nbformat
import pytest
from chromium import CHROMIUM, FLAGS, TimeoutError, sync_playwright

MINUTE = 60_000
KERNEL = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
#: The path under which each application opens a notebook, and the name of its settings.
APPLICATIONS = {"lab": ("doc/tree/{}?reset", "LabApp"), "notebook": ("notebooks/{}", "JupyterNotebookApp")}

#: A page's own promises have no time limit, and a kernel that never answers would hold the whole suite.
READY = """const app = window.jupyterapp, panel = app.shell.currentWidget;
    const within = work => Promise.race([work, new Promise((_, late) =>
        setTimeout(() => late(new Error('the notebook did not finish within 5 minutes')), 300_000))]);
    await within((async () => {
        await panel.context.ready; await panel.sessionContext.ready; await panel.sessionContext.session.kernel.info;
    })());"""
RUN_ALL = f"async () => {{ {READY} await within(app.commands.execute('notebook:run-all-cells')); }}"
START = f"async () => {{ {READY} app.commands.execute('notebook:run-all-cells'); }}"  # does not wait for the cells
#: The longest time in ms that the page was blocked, watched from when `WATCH_TASKS` was evaluated.
WATCH_TASKS = """() => { window.longest = 0; new PerformanceObserver(list => {
    for (const entry of list.getEntries()) window.longest = Math.max(window.longest, entry.duration);
}).observe({type: 'longtask'}); }"""
#: What Notebook 7 itself raises when it opens, without anything of ours: a setting of the lab that it has not.
NOTEBOOK_7 = "Cannot read properties of undefined (reading 'schema')"


class Server(tuple):
    """(address, folder) of a running server; `application` is "lab" or "notebook"."""

    application: str


@contextlib.contextmanager
def serve(root, application="lab"):
    """A JupyterLab or Notebook 7 server on the folder `root`, with settings of its own; gives a `Server`."""
    settings = APPLICATIONS[application][1]
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    names = ("_CONFIG_DIR", "_DATA_DIR", "_RUNTIME_DIR", "LAB_SETTINGS_DIR", "LAB_WORKSPACES_DIR")
    quiet = root / ".jupyterLAB_SETTINGS_DIR" / "@jupyterlab" / "apputils-extension"
    quiet.mkdir(parents=True)
    (quiet / "notification.jupyterlab-settings").write_text('{"fetchNews": "false"}')
    environment = os.environ | {f"JUPYTER{name}": str(root / f".jupyter{name}") for name in names}
    started = subprocess.Popen(
        [sys.executable, "-m", "jupyter", application, "--no-browser", "--allow-root", f"--port={port}",
         "--ServerApp.port_retries=0", "--IdentityProvider.token=", "--ServerApp.disable_check_xsrf=True",
         "--LabApp.news_url=None", "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
         f"--ServerApp.root_dir={root}", f"--{settings}.expose_app_in_browser=True"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
    address = f"http://127.0.0.1:{port}"
    try:
        for _ in range(300):
            with contextlib.suppress(OSError):
                urllib.request.urlopen(address + "/api/status", timeout=1)
                break
            assert started.poll() is None, "the lab server ended"
            time.sleep(0.2)
        server = Server((address, root))
        server.application = application
        yield server
    finally:
        started.terminate()
        started.wait(30)


@contextlib.contextmanager
def browse(server):
    """A page that collects every request to anywhere but the server, and every error of the console."""
    address = server[0]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        made = browser.new_page(viewport={"width": 1300, "height": 1000})
        made.outside, made.complaints = [], []
        inside = (address, address.replace("http", "ws"), "data:", "blob:")
        made.on("request", lambda r: None if r.url.startswith(inside) else made.outside.append(r.url))
        made.on("pageerror", lambda e: made.complaints.append(str(e)) if str(e) != NOTEBOOK_7 else None)
        yield made
        browser.close()


def write_notebook(server, name, *cells):
    """The notebook `name` with these code cells in the server's folder."""
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells], metadata=KERNEL)
    nbformat.write(made, server[1] / name)


def open_notebook(page, server, name):
    """Open `name` and wait for its cells and its session."""
    page.goto(f"{server[0]}/{APPLICATIONS[server.application][0].format(name)}")
    page.locator(".jp-CodeCell").first.wait_for(timeout=MINUTE)
    page.wait_for_function("() => window.jupyterapp?.shell.currentWidget?.sessionContext", timeout=MINUTE)


def command(page, name, **arguments):
    """Run a command of the application: "docmanager:save", "notebook:interrupt-kernel", ..."""
    page.evaluate("([name, args]) => window.jupyterapp.commands.execute(name, args)", [name, arguments])


def darken(page):
    """Change to the dark theme and wait for it."""
    command(page, "apputils:change-theme", theme="JupyterLab Dark")
    page.wait_for_function("() => document.body.dataset.jpThemeLight === 'false'", timeout=MINUTE)


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


def run_cell(page, index):
    """Run the cell of this index and wait for it."""
    page.evaluate(f"""async index => {{ {READY}
        panel.content.activeCellIndex = index;
        await within(app.commands.execute('notebook:run-cell'));
    }}""", index)


def output(page, index):
    """What the cell of this index printed or gave, as text."""
    return page.evaluate("""index => window.jupyterapp.shell.currentWidget.content.model.toJSON().cells[index].outputs
        .map(output => output.text ?? output.data?.['text/plain'] ?? output.evalue ?? '').flat().join('')""", index)


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
