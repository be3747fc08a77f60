"""The dashboard without a browser: one node, shown by every part; each part alone; sensitivities beside."""
import gzip
import json
import threading

import ipywidgets
import numpy as np
import pytest
from graph_runs import write_run
from records import HOSTILE, NAN_NODE

import ptqlab
from ptqlab.debug.distribution import Values
from ptqlab.errors import PtqError
from ptqlab.events import Watch
from ptqlab.examples import digits
from ptqlab.report import words
from ptqlab.report.heatmap import COSINE, Heat
from ptqlab.report.tensors import Panel
from ptqlab.widgets.dashboard import Dashboard
from ptqlab.widgets.dashboard_detail import Detail, DetailView
from ptqlab.widgets.dashboard_draw import MOST_CHANNELS, channel_svg, distribution_svg, error_svg
from ptqlab.widgets.dashboard_heat import Heats, HeatView, run_heats
from ptqlab.widgets.graph import GraphView

CURVES = {"all": {"a": 0.99, "b": 0.9}, "weights only": {"a": 0.999, "b": float("nan")}}


@pytest.fixture(autouse=True)
def english(monkeypatch):
    monkeypatch.setitem(words._state, "language", "en")


class Part(ipywidgets.Label):
    """A stand-in for the grid."""

    def __init__(self):
        super().__init__()
        self.focused, self.listeners = [], []

    def focus(self, *nodes):
        self.focused.append(nodes)
        for listener in self.listeners:
            listener(list(nodes))  # an echo, as a careless part would give it

    def on_select(self, callback, *, remove=False):
        self.listeners.append(callback)

    def static_html(self):
        return "<p>grid</p>"


def heats_of_whatifs(nodes):
    """Two what-ifs, the first node worst."""
    def heat(metric, limit):
        values = tuple((10.0 * i, 20.0 + i) for i in range(len(nodes)))
        return Heat(metric, True, tuple(nodes)[:limit], ("node int8", "node int16"), values[:limit], len(nodes))
    return Heats(("sqnr", COSINE), heat)


class Few(list):
    """No samples."""

    def first(self, count):
        return self


class Run:
    """A run whose figures are made up: only `explain` is the real one."""

    def __init__(self, loaded):
        self.record, self.explain = loaded.record, loaded.explain
        self.asked = []

    def panels(self, node, **_):
        self.asked.append(node)
        x = np.linspace(-1, 1, 64, dtype=np.float32).reshape(1, 4, 16)
        return [Panel(Values(f"{node}_in", "activation", x, np.round(x * 8) / 8, 1.0, 1, 8), (-1.0, 1.0))]

    def accumulated(self, *_, **__):
        return CURVES

    def source(self, data=None):
        return None, Few()


@pytest.fixture
def loaded(tmp_path):
    write_run(tmp_path / "run")
    return ptqlab.load(tmp_path / "run")


@pytest.fixture
def causes(monkeypatch):
    """No causes: they are tested where they are found."""
    monkeypatch.setattr("ptqlab.debug.diagnosis.causes_at", lambda network, node, samples: [])


@pytest.fixture
def board(loaded, causes):
    run = Run(loaded)
    names = [row.node for row in loaded.record.nodes]
    made = Dashboard(run, run_heats(loaded.record), GraphView(loaded.record, loaded.directory), Part(),
                     lambda watch: heats_of_whatifs(names[:5]))
    yield made
    assert made.wait(30)


def taken(view):
    """Messages of a widget from now on."""
    sent = []
    view.send = lambda content, buffers=None: sent.append((content, buffers))
    return sent


# ---------------------------------------------------------------- heatmap


def test_without_sensitivities_the_heatmap_is_that_of_the_cosines(loaded):
    """Worst first, NaN before all; fused nodes and those that were not compared are left out."""
    heat = run_heats(loaded.record).heat(COSINE, None)
    rows = {row.node: row for row in loaded.record.nodes}
    assert heat.nodes[:2] == (NAN_NODE, HOSTILE) and heat.columns == ("calibrated", "quantized")
    assert not any(rows[n].fused_into for n in heat.nodes)
    assert "head/argmax" not in heat.nodes and heat.of == len(heat.nodes)
    assert run_heats(loaded.record).heat(COSINE, 3).nodes == heat.nodes[:3]


