"""The doctor's page, and the verdict on an output."""
import numpy as np
import pytest
from records import HOSTILE, NAN_NODE, digits_record

from ptqlab.debug.distribution import Values
from ptqlab.errors import Problem
from ptqlab.report import words
from ptqlab.report.health import OutputHealth, health_page
from ptqlab.report.words import speaking


@pytest.fixture(autouse=True)
def english(monkeypatch):
    monkeypatch.setitem(words._state, "language", "en")


def verdict(before, after):
    before, after = (np.asarray(a, np.float32) for a in (before, after))
    return OutputHealth.of("out", Values("out", "node", before, after, None, 0)).verdict


def test_verdicts():
    """What a cosine near 1 hides is said: a dead head, a few values, a signal lost under its mean."""
    ramp = np.linspace(0, 1, 100)
    assert verdict(ramp, ramp + 1e-4) == "fine"
    assert verdict(ramp, np.full(100, 0.5)) == "dead: one value whatever the input"
    assert verdict(ramp, np.round(ramp * 3) / 3) == "nearly dead: 4 different values"
    assert verdict(100 + ramp, 100 + ramp[::-1]) == "the cosine speaks of the mean; what varies is lost"
    assert verdict(ramp, ramp[::-1]) == "lost: less than 10 dB of what varies is left"
    assert verdict(np.full(9, 2.0), np.full(9, 2.0)) == "constant in the float model already"
    assert verdict([1.0, np.nan], [1.0, 2.0]) == "NaN or Inf in the float model already"


def test_the_page():
    """Problems of the data, NaN nodes with their reason, causes with what to do; hostile text stays text."""
    causes = [(HOSTILE, "outlier channel", "channel 3 reaches 40 times as far", "int16")]
    health = [OutputHealth("prob", 0.9999, 3.0, 1.0, (4, 90), 0.5, "few_values")]
    page = health_page("net", [Problem("PTQ310", "a.npy", "holds NaN", "finite numbers", "write it again")], [],
                       digits_record(), health, causes)
    text = page.text()
    assert "PTQ310 a.npy: holds NaN; finite numbers. write it again" in text
    assert NAN_NODE in text.split("NaN, masks")[1].split("What is left")[0]
    assert "| prob       | 0.999900 | 3.0       |" in text
    assert "outlier channel" in text and "PTQ503" in text and "nearly dead: 4 different values" in text
    with speaking("zh"):
        assert "几乎失效：只有 4 个不同取值" in health_page("net", [], [], digits_record(), health, []).text()
    assert HOSTILE not in page.html()


def test_data_alone():
    """Before a run there is a page of the data only."""
    assert health_page("net", [], [], None, [], []).text() == "Doctor: net\n\nCalibration data:\n  None."
