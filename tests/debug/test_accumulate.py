"""Accumulated error of partly quantized models."""
from __future__ import annotations

import pytest
from debug_nets import network, written

from ptqlab import debug
from ptqlab.arith.metrics import METRICS
from ptqlab.debug.accumulate import accumulated_error, partial_choices
from ptqlab.debug.arguments import parse_list
from ptqlab.errors import PtqError
from ptqlab.events import Watch


def test_choices():
    """Flat lists, nested lists, kinds, and all but some."""
    apart, _ = network()
    assert list(partial_choices(apart, ["conv0", "fc"], None)) == ["conv0", "fc"]
    nested = partial_choices(apart, [["conv0", "fc"], ["add"]], None)
    assert list(nested) == ["partial_qmodel_0", "partial_qmodel_1"]
    kinds = partial_choices(apart, ["weight", "activation"], None)
    assert {*kinds["weight"], *kinds["activation"]} == set(apart.quantizers)
    but = partial_choices(apart, None, ["conv0"])["conv0"]
    assert set(but) == set(apart.quantizers) - set(apart.of_node("conv0"))


def test_kinds_cannot_be_left_out():
    """non_quantize_node "weight" is a ValueError (documented); so are both lists, and neither."""
    apart, _ = network()
    for wrong in ((None, ["weight"]), (["fc"], ["conv0"]), (None, None)):
        with pytest.raises(ValueError, match="PTQ554"):
            partial_choices(apart, *wrong)


def test_errors_begin_at_the_quantized_node():
    """Nodes before it are exact; behind it they are not; the running mean is that of the curve."""
    apart, samples = network()
    choices = partial_choices(apart, ["conv1"], None)
    curve = accumulated_error(apart, choices, samples, METRICS["mse"], Watch())["conv1"]
    assert curve["conv0"] == 0.0 and curve["conv1"] > 0.0 and curve["fc"] > 0.0
    assert list(curve) == [str(n.name) for n in apart.graph.nodes]
    mean = accumulated_error(apart, choices, samples, METRICS["mse"], Watch(), average=True)["conv1"]
    values = list(curve.values())
    assert list(mean.values()) == pytest.approx([sum(values[: i + 1]) / (i + 1) for i in range(len(values))])


def test_figure_and_file(tmp_path):
    """One curve per entry over all nodes; the page lies in the folder with its script beside it."""
    model, data = written(tmp_path)
    figure = debug.plot_acc_error(model, data, "[weight,activation]", save_dir=tmp_path / "out", average_mode=True)
    assert [trace.name for trace in figure.data] == ["weight", "activation"]
    assert {p.name for p in (tmp_path / "out").iterdir()} == {
        "accumulated_error.html", "accumulated_error.svg", "accumulated_error.png", "plotly.min.js"}
    assert debug.plot_acc_error(model, data, non_quantize_node=["fc"], save_dir=None).data[0].name == "fc"


@pytest.mark.parametrize(("text", "wanted"), [
    ("conv_1", "conv_1"), ("[a, b]", ["a", "b"]), ("['a,1','b']", ["a,1", "b"]), ("[[a,b],[c]]", [["a", "b"], ["c"]]),
    ('["/x/Conv_2"]', ["/x/Conv_2"]), ("[]", []), ("'quoted'", "quoted"),
])
def test_lists_as_text(text, wanted):
    """What the command line takes for lists."""
    assert parse_list(text) == wanted


@pytest.mark.parametrize("text", ["[a", "['a]", "[a]]", "['a'b]"])
def test_broken_lists(text):
    """Brackets and quotes that do not close are told."""
    with pytest.raises(PtqError, match="PTQ552"):
        parse_list(text)
