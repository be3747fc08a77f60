"""The performance page of a run, opened in a real browser."""

from pathlib import Path

from chromium import BROWSER_MARKS, CHROMIUM, FLAGS, expect, sync_playwright

import ptqlab
from ptqlab.examples import digits

pytestmark = BROWSER_MARKS


def test_the_page_shows_summary_timeline_and_layers_and_asks_nobody(tmp_path: Path) -> None:
    """Summary, timeline picture and layer table are visible, and the page requests nothing but itself."""
    run = ptqlab.compile(digits.write_config(tmp_path), working_dir=tmp_path / "out", progress=False)
    page_file = run.artifacts["perf_html"]
    requests: list[str] = []
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        page = browser.new_page()
        page.on("request", lambda request: requests.append(request.url))
        page.goto(page_file.as_uri())
        for heading in ("Summary", "Timeline by engine"):
            expect(page.get_by_role("heading", name=heading)).to_be_visible()
        assert page.locator("svg rect").count() >= len(run.perf["layers"]), "the timeline has a bar per layer"
        cells = page.locator("td").all_inner_texts()
        assert any("/stem/conv/Conv" in text for text in cells), "the layer table names the layers"
        browser.close()
    assert requests == [page_file.as_uri()]