def test_the_page_is_sent_words_and_shades(loaded):
    """Each cell as its number and a shade whose ink can be read; nothing of it is a synced trait."""
    view = HeatView(heats_of_whatifs(["a", HOSTILE]))
    sent = taken(view)
    view._handle_custom_msg({"kind": "open"}, [])
    (message, buffers), = sent
    (worst, fine), (middle, best) = ([round(32 * s) for s in row] for row in view.heat.shades())
    assert worst == 32 and best == 0
    assert json.loads(gzip.decompress(buffers[0])) == [["a", [["0.0", worst], ["20.0", fine]]],
                                                       [HOSTILE, [["10.0", middle], ["21.0", best]]]]
    assert message["columns"] == ["node int8", "node int16"] and message["metrics"] == ["sqnr", COSINE]
    assert len(message["fills"]) == 33 and message["row"] == -1
    state = {k: v for k, v in view.get_state().items() if k not in ("_esm", "_css")}
    assert len(json.dumps(state, default=str)) < 1000


@pytest.mark.parametrize("message", [{"kind": "select", "row": 9}, {"kind": "select", "row": "0"}, {"kind": "select"},
                                     {"kind": "metric", "metric": "gone"}, {"kind": "x"}, {}])
def test_what_a_page_of_the_heatmap_says_is_checked(message):
    """Rows and metrics that are none change nothing."""
    view = HeatView(heats_of_whatifs(["a", "b"]))
    sent = taken(view)
    view._handle_custom_msg(message, [])
    assert view.selected == [] and sent == [] and view.heat.metric == "sqnr"


def test_a_heatmap_alone():
    """A click selects and is told once; a node beyond the worst makes all be shown; an unknown one is refused."""
    view = HeatView(heats_of_whatifs(["a", "b", "c"]), limit=2)
    heard = []
    view.on_select(heard.append)
    sent = taken(view)
    for _ in range(2):
        view._handle_custom_msg({"kind": "select", "row": 1}, [])
    assert view.selected == ["b"] and heard == [["b"]]
    view.focus("c")
    assert view.heat.nodes == ("a", "b", "c") and [m["kind"] for m, _ in sent] == ["rows", "focus"]
    assert sent[1][0]["row"] == 2 and view.knows("a") and not view.knows("z")
    view.show(limit=1)
    assert view.heat.nodes == ("a",)
    view._handle_custom_msg({"kind": "all", "all": True}, [])
    view._handle_custom_msg({"kind": "metric", "metric": COSINE}, [])
    assert view.heat.metric == COSINE and len(view.heat.nodes) == 3
    with pytest.raises(PtqError, match="PTQ665"):
        view.focus("z")
    with pytest.raises(PtqError, match="PTQ554"):
        view.show(metric="gone")
    assert view.heat.metric == COSINE


# ---------------------------------------------------------------- drawings and detail


def panel(x, y=None, bounds=(-1.0, 1.0)):
    return Panel(Values("t", "activation", x, x if y is None else y, 1.0, min(1, x.ndim - 1), 8), bounds)


@pytest.mark.parametrize("x", [
    np.zeros((1, 3, 4), np.float32), np.array([np.inf, -np.inf, np.nan, 1.0], np.float32).reshape(1, 4),
    np.zeros((0, 3), np.float32), np.full((2, 2), -7.0, np.float32), np.arange(6, dtype=np.float32)])
def test_odd_values_are_drawn(x):
    """Zeros, NaN and infinities, no values at all, one value, one dimension: each gives a drawing without NaN in it."""
    for bounds in ((-1.0, 1.0), None):
        drawn = distribution_svg(panel(x, bounds=bounds))
        assert drawn.startswith("<svg") and "nan" not in drawn and "inf" not in drawn
    if x.size and x.ndim > 1:
        assert "nan" not in channel_svg(panel(x)).replace("<title>", "")


