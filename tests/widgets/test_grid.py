"""The grid without a browser: what it says, does and sends, and what a page may ask of it."""
from __future__ import annotations

import gzip
import json
import threading
from dataclasses import replace
from types import SimpleNamespace

import pytest

import ptqlab
from ptqlab import config as configuration
from ptqlab.errors import Interrupted, PtqError
from ptqlab.examples import digits
from ptqlab.report.words import set_language
from ptqlab.widgets.grid import QuantGrid
from ptqlab.widgets.grid_edits import parsed
from ptqlab.widgets.grid_session import free_folder

CONV, RELU, SOFTMAX = "/block1/expand/conv/Conv", "/stem/act/Relu", "/softmax/Softmax"
DATA = {"image": list(digits.calibration_samples()[:4, None])}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return ptqlab.compile(model=digits.model_path(), march="nash-e", calibration_data=DATA, prefix="digits",
                          working_dir=tmp_path_factory.mktemp("grid") / "run", progress=False)


class Page:
    """What a grid sent: messages by kind, and a way to wait for one."""

    def __init__(self, monkeypatch):
        self.messages, self.arrived = [], threading.Condition()
        monkeypatch.setattr(QuantGrid, "send", lambda grid, content, buffers=None: self.hear(content, buffers))

    def hear(self, content, buffers):
        with self.arrived:
            self.messages.append(json.loads(json.dumps(content)))
            if content["kind"] == "rows":
                self.messages[-1]["rows"] = json.loads(gzip.decompress(buffers[0]))
            self.arrived.notify_all()

    def of(self, kind):
        return [m for m in self.messages if m["kind"] == kind]

    def wait(self, kind, words):
        """Until a message of this kind holds these words."""
        with self.arrived:
            assert self.arrived.wait_for(lambda: any(words in str(m) for m in self.of(kind)), 30), self.messages


@pytest.fixture
def page(monkeypatch):
    return Page(monkeypatch)


@pytest.fixture
def grid(run, page):
    made = QuantGrid(run, compiling())
    made.effect()
    page.messages.clear()
    return made


def compiling(**more):
    """A stand-in for compiling: gives a run whose record has the quant_config, or does what `work` says."""
    asked = []

    def compile(config, *, progress=None, watch=None):
        asked.append(config)
        if "work" in more:
            more["work"](watch)
        record = replace(digits_of[0].record, quant_config=config.calibration.quant.to_dict(),
                         settings=config.to_dict())
        return SimpleNamespace(record=record, directory=config.model.working_dir)

    compile.asked = asked
    return compile


digits_of = []


@pytest.fixture(autouse=True)
def _the_run(run):
    digits_of[:] = [run]


def ask(grid, **message):
    grid._handle_custom_msg(message, [])


def test_edits_are_read_back_and_told(grid):
    """An edit is in quant_config, changes and rows, and its effect is known; undo and redo go back and forth."""
    before = grid.effect()
    assert (before.changes, before.cosine, before.latency_us) == (0, before.cosine_before, before.latency_us_before)
    grid.set(CONV, "qtype", "int16")
    assert grid.quant_config == {"node_config": {CONV: {"qtype": "int16"}}}
    assert grid.changes.to_dict("records") == [
        {"Level": "node", "Name": CONV, "Key": "qtype", "Before": None, "After": "int16"}]
    row = next(row for row in grid.rows if row["id"] == CONV)
    assert (row["qtype"], row["Granted"], row["own"], row["changed"]) == ("int16", "int16", ["qtype"], ["qtype"])
    effect = grid.effect()
    assert effect.samples == 4
    assert effect.cosine != before.cosine
    assert grid.undo()
    assert not grid.undo()
    assert grid.quant_config == {}
    assert grid.effect() == before
    assert grid.redo()
    assert grid.effect() == effect


def test_several_nodes_are_all_or_nothing(grid):
    """Where one of several nodes refuses, none is changed, and every one that refuses is named with the reason."""
    with pytest.raises(PtqError) as told:
        grid.set([CONV, RELU, "/flatten/Flatten"], "qtype", "int16")
    assert [p.where for p in told.value.problems] == [f"node {RELU}: qtype", "node /flatten/Flatten: qtype"]
    assert "computed inside /stem/conv/Conv" in told.value.problems[0].hint
    assert grid.quant_config == {}
    with pytest.raises(PtqError):
        grid.set("nobody", "qtype", "int16")
    with pytest.raises(PtqError):
        grid.set(CONV, "qtype", "int99")


