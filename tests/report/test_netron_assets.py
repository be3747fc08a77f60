"""The files of the installed Netron, rewritten: every rewrite hits, and where one does not, it is said."""
import gzip
import json
import re
from dataclasses import replace

import pytest

from ptqlab.errors import PtqError
from ptqlab.report import netron_assets
from ptqlab.report.netron_assets import (
    IMPORT,
    MODULES,
    PAGE_REWRITES,
    WORKER_REWRITE,
    Rewrite,
    boot,
    packed,
    version,
    viewer,
)


@pytest.mark.parametrize("rewrite", [*PAGE_REWRITES, WORKER_REWRITE], ids=lambda r: r.pattern[:30])
def test_every_rewrite_hits_the_installed_netron(rewrite):
    """Each place that is rewritten is there in this version, so that an update of Netron cannot pass unseen."""
    problems = []
    changed = netron_assets._apply(rewrite, netron_assets._read(rewrite.file, problems), problems)
    assert problems == [] and changed


def test_modules_import_each_other_by_bare_names_only():
    """Import by path would ask the network; the only ones left are of modules that are not sent and never needed."""
    files = viewer()
    sources = "".join(files["modules"].values())
    assert re.findall(r"""(?:import\(|from )'\./""", sources) == []
    named = set(re.findall(r"@netron/([\w-]+)'", sources))
    # pickles, archives of tensors and the layout without a worker: of no use for ONNX
    assert named - set(MODULES) == {"python", "hdf5", "dagre"}
    assert "import" not in re.sub(r"//.*", "", files["worker"].split("self.onmessage")[1])
    assert not re.search(r"^export ", files["worker"], re.MULTILINE)


def test_the_page_holds_no_address_it_would_load():
    """No stylesheet, icon or script by address; the policy forbids every request; each script has the nonce."""
    html = viewer()["html"]
    assert not re.search(r"<link |<script[^>]*src=|<img[^>]*src=", html)
    assert "default-src 'none'; script-src 'nonce-{nonce}' blob:" in html
    assert re.findall(r"<script([^>]*)>", html) == [' nonce="{nonce}"']
    assert ".node-item-type path" in html and boot() in html


def test_the_private_names_that_the_boot_script_uses_exist():
    """What our script overrides or calls in Netron is there under that name."""
    modules = viewer()["modules"]
    for name in ("_openContext", "async view(", "async start(", "worker(", "async require(", "async asset(",
                 "async message(", "openURL(", "browser.Context = class", "window.exports.browser = browser"):
        assert name in modules["browser"], name
    for name in ("viewGraph.build(", "selectionchange", "activate(value, source)", "scrollTo(selection, behavior)",
                 "this._menu = ", "unregister(",
                 "async popTarget(", "this._path = ", "async attach(", "return 'graph-node'", "netron:attachment"):
        assert name in modules["view"], name
    for name in ("build(document, origin)", "add(id, classes)", "this.text = ", "this.blocks = []"):
        assert name in modules["grapher"], name
    assert "export const { Graph, Node, Edge, Argument } = grapher;" in modules["grapher"]


def test_what_is_sent_is_small_and_the_same_every_time():
    """About 200 kB gzipped, without the 5 MB of operator documentation; equal bytes on every machine and day."""
    assert len(packed()) < 260_000
    assert json.loads(gzip.decompress(packed())) == viewer()
    assert '"description"' not in viewer()["json"]["onnx-metadata.json"]
    assert json.loads(viewer()["json"]["onnx-metadata.json"])[0]["name"]


@pytest.fixture
def anew():
    """Nothing kept from before, nothing kept for after."""
    cached = (viewer, packed, version)
    for function in cached:
        function.cache_clear()
    yield
    for function in cached:
        function.cache_clear()


def test_a_netron_that_does_not_fit_is_refused_with_every_place(monkeypatch, anew):
    """All rewrites that miss are told at once, with the version that fits and how to get it."""
    monkeypatch.setattr(netron_assets, "PAGE_REWRITES", (Rewrite("index.html", "never there", ""),))
    monkeypatch.setattr(netron_assets, "WORKER_REWRITE", replace(WORKER_REWRITE, pattern="nor this"))
    monkeypatch.setattr(netron_assets, "IMPORT", replace(IMPORT, pattern="((nor that))"))
    monkeypatch.setattr(netron_assets, "MODULES", (*MODULES, "gone"))
    with pytest.raises(PtqError) as told:
        viewer()
    assert [(p.where, p.found) for p in told.value.problems] == [
        (f"netron {version()}: index.html", "nothing like never there"),
        (f"netron {version()}: gone.js", "no such file"),
        (f"netron {version()}: dagre.js", "nothing like nor this"),
        (f"netron {version()}: *.js", "nothing like ((nor that))"),
    ]
    assert {(p.code, p.expected, p.hint) for p in told.value.problems} == {
        ("PTQ660", "netron>=9.3,<10", "pip install 'netron>=9.3,<10'")}


def test_no_netron_at_all_is_told(monkeypatch, anew):
    """Without the wheel the refusal says what to install."""
    def missing(name):
        raise netron_assets.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(netron_assets.metadata, "version", missing)
    with pytest.raises(PtqError) as told:
        viewer()
    assert str(told.value.problems[0]) == ("PTQ660  netron\n    found     it is not installed\n"
                                           "    expected  netron>=9.3,<10\n"
                                           "    do        pip install 'netron>=9.3,<10'")
