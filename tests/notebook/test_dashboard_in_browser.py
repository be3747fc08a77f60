"""The dashboard in JupyterLab, in a real browser: what is clicked in one part is seen in all."""
from chromium import BROWSER_MARKS, expect
from graph_runs import long_record
from lab import (
    MINUTE,
    WATCH_TASKS,
    command,
    darken,
    errors,
    open_notebook,
    output,
    picture,
    run_cell,
    write_notebook,
)

from ptqlab.examples import digits

pytestmark = BROWSER_MARKS

COMPILE = """import ptqlab
run = ptqlab.compile("example/config.yaml", working_dir="out", progress=False)
board = run.dashboard()
board.select("/classifier/Gemm")
board"""
NODE, OTHER = "/block2/expand/conv/Conv", "/block1/project/conv/Conv"


def row(page, node):
    return page.locator(".ptqlab-heat [role=row]").filter(has_text=node)


def seen_in_grid(page, node):
    """The grid's chosen row is that of the node, and stands in the part that is scrolled to."""
    chosen = page.locator(".ptqlab-grid .tabulator-row.tabulator-selected")
    expect(chosen).to_contain_text(node)
    page.wait_for_function("""() => {
        const at = e => document.querySelector(`.ptqlab-grid ${e}`).getBoundingClientRect();
        const row = at('.tabulator-selected'), view = at('.tabulator-tableholder');
        return row.top >= view.top - 1 && row.bottom <= view.bottom + 1;
    }""")


def details_of(page, node):
    """Wait until the pane shows the figures of a node."""
    pane = page.locator(".ptqlab-detail")
    expect(pane).to_have_attribute("data-node", node, timeout=MINUTE)
    expect(pane).to_have_attribute("data-ready", "1", timeout=MINUTE)
    return pane


def test_one_node_in_every_part(lab, page, tmp_path):
    """A click on the heatmap focuses Netron and the grid's row and fills the pane; a click in Netron and a call in
    Python do the same; the button computes sensitivities; light and dark; reopened the static forms are seen."""
    digits.write_config(lab[1] / "example")
    write_notebook(lab, "board.ipynb", COMPILE, "print(board.node, board.grid.selected, board.graph.selected)",
                   f"board.select({OTHER!r})")
    page.set_viewport_size({"width": 1400, "height": 1600})
    open_notebook(page, lab, "board.ipynb")
    run_cell(page, 0)
    page.locator(".ptqlab-graph[data-ready]").wait_for(timeout=MINUTE)
    page.locator(".ptqlab-grid[data-ready]").wait_for(timeout=MINUTE)
    expect(page.locator(".ptqlab-static")).to_be_hidden()
    seen_in_grid(page, "/classifier/Gemm")
    row(page, NODE).locator("[role=gridcell]").first.click()
    expect(row(page, NODE)).to_have_attribute("aria-selected", "true")
    frame = page.locator(".ptqlab-graph").frame_locator("iframe")
    expect(frame.locator(".select .ptqlab-value")).to_have_count(1)
    expect(frame.locator("#sidebar")).to_contain_text(NODE)
    seen_in_grid(page, NODE)
    pane = details_of(page, NODE)
    expect(pane.locator("figure")).to_have_count(6)
    expect(pane).to_contain_text("Remedy")
    run_cell(page, 1)
    assert output(page, 1) == f"{NODE} {[NODE]} {[NODE]}\n"
    picture(page, "dashboard", tmp_path)
    run_cell(page, 2)
    details_of(page, OTHER)
    expect(frame.locator("#sidebar")).to_contain_text(OTHER)
    expect(row(page, OTHER)).to_have_attribute("aria-selected", "true")
    frame.locator(".select .ptqlab-value").wait_for(timeout=MINUTE)
    frame.locator(".ptqlab-value").first.click()  # waits until Netron has glided to the node before
    details_of(page, "/stem/conv/Conv")
    page.get_by_role("button", name="Compute sensitivity").click()
    expect(page.locator(".ptqlab-heat [role=columnheader]").filter(has_text="node int8")).to_be_visible(
        timeout=MINUTE)
    expect(row(page, "/stem/conv/Conv")).to_have_attribute("aria-selected", "true")
    darken(page)
    picture(page, "dashboard_dark", tmp_path)
    assert errors(page) == []
    command(page, "docmanager:save")
    page.evaluate("() => window.jupyterapp.serviceManager.sessions.shutdownAll()")
    open_notebook(page, lab, "board.ipynb")
    static = page.locator(".ptqlab-static")
    expect(static).to_contain_text("Cosine per node")
    expect(static.frame_locator("iframe").locator("body")).to_have_attribute("data-ready", "30", timeout=MINUTE)
    expect(page.get_by_text("model not found")).to_be_hidden()
    assert page.outside == [] and page.complaints == []
    assert (lab[1] / "board.ipynb").stat().st_size < 1_000_000


HEAT = """from ptqlab.stages.record import Record
from ptqlab.widgets.dashboard_heat import HeatView, run_heats
view = HeatView(run_heats(Record.from_json(open("long.json").read())), limit=None)
view"""


def test_a_heatmap_of_two_thousand_nodes_by_keyboard(lab, page, tmp_path):
    """2,000 rows stand without the page being blocked for half a second; arrow keys walk, Enter selects."""
    (lab[1] / "long.json").write_text(long_record().to_json())
    write_notebook(lab, "heat.ipynb", HEAT, "print(view.selected)")
    open_notebook(page, lab, "heat.ipynb")
    page.evaluate(WATCH_TASKS)
    run_cell(page, 0)
    heat = page.locator(".ptqlab-heat[data-ready]")
    heat.wait_for(timeout=MINUTE)
    expect(heat.locator("[role=row]")).to_have_count(2001)
    longest = page.evaluate("window.longest")
    print(f"2000 rows in {heat.get_attribute('data-ready')} ms, longest task of the page {longest:.0f} ms")
    assert longest < 500
    picture(page, "dashboard_heat_2000", tmp_path)
    heat.locator("[role=gridcell]").first.focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowLeft", "Enter"):
        page.keyboard.press(key)
    expect(heat.locator("[role=row]").nth(3)).to_have_attribute("aria-selected", "true")
    run_cell(page, 1)
    assert output(page, 1).startswith("['/layer")
    assert page.outside == [] and page.complaints == []
