"""The report of segments, islands and waste."""

from __future__ import annotations

import json

import pytest
from perf.common import chain, conv, other, table

from ptqlab.perf.layer import Layer, linked
from ptqlab.perf.segments import segment_report


def island() -> tuple[Layer, ...]:
    return linked(
        [
            other("head", "Transpose", (-1,), device="CPU"),
            conv("a", 0),
            other("sin", "Sin", (1,), device="CPU"),
            other("cos", "Cos", (2,), device="CPU"),
            conv("b", 3, segment=1),
            other("lonely", "Sin", (4,), device="CPU"),
            conv("c", 5, segment=2, tail=True),
            other("softmax", "Softmax", (6,), device="CPU", tail=True),
        ]
    )


def test_islands_are_neighbours_on_the_cpu() -> None:
    """Each with its place, its cost and what running it on the BPU would save."""
    found = segment_report(island(), "nash-e")
    assert found.segments == 3
    assert [(i.place, i.layers) for i in found.islands] == [
        ("head", ("head",)),
        ("middle", ("sin", "cos")),
        ("middle", ("lonely",)),
        ("tail", ("softmax",)),
    ]
    middle = found.islands[1]
    assert middle.switch_us > 0 and middle.convert_us > 0
    assert 0 < middle.saved_us < middle.own_us + middle.convert_us + middle.switch_us
    assert found.islands[0].switch_us == 0


def test_branches_that_meet_are_one_island() -> None:
    """Two operators on the CPU that a third one joins."""
    made = linked(
        [
            conv("a", -1),
            other("x", "Sin", (0,), device="CPU"),
            other("y", "Cos", (0,), device="CPU"),
            other("z", "Add", (1, 2), device="CPU"),
            conv("b", 3, segment=1),
        ]
    )
    assert [i.layers for i in segment_report(made, "nash-e").islands] == [("x", "y", "z")]


def test_head_and_tail_removal() -> None:
    """What fast-perf removes at both ends is a gain; what it does not remove is none."""
    found = segment_report(island(), "nash-e")
    ends = [i for i in found.islands if i.place != "middle"]
    assert found.removal_us == pytest.approx(sum(i.own_us + i.convert_us for i in ends))
    assert segment_report(linked([conv("a", -1), other("x", "Sin", (0,), device="CPU")]), "nash-e").removal_us == 0


def test_a_unit_conv_pays_for_a_mover_at_the_head() -> None:
    """A mover at the head costs a conversion that a unit conv saves; a computing operator is no case for one."""
    found = segment_report(island(), "nash-e")
    assert [g.layer for g in found.unit_convs] == ["head"]
    assert 0 < found.unit_convs[0].saved_us < found.islands[0].own_us + found.islands[0].convert_us


def test_padding() -> None:
    """48 channels lose nothing; 20 lose three eighths of the work, told with the layer's channels."""
    made = linked([conv("even", -1, 48, 48), conv("odd", 0, 48, 20), conv("small", 1, 20, 16)])
    found = segment_report(made, "nash-e")
    assert [(w.layer, w.channels, round(w.share, 4)) for w in found.padding] == [
        ("odd", (48, 20), 0.375),
        ("small", (20, 16), 0.375),
    ]
    real = sum(layer.macs for layer in made)
    done = made[0].macs + made[1].macs / 0.625 + made[2].macs / 0.625
    assert found.padded_share == pytest.approx(1 - real / done)
    assert found.padding[0].lost_us > found.padding[1].lost_us > 0


def test_short_heads_are_told() -> None:
    """Attention with 32 numbers a head; the second product, whose inner size is 400, is none."""
    found = segment_report(table("YOLO11n").layers, "nash-e")
    assert found.short_heads == ("MatMul_66",)
    assert [i.place for i in found.islands] == ["tail"] * 6 and found.removal_us == 0


def test_a_net_all_on_the_bpu_has_nothing_to_tell() -> None:
    """No island, no gain; and the report is plain JSON."""
    found = segment_report(linked(chain()[:-1]), "nash-e")
    assert (found.segments, found.islands, found.unit_convs, found.removal_us) == (1, (), (), 0)
    assert json.loads(json.dumps(found.to_dict()))["segments"] == 1
