"""Two runs side by side."""
import math
from dataclasses import replace

import pytest
from records import HOSTILE, NAN_NODE, digits_record

from ptqlab.report import words
from ptqlab.report.comparison import comparison_figure, comparison_page, pairs, settings_that_differ


@pytest.fixture(autouse=True)
def english(monkeypatch):
    monkeypatch.setitem(words._state, "language", "en")


@pytest.fixture
def two():
    """The record, and one with a better pool in int16, without the Mul, with a node more."""
    a = digits_record()
    rows = [replace(r, quantized_cosine=0.999, granted="int16") if r.node == "pool" else r
            for r in a.nodes if r.node != HOSTILE]
    rows.append(replace(a.nodes[0], node="new"))
    outputs = (replace(a.outputs[0], quantized_cosine=0.9999), *a.outputs[1:])
    return a, replace(a, nodes=tuple(rows), outputs=outputs, quant_config={"model_config": {"all_node_type": "int16"}})


def test_every_node_of_either_run(two):
    """Nodes of one run only have no partner; the change is b - a."""
    found = {p.node: p for p in pairs(*two)}
    assert found[HOSTILE].b is None and found["new"].a is None
    assert found["pool"].change == pytest.approx(0.999 - 0.9939)
    assert math.isnan(found[HOSTILE].change) and math.isnan(found[NAN_NODE].change)
    assert list(found)[-1] == "new"


def test_settings_that_differ(two):
    """Only what differs, by its dotted key."""
    assert settings_that_differ(*two) == [
        ("quant_config.model_config.all_node_type", "int8", "int16"),
        ("quant_config.op_config.mul.qtype", "int16", "--"),
        ("quant_config.node_config.../../evil.qtype", "int16", "--")]
    assert settings_that_differ(two[0], two[0]) == []


def test_the_page(two):
    """Outputs with the change, changed nodes the largest first, and nothing on those that stayed."""
    text = comparison_page(*two, ("a", "b")).text()
    assert "| prob       | 0.996900 | 0.999900 | +0.003000 |" in text
    assert "Nodes that changed: 3, the largest change first" in text
    assert "| pool       " in text and "int8 → int16" in text and "+0.005100" in text
    assert "head/softmax" not in text
    page = comparison_page(*two, ("<i>", "b")).html()
    assert HOSTILE not in page and "<i>" not in page


def test_the_figure(two):
    """Both curves over the nodes of either run; a ring where the type changed; names are text."""
    figure = comparison_figure(*two, ("a", "b"))
    assert [t.name for t in figure.data] == ["a", "b", "type changed"]
    order = [p.node for p in pairs(*two)]
    assert list(figure.data[2].x) == [order.index("pool")]
    assert figure.data[1].y[order.index(HOSTILE)] is None
    assert HOSTILE not in figure.to_json()
