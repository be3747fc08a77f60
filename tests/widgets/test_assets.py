"""Third-party files out of wheels, and the base of all widgets, without a browser."""
import gzip

import pytest

from ptqlab.errors import PtqError
from ptqlab.widgets.assets import SETS, View, our, pack, packed, read_wheel


class Small(View):
    """A widget that keeps what it hears and what it sends."""

    sets = ("tabulator",)

    def __init__(self):
        super().__init__()
        self.got, self.sent = [], []

    def heard(self, message, buffers):
        self.got.append(message)

    def send(self, content, buffers=None):
        self.sent.append((content, buffers))

    def static_html(self):
        return "<b>static</b>"

    def __repr__(self):
        return "Small()"


@pytest.mark.parametrize("name", SETS)
def test_every_set_is_in_its_wheel_and_names_no_source_map(name):
    """Each set of files is found in the installed wheel, comes gzipped, and asks for nothing else."""
    names, contents = packed(name)
    assert names == SETS[name][2]
    for content in contents:
        assert "sourceMappingURL" not in gzip.decompress(content).decode()


def test_packing_is_the_same_every_time():
    """Equal texts give equal bytes: no time of day is in them."""
    assert pack({"a": "text"}) == pack({"a": "text"})


def test_all_missing_files_are_told_at_once():
    """A wheel that is gone or lacks a file is a refusal that names every one of them."""
    with pytest.raises(PtqError) as told:
        read_wheel("js_lib_tabulator", "static", ("one.js", "two.js"))
    assert [p.where for p in told.value.problems] == [
        "js_lib_tabulator/static/one.js", "js_lib_tabulator/static/two.js"]
    with pytest.raises(PtqError):
        read_wheel("no_such_package", "static", ("one.js",))


def test_a_view_sends_its_sets_and_no_others():
    """Asked for a set of its own, a widget sends names and contents; asked for another, nothing; the rest is heard."""
    view = Small()
    view._receive(view, {"kind": "assets", "set": "tabulator"}, [])
    (message, buffers), = view.sent
    assert message == {"kind": "assets", "set": "tabulator", "names": list(SETS["tabulator"][2])}
    assert list(buffers) == list(packed("tabulator")[1])
    view._receive(view, {"kind": "assets", "set": "other"}, [])
    view._receive(view, {"kind": "edit"}, [])
    assert len(view.sent) == 1
    assert view.got == [{"kind": "edit"}]


def test_a_missing_wheel_is_told_on_the_page(monkeypatch):
    """Where a wheel is gone the page gets the words of the refusal, not silence."""
    monkeypatch.setitem(SETS, "gone", ("js_lib_tabulator", "static", ("none.js",)))
    view = Small()
    view.send_assets("gone")
    assert "js_lib_tabulator/static/none.js" in view.sent[0][0]["error"]


def test_a_view_leaves_a_static_form_before_the_widget(capsys, monkeypatch):
    """Shown, a widget first displays its static form, tied to it by its id, then itself."""
    shown = []
    monkeypatch.setattr("IPython.display.display", lambda data, raw: shown.append(data))
    view = Small()
    view._ipython_display_()
    static, live = shown
    assert static["text/plain"] == "Small()"
    assert f"data-ptqlab='{view.model_id}'><b>static</b>" in static["text/html"]
    assert "application/vnd.jupyter.widget-view+json" in live


def test_our_files_are_joined_in_order():
    """Our scripts are read from the package, in the order asked for."""
    assert our("assets.js").startswith("// Files that Python sends")
    assert our("assets.js", "assets.js") == our("assets.js") + "\n" + our("assets.js")
