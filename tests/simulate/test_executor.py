"""The walk over the parts of an integer model, the same for both executors."""

from __future__ import annotations

import numpy as np
import pytest
from core_models import EDGES, FOUR, net, weights
from models import init, node, random
from small import same_bits, stages

from ptqlab.graph import session
from ptqlab.simulate import FastExecutor, ReferenceExecutor

BOTH = pytest.mark.parametrize("kind", [FastExecutor, ReferenceExecutor])


@BOTH
def test_inputs_are_bound_by_name(kind: type) -> None:
    """The order of the feeds does not matter, swapping two inputs does."""
    model, feeds = EDGES["two_inputs"]()
    runner = kind(stages(model, feeds).integer)
    straight = runner.run(feeds)["y"]
    same_bits(runner.run(dict(reversed(list(feeds.items()))))["y"], straight, "reversed order")
    swapped = runner.run({"a": feeds["b"], "b": feeds["a"]})["y"]
    assert not np.array_equal(swapped, straight)


@BOTH
def test_kept_tensors_come_out_beside_the_outputs_in_their_own_type(kind: type) -> None:
    """`keep` names integer tensors of any part; they have the dtype of the BPU, int32 for a tail."""
    model, feeds = EDGES["cpu_islands"]()
    integers = stages(model, feeds).integer
    names = {t: info.name for t, info in integers.integers.items()}
    got = kind(integers, keep=list(names.values())).run(feeds)
    assert next(iter(got)) == "y"
    for tensor, name in names.items():
        assert got[name].dtype == integers.integers[tensor].qtype.numpy, tensor
    assert got[names["y"]].dtype == np.int32


@BOTH
def test_running_twice_gives_the_same_bits_and_leaves_the_feeds_alone(kind: type) -> None:
    """Nothing is kept from one run to the next, and no input is written to."""
    model, feeds = EDGES["residual_from_cpu"]()
    runner = kind(stages(model, feeds).integer)
    before = {k: v.copy() for k, v in feeds.items()}
    first = runner.run(feeds)["y"]
    runner.run({"x": feeds["x"] * 0.5})
    same_bits(runner.run(feeds)["y"], first, "second run")
    for name, array in before.items():
        same_bits(feeds[name], array, name)


@BOTH
def test_outputs_that_nothing_computes_are_there(kind: type) -> None:
    """An output that is an input or a constant comes out as it is, in the order of the model."""
    for name, untouched in (("output_is_input", "x"), ("output_is_constant", "w")):
        model, feeds = EDGES[name]()
        made = stages(model, feeds)
        got = kind(made.integer).run(feeds)
        assert list(got) == [v.name for v in model.graph.output]
        wanted = feeds[untouched] if untouched in feeds else made.graph.array(untouched)
        same_bits(got[untouched], wanted, name)


def test_the_cpu_parts_run_the_operators_as_they_are() -> None:
    """A network without BPU operators gives the very bits of plain onnxruntime without rewriting."""
    model, feeds = EDGES["nothing_for_the_bpu"]()
    made = stages(model, feeds)
    wanted = session(made.graph.model, optimise=False).run(None, feeds)[0]
    for kind in (FastExecutor, ReferenceExecutor):
        same_bits(kind(made.integer).run(feeds)["y"], wanted, kind.__name__)


def test_a_network_may_have_several_parts_of_each_device() -> None:
    """Parts follow each other in an order in which each finds what it reads."""
    made = stages(*EDGES["cpu_islands"]())
    assert [p.device for p in made.integer.parts] == ["BPU", "CPU", "BPU", "CPU", "BPU"]
    known = {"x"}
    for part in made.integer.parts:
        assert set(part.inputs) <= known, part
        known |= set(part.outputs)


def test_a_rank_0_result_of_the_bpu_can_be_read_by_the_cpu() -> None:
    """numpy turns rank 0 into scalars, which onnxruntime does not take."""
    nodes = [
        node("Conv", ["x", "w"], "c", "conv"),
        node("ReduceMean", ["c"], "m", "mean", keepdims=0),
        node("CumSum", ["c1", "ax"], "s", "cpu"),
        node("Mul", ["c", "m"], "p", "mul"),
        node("Conv", ["p", "w3"], "y", "end"),
    ]
    nodes[2] = node("IsNaN", ["m"], "n", "cpu")
    model, feeds = net(nodes, ["y"], [*weights(**FOUR), init("unused", random(1))])
    from models import value
    from onnx import TensorProto

    model.graph.output.append(value("n", None, TensorProto.BOOL))
    integer = stages(model, feeds).integer
    for kind in (FastExecutor, ReferenceExecutor):
        got = kind(integer).run(feeds)["n"]
        assert got.shape == () and not got
