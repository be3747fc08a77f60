"""What the page of the grid is told: figures in words, better or worse, progress."""
from __future__ import annotations

import math

import pytest

from ptqlab.errors import Problem, PtqError
from ptqlab.events import Event
from ptqlab.widgets.grid_page import Told, cosine_words, edit_words, effect_parts, in_words
from ptqlab.widgets.grid_session import Effect


@pytest.mark.parametrize(("cosine", "words"), [
    (1.0, "1.000000"), (0.5, "0.500000"), (0.99775, "0.997750"), (0.99999953, "0.99999953"),
    (1 - 1e-15, "1.0000000000"), (-0.2, "-0.200000"), (math.nan, "nan"), (0.0, "0.000000"),
])
def test_a_cosine_has_two_digits_of_what_it_lacks(cosine, words):
    """Near 1 more digits are shown, so that a change is seen; never more than ten."""
    assert cosine_words(cosine) == words


def test_the_effect_says_what_is_better_and_what_is_worse():
    """A higher cosine is better, a longer latency worse; what reads the same is neither."""
    parts = effect_parts(Effect(2, 8, 0.99, 0.995, 100.0, 110.0), True)
    assert [(p["text"], p["sign"]) for p in parts] == [
        ("Changes: 2", ""), ("0.990000 → 0.995000", "better"), ("100.0 us → 110.0 us (+10.0 %)", "worse")]
    assert parts[1]["label"] == "Output cosine, 8 samples"
    same = effect_parts(Effect(0, 8, 0.99, 0.99, 100.0, 100.01), True)
    assert [(p["text"], p["sign"]) for p in same[1:]] == [("0.990000", ""), ("100.0 us", "")]
    worse = effect_parts(Effect(1, 8, 0.99, 0.98, 100.0, 90.0), True)
    assert [p["sign"] for p in worse[1:]] == ["worse", "better"]
    broken = effect_parts(Effect(1, 8, math.nan, 0.9, 100.0, 100.0), True)
    assert broken[1]["sign"] == "better"


def test_an_effect_that_is_not_known_says_why():
    """Not yet computed, or without samples for ever."""
    assert effect_parts(Effect(1, 0, None, None, 1.0, 1.0), True)[1]["text"] == "computing ..."
    assert "run.grid(data=...)" in effect_parts(Effect(1, 0, None, None, 1.0, 1.0), False)[1]["text"]


def test_refusals_are_one_line():
    """Every problem of a refusal with what to do; anything else by its name."""
    error = PtqError([Problem("PTQ671", "node", "'x'", hint="nearest names: y"), Problem("PTQ670", "setting", "'z'")])
    assert in_words(error) == "node: 'x'. nearest names: y; setting: 'z'"
    assert in_words(ValueError("no")) == "This went wrong inside ptqlab: ValueError: no"


def test_an_edit_in_words():
    """What was set where, or why not: the first reason stands for all."""
    assert edit_words(["a"], "qtype", "int16", "node", {}) == "a: qtype = int16"
    assert edit_words(["a", "b"], "qtype", None, "node", {}) == "node × 2: qtype = (inherit)"
    assert edit_words([""], "asymmetric", True, "model", {}) == "model × 1: asymmetric = True"
    assert edit_words(["a"], "qtype", "int16", "node", {"a": "why"}) == "Refused: why"
    assert edit_words(["a", "b"], "qtype", "int16", "node", {"b": "why"}) == "1 of 2 refused: why"


def test_progress_is_told_at_most_ten_times_a_second():
    """Steps that follow each other at once are told once; the start of a stage always."""
    heard = []
    told = Told(lambda line, share: heard.append((line, share)))
    for event in (Event("start", "calibrate", 0, 4), *(Event("step", "calibrate", i, 4) for i in range(1, 5)),
                  Event("end", "calibrate", 4, 4), Event("start", "place")):
        told(event)
    assert heard == [("calibrate 0/4", 0.0), ("place", None)]
