"""JSON is read as the standard has it, with lines, and hostile text is refused."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptqlab.config.json_reader import read_json
from ptqlab.errors import PtqError

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(VALUES, st.sampled_from([None, 1, "\t"]))
def test_agrees_with_the_standard_library(value: object, indent: int | str | None) -> None:
    """Whatever json.dumps writes, in any layout, is read back as the same value."""
    assert read_json(json.dumps(value, indent=indent), "q.json").data == value


@given(st.text(alphabet='{}[]",:0123456789.eE+-truefalsn \n\\/#\'', max_size=40))
def test_never_another_exception(text: str) -> None:
    """Random text is accepted exactly where the standard library accepts it, with the same value."""
    try:
        expected = json.loads(text)
    except ValueError:
        with pytest.raises(PtqError):
            read_json(text, "q.json")
        return
    document = read_json(text, "q.json")
    assert document.problems or document.data == expected


def test_lines_and_duplicates() -> None:
    """Key paths know their lines; every repeated key is told, the first value stays."""
    document = read_json('{\n "a": {"b": 1,\n  "b": 2},\n "a": 3\n}', "q.json")
    assert document.where(("a", "b")) == "q.json:2  a.b"
    assert [p.where for p in document.problems] == ["q.json:3  a.b", "q.json:4  a"]
    assert document.data == {"a": {"b": 1}}


@pytest.mark.parametrize(
    ("text", "code", "hint"),
    [
        ("", "PTQ201", "{}"),
        ("{'a': 1}", "PTQ201", "double quotes"),
        ('{"a": NaN}', "PTQ201", "finite"),
        ('{"a": -Infinity}', "PTQ201", "finite"),
        ('{"a": None}', "PTQ201", "null"),
        ('{"a": max}', "PTQ201", "double quotes"),
        ('{"a": 1} x', "PTQ201", ""),
        ('{"a": "open}', "PTQ201", "close the quotes"),
        ('{"a": ' + "9" * 5000 + "}", "PTQ201", "shorter"),
        ("[" * 100_000, "PTQ206", "no key needs"),
        ('{"a":' * 100_000, "PTQ206", "no key needs"),
    ],
)
def test_refused(text: str, code: str, hint: str) -> None:
    """Broken or hostile text is one problem with line and column, and an advice that fits."""
    with pytest.raises(PtqError) as refusal:
        read_json(text, "q.json")
    (problem,) = refusal.value.problems
    assert problem.code == code
    assert problem.where.startswith("q.json:1:")
    assert hint in problem.hint
