"""YAML is read with lines, without surprises, hostile text is refused, and what is written reads back."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ptqlab.config.yaml_reader import read_yaml, write_yaml
from ptqlab.errors import PtqError


def data(text: str) -> object:
    return read_yaml(text, "c.yaml").data


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-3", 1e-3),
        ("1E6", 1e6),
        ("-0.5", -0.5),
        (".5", 0.5),
        ("10", 10),
        ("0x1F", 31),
        ("010", "010"),
        ("12:30:45", "12:30:45"),
        ("2024-01-01", "2024-01-01"),
        ("1_000", "1_000"),
        ("yes", True),
        ("Off", False),
        ("~", None),
        ("null", None),
        ("nash-e", "nash-e"),
        ("'1'", "1"),
        ("9" * 60, "9" * 60),
    ],
)
def test_scalars(text: str, value: object) -> None:
    """1e-3 is a number; octal, base-60, dates and underscored numbers stay text; booleans as in YAML 1.1."""
    assert data(f"key: {text}") == {"key": value}
    assert type(data(f"key: {text}")["key"]) is type(value)  # type: ignore[index]


def test_keys_are_text_as_written() -> None:
    """`ON` is a key of node_info and of quant_config, not the boolean that YAML 1.1 makes of it; numbers are names."""
    assert data("{ON: CPU, 1: a, null: b, on: c}") == {"ON": "CPU", "1": "a", "null": "b", "on": "c"}


def test_lines_of_nested_keys() -> None:
    """Every key path, also that of a list entry, knows its line."""
    document = read_yaml("a:\n  b:\n    - x\n    - c: 1\n", "c.yaml")
    assert document.where(("a", "b", 1, "c")) == "c.yaml:4  a.b[1].c"
    assert document.where(("a", "b", 0)) == "c.yaml:3  a.b[0]"
    assert document.where(("a", "missing", "deep")) == "c.yaml:1  a.missing.deep"


def test_all_duplicate_keys_are_told() -> None:
    """Two repeated keys are two problems, and the first value stays."""
    document = read_yaml("a: 1\nb: {c: 1, c: 2}\na: 3\n", "c.yaml")
    assert [p.where for p in document.problems] == ["c.yaml:2  b.c", "c.yaml:3  a"]
    assert document.data == {"a": 1, "b": {"c": 1}}


def test_anchors_and_merge_keys() -> None:
    """Plain aliases and << are understood; a key written out wins over a merged one."""
    assert data("x: &x {a: 1, b: 2}\ny: {<<: *x, b: 3}\nz: *x") == {
        "x": {"a": 1, "b": 2},
        "y": {"a": 1, "b": 3},
        "z": {"a": 1, "b": 2},
    }


BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 9)
)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("a: !!python/object/new:os.system [x]", "PTQ206"),
        ("a: !custom 1", "PTQ206"),
        ("[" * 5000, "PTQ206"),
        ("a: " * 1 + "{b: " * 60 + "1" + "}" * 60, "PTQ206"),
        ("a: &a [*a]", "PTQ206"),
        (BOMB, "PTQ206"),
        ("? [1, 2]\n: x", "PTQ201"),
        ("a: *unknown", "PTQ201"),
        ("a: 1\n---\nb: 2", "PTQ201"),
        ("a: \x07", "PTQ201"),
        ("a: 'open", "PTQ201"),
        ("a:\n\tb: 1", "PTQ201"),
        ("<<: [1]", "PTQ201"),
    ],
)
def test_refused(text: str, code: str) -> None:
    """Tags, cycles, bombs, depth and broken syntax end in one problem with a line, never in another exception."""
    with pytest.raises(PtqError) as refusal:
        read_yaml(text, "c.yaml")
    (problem,) = refusal.value.problems
    assert problem.code == code
    assert problem.where.startswith("c.yaml:")


def test_tab_gets_its_own_advice() -> None:
    """A tab is the most common cause of broken indentation."""
    with pytest.raises(PtqError, match="indent with spaces, not tabs"):
        read_yaml("a:\n\tb: 1", "c.yaml")


WORDS = st.sampled_from(
    ["1e3", "1e-3", "010", "0x1", "on", "ON", "null", "~", "", "<<", "12:30", "2024-01-01", "1_0", "a: b", "#c"]
)
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False) | WORDS | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS | st.text(min_size=1), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(WORDS, PLAIN, max_size=4))
def test_what_is_written_reads_back(value: dict[str, object]) -> None:
    """Any plain data survives writing and reading, here and with PyYAML's own loader, which the vendor's tool uses."""
    text = write_yaml(value)
    assert read_yaml(text, "c.yaml").data == value
    assert yaml.safe_load(text) == value
