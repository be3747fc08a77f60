"""The cosine figure."""
import json
import math
from dataclasses import replace

import pytest
from colours import contrast
from records import HOSTILE, NAN_NODE, digits_record

from ptqlab.report import words
from ptqlab.report.plots import cosine_figure
from ptqlab.report.scale import nines


@pytest.fixture(autouse=True)
def english(monkeypatch):
    monkeypatch.setitem(words._state, "language", "en")


def test_both_cosines_in_graph_order():
    """One point per node and curve, at its nines; a gap where nothing was compared or the cosine is NaN."""
    record = digits_record()
    calibrated, quantized = cosine_figure(record).data[:2]
    assert (calibrated.name, quantized.name) == ("Calibrated Cosine", "Quantized Cosine")
    for trace, field in ((calibrated, "calibrated_cosine"), (quantized, "quantized_cosine")):
        assert list(trace.x) == list(range(len(record.nodes)))
        for at, row in zip(trace.y, record.nodes, strict=True):
            cosine = getattr(row, field)
            gap = cosine is None or math.isnan(cosine)
            assert (at is None) if gap else (at == pytest.approx(nines(cosine)))


def test_cpu_nodes_and_nan_are_marked():
    """Rings name the CPU nodes, crosses the NaN ones with the reason in the tooltip."""
    record = digits_record()
    cpu, nan = cosine_figure(record).data[2:]
    assert (cpu.name, nan.name) == ("on the CPU", "not a number")
    assert [record.nodes[i].node for i in cpu.x] == [r.node for r in record.nodes if r.on == "CPU"]
    assert [record.nodes[i].node for i in nan.x] == [NAN_NODE]
    assert "PTQ503" in nan.text[0]


def test_the_axis_is_labelled_with_cosines_and_shows_all():
    """Labels read 0.99, 0.999, ...; every point is inside the range."""
    figure = cosine_figure(digits_record())
    assert {"0.9", "0.99", "0.999", "0.9999"} <= set(figure.layout.yaxis.ticktext)
    low, high = figure.layout.yaxis.range
    for trace in figure.data:
        assert all(low <= y <= high for y in trace.y if y is not None)


def test_names_are_escaped_everywhere():
    """Plotly reads its texts as html: a hostile name is text in hover, axis and title."""
    record = replace(digits_record(), model="<b onclick=x>evil")
    text = json.dumps(json.loads(cosine_figure(record).to_json()), ensure_ascii=False)
    assert HOSTILE not in text and "<b onclick" not in text
    assert "&lt;script&gt;" in text
    assert "elementwise &lt;b&gt;product" in text


def test_hover_tells_what_was_asked_and_why():
    """Name, type, place, asked and granted, both cosines, reason."""
    record = digits_record()
    index = next(i for i, r in enumerate(record.nodes) if r.node == "../../evil")
    assert cosine_figure(record).data[0].text[index] == (
        "<b>../../evil</b><br>Concat, BPU id(0)<br>asked int16, granted int8<br>Calibrated Cosine: 0.992100<br>"
        "Quantized Cosine: 0.991100<br>a passive operator takes the type of its neighbours")


def test_large_and_empty_records():
    """Two thousand nodes drop the axis labels; a record without numbers says so in the figure."""
    record = digits_record()
    large = cosine_figure(replace(record, nodes=record.nodes * 90))
    assert large.layout.xaxis.ticktext is None
    bare = replace(record, nodes=tuple(replace(r, calibrated_cosine=None, quantized_cosine=None) for r in record.nodes))
    assert cosine_figure(bare).layout.annotations[0].text == "no node was compared with the float model"
    assert cosine_figure(replace(record, nodes=())).layout.annotations


def test_long_names_keep_their_end_on_the_axis():
    """Of a long name the axis shows the end, the hover the whole."""
    record = digits_record()
    long = replace(record.nodes[0], node="/model/backbone/stage3/block12/branch/conv_dw/Conv")
    figure = cosine_figure(replace(record, nodes=(long,)))
    assert figure.layout.xaxis.ticktext == ("…/block12/branch/conv_dw/Conv"[-28:],) or \
        figure.layout.xaxis.ticktext[0].endswith("conv_dw/Conv")
    assert long.node in figure.data[0].text[0]


def test_light_and_dark():
    """The figure has no background of its own and no white or black text."""
    layout = cosine_figure(digits_record()).layout
    assert layout.paper_bgcolor == layout.plot_bgcolor == "rgba(0,0,0,0)"
    assert contrast(layout.font.color, "#ffffff") > 3 and contrast(layout.font.color, "#111111") > 3
    for trace in cosine_figure(digits_record()).data:
        assert contrast(trace.marker.color, "#ffffff") > 3
        assert contrast(trace.marker.color, "#111111") > 3
