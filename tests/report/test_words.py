"""The word table and the language switch."""
import re
import string

import pytest

from ptqlab.errors import PtqError
from ptqlab.report import words


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    monkeypatch.setitem(words._state, "language", "")
    monkeypatch.delenv("PTQLAB_LANG", raising=False)


def test_both_languages_take_the_same_values():
    """Every entry names the same fields in English and Chinese, so that no view fails in one of them."""
    def fields(text):
        return {name for _, name, _, _ in string.Formatter().parse(text) if name}

    for key, (english, chinese) in words._WORDS.items():
        assert fields(english) == fields(chinese), key
        assert english and chinese


def test_every_word_is_used():
    """The table holds no word that no view says."""
    from pathlib import Path

    root = Path(words.__file__).parents[1]
    own = Path(words.__file__).read_text(encoding="utf-8").split("_state =")[1]
    sources = own + "\n".join(p.read_text(encoding="utf-8") for p in root.rglob("*.py") if p.name != "words.py")
    # say(f"color_{name}") says every word that begins so
    families = tuple(re.findall(r"say\(f[\"']([a-z]+(?:_[a-z]+)*_)\{", sources))
    unused = [key for key in words._WORDS if f'"{key}"' not in sources and f"'{key}'" not in sources
              and not key.startswith(families)]
    assert set(unused) <= {"warning", "note", "calibrated", "quantized"}  # said by a finding's severity, a field's name


def test_choice_beats_environment_beats_english(monkeypatch):
    """set_language, then PTQLAB_LANG, then English; an unknown environment value is English."""
    assert words.language() == "en"
    monkeypatch.setenv("PTQLAB_LANG", "zh")
    assert words.say("findings") == "提示"
    monkeypatch.setenv("PTQLAB_LANG", "tlh")
    assert words.language() == "en"
    words.set_language("zh")
    assert words.language() == "zh"


def test_an_unknown_language_is_refused():
    """The message says which there are."""
    with pytest.raises(PtqError) as caught:
        words.set_language("cn")
    assert str(caught.value) == "1 problem\nPTQ701  language\n    found     'cn'\n    expected  en or zh"
