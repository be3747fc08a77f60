"""The graph widget without a browser: what it sends, what it hears, what it refuses."""
import gzip
import json

import pytest
from graph_runs import write_run
from records import HOSTILE, NAN_NODE

import ptqlab
from ptqlab.errors import PtqError
from ptqlab.report import netron_assets, words
from ptqlab.widgets.graph import GraphView


@pytest.fixture(autouse=True)
def english(monkeypatch):
    monkeypatch.setitem(words._state, "language", "en")


class Recorded(GraphView):
    """A view that keeps what it sends."""

    def __init__(self, *args, **kwargs):
        self.sent = []
        super().__init__(*args, **kwargs)

    def send(self, content, buffers=None):
        self.sent.append((content, buffers))

    def take(self):
        """(message, buffers) sent since the last time, which must be one."""
        (found,) = self.sent
        self.sent.clear()
        return found


@pytest.fixture
def folder(tmp_path):
    write_run(tmp_path / "run", stages=("original_float", "optimized_float", "hbm"))
    return tmp_path / "run"


@pytest.fixture
def view(folder):
    run = ptqlab.load(folder)
    return Recorded(run.record, run.directory)


def hear(view, **message):
    view._handle_custom_msg(message, [])


def shown(buffers):
    return json.loads(gzip.decompress(buffers[0]))


def test_a_run_gives_the_widget_and_its_string(folder):
    """`run.graph()` and `run.graph_html()` take the same arguments and speak of the same graph."""
    run = ptqlab.load(folder)
    view = run.graph("hbm", around="pool", hops=1, color="on", height=300)
    assert isinstance(view, GraphView) and view.height == 300
    assert repr(view) == "GraphView('digits, nash-e: compiled model (.hbm), 3 of 24 nodes')"
    assert "compiled model (.hbm), 3 of 24 nodes" in run.graph_html("hbm", around="pool", hops=1, color="on")


def test_nothing_large_is_a_synced_trait(view):
    """The state that a notebook may save holds neither the model nor the viewer."""
    state = {k: v for k, v in view.get_state().items() if k not in ("_esm", "_css")}
    assert len(json.dumps(state, default=str)) < 1000


def test_viewer_and_graph_are_sent_when_a_page_asks(view):
    """The viewer as one gzipped set; the graph with title, colours, side bar and the bar above, to who asked."""
    hear(view, kind="assets", set="netron")
    message, buffers = view.take()
    assert message == {"kind": "assets", "set": "netron", "names": ["viewer.json"]}
    assert buffers == [netron_assets.packed()]
    hear(view, kind="draw", to="page-1")
    message, buffers = view.take()
    assert (message["kind"], message["to"], message["model_id"]) == ("draw", "page-1", view.model_id)
    assert message["stages"] == [["original", "original model"], ["optimized", "optimized model"],
                                 ["hbm", "compiled model (.hbm)"]]
    assert (message["stage"], message["color"], message["around"], message["hops"]) == ("optimized", "cosine", None, 2)
    assert HOSTILE not in message["legend"]
    content = shown(buffers)
    assert content["title"] == "digits, nash-e: optimized model, 24 nodes" and content["focus"] == []
    assert content["painting"]["nodes"][HOSTILE] == [1, "0.9420"]
    assert content["attachment"]["signature"] == "netron:attachment"
    assert buffers[1] == view.graph.outline.data


def test_selection_goes_both_ways(view):
    """What is clicked reaches `selected` and the callbacks once; `focus` reaches page and callbacks."""
    heard = []
    view.on_select(heard.append)
    view.on_select(heard.append)
    hear(view, kind="selected", names=[HOSTILE])
    hear(view, kind="selected", names=[HOSTILE])
    assert view.selected == [HOSTILE] and heard == [[HOSTILE]]
    view.focus("pool")
    assert view.take()[0] == {"kind": "focus", "names": ["pool"]}
    assert view.selected == ["pool"] and heard == [[HOSTILE], ["pool"]]
    view.selected = ["pool", NAN_NODE]
    assert view.take()[0]["names"] == ["pool", NAN_NODE]
    view.on_select(heard.append, remove=True)
    hear(view, kind="selected", names=[])
    assert view.selected == [] and len(heard) == 3


