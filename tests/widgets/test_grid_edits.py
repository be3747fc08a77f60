"""The quant_config behind the grid: one setting changed, what differs, undo and redo."""
from __future__ import annotations

import pytest

from ptqlab.errors import PtqError
from ptqlab.widgets.grid_edits import (
    Change,
    History,
    changes,
    entry_names,
    is_setting,
    parsed,
    settings_of,
    with_setting,
    wrong_request,
)

START = {"model_config": {"activation": {"calibration_type": "max"}}, "node_config": {"a": {"input0": "int8"}}}


def test_a_setting_goes_to_its_place_at_every_level():
    """Types, devices and calibration settings of model, operator type, subgraph and node land where they are read."""
    made = with_setting({}, "model", "", "qtype", "int16")
    made = with_setting(made, "model", "", "asymmetric", True)
    made = with_setting(made, "op", "Conv", "qtype", "dual-int16")
    made = with_setting(made, "node", "a", "ON", "CPU")
    made = with_setting(made, "node", "a", "input1", "int16")
    assert made == {
        "model_config": {"all_node_type": "int16", "activation": {"asymmetric": True}},
        "op_config": {"Conv": {"qtype": "dual-int16"}}, "node_config": {"a": {"ON": "CPU", "input1": "int16"}},
    }
    assert parsed(made).to_dict() == {**made, "node_config": {"a": {"input1": "int16", "ON": "CPU"}}}


def test_what_is_taken_out_leaves_nothing_empty():
    """None takes a setting out, and with the last one the entry, the activation block and the level."""
    made = with_setting(START, "model", "", "calibration_type", None)
    made = with_setting(made, "node", "a", "input0", None)
    assert made == {}
    assert START["node_config"] == {"a": {"input0": "int8"}}


def test_a_type_of_a_node_takes_those_of_its_inputs_out():
    """A type for the whole node would be overruled by older ones of single inputs, so these go."""
    assert with_setting(START, "node", "a", "qtype", "int16")["node_config"] == {"a": {"qtype": "int16"}}
    assert with_setting(START, "node", "a", "qtype", None)["node_config"] == {"a": {"input0": "int8"}}


def test_a_subgraph_keeps_its_ends():
    """Settings of a subgraph come and go; its inputs and outputs stay."""
    start = {"subgraph_config": {"s": {"inputs": ["a"], "outputs": ["b"]}}}
    made = with_setting(start, "subgraph", "s", "qtype", "int16")
    assert settings_of(made["subgraph_config"]["s"], "subgraph") == {"qtype": "int16"}
    assert with_setting(made, "subgraph", "s", "qtype", None) == start


def test_an_entry_of_the_users_name_is_found():
    """An entry under the name in the user's file, or an operator type in another case, is changed and not doubled."""
    quant = {"op_config": {"conv": {"qtype": "int16"}}, "node_config": {"old": {"qtype": "int16"}}}
    assert entry_names(quant, "op", "Conv", {}) == "conv"
    assert entry_names(quant, "node", "new", {"old": "new"}) == "old"
    assert entry_names(quant, "node", "other", {"old": "new"}) == "other"


def test_changes_are_told_by_level_and_setting():
    """Every setting that differs, coarse levels first; None where an entry does not say it."""
    after = with_setting(with_setting(START, "node", "a", "qtype", "int16"), "model", "", "qtype", "int16")
    assert changes(START, after) == [
        Change("model", "", "qtype", None, "int16"), Change("node", "a", "input0", "int8", None),
        Change("node", "a", "qtype", None, "int16"),
    ]
    assert changes(after, after) == []


def test_undo_and_redo_are_steps_in_a_list():
    """Steps back and forth; a new change drops what was undone; the same again is no step; a new base counts anew."""
    history = History({})
    assert not history.step(-1)
    history.do({"node_config": {"a": {"qtype": "int16"}}})
    history.do(dict(history.now))
    history.do({"node_config": {"b": {"qtype": "int16"}}})
    assert history.step(-1)
    assert history.now == {"node_config": {"a": {"qtype": "int16"}}}
    assert history.can_redo
    history.do({})
    assert not history.can_redo
    assert history.step(-1)
    history.rebase(history.now)
    assert changes(history.base, history.now) == []
    assert history.step(-1)
    assert not history.can_undo


@pytest.mark.parametrize("word", ["qtype", "ON", "input0", "asymmetric", "num_bin"])
def test_words_that_are_settings(word):
    """Types, devices, inputs and the keys of the activation block can be set."""
    assert is_setting(word)


def test_wrong_words_are_refused_together():
    """A wrong level, setting and names come in one refusal, with the nearest ones."""
    known = {"node": ["conv1", "conv2"], "op": ["Conv"], "subgraph": []}
    with pytest.raises(PtqError) as told:
        wrong_request("node", ["conv3", "conv1"], "qtpe", known)
    assert [(p.code, p.hint) for p in told.value.problems] == [
        ("PTQ670", "did you mean 'qtype'?"), ("PTQ671", "nearest names: conv2, conv1")]
    with pytest.raises(PtqError):
        wrong_request("layer", [], "qtype", known)
    wrong_request("model", [""], "qtype", known)
