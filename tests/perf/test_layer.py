"""The layer form: links, results, and refusal of what is no network."""

from __future__ import annotations

from dataclasses import replace

import pytest
from perf.common import chain, conv, other, with_types

from ptqlab.arith.formats import QType
from ptqlab.errors import PtqError
from ptqlab.perf.layer import check, linked, results


def test_consumers_follow_from_sources() -> None:
    """`linked` lists each reader once, also of an operator that reads the same tensor twice."""
    made = linked([conv("a", -1), other("square", "Mul", (0, 0)), other("sum", "Add", (0, 1))])
    assert [layer.consumers for layer in made] == [(1, 2), (2,), ()]


def test_results_leave_the_bpu() -> None:
    """Results are outputs of the network, tails, and what a layer on the CPU reads; layers on the CPU are none."""
    made = linked([conv("a", -1), other("cpu", "Sin", (0,), device="CPU"), conv("b", 1), conv("c", 2, net_out=True)])
    assert results(made) == (0, 3)
    assert results(chain()) == (5,)


def test_bytes_follow_the_types() -> None:
    """A tail writes four bytes an element whatever its features are, every other layer its output type."""
    layer = conv("a", -1)
    assert (layer.weight_bytes, layer.write_bytes) == (36864, 65536)
    wide = with_types(layer, QType.INT16, QType.INT16)
    assert (wide.weight_bytes, wide.write_bytes) == (73728, 131072)
    assert replace(layer, tail=True).write_bytes == 4 * 65536
    assert not replace(other("x", "Transpose", (-1,)), tail=True).high_precision


def test_depthwise_is_one_kernel_per_channel() -> None:
    """A group convolution with more channels in a group is none."""
    assert conv("a", -1, group=64).is_depthwise
    assert not conv("a", -1, group=32).is_depthwise and not conv("a", -1).is_depthwise


def test_what_is_no_network_is_refused_at_once() -> None:
    """All problems in one message: two names, a reader before its source, a source too few."""
    bad = [conv("a", 1), replace(conv("a", 0), sources=())]
    with pytest.raises(PtqError) as caught:
        check(bad, "net.jsonl")
    found = [(p.where, p.found) for p in caught.value.problems]
    assert found == [
        ("net.jsonl: a", "it reads layer 1, which comes later"),
        ("net.jsonl", "two layers named 'a'"),
        ("net.jsonl: a", "0 sources for 1 inputs"),
    ]
    with pytest.raises(PtqError, match="no layer"):
        check([])