def test_histogram_marks_the_ends_of_the_codes():
    """Two dashed lines at the bounds, both series in the key; none without bounds."""
    x = np.linspace(-1, 1, 100, dtype=np.float32).reshape(1, 100)
    drawn = distribution_svg(panel(x))
    assert drawn.count("stroke-dasharray") == 3 and "ends of the codes" in drawn and "quantized" in drawn
    assert "stroke-dasharray" not in distribution_svg(panel(x, bounds=None))


def test_of_many_channels_those_that_reach_farthest_are_drawn():
    """The drawing says how many of how many, and the widest is among them."""
    x = np.ones((1, 300, 2), np.float32)
    x[0, 250] = 9
    drawn = channel_svg(panel(x))
    assert drawn.count("<title>") == MOST_CHANNELS and "<title>250: 9 … 9</title>" in drawn
    assert "the 128 of 300 that reach farthest" in drawn


def test_the_error_is_told_at_the_node():
    """Each curve in the key with its figure there; what is NaN is left out of the line; names are escaped."""
    drawn = error_svg(CURVES | {"<b>": {"a": 1.0, "b": 1.0}}, "a")
    assert "all 0.990000" in drawn and "weights only 0.999000" in drawn and "<b>" not in drawn
    assert drawn.count("<polyline") == 3 and "nan" not in drawn


def test_details_are_escaped(loaded):
    """A node called <script>, its reason and its tensors stay text."""
    detail = Detail(loaded.explain(HOSTILE), Run(loaded).panels(HOSTILE), [], CURVES)
    page = detail.html()
    assert HOSTILE not in page and "&lt;script&gt;" in page and "<b>product</b>" not in page
    assert page.count("<figure>") == 3 and "nothing conspicuous in what it reads" in page


def test_details_come_step_by_step(loaded, causes):
    """What the record knows at once, then figures; the last node asked for is the one that stands."""
    view = DetailView(Run(loaded))
    sent = taken(view)
    view._handle_custom_msg({"kind": "open"}, [])
    assert sent[-1][0]["html"] == "" and "Select a node" in sent[-1][0]["text"]
    view.focus("pool")
    assert sent[1][0]["level"] == "busy" and "GlobalAveragePool" in sent[1][0]["html"]
    view.focus(HOSTILE)
    assert view.wait(30)
    last = sent[-1][0]
    assert (last["node"], last["level"], last["text"]) == (HOSTILE, "", "") and last["html"].count("<figure>") == 3
    with pytest.raises(PtqError, match="PTQ502"):
        view.focus("no such node")
    assert view.node == HOSTILE


def test_other_data_reach_every_figure(loaded, causes):
    """Data given to the dashboard are those that panels, causes and errors are computed with."""
    asked = []

    class Given(Run):
        def panels(self, node, *, data, **_):
            asked.append(data)
            return []

        def accumulated(self, *, data, **_):
            asked.append(data)
            return CURVES

        def source(self, data=None):
            asked.append(data)
            return None, Few()

    view = DetailView(Given(loaded), "my data")
    view.focus("pool")
    assert view.wait(30) and asked == ["my data"] * 3 and view._failures == []


def test_a_run_without_data_says_so(loaded):
    """Where nothing can be computed the pane says why, and keeps what the record knows."""
    view = DetailView(loaded)
    sent = taken(view)
    view.focus("pool")
    assert view.wait(30)
    assert sent[-1][0]["level"] == "error" and "Figures cannot be computed" in sent[-1][0]["text"]
    assert "GlobalAveragePool" in sent[-1][0]["html"]


# ---------------------------------------------------------------- linked


