"""Colours and names that all figures share."""
import pytest
from colours import contrast

from ptqlab.report.look import PALETTE, RAMP, cosine_axis, ink_on, label, ramp, short


@pytest.mark.parametrize("colour", PALETTE)
def test_categories_hold_on_light_and_dark(colour):
    """Each colour of a curve or bar has 3:1 against white and against the lab's dark background."""
    assert contrast(colour, "#ffffff") > 3 and contrast(colour, "#111111") > 3


def test_the_ramp_goes_through_its_stops():
    """Its ends and the middle between two stops; what lies outside is held at the ends."""
    assert [ramp(at) for at, _ in RAMP] == [colour for _, colour in RAMP]
    assert ramp(-1) == RAMP[0][1] and ramp(2) == RAMP[-1][1]
    assert ramp(0.125) == "#22385d"


@pytest.mark.parametrize("at", [0, 0.2, 0.4, 0.5, 0.6, 0.8, 1])
def test_numbers_on_the_ramp_can_be_read(at):
    """Black or white, whichever is chosen, has 4:1 on the colour it stands on."""
    assert contrast(ink_on(ramp(at)), ramp(at)) > 4


def test_names():
    """Of a long one the end is kept; control characters and html do nothing."""
    assert short("/a/very/long/name/Conv", 12) == "…g/name/Conv" and short("abc", 12) == "abc"
    assert label("<b>\x1b[0m") == "&lt;b&gt;\ufffd[0m"


def test_the_cosine_axis_is_labelled_with_cosines():
    """Every cosine lies within its range."""
    axis = cosine_axis([0.9, 0.9999])
    assert "0.99" in axis["ticktext"] and axis["range"][0] < 1 < 4 < axis["range"][1]
