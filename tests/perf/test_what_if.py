"""Changes of types: what they cost, and that more bits never pay."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from perf.common import chain, conv, other, table

from ptqlab.arith.formats import QType
from ptqlab.errors import PtqError
from ptqlab.perf import what_if
from ptqlab.perf.estimate import estimate
from ptqlab.perf.layer import Layer, linked
from ptqlab.perf.what_if import WORDS, WhatIf, single_changes
from ptqlab.perf.work import row

ORDER = ("int8", "int16", "dual-int16")
NAMES = ("stem", "a", "b", "add", "tail")


def test_nothing_changed() -> None:
    """No change gives the same layers and the estimate's own figures."""
    for name in ("YOLO12s", "ResNet152"):
        layers = table(name).layers
        ask, found = WhatIf(layers, "nash-e"), estimate(layers, "nash-e")
        effect = ask.effect({})
        assert ask.changed({}) == layers
        assert (effect.latency_us, effect.added_us) == (found.latency_us, 0)
        assert effect.board_latency_us == pytest.approx(found.board_latency_us)


def test_the_effect_equals_an_estimate_of_the_changed_layers() -> None:
    """The fast way and the whole way agree."""
    layers = table("YOLO11n").layers
    ask = WhatIf(layers, "nash-m")
    for changes in ({"Conv_9": "int16"}, {"MatMul_66": "int16", "Softmax_67": "int16", "Conv_0": "dual-int16"}):
        whole = estimate(ask.changed(changes), "nash-m")
        assert ask.effect(changes).latency_us == pytest.approx(whole.latency_us)
        assert ask.effect(changes).added_us > 0


def test_types_go_where_they_are_read() -> None:
    """int16 in one layer widens what is written for it, through movers too; other readers stay as they are."""
    made = linked([conv("a", -1), other("t", "Transpose", (0,)), conv("b", 1), conv("c", 0), conv("d", 2)])
    changed = WhatIf(made, "nash-e").changed({"b": "int16"})
    assert [layer.output_qtype for layer in changed] == [QType.INT16, QType.INT16, *[QType.INT8] * 3]
    assert [layer.qtype for layer in changed] == [QType.INT8, QType.INT16, QType.INT16, QType.INT8, QType.INT8]


def test_a_mover_takes_no_type_of_its_own() -> None:
    """A type set on an operator that only moves data has no effect."""
    made = linked([conv("a", -1), other("t", "Transpose", (0,)), conv("b", 1)])
    assert WhatIf(made, "nash-e").effect({"t": "int16"}).added_us == 0


def test_dual_int16_costs_weights_too() -> None:
    """dual-int16 is dearer than int16, and on operators without weights it is int16."""
    ask = WhatIf(chain(), "nash-e")
    costs = [ask.effect({"b": word}).latency_us for word in ORDER]
    assert costs[0] < costs[1] < costs[2]
    assert ask.effect({"add": "int16"}) == ask.effect({"add": "dual-int16"})


def test_back_to_int8() -> None:
    """Taking the bits away again gives the first figure."""
    layers = table("YOLOv8n").layers
    wide = WhatIf(layers, "nash-e").changed({layer.name: "int16" for layer in layers})
    back = WhatIf(wide, "nash-e").effect({layer.name: "int8" for layer in layers})
    assert back.latency_us == pytest.approx(estimate(layers, "nash-e").latency_us)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.sampled_from(NAMES), st.sampled_from(ORDER)), st.sampled_from(NAMES), st.sampled_from(ORDER))
def test_more_bits_are_never_faster(changes: dict[str, str], name: str, word: str) -> None:
    """Whatever is set, raising one layer's type lowers neither latency."""
    ask = WhatIf(chain(), "nash-e")
    before = ask.effect(changes)
    after = ask.effect(changes | {name: max(word, changes.get(name, "int8"), key=ORDER.index)})
    assert after.latency_us >= before.latency_us and after.board_latency_us >= before.board_latency_us


@pytest.mark.parametrize("model", ["YOLO12s", "YOLOv8n-CLS", "MobileNetV2"])
def test_every_layer_costs_something_or_nothing(model: str) -> None:
    """No layer of a real network makes it faster in int16, and all together cost the most."""
    layers = table(model).layers
    added = single_changes(layers, "nash-e")
    assert set(added) == {layer.name for layer in layers if layer.on_bpu}
    assert min(added.values()) >= 0
    assert WhatIf(layers, "nash-e").effect(dict.fromkeys(added, "int16")).added_us >= max(added.values())


def test_names_of_nodes_and_bad_names() -> None:
    """A node computed inside of a layer stands for it; unknown names and words are refused together."""
    from dataclasses import replace

    layers = linked([replace(conv("a", -1), nodes=("a", "relu")), conv("b", 0)])
    ask = WhatIf(layers, "nash-e")
    assert ask.effect({"relu": "int16"}) == ask.effect({"a": "int16"})
    with pytest.raises(PtqError) as caught:
        ask.effect({"rely": "int16", "a": "int4"})
    assert [(p.found, p.hint) for p in caught.value.problems] == [
        ("no layer 'rely'", "did you mean 'relu'?"),
        ("'int4'", ""),
    ]
    assert set(WORDS) == {"int8", "int16", "dual-int16", "float16"}


def test_only_what_changes_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """A change of one layer in a net of 285 looks at a handful of layers again: that is what makes it fast."""
    looked: list[str] = []

    def counted(layer: Layer, leaves: bool, virtual: bool = False) -> tuple[float, ...]:
        looked.append(layer.name)
        return row(layer, leaves, virtual)

    ask = WhatIf(table("YOLO11x").layers, "nash-e")
    monkeypatch.setattr(what_if, "row", counted)
    assert ask.effect({"Conv_53": "int16"}).added_us > 0
    assert "Conv_53" in looked and len(looked) < 8
