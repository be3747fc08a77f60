"""The quant_config grid in a real JupyterLab and Notebook 7: edits, refusals, undo, apply, export, names, speed."""
import json
import re

from chromium import BROWSER_MARKS, expect
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
    show,
    write_notebook,
)

pytestmark = BROWSER_MARKS

COMPILE = """\
import ptqlab
from ptqlab.examples import digits
data = {"image": list(digits.calibration_samples()[:8, None])}
run = ptqlab.compile(model=digits.model_path(), march="nash-e", calibration_data=data, working_dir="run",
                     prefix="digits", progress=False)
grid = run.grid()"""
HOSTILE = """\
import numpy as np, onnx, ptqlab
from onnx import helper, numpy_helper, TensorProto
name = '<img src=x onerror="window.hacked=1">'
w = numpy_helper.from_array(np.ones((4, 3, 1, 1), "float32"), "w")
nodes = [helper.make_node("Conv", ["x", "w"], ["c"], name=name),
         helper.make_node("Relu", ["c"], ["y"], name="<b>r</b>")]
tensor = lambda n, c: helper.make_tensor_value_info(n, TensorProto.FLOAT, (1, c, 4, 4))
made = helper.make_model(helper.make_graph(nodes, "g", [tensor("x", 3)], [tensor("y", 4)], [w]),
                         opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
onnx.save(made, "hostile.onnx")
run = ptqlab.compile(model="hostile.onnx", march="nash-e", calibration_data=[np.ones((1, 3, 4, 4), "float32")],
                     working_dir="hostile", progress=False)
grid = run.grid()"""
BIG = """\
from pathlib import Path
from types import SimpleNamespace
nodes, x = [], "x"
inits = [numpy_helper.from_array(np.eye(4, dtype="float32").reshape(4, 4, 1, 1), "w")]
for i in range(1000):
    nodes.append(helper.make_node("Conv", [x, "w"], [f"c{i}"], name=f"/layer{i}/conv"))
    nodes.append(helper.make_node("Sigmoid", [f"c{i}"], [f"s{i}"], name=f"/layer{i}/act"))
    x = f"s{i}"
made = helper.make_model(helper.make_graph(nodes, "g", [tensor("x", 4)], [tensor(x, 4)], inits),
                         opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
onnx.save(made, "big.onnx")
found = ptqlab.check(model="big.onnx", march="nash-e", progress=False)
from ptqlab.widgets.grid import QuantGrid
big = QuantGrid(SimpleNamespace(record=found.record, directory=Path("big")), None)"""
FIRST, SECOND = "/block1/expand/conv/Conv", "/block1/depthwise/conv/Conv"


def grid_of(page, ready="[data-editable=true]"):
    """The grid on the page, its model open."""
    return show(page, f".ptqlab-grid{ready}")


def cell(grid, node, field):
    """A cell by the name of its row."""
    row = grid.locator(".tabulator-row").filter(has=grid.page.get_by_text(node, exact=True))
    return row.locator(f"[tabulator-field='{field}']")


def edit(grid, node, field, value):
    cell(grid, node, field).click()
    cell(grid, node, field).locator("select").select_option(value)


def status(grid):
    return grid.locator("[role=status]")


def tick(grid, node):
    grid.get_by_label(f"select this row: {node}", exact=True).check()


