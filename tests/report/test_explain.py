"""The story of one node."""
import pytest
from records import CLIMBER, HOSTILE, NAN_NODE, digits_record

from ptqlab.errors import PtqError
from ptqlab.report import words
from ptqlab.report.explain import explain


@pytest.fixture(autouse=True)
def english(monkeypatch):
    monkeypatch.setitem(words._state, "language", "en")


def test_the_whole_text_of_an_unmet_request():
    """Asked, granted, by which entry, where, why, and the finding that names the node."""
    assert str(explain(digits_record(), CLIMBER)) == """\
../../evil (Concat)
  Type       asked int16, granted int8
  Asked by   quant_config node_config[../../evil]
  Runs on    BPU id(0)
  Why        a passive operator takes the type of its neighbours [passive]
  Threshold  none
  Cosine     calibrated 0.992100, quantized 0.991100
  Output     c1 (si8)
  Noticed    PTQ401 quant_config asks int16 of ../../evil, which moves data only Do: ask it of the operators around it"""  # noqa: E501 - the text as it is


@pytest.mark.parametrize(("node", "origin"), [
    (CLIMBER, "quant_config node_config[../../evil]"), (HOSTILE, "quant_config op_config[mul]"),
    ("pool", "quant_config model_config")])
def test_the_finest_entry_is_named(node, origin):
    """node_config before op_config (in any case) before model_config."""
    assert explain(digits_record(), node).origin == origin


def test_fused_partners_see_each_other():
    """A relu says in which operator it is computed, that operator says what it computes besides."""
    assert explain(digits_record(), "/block1/conv/Conv").holds == ("/block1/relu/Relu",)
    assert "Computed in" in str(explain(digits_record(), "/block1/relu/Relu"))


def test_nan_is_explained():
    """Tags and findings of the node stand in its story."""
    story = explain(digits_record(), NAN_NODE)
    assert story.notes[0] == "all-zero"
    assert "PTQ503" in story.notes[1]


def test_an_unknown_node_names_the_nearest():
    """A slip of the pen is answered with the names that exist."""
    with pytest.raises(PtqError) as caught:
        explain(digits_record(), "head/softmx")
    assert str(caught.value) == """\
1 problem
PTQ502  explain
    found     no node 'head/softmx'
    expected  a name of the column Node
    do        did you mean 'head/softmax', 'head/argmax', 'head/reshape'?"""
    with pytest.raises(PtqError, match=r"see run\.nodes for the names"):
        explain(digits_record(), "zzz qqq")


def test_the_html_is_escaped():
    """A hostile name and reason are text."""
    page = explain(digits_record(), HOSTILE)._repr_html_()
    assert HOSTILE not in page and "<b>product" not in page
    assert "&lt;script&gt;" in page and "<dt>Why</dt>" in page