def test_levels_show_what_is_inherited(grid):
    """A type of an operator type is inherited by its nodes, a setting of the model by all; their own is their own."""
    grid.set("Conv", "qtype", "int16", level="op")
    grid.set("", "asymmetric", True, level="model")
    grid.set(CONV, "qtype", "int8")
    rows = {row["id"]: row for row in grid.rows}
    assert (rows[CONV]["qtype"], rows[CONV]["own"], rows[CONV]["origin"].get("qtype")) == ("int8", ["qtype"], None)
    other = rows["/stem/conv/Conv"]
    assert (other["qtype"], other["own"], other["origin"]["qtype"]) == ("int16", [], "op")
    assert (other["asymmetric"], other["origin"]["asymmetric"]) == (True, "model")
    assert rows[RELU]["edit"] == {"ON": 0}
    grid.level = "op"
    conv = next(row for row in grid.rows if row["id"] == "Conv")
    assert (conv["qtype"], conv["NodeType"], conv["own"], conv["changed"]) == ("int16", "12", ["qtype"], ["qtype"])
    assert conv["origin"]["asymmetric"] == "model"
    grid.level = "model"
    assert [(row["qtype"], row["asymmetric"], row["own"]) for row in grid.rows] == [("int8", True, ["asymmetric"])]
    with pytest.raises(PtqError):
        grid.level = "layer"


def test_subgraphs_are_rows_of_their_own(grid, page):
    """A subgraph_config entry is a row, its nodes inherit from it, and the level is offered where there is one."""
    ask(grid, kind="open")
    assert "subgraph" not in [name for name, _ in page.of("rows")[-1]["levels"]]
    grid.load({"subgraph_config": {"mid": {"inputs": [CONV], "outputs": ["/block1/project/conv/Conv"],
                                           "qtype": "int16"}}})
    assert next(row for row in grid.rows if row["id"] == CONV)["origin"]["qtype"] == "subgraph"
    grid.level = "subgraph"
    assert [(row["id"], row["qtype"], row["own"]) for row in grid.rows] == [("mid", "int16", ["qtype"])]
    assert "subgraph" in [name for name, _ in page.of("rows")[-1]["levels"]]
    grid.set("mid", "qtype", "int8", level="subgraph")
    assert grid.quant_config["subgraph_config"]["mid"]["qtype"] == "int8"


def test_the_page_gets_rows_packed_and_then_only_what_changes(grid, page):
    """A page that opens gets all rows in one packed buffer; an edit sends the rows that differ and the effect."""
    ask(grid, kind="open", to="view 1")
    message, = page.of("rows")
    assert message["to"] == "view 1"
    assert len(message["rows"]) == 28
    assert message["columns"][:5] == ["Node", "NodeType", "ON", "qtype", "Granted"]
    assert message["model_id"] == grid.model_id
    assert message["editable"]
    types = message["options"][next(r for r in message["rows"] if r["id"] == CONV)["edit"]["qtype"]]
    assert types == ["int8", "int16", "float32", "dual-int16"]
    ask(grid, kind="edit", level="node", names=[CONV], key="qtype", value="int16")
    changed = page.of("update")[-1]
    assert CONV in [row["id"] for row in changed["rows"]]
    assert len(changed["rows"]) < 28
    assert changed["undo"]
    assert not changed["redo"]
    grid.effect()
    assert "→" in page.of("effect")[-1]["parts"][1]["text"]


def test_an_edit_of_the_page_is_made_where_it_has_an_effect(grid, page):
    """Of several rows those that refuse are reverted and the first reason is said; the others are changed."""
    ask(grid, kind="edit", level="node", names=[CONV, RELU], key="qtype", value="int16")
    assert page.of("revert")[-1]["names"] == [RELU]
    said = page.of("status")[-1]
    assert said["level"] == "error"
    assert said["text"].startswith("1 of 2 refused: /stem/act/Relu reads no tensor")
    assert grid.quant_config == {"node_config": {CONV: {"qtype": "int16"}}}
    ask(grid, kind="edit", level="node", names=[RELU], key="qtype", value="int16")
    assert page.of("status")[-1]["text"].startswith("Refused: /stem/act/Relu")
    ask(grid, kind="undo")
    assert grid.quant_config == {}
    ask(grid, kind="undo")
    assert page.of("status")[-1]["text"] == "Nothing to undo."
    ask(grid, kind="redo")
    assert grid.quant_config != {}