@pytest.mark.parametrize("part", ["heat", "graph", "grid"])
def test_a_click_in_a_part_shows_the_node_in_all(board, part):
    """From each part the node reaches every other, callbacks hear of it once, echoes change nothing."""
    heard = []
    board.on_select(heard.append)
    node = "/block2/conv/Conv"
    if part == "heat":
        board.heat._handle_custom_msg({"kind": "select", "row": board.heat.heat.nodes.index(node)}, [])
    elif part == "graph":
        board.graph._handle_custom_msg({"kind": "selected", "names": [node]}, [])
    else:
        board.grid.listeners[0]([node])
    assert board.node == node and heard == [node]
    assert board.heat.selected == board.graph.selected == [node] and board.detail.node == node
    assert board.grid.focused == [(node,)]


def test_a_fused_node_has_the_row_of_its_main_node(board):
    """The heatmap has no row for what is computed inside another node; everything else shows the node itself."""
    board.select("/block2/relu/Relu")
    assert board.heat.selected == ["/block2/conv/Conv"]
    assert board.graph.selected == ["/block2/relu/Relu"] and board.detail.node == "/block2/relu/Relu"
    board.select("head/argmax")
    assert board.heat.selected == [] and board.detail.node == "head/argmax"


def test_nothing_moves_for_an_unknown_node(board):
    """A name that the run does not have is refused before any part moves; a part's own names concern nobody."""
    board.select("pool")
    with pytest.raises(PtqError, match="PTQ502"):
        board.select("poo")
    board.grid.listeners[0](["t1_HzCalibration"])
    board.grid.listeners[0]([])
    assert board.node == "pool" and board.heat.selected == ["pool"]


def test_the_button_computes_sensitivities_beside(board):
    """The heatmap changes to the what-ifs, the selection stays, the button goes away."""
    board.select("/block1/conv/Conv")
    assert not board.heat.heats.whatif
    board.start()
    assert board.wait(30)
    assert board.heat.heats.whatif and board.heat.heat.metric == "sqnr"
    assert board.heat.selected == ["/block1/conv/Conv"] and board.status == "Sensitivity of every node is known."
    assert board._known.layout.display == "none"


def test_stop_shows_what_was_measured(board):
    """`stop` reaches the watch; what is done is shown and said to be a part."""
    begun = threading.Event()

    def compute(watch: Watch):
        with watch.stage("sensitivity", 1000):
            begun.set()
            while not watch.stopped:
                pass
        return heats_of_whatifs(["pool"])

    board._compute = compute
    board.start()
    assert begun.wait(10)
    board.stop()
    assert board.wait(30)
    assert board.status == "Stopped: what was measured is shown." and board.heat.heat.nodes == ("pool",)


def test_what_fails_beside_is_told(board):
    """A refusal stands beside the button, which works again."""
    def compute(watch):
        return ptqlab.sensitivity("no such file")

    board._compute = compute
    board.start()
    assert board.wait(30)
    assert "no such file" in board.status and not board._button.disabled


def test_the_static_form_holds_every_part(board):
    """Heatmap, graph, details and grid, one after the other, escaped."""
    board.select(HOSTILE)
    page = board.static_html()
    assert page.index("Cosine per node") < page.index("Netron:") < page.index("<p>grid</p>")
    assert HOSTILE not in page.replace("data-document", "")
    assert len(page) < 500_000


def test_the_dashboard_of_a_real_run(tmp_path):
    """On the digits network: the real grid, the real figures of a convolution, the real sensitivities."""
    config = digits.write_config(tmp_path / "example")
    run = ptqlab.compile(config, working_dir=tmp_path / "out", progress=False)
    board = run.dashboard()
    board.select("/block2/expand/conv/Conv")
    assert board.grid.selected == ["/block2/expand/conv/Conv"] and board.wait(120)
    detail = board.detail.detail
    assert [p.values.kind for p in detail.panels] == ["activation", "weight", "node"]
    assert set(detail.curves["everything quantized"]) >= {"/block2/expand/conv/Conv"}
    assert detail.html().count("<figure>") == 6
    board.compute()
    assert board.heat.heats.whatif and "node int8" in board.heat.heat.columns
    assert run.known_sensitivity is not None and run.dashboard().heat.heats.whatif