def test_edit_refuse_undo_apply_export(lab, page, tmp_path):
    """An edit is read back in Python and its effect is seen; one without effect is refused and says why; several rows
    at once, filter, undo, levels; apply makes a new run; export is a file; the saved notebook shows a table."""
    write_notebook(lab, "grid.ipynb", COMPILE, "grid", "print(grid.quant_config)",
                   "print(grid.result.record.quant_config, grid.result.complete, len(grid.changes))")
    open_notebook(page, lab, "grid.ipynb")
    for index in (0, 1):
        run_cell(page, index)
    grid = grid_of(page)
    effect = grid.locator(".ptqlab-grid-effect")
    expect(effect).to_contain_text("Output cosine, 8 samples: ", timeout=MINUTE)

    edit(grid, FIRST, "qtype", "int16")
    expect(cell(grid, FIRST, "qtype")).to_have_text("int16")
    expect(cell(grid, FIRST, "qtype")).to_have_class(among("ptqlab-changed"))
    expect(effect).to_contain_text("Changes: 1")
    expect(effect).to_contain_text("→", timeout=MINUTE)
    run_cell(page, 2)
    assert output(page, 2).strip() == str({"node_config": {FIRST: {"qtype": "int16"}}})

    edit(grid, SECOND, "input1", "int16")
    expect(status(grid)).to_contain_text("Refused: ")
    expect(status(grid)).to_contain_text("int16 weights go with int16 features only")
    expect(cell(grid, SECOND, "input1")).to_have_text("int8")
    run_cell(page, 2)
    assert SECOND not in output(page, 2)

    tick(grid, FIRST)
    tick(grid, SECOND)
    expect(grid.locator(".ptqlab-grid-count")).to_have_text("28 rows, 2 selected")
    edit(grid, SECOND, "qtype", "dual-int16")
    for node in (FIRST, SECOND):
        expect(cell(grid, node, "qtype")).to_have_text("dual-int16")
    picture(page, "grid", tmp_path)
    grid.locator(".tabulator-row").first.locator("[tabulator-field=qtype]").focus()
    page.keyboard.press("Control+z")
    expect(cell(grid, SECOND, "qtype")).to_have_text("int8")
    expect(cell(grid, FIRST, "qtype")).to_have_text("int16")

    grid.locator(".tabulator-col[tabulator-field=Node] input").press_sequentially("block2")
    expect(grid.locator(".ptqlab-grid-count")).to_contain_text("5 rows")
    for _ in "block2":
        grid.locator(".tabulator-col[tabulator-field=Node] input").press("Backspace")
    expect(grid.locator(".ptqlab-grid-count")).to_contain_text("28 rows")

    grid.get_by_label("Level").select_option("operator type")
    edit(grid, "Gemm", "qtype", "int16")
    expect(cell(grid, "Gemm", "qtype")).to_have_text("int16")
    picture(page, "grid_levels", tmp_path)
    grid.get_by_label("Level").select_option("node")
    expect(grid).to_have_attribute("data-level", "node")
    grid.get_by_label("Changed only").check()
    expect(grid.locator(".ptqlab-grid-count")).to_contain_text("1 rows")
    grid.get_by_label("Changed only").uncheck()

    with page.expect_download() as file:
        grid.get_by_role("button", name="Export").click()
    assert json.loads(file.value.path().read_text()) == {
        "op_config": {"Gemm": {"qtype": "int16"}}, "node_config": {FIRST: {"qtype": "int16"}}}
    load = {"node_config": {SECOND: {"qtype": "int16"}}}
    grid.locator("input[type=file]").set_input_files(
        {"name": "quant.json", "mimeType": "application/json", "buffer": json.dumps(load).encode()})
    expect(cell(grid, SECOND, "qtype")).to_have_text("int16")
    grid.get_by_role("button", name="Undo").click()
    expect(cell(grid, SECOND, "qtype")).to_have_text("int8")
    grid.get_by_role("button", name="Apply").click()
    expect(status(grid)).to_contain_text("grid.result", timeout=MINUTE)
    expect(grid.get_by_role("button", name="Apply")).to_be_visible()
    run_cell(page, 3)
    assert output(page, 3).strip().endswith("True 0")

    darken(page)
    colour = cell(grid, FIRST, "Granted").evaluate("e => getComputedStyle(e).color")
    assert min(int(part) for part in colour.strip("rgba()").split(",")[:3]) > 150
    picture(page, "grid_dark", tmp_path)
    command(page, "docmanager:save")
    page.wait_for_function("() => !window.jupyterapp.shell.currentWidget.context.model.dirty")
    assert (lab[1] / "grid.ipynb").stat().st_size < 100_000
    assert errors(page) == [] == page.outside == page.complaints


def among(word):
    """A pattern for a class among others."""
    return re.compile(rf"(^|\s){word}(\s|$)")


