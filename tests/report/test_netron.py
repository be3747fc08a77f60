"""The graph as one string of html: whole, escaped, without a request; drawn in a real browser."""
import base64
import gzip
import html
import json
import re
from dataclasses import replace

import pytest
from chromium import BROWSER_MARKS, CHROMIUM, FLAGS, expect, sync_playwright
from graph_runs import write_run
from records import CLIMBER, HOSTILE, digits_record

from ptqlab.errors import Problem, PtqError
from ptqlab.report import netron, words
from ptqlab.report.netron import graph_html, graph_of

NAN = "mask_where"
INJECTED = "<img src=x onerror=alert(1)>"


def browser(test):
    """The marks of a test that needs the browser."""
    for mark in BROWSER_MARKS:
        test = mark(test)
    return test


@pytest.fixture(autouse=True)
def english(monkeypatch):
    monkeypatch.setitem(words._state, "language", "en")


@pytest.fixture
def run(tmp_path):
    """(record, folder) of a run with hostile names."""
    return write_run(tmp_path / "run"), tmp_path / "run"


def inside(page):
    """What the frame of a static form is given."""
    document = html.unescape(re.search(r"data-document='([^']*)'", page)[1])
    packed = re.search(r"id='ptqlab-init'>([^<]*)<", document)[1]
    return json.loads(gzip.decompress(base64.b64decode(packed)))


def test_one_string_holds_everything_and_no_tag_of_a_name(run):
    """Viewer, model, colours and side bar are in it; names from the file are in the packed data only."""
    page = graph_html(*run)
    data = inside(page)
    assert base64.b64decode(data["model"]) == graph_of(*run).outline.data
    assert data["painting"]["nodes"][HOSTILE] == [1, "0.9420"]
    assert any(e["target"] == HOSTILE and e["name"] == "reason" for e in data["attachment"]["metadata"])
    assert data["title"] == "digits, nash-e: optimized model, 24 nodes"
    outer = re.sub(r"data-document='[^']*'", "", page)
    assert HOSTILE not in outer and "alert" not in outer
    assert "title='Netron: digits, nash-e: optimized model, 24 nodes' sandbox='allow-scripts allow-downloads'" in outer
    assert len(page) < 400_000


def test_titles_are_escaped(run):
    """The name of a model may come from anywhere."""
    record = replace(run[0], model="a'><script>")
    page = re.sub(r"data-document='[^']*'", "", graph_html(record, run[1]))
    assert "a&#x27;&gt;&lt;script&gt;, nash-e" in page and "a'>" not in page


def test_each_page_has_a_nonce_of_its_own(run):
    """A model file cannot know the nonce that lets a script run."""
    pages = [html.unescape(re.search(r"data-document='([^']*)'", graph_html(*run))[1]) for _ in range(2)]
    nonces = [set(re.findall(r"nonce[-=]\"?([\w-]{16,})", page)) for page in pages]
    assert [len(n) for n in nonces] == [1, 1] and nonces[0] != nonces[1]
    assert "{nonce}" not in pages[0]


def test_a_cut_says_that_it_is_one(run):
    """The title counts the nodes that are shown and all there are; the node in the middle is in focus."""
    found = graph_of(*run, around="pool", hops=1)
    assert found.title == "digits, nash-e: optimized model, 3 of 24 nodes"
    assert found.focus == ("pool",)
    assert set(found.painting.nodes) == {NAN, "pool", "head/reshape"}


def test_stages_that_are_not_there_are_refused(run):
    """A word that is no stage, and a stage that the run did not reach, in whole texts."""
    with pytest.raises(PtqError) as told:
        graph_of(*run, stage="optimised")
    assert str(told.value.problems[0]) == (
        "PTQ663  stage\n    found     'optimised'\n    expected  original, optimized, calibrated, quantized, hbm\n"
        "    do        did you mean 'optimized'?")
    with pytest.raises(PtqError) as told:
        graph_of(*run, stage="hbm")
    assert str(told.value.problems[0]) == (
        "PTQ663  stage\n    found     the run left no hbm model\n    expected  optimized\n"
        "    do        compile without `skip`")


