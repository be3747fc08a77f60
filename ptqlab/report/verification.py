"""The page of `verify`: the tables of hb_verifier."""
from __future__ import annotations

from ptqlab.artifacts.tables import number
from ptqlab.pipeline.verify import Verification
from ptqlab.report.page import Page
from ptqlab.report.words import say

COSINE_COLUMNS = ("NodeName", "TensorName", "CosineSimilarity")
CONSISTENCY_COLUMNS = ("TensorName", "Consistent", "Mismatched Elements", "Max Abs Diff", "Max Rel Diff")


def verify_page(found: Verification) -> Page:
    """Cosine per output, or number by number: consistent or not, how many differ, by how much, first node."""
    first, second = found.models
    if found.mode == "cosine":
        page = Page(f"{first} vs {second}: cosine")
        page.table(COSINE_COLUMNS, [(o.node or "--", o.name, number(o.cosine)) for o in found.outputs],
                   ("CosineSimilarity",))
        if found.derived:
            page.line(say("derived", model=found.derived))
        return _with_difference(page, found)
    verdict = say("agree" if found.passed else "disagree")
    page = Page(f"{first} vs {second}: {verdict} (|a - b| <= 1e-{found.digits})")
    page.table(CONSISTENCY_COLUMNS, [
        (o.name, str(bool(o.consistent)), f"{o.mismatched}/{o.count} ({o.mismatched / max(1, o.count):.4%})",
         f"{o.max_abs:.9g}", f"{o.max_rel:.9g}") for o in found.outputs], CONSISTENCY_COLUMNS[2:])
    return _with_difference(page, found)


def _with_difference(page: Page, found: Verification) -> Page:
    if found.first_difference:
        page.line(say("first_difference", node=found.first_difference))
    return page
