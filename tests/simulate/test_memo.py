"""Parts of integer models that were computed before are not computed again, and the bits stay the same."""
from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from core_models import EDGES
from small import same_bits, stages

from ptqlab.placement import Ask, Asks
from ptqlab.simulate import FastExecutor
from ptqlab.simulate.memo import Memo, MemoExecutor
from ptqlab.stages.quantized import QuantizedModel
from ptqlab.stages.schedule import split


def pieces(quantized: QuantizedModel) -> QuantizedModel:
    """The model with every node in a part of its own."""
    number = {str(n.name): i for i, n in enumerate(quantized.model.graph)}
    parts = split(quantized.parts, quantized.model.graph, lambda node: number[str(node.name)])
    return replace(quantized, parts=parts)


def same(got: dict[str, np.ndarray], quantized: QuantizedModel, feeds: dict[str, np.ndarray]) -> None:
    """The outputs have the bits of the plain executor's."""
    wanted = FastExecutor(quantized, raw=True).run(feeds)
    assert list(got) == list(wanted)
    for name, array in wanted.items():
        same_bits(got[name], array, name)


@pytest.mark.parametrize("build", sorted(EDGES))
def test_same_bits_in_pieces_and_from_memory(build: str) -> None:
    """Cut into single operators, and answered from memory, every edge case gives what the whole model gives."""
    model, feeds = EDGES[build]()
    quantized = stages(model, feeds).integer
    memo = Memo()
    for _ in range(2):
        executor = MemoExecutor(pieces(quantized), memo)
        same(executor.run_known(feeds, "0"), quantized, feeds)
    assert executor.ran == 0


def test_a_change_runs_what_it_reaches_and_nothing_else() -> None:
    """With another type for the last operator the parts before it come from memory; with other feeds nothing does."""
    model, feeds = EDGES["outputs_that_are_read"]()
    first = stages(model, feeds)
    memo = Memo()
    executor = MemoExecutor(pieces(first.integer), memo)
    executor.run_known(feeds, "0")
    everything = executor.ran
    asks = Asks({"conv2": Ask("int16", level="node")})
    second = stages(model, feeds, asks=asks)
    executor = MemoExecutor(pieces(second.integer), memo)
    same(executor.run_known(feeds, "0"), second.integer, feeds)
    assert 0 < executor.ran < everything
    again = MemoExecutor(pieces(first.integer), memo)
    again.run_known({name: -array for name, array in feeds.items()}, "1")
    assert again.ran == everything


def test_memory_stays_within_its_limit() -> None:
    """Results used longest ago go first; one that is larger than the limit is not kept."""
    memo = Memo(limit=100)
    memo.put("a", {"x": np.zeros(10, np.float32)})
    memo.put("b", {"x": np.zeros(10, np.float32)})
    memo.get("a")
    memo.put("c", {"x": np.zeros(10, np.float32)})
    assert [key for key in "abc" if memo.get(key)] == ["a", "c"]
    memo.put("d", {"x": np.zeros(100, np.float32)})
    assert [key for key in "abcd" if memo.get(key)] == ["a", "c"]
