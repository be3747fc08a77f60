"""The small static drawing."""
import math
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

from records import digits_record

from ptqlab.report.chart import HEIGHT, MOST_MARKS, WIDTH, strip_chart


def svg(record):
    return ElementTree.fromstring(strip_chart(record).partition("</svg>")[0] + "</svg>")


def test_every_compared_node_has_two_marks_with_a_tooltip():
    """Circles for calibrated, squares for quantized, crosses for NaN; gaps break the lines."""
    record = digits_record()
    root = svg(record)
    known = [r for r in record.nodes if r.quantized_cosine is not None and not math.isnan(r.quantized_cosine)]
    assert len(root.findall("circle")) == len(root.findall("rect")) == len(known)
    assert len(root.findall("polyline")) == 2 * 3
    assert {t.text for c in root.findall("circle") for t in c} == {
        f"{r.node} ({r.node_type}, {r.on}, {r.granted}): {r.calibrated_cosine:.6f} / {r.quantized_cosine:.6f}"
        for r in known}


def test_everything_lies_inside_the_drawing():
    """No mark is cut off."""
    for circle in svg(digits_record()).findall("circle"):
        assert 0 < float(circle.get("cx")) < WIDTH + 6
        assert 0 < float(circle.get("cy")) < HEIGHT


def test_a_large_graph_has_lines_only():
    """Two thousand nodes do not make the saved notebook heavy."""
    rows = digits_record().nodes[:1] * 2000
    page = strip_chart(replace(digits_record(), nodes=rows))
    assert "<circle" not in page and len(rows) > MOST_MARKS
    assert len(page) < 100_000


def test_a_record_without_numbers_draws_an_empty_chart():
    """Nothing compared, or no node at all, is no error."""
    record = digits_record()
    rows = tuple(replace(r, calibrated_cosine=None, quantized_cosine=None) for r in record.nodes)
    empty = replace(record, nodes=rows)
    assert not re.findall("polyline|circle|rect", strip_chart(empty))
    assert svg(replace(record, nodes=())) is not None
