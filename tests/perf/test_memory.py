"""Bytes: traffic, buffers, and what is alive at once."""

from __future__ import annotations

from dataclasses import replace

from perf.common import chain, conv, other, table, with_types

from ptqlab.arith.formats import QType
from ptqlab.perf.layer import linked
from ptqlab.perf.memory import SRAM_BYTES, live_bytes, memory


def test_traffic_and_buffers_of_a_small_net() -> None:
    """Weights and the nv12 image come in, the int32 result goes out; everything else stays on chip."""
    found = memory(chain())
    weights = 64 * 27 + 2 * 36864 + 640
    assert (found.static, found.input, found.output) == (weights, 64 * 64 * 3 // 2, 4 * 10240)
    assert (found.loaded, found.stored) == (weights + found.input, found.output)
    assert (found.intermediate, found.dynamic, found.least) == (0, found.input + found.output, weights + found.dynamic)


def test_a_residual_keeps_its_operand_alive() -> None:
    """A tensor lives until its last reader has run."""
    made = linked([conv("a", -1), conv("b", 0), conv("c", 1), other("add", "Add", (0, 2)), conv("d", 3)])
    assert [alive // 65536 for alive in live_bytes(made)] == [1, 2, 3, 3, 2]


def test_types_and_free_operators() -> None:
    """int16 features take twice the room; an operator that only renames takes none."""
    made = linked([with_types(conv("a", -1), QType.INT16), other("r", "Reshape", (0,)), conv("b", 1)])
    assert live_bytes(made) == [131072, 131072, 65536]


def test_the_largest_set_is_told() -> None:
    """Peak and layer; beyond the SRAM the rest counts as traffic, once out and once in."""
    big = replace(conv("big", 0), writes=SRAM_BYTES)
    made = linked([conv("a", -1), big, conv("b", 1), conv("c", 2)])
    found = memory(made)
    assert (found.peak_layer, found.peak_live) == ("big", SRAM_BYTES + 65536)
    assert found.intermediate == 65536
    assert found.loaded - memory(linked([conv("a", -1), conv("big", 0), *made[2:]])).loaded == 65536
    assert found.stored == 65536


def test_published_networks_stay_on_chip() -> None:
    """The rows that were fitted show no sign of spilling, and none is counted for them."""
    for name in ("YOLOv8x", "YOLO11x", "YOLOv8x-Seg"):
        assert memory(table(name).layers).intermediate == 0