@pytest.mark.parametrize("message", [
    {"kind": "edit"}, {"kind": "edit", "names": "x", "key": "qtype", "level": "node", "value": "int8"},
    {"kind": "edit", "names": [1], "key": "qtype", "level": "node", "value": "int8"},
    {"kind": "edit", "names": [CONV], "key": "qtype", "level": "node", "value": {"a": [1]}},
    {"kind": "edit", "names": [CONV], "key": "__class__", "level": "node", "value": 1},
    {"kind": "edit", "names": [CONV], "key": "qtype", "level": "root", "value": "int8"},
    {"kind": "edit", "names": ["<b>no</b>"], "key": "qtype", "level": "node", "value": "int8"},
    {"kind": "load", "text": "/etc/passwd"}, {"kind": "load", "text": '{"node_config": 3}'}, {"kind": "load"},
    {"kind": "level", "level": 7}, {"kind": "select", "names": {"a": 1}}, {"kind": "stop"}, {"kind": "heard"}, {},
])
def test_nothing_a_page_says_breaks_the_truth(grid, message):
    """Messages that make no sense change nothing and raise nothing in the kernel."""
    ask(grid, **message)
    assert grid.quant_config == {}
    assert grid.level == "node"
    assert grid.selected == []


def test_selection_goes_both_ways(grid, page):
    """The page's selection reaches Python without unknown names; Python's reaches the page; listeners hear both."""
    heard = []
    grid.on_select(heard.append)
    ask(grid, kind="select", names=[CONV, "nobody", 3])
    grid.focus(RELU)
    assert heard == [[CONV], [RELU]]
    assert page.of("focus")[-1]["names"] == [RELU]
    grid.on_select(heard.append, remove=True)
    grid.selected = [CONV]
    assert heard == [[CONV], [RELU]]
    with pytest.raises(PtqError) as told:
        grid.focus("/stem/act/Rel")
    assert RELU in told.value.problems[0].hint


def test_export_has_the_fewest_rules_and_asks_the_same(grid, page, tmp_path):
    """What is exported, to a file or to the page, gives every node the same request by an op_config entry."""
    convs = [row["id"] for row in grid.rows if row["NodeType"] == "Conv"]
    grid.set(convs, "qtype", "int16")
    path = grid.export(tmp_path / "quant.json")
    made = json.loads(path.read_text())
    assert made == {"op_config": {"Conv": {"qtype": "int16"}}}
    whole, least = parsed(grid.quant_config), parsed(made)
    for row in grid.rows:
        asked, again = (quant.for_node(row["id"], row["NodeType"], (), 2) for quant in (whole, least))
        assert replace(asked, origins={}) == replace(again, origins={})
    ask(grid, kind="export", to="view 1")
    assert page.of("file") == [
        {"kind": "file", "name": "digits_quant_config.json", "text": path.read_text(), "to": "view 1"}]
    other = QuantGrid(digits_of[0], compiling())
    other.load(path)
    assert other.quant_config == made
    with pytest.raises(PtqError):
        other.load({"node_config": {"nobody": {"qtype": "int16"}}})
    assert other.quant_config == made


def test_apply_makes_a_run_beside_and_goes_on_from_it(run, page):
    """Applied, the run has the quant_config and a folder of its own, is `result`, and changes count from it."""
    compile = compiling()
    grid = QuantGrid(run, compile)
    grid.set(CONV, "qtype", "int16")
    made = grid.apply()
    config, = compile.asked
    assert config.calibration.quant.to_dict() == {"node_config": {CONV: {"qtype": "int16"}}}
    assert config.model.working_dir == run.directory.absolute().with_name("run_edit1")
    assert grid.result is made
    assert len(grid.changes) == 0
    assert grid.effect().cosine == grid.effect().cosine_before
    assert grid.undo()
    assert len(grid.changes) == 1


def test_apply_of_the_page_can_be_stopped_and_may_fail(run, page):
    """The button works beside: it says how far it is, a stop leaves all as it was, an error is said."""
    begun = threading.Event()

    def work(watch):
        with watch.stage("calibrate", 10) as stage:
            stage.step()
            begun.set()
            while True:
                stage.check()

    grid = QuantGrid(run, compiling(work=work))
    grid.effect()
    ask(grid, kind="apply")
    assert begun.wait(30)
    page.wait("progress", "Compiling: calibrate")
    ask(grid, kind="apply")
    assert page.of("status")[-1]["text"].startswith("A compile run is under way")
    ask(grid, kind="stop")
    page.wait("status", "Stopped; the run before is untouched.")
    assert grid.result is None

    def bad(watch):
        raise ValueError("<b>no</b>")

    grid = QuantGrid(run, compiling(work=bad))
    grid.effect()
    ask(grid, kind="apply")
    page.wait("status", "ValueError: <b>no</b>")
    with pytest.raises(ValueError, match="no"):
        grid.apply()
    grid = QuantGrid(run, compiling())
    grid.effect()
    ask(grid, kind="apply")
    page.wait("status", "grid.result")
    page.wait("update", "'applying': False")