@pytest.mark.parametrize("names", [None, "pool", [1, None, {"a": 1}], ["no such node"], [["pool"]]])
def test_what_a_page_says_is_checked(view, names):
    """Selections that are none, or of nodes that are not shown, are not taken over."""
    hear(view, kind="selected", names=names)
    assert view.selected == []


@pytest.mark.parametrize("message", [{}, {"kind": None}, {"kind": "assets", "set": "tabulator"}, {"kind": "nothing"}])
def test_unknown_messages_do_nothing(view, message):
    """Nothing is sent, nothing changes."""
    hear(view, **message)
    assert view.sent == []


def test_a_new_colour_repaints_and_draws_nothing_anew(view):
    """The measure changes by a small message; what is wrong is refused and changes nothing."""
    view.color = "qtype"
    message, buffers = view.take()
    assert message["kind"] == "paint" and message["painting"]["color"] == "qtype" and buffers is None
    assert message["legend"].count("<li>") == 4
    hear(view, kind="ask", color="on")
    assert view.color == "on" and view.take()[0]["kind"] == "paint"
    with pytest.raises(PtqError, match="PTQ662"):
        view.color = "blue"
    hear(view, kind="ask", color="blue")
    message, _ = view.take()
    assert (message["kind"], message["level"]) == ("status", "error") and "PTQ662" in message["text"]
    assert view.color == "on"


def test_a_page_may_ask_for_stage_and_cut(view):
    """Stage, cut and the way back; all views are drawn anew."""
    hear(view, kind="ask", around="pool", hops=1)
    message, buffers = view.take()
    assert (message["kind"], message["to"], message["around"]) == ("draw", "", "pool")
    assert shown(buffers)["title"].endswith("3 of 24 nodes") and shown(buffers)["focus"] == ["pool"]
    hear(view, kind="ask", hops=2)
    assert shown(view.take()[1])["title"].endswith("5 of 24 nodes")
    hear(view, kind="ask", around=None)
    assert shown(view.take()[1])["title"].endswith("24 nodes")
    hear(view, kind="ask", stage="original")
    assert view.stage == "original" and view.take()[0]["stage"] == "original"
    for wrong in ({"hops": "many", "around": "pool"}, {"stage": ["x"]}, {"around": {"a": 1}}, {"color": None}):
        hear(view, kind="ask", **wrong)
        assert view.take()[0]["level"] == "error"
    assert (view.stage, view.graph.outline.total) == ("original", 24)


def test_focus_moves_a_cut(view):
    """In a cut the focus moves the cut to a node outside of it; elsewhere an unknown node is refused."""
    view.show(around="pool", hops=1)
    view.sent.clear()
    view.focus("/block1/relu/Relu")
    assert view.graph.outline.nodes == ("/block1/conv/Conv", "/block1/relu/Relu", "/block2/conv/Conv")
    assert view.selected == ["/block1/relu/Relu"]
    view.show(around=None)
    with pytest.raises(PtqError) as told:
        view.focus("/block1/relu/Rel", "gone")
    assert [p.found for p in told.value.problems] == ["no node '/block1/relu/Rel' in this stage",
                                                      "no node 'gone' in this stage"]
    with pytest.raises(PtqError, match="PTQ664"):
        view.show(colour="on")


def test_what_the_page_tells_of_itself_is_kept(view):
    """`status` says whether the graph stands, or why it does not."""
    hear(view, kind="ready", nodes=24)
    assert view.status == "ready"
    hear(view, kind="failed", text="no luck")
    assert view.status == "failed: no luck"


def test_a_netron_that_does_not_fit_is_refused_before_anything_is_shown(folder, monkeypatch):
    """A readable refusal instead of an empty frame."""
    def misfit():
        raise PtqError(netron_assets._misfit(netron_assets.IMPORT), "graph")

    monkeypatch.setattr(netron_assets, "viewer", misfit)
    with pytest.raises(PtqError, match="PTQ660"):
        ptqlab.load(folder).graph()


def test_words_are_chinese_where_chinese_is_chosen(folder):
    """Bar, legend and title."""
    words.set_language("zh")
    run = ptqlab.load(folder)
    view = Recorded(run.record, run.directory)
    hear(view, kind="draw", to="")
    message, buffers = view.take()
    assert message["words"]["cut"] == "仅显示所选节点周围" and "未比较" in message["legend"]
    assert "优化后模型" in shown(buffers)["title"]
