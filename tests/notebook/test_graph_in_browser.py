"""The graph in JupyterLab and in Notebook 7, in a real browser: drawn, coloured, selected, reopened, light and dark."""
import re

import pytest
from chromium import BROWSER_MARKS, expect
from graph_runs import long_record, write_run
from lab import (
    MINUTE,
    RUN_ALL,
    WATCH_TASKS,
    browse,
    command,
    darken,
    errors,
    open_notebook,
    output,
    picture,
    run_cell,
    write_notebook,
)
from records import HOSTILE

pytestmark = BROWSER_MARKS

LIGHT, DARK = "rgb(255, 255, 255)", "rgb(64, 64, 64)"
READY = ".ptqlab-graph[data-ready]"
SHOW = "import ptqlab\nrun = ptqlab.load('run')\ngraph = run.graph()\ngraph"


def frame_of(page, around=".ptqlab-graph"):
    return page.locator(around).first.frame_locator("iframe")


def shut_down(page):
    """End the kernel, so that a notebook that is opened again has nothing behind its widgets."""
    page.evaluate("() => window.jupyterapp.serviceManager.sessions.shutdownAll()")


@pytest.mark.parametrize("application", ["lab", "notebook7"])
def test_graph_live_reopened_light_and_dark(application, request, tmp_path):
    """One notebook in each application: the graph stands with its colours, a click reaches Python, Python's focus
    reaches Netron, the frame follows the theme; saved and reopened without a kernel the static form is seen alone.
    Nothing is asked of the network, a node called <script> stays text."""
    server = request.getfixturevalue(application)
    write_run(server[1] / "run")
    write_notebook(server, "graph.ipynb", SHOW, "print(graph.selected)", f"graph.focus({HOSTILE!r})",
                   "print(graph.selected)", "graph.color = 'qtype'", "print(graph.status)")
    with browse(server) as page:
        open_notebook(page, server, "graph.ipynb")
        run_cell(page, 0)
        page.locator(READY).wait_for(timeout=MINUTE)
        frame = frame_of(page)
        expect(frame.locator(".ptqlab-value")).to_have_count(24)
        expect(frame.locator("body")).to_have_css("background-color", LIGHT)
        expect(page.locator(".ptqlab-graph iframe")).to_have_attribute(
            "title", "Netron: digits, nash-e: optimized model, 24 nodes")
        expect(page.locator(".ptqlab-graph iframe")).to_have_attribute("sandbox", "allow-scripts allow-downloads")
        expect(page.locator(".ptqlab-static")).to_be_hidden()
        picture(page, f"graph_{application}", tmp_path)
        frame.locator(".ptqlab-value").filter(has_text="0.9948").first.click()
        expect(frame.locator("#sidebar")).to_contain_text("检测头/fc")
        run_cell(page, 1)
        assert output(page, 1) == "['检测头/fc']\n"
        run_cell(page, 2)
        expect(frame.locator("#sidebar")).to_contain_text(HOSTILE)
        run_cell(page, 3)
        assert output(page, 3) == f"[{HOSTILE!r}]\n"
        run_cell(page, 4)
        expect(frame.locator(".ptqlab-value").filter(has_text="int16").first.locator("path")).to_have_css(
            "fill", "rgb(230, 159, 0)")
        expect(page.locator(".ptqlab-graph .ptqlab-legend")).to_contain_text("int16")
        picture(page, f"graph_{application}_side_bar", tmp_path)
        darken(page)
        expect(frame.locator("body")).to_have_css("background-color", DARK)
        picture(page, f"graph_{application}_dark", tmp_path)
        run_cell(page, 5)
        assert output(page, 5) == "ready\n" and errors(page) == []
        command(page, "docmanager:save")
        shut_down(page)
        open_notebook(page, server, "graph.ipynb")
        frame = frame_of(page, ".ptqlab-static")
        expect(frame.locator("body")).to_have_attribute("data-ready", "26", timeout=MINUTE)
        expect(frame.locator(".ptqlab-value")).to_have_count(24)
        expect(frame.locator("body")).to_have_css("background-color", DARK)
        expect(page.get_by_text("model not found")).to_be_hidden()
        picture(page, f"graph_{application}_reopened", tmp_path)
        assert page.outside == []
        assert page.complaints == []
    assert (server[1] / "graph.ipynb").stat().st_size < 1_000_000


def test_the_bar_above_the_graph(lab, page, tmp_path):
    """By keyboard and mouse: another colour, a cut around the selection, more hops, the whole graph again; what Python
    refuses is told."""
    write_run(lab[1] / "run", stages=("optimized_float", "hbm"))
    write_notebook(lab, "bar.ipynb", SHOW, "print(graph.color, graph.stage, len(graph.graph.outline.nodes))")
    open_notebook(page, lab, "bar.ipynb")
    run_cell(page, 0)
    page.locator(READY).wait_for(timeout=MINUTE)
    bar = page.locator(".ptqlab-graph .ptqlab-bar")
    cut = bar.get_by_role("button", name="Only around the selection")
    expect(cut).to_be_disabled()
    bar.get_by_label("Colour").focus()
    page.keyboard.press("ArrowDown")
    expect(page.locator(".ptqlab-graph .ptqlab-key")).to_contain_text("type granted")
    expect(bar.get_by_label("Colour")).to_be_focused()
    frame_of(page).locator(".ptqlab-value").first.click()
    cut.click()
    title = page.locator(".ptqlab-graph .ptqlab-head")
    expect(title).to_have_text("digits, nash-e: optimized model, 3 of 24 nodes")
    expect(frame_of(page).locator(".ptqlab-value")).to_have_count(3, timeout=MINUTE)
    hops = bar.get_by_label("Hops")
    hops.press("ArrowUp")
    expect(title).to_have_text("digits, nash-e: optimized model, 4 of 24 nodes")
    hops.press("Control+A")
    page.keyboard.type("-3")
    page.keyboard.press("Enter")
    expect(page.locator(".ptqlab-graph [role=status]")).to_contain_text("PTQ661")
    bar.get_by_role("button", name="Whole graph").click()
    bar.get_by_label("Model").select_option("hbm")
    expect(title).to_have_text("digits, nash-e: compiled model (.hbm), 24 nodes")
    page.locator(READY).wait_for(timeout=MINUTE)
    run_cell(page, 1)
    assert output(page, 1) == "qtype hbm 24\n"
    assert page.outside == [] and page.complaints == []


def test_two_thousand_nodes(lab, page, tmp_path):
    """A graph of 2,000 nodes stands, and drawing it blocks the page for less than half a second; the times are told in
    the picture's name only, since a test asserts no other time."""
    write_run(lab[1] / "long", long_record())
    write_notebook(lab, "long.ipynb", SHOW.replace("'run'", "'long'"))
    open_notebook(page, lab, "long.ipynb")
    page.evaluate(WATCH_TASKS)
    page.evaluate(RUN_ALL)
    shown = page.locator(READY)
    shown.wait_for(timeout=MINUTE)
    assert re.fullmatch("200[012]", shown.get_attribute("data-ready"))
    longest = page.evaluate("window.longest")
    print(f"2000 nodes in {shown.get_attribute('data-ms')} ms, longest task of the page {longest:.0f} ms")
    assert longest < 500
    picture(page, "graph_2000", tmp_path)