def test_stopping_apply_in_python_raises(run, page):
    """What compiling raises comes through, and the grid stays as it was."""
    def stop(watch):
        raise Interrupted("calibrate", 1, 2)

    grid = QuantGrid(run, compiling(work=stop))
    with pytest.raises(Interrupted):
        grid.apply()
    assert grid.result is None


def test_a_run_without_samples_has_latency_only(run, page, tmp_path):
    """Without calibration data the effect on latency is known, and the page says what to give."""
    settings = configuration.load(None, model=digits.model_path(), march="nash-e", working_dir=tmp_path).to_dict()
    bare = SimpleNamespace(record=replace(run.record, settings=settings), directory=tmp_path)
    grid = QuantGrid(bare, compiling())
    grid.set("Conv", "qtype", "dual-int16", level="op")
    effect = grid.effect()
    assert effect.cosine is None
    assert effect.latency_us != effect.latency_us_before
    assert "run.grid(data=...)" in page.of("effect")[-1]["parts"][1]["text"]
    with_data = QuantGrid(bare, compiling(), DATA, samples=2)
    assert with_data.effect().samples == 2


def test_a_model_that_cannot_be_opened_is_said(run, page, tmp_path):
    """A model file that changed into something else is told on the page, and raised where it is needed."""
    broken = tmp_path / "m.onnx"
    broken.write_bytes(b"no model")
    settings = {**run.record.settings, "model_parameters": {**run.record.settings["model_parameters"],
                                                            "onnx_model": str(broken)}}
    grid = QuantGrid(SimpleNamespace(record=replace(run.record, settings=settings), directory=tmp_path), compiling())
    page.wait("status", "m.onnx")
    with pytest.raises(PtqError):
        grid.set(CONV, "qtype", "int16")
    with pytest.raises(PtqError):
        grid.effect()
    ask(grid, kind="edit", level="node", names=[CONV], key="qtype", value="int16")
    assert len(grid.rows) == 28
    assert all(row["edit"] == {} for row in grid.rows)


def test_nothing_large_is_written_into_a_notebook(grid):
    """Synced state holds no rows; the static form is a table with escaped names, whatever level is shown."""
    state = {key: value for key, value in grid.get_state().items() if key not in ("_esm", "_css")}
    assert len(repr(state)) < 2000
    assert len(grid._esm) + len(grid._css) < 60_000
    grid.level = "model"
    html = grid.static_html()
    assert f"<td>{CONV}</td>" in html
    assert len(html) < 100_000
    assert grid.level == "model"
    assert repr(grid) == "QuantGrid('digits', 28 nodes, 0 changes)"


def test_names_are_escaped_in_the_static_form(run, page):
    """A node called like an html element is text there."""
    rows = (replace(run.record.nodes[0], node="<img src=x>"), *run.record.nodes[1:])
    hostile = SimpleNamespace(record=replace(run.record, nodes=rows), directory=run.directory)
    grid = QuantGrid(hostile, compiling())
    assert "<img" not in grid.static_html()
    assert "&lt;img src=x&gt;" in grid.static_html()
    with pytest.raises(PtqError, match="other nodes than the run has"):  # the model was exchanged since
        grid.effect()


def test_sensitivity_is_a_column_where_it_is_known(run, page):
    """Figures of an earlier sensitivity run stand beside the nodes they belong to."""
    grid = QuantGrid(run, compiling(), sensitivity={CONV: 0.99})
    ask(grid, kind="open")
    assert "Sensitivity" in page.of("rows")[-1]["columns"]
    assert next(row for row in grid.rows if row["id"] == CONV)["Sensitivity"] == 0.99


def test_words_are_chinese_where_asked(grid, page):
    """The words of the page follow the language of views; names of columns stay the vendor's."""
    set_language("zh")
    try:
        ask(grid, kind="open")
        ask(grid, kind="edit", level="node", names=[RELU], key="qtype", value="int16")
    finally:
        set_language("en")
    assert page.of("rows")[-1]["words"]["undo"] == "撤销"
    assert page.of("rows")[-1]["columns"][3] == "qtype"
    assert "不从内存读取张量" in page.of("status")[-1]["text"]


def test_folders_of_edits_are_counted(tmp_path):
    """The first number that is free, and no suffix upon a suffix."""
    assert free_folder(tmp_path / "run").name == "run_edit1"
    (tmp_path / "run_edit1").mkdir()
    assert free_folder(tmp_path / "run").name == "run_edit2"
    assert free_folder(tmp_path / "run_edit1").name == "run_edit2"
