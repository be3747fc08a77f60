"""The views of a run in a real JupyterLab, light and dark; the report as a page; completion at the prompt."""
import os
from pathlib import Path

import pytest
from chromium import BROWSER_MARKS, expect
from lab import MINUTE, RUN_ALL, darken, errors, open_notebook, output, run_cell, write_notebook

pytestmark = BROWSER_MARKS

#: One channel before the pooling is 150 times as large, and the classifier takes it back: int8 loses the digits.
PATIENT = """\
%load_ext ptqlab
import numpy as np, onnx, ptqlab
from onnx import numpy_helper
from ptqlab.examples import digits
config = digits.write_config("demo")
net = onnx.load("demo/digits.onnx")
for tensor in net.graph.initializer:
    index = {"head.bn.weight": 7, "head.bn.bias": 7, "classifier.weight": np.s_[:, 7]}.get(tensor.name)
    if index is not None:
        values = numpy_helper.to_array(tensor).copy()
        values[index] *= 1 / 150 if "classifier" in tensor.name else 150
        tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
onnx.save(net, "demo/digits.onnx")
run = ptqlab.compile(config, working_dir="demo/int8")
better = ptqlab.compile(config, working_dir="demo/int16", quant_config={"node_config": {
    "/pool/GlobalAveragePool": {"qtype": "int16"}, "/classifier/Gemm": {"qtype": "int16"}}})
report = run.report("report.html", other=better)"""
#: name of the picture -> cell, and what is seen in it once it is drawn.
VIEWS = {
    "result": ("run", ".ptqlab svg circle"),
    "cosine": ("run.plot_cosine()", ".js-plotly-plot .scatterlayer path.point"),
    "heatmap": ("run.plot_sensitivity()", ".js-plotly-plot .hm image, .js-plotly-plot .heatmap-label"),
    "distribution": ('run.plot_distribution("/pool/GlobalAveragePool")', ".js-plotly-plot .bars path"),
    "channels": ('run.plot_channels("/pool/GlobalAveragePool")', ".js-plotly-plot .boxes path.box"),
    "error": ('run.plot_error(at="/pool/GlobalAveragePool")', ".js-plotly-plot .scatterlayer path.js-line"),
    "timeline": ("run.plot_timeline()", ".js-plotly-plot .bars path"),
    "compare": ("run.compare(better).plot()", ".js-plotly-plot .scatterlayer path.js-line"),
    "pareto": ("run.plot_pareto(target=0.9999)", ".js-plotly-plot .scatterlayer path.point"),
    "comparison": ("run.compare(better)", ".ptqlab td:text-is('/pool/GlobalAveragePool')"),
    "doctor": ("run.doctor()", ".ptqlab td:text-is('outlier channel')"),
    "perf": ("%ptq perf --run demo/int8", ".ptqlab svg.perf rect"),
    "dashboard": ('board = run.dashboard()\nboard.select("/pool/GlobalAveragePool")\nboard', ".ptqlab-draws svg"),
}


@pytest.fixture
def pictures(tmp_path):
    folder = Path(os.environ.get("PTQLAB_SCREENSHOTS", tmp_path))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def test_every_view_is_drawn(lab, page, pictures):
    """All views are drawn without a request to elsewhere and without an error, on light and on dark."""
    write_notebook(lab, "views.ipynb", PATIENT, *(cell for cell, _ in VIEWS.values()))
    open_notebook(page, lab, "views.ipynb")
    page.evaluate(RUN_ALL)
    assert errors(page) == []
    for theme in ("", "_dark"):
        page.set_viewport_size({"width": 1300, "height": 1000})
        if theme:
            darken(page)
        for index, (name, (_, drawn)) in enumerate(VIEWS.items(), 1):
            page.evaluate("i => window.jupyterapp.shell.currentWidget.content.scrollToItem(i, 'start')", index)
            cell = page.locator(f".jp-Cell[data-windowed-list-index='{index}']")
            cell.locator(drawn).first.wait_for(timeout=MINUTE, state="attached")
            if name == "dashboard":  # taller than a window
                page.set_viewport_size({"width": 1500, "height": 2200})
            page.wait_for_timeout(3000 if name == "dashboard" else 600)  # plotly fits the figure to its cell
            cell.locator(".jp-OutputArea-output").last.screenshot(path=pictures / f"view_{name}{theme}.png")
    assert page.outside == []
    assert page.complaints == []


def test_the_report_opens_offline_and_changes_its_language(lab, page, pictures):
    """Opened as a file: nothing is fetched, Netron draws the graph, each text is in the language that is pressed."""
    if not (lab[1] / "report.html").is_file():
        write_notebook(lab, "report.ipynb", PATIENT)
        open_notebook(page, lab, "report.ipynb")
        page.evaluate(RUN_ALL)
        assert errors(page) == []
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto((lab[1] / "report.html").as_uri())
    frame = page.frame_locator("iframe[title^=Netron]")
    frame.locator("#nodes .node").first.wait_for(timeout=MINUTE, state="attached")
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:", "about:"))] == []
    expect(page.get_by_role("heading", name="Model outputs").first).to_be_visible()
    page.screenshot(path=pictures / "report_page.png", full_page=True)
    page.get_by_text("中文").click()
    expect(page.get_by_role("heading", name="模型输出").first).to_be_visible()
    expect(page.get_by_role("heading", name="Model outputs").first).to_be_hidden()
    page.emulate_media(color_scheme="dark")
    page.screenshot(path=pictures / "report_page_dark.png", full_page=True)
    colours = page.evaluate("() => ['color', 'backgroundColor'].map(k => getComputedStyle(document.body)[k])")
    assert [int(c.strip("rgba()").split(",")[0]) > 128 for c in colours] == [True, False]


@pytest.mark.parametrize(("line", "completed"), [
    ("%ptq compile --ma", "%ptq compile --march"),
    ("%ptq explain /classi", "%ptq explain /classifier/Gemm"),
])
def test_completion(lab, page, pictures, line, completed):
    """Tab completes an option with its dashes, and the name of a node of the last run."""
    write_notebook(lab, "complete.ipynb", "%load_ext ptqlab\n%ptq demo", line, "print(1)")
    open_notebook(page, lab, "complete.ipynb")
    run_cell(page, 0)
    assert "digits on nash-e" in output(page, 0)
    editor = page.locator(".jp-Cell[data-windowed-list-index='1'] .cm-content")
    editor.click()
    page.keyboard.press("End")
    page.keyboard.press("Tab")
    offered = page.locator(".jp-Completer-item")
    expect(offered).to_have_count(1, timeout=MINUTE)
    page.screenshot(path=pictures / "completion.png")
    page.keyboard.press("Enter")
    expect(editor).to_have_text(completed, timeout=MINUTE)