def test_saved_notebook_shows_a_table(lab, page):
    """Reopened without a kernel, the node table is seen in place of the widget, and no complaint about a model."""
    write_notebook(lab, "saved.ipynb", COMPILE + "\ngrid")
    open_notebook(page, lab, "saved.ipynb")
    page.evaluate(RUN_ALL)
    grid_of(page)
    expect(page.locator(".ptqlab-static")).to_be_hidden()
    command(page, "docmanager:save")
    page.wait_for_function("() => !window.jupyterapp.shell.currentWidget.context.model.dirty")
    page.evaluate("() => window.jupyterapp.shell.currentWidget.sessionContext.shutdown()")
    page.reload()
    open_notebook(page, lab, "saved.ipynb")
    show(page, ".ptqlab-static td:text-is('/stem/conv/Conv')")
    expect(page.get_by_text("model not found")).to_be_hidden()


def test_names_stay_text_and_2000_nodes_are_quick(lab, page):
    """A node called like an html element is text; 2,000 rows come within a second, and the page never stands still
    for half a second; the keyboard reaches a cell, opens it and comes back."""
    write_notebook(lab, "names.ipynb", HOSTILE, "grid", BIG, "big")
    open_notebook(page, lab, "names.ipynb")
    for index in (0, 1):
        run_cell(page, index)
    grid = grid_of(page)
    name = '<img src=x onerror="window.hacked=1">'
    expect(cell(grid, name, "qtype")).to_have_text("int8")
    edit(grid, name, "qtype", "int16")
    expect(status(grid)).to_contain_text(name)
    expect(grid.locator(".tabulator img")).to_have_count(0)
    assert page.evaluate("() => window.hacked") is None

    cell(grid, name, "qtype").focus()
    page.keyboard.press("Enter")
    expect(cell(grid, name, "qtype").locator("select")).to_be_focused()
    for _ in range(2):  # the list, then the cell
        page.keyboard.press("Escape")
    expect(cell(grid, name, "qtype")).to_be_focused()
    page.keyboard.press("ArrowLeft")
    expect(cell(grid, name, "ON")).to_be_focused()
    page.keyboard.type("dd")  # what deletes a cell of the notebook elsewhere
    assert page.evaluate("() => window.jupyterapp.shell.currentWidget.content.widgets.length") == 4

    run_cell(page, 2)
    page.evaluate(WATCH_TASKS)
    run_cell(page, 3)
    page.wait_for_function("() => [...document.querySelectorAll('.ptqlab-grid')].at(-1)?.dataset.editable === 'true'")
    big = page.locator(".ptqlab-grid").last
    expect(big.locator(".ptqlab-grid-count")).to_have_text("2000 rows, 0 selected")
    big.locator(".tabulator-col[tabulator-field=Node] .tabulator-col-title").click()
    big.locator(".tabulator-tableholder").evaluate("e => e.scrollTo(0, e.scrollHeight)")
    page.wait_for_timeout(300)
    print(f"2,000 rows: {big.get_attribute('data-ready')} ms to draw, page blocked for at most "
          f"{page.evaluate('() => window.longest'):.0f} ms")
    assert errors(page) == [] == page.outside == page.complaints


def test_notebook_7(notebook7, tmp_path):
    """`%ptq grid` of a run in a folder draws and edits in Notebook 7, in both themes; without samples it says so."""
    write_notebook(notebook7, "grid.ipynb", COMPILE, "%load_ext ptqlab", "%ptq grid --run run")
    with browse(notebook7) as page:
        open_notebook(page, notebook7, "grid.ipynb")
        page.evaluate(RUN_ALL)
        grid = grid_of(page)
        edit(grid, FIRST, "qtype", "int16")
        expect(cell(grid, FIRST, "qtype")).to_have_text("int16")
        expect(grid.locator(".ptqlab-grid-effect")).to_contain_text("run.grid(data=...)")
        picture(page, "grid_notebook7", tmp_path)
        darken(page)
        picture(page, "grid_notebook7_dark", tmp_path)
        edit(grid, SECOND, "qtype", "int16")
        expect(cell(grid, SECOND, "qtype")).to_have_text("int16")
        assert errors(page) == [] == page.outside == page.complaints