def test_where_netron_does_not_fit_a_message_stands_in_its_place(run, monkeypatch):
    """A report is written all the same, with what is wrong and what to do, escaped."""
    def misfit():
        raise PtqError(Problem("PTQ660", "netron 9.9", "nothing like <script", "netron>=9.3,<10", "install it"))

    monkeypatch.setattr(netron, "viewer", misfit)
    page = graph_html(*run)
    assert "role='alert'>The graph cannot be shown: the installed Netron does not fit." in page
    assert "nothing like &lt;script" in page and "iframe id" not in page


@pytest.fixture
def page():
    """A page that notes requests to elsewhere, dialogs and errors."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        made = browser.new_page(viewport={"width": 1200, "height": 700})
        made.outside, made.alerts, made.complaints = [], [], []
        made.on("request", lambda r: None if r.url.startswith(("file:", "data:", "blob:")) else
                made.outside.append(r.url))
        made.on("dialog", lambda d: (made.alerts.append(d.message), d.dismiss()))
        made.on("pageerror", lambda e: made.complaints.append(str(e)))
        yield made
        browser.close()


def opened(page, path, content):
    path.write_text(f"<!doctype html><meta charset='utf-8'><body>{content}", encoding="utf-8")
    page.goto(path.as_uri())
    return page.frame_locator("iframe")


@pytest.mark.parametrize("name", [HOSTILE, CLIMBER, INJECTED])
@browser
def test_names_stay_text_in_the_side_bar(name, page, tmp_path):
    """A node, a tensor and a reason with tags in them are shown as written; nothing runs and nothing is fetched."""
    rows = list(digits_record().nodes)
    rows[3] = replace(rows[3], node=name, reason=f"because {name}", output=f"tensor {name}")
    record = write_run(tmp_path / "run", replace(digits_record(), nodes=tuple(r for i, r in enumerate(rows)
                                                                             if i == 3 or r.node != name)))
    frame = opened(page, tmp_path / "page.html", graph_html(record, tmp_path / "run", around=name, hops=2))
    expect(frame.locator("body")).to_have_attribute("data-ready", re.compile(r"\d"), timeout=30_000)
    bar = frame.locator("#sidebar")
    expect(bar).to_contain_text(name)
    expect(bar).to_contain_text(f"because {name}")
    expect(bar.locator("input[title='quantized cosine'], input[value='quantized cosine']").first).to_be_visible()
    assert frame.locator("img").count() == 0
    assert frame.locator("svg script").count() == 0
    assert page.outside == [] and page.alerts == [] and page.complaints == []


@browser
def test_colours_and_numbers_are_on_the_nodes_and_follow_the_system_theme(page, run, tmp_path):
    """Every node of the record has its number and its class's fill; in a dark system the frame is dark."""
    frame = opened(page, tmp_path / "page.html", graph_html(*run, color="qtype"))
    expect(frame.locator("body")).to_have_attribute("data-ready", "26", timeout=30_000)  # with both ends
    found = frame.locator(".ptqlab-value")
    expect(found).to_have_count(24)
    for text, fill in (("int8", "0, 114, 178"), ("int16", "230, 159, 0"), ("float32", "86, 180, 233")):
        one = found.filter(has_text=re.compile(f"^{text}$")).first
        expect(one.locator("path")).to_have_css("fill", f"rgb({fill})")
    expect(frame.locator("body")).to_have_css("background-color", "rgb(255, 255, 255)")
    page.emulate_media(color_scheme="dark")
    page.reload()
    expect(frame.locator("body")).to_have_attribute("data-ready", "26", timeout=30_000)
    expect(frame.locator("body")).to_have_css("background-color", "rgb(64, 64, 64)")
    assert page.outside == [] and page.complaints == []


@browser
def test_a_model_that_netron_refuses_is_told_in_the_frame(page, run, tmp_path):
    """No blank frame: a message with the reason."""
    broken = graph_of(*run)
    broken = replace(broken, outline=replace(broken.outline, data=b"\x08\x09 no model"))
    frame = opened(page, tmp_path / "page.html", netron.static_html(broken))
    expect(frame.locator("[role=alert]").first).to_contain_text("Netron cannot show this graph", timeout=30_000)
