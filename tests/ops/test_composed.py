"""Functions of one tensor that are written out in several nodes: found, computed in one table, exact to a step."""
from __future__ import annotations

import math

import numpy as np
import onnx
import pytest
from lowered import lowered
from models import init, model, node, random, value
from onnx.reference import ReferenceEvaluator
from small import planned

from ptqlab.placement import Ask, Asks

NUMBERS = {
    "root": math.sqrt(2), "one": 1.0, "half": 0.5, "cubic": 0.044715, "slope": math.sqrt(2 / math.pi), "two": 2.0,
    "three": 3.0, "six": 6.0, "zero": 0.0,
}  # fmt: skip


def written(nodes: list, outputs: tuple[str, ...] = ("y",)) -> onnx.ModelProto:
    """Conv -> the nodes, which read `a` and give `y` -> Conv."""
    ends = [node("Conv", [o, "w"], f"{o}_end", f"{o}_end") for o in outputs]
    return model(
        [node("Conv", ["x", "w"], "a", "conv"), *nodes, *ends], [value("x", [1, 4, 5, 5])],
        [value(f"{o}_end", None) for o in outputs],
        [init("w", random(4, 4, 1, 1)), *(init(n, np.float32(v)) for n, v in NUMBERS.items())],
    )  # fmt: skip


FORMS = {
    "swish": [node("Sigmoid", ["a"], "s", "s"), node("Mul", ["a", "s"], "y", "m")],
    "gelu": [
        node("Div", ["a", "root"], "d", "d"), node("Erf", ["d"], "e", "e"), node("Add", ["e", "one"], "p", "p"),
        node("Mul", ["a", "p"], "m", "m"), node("Mul", ["m", "half"], "y", "h"),
    ],
    "gelu, factor first": [
        node("Mul", ["a", "half"], "h", "h"), node("Div", ["a", "root"], "d", "d"), node("Erf", ["d"], "e", "e"),
        node("Add", ["one", "e"], "p", "p"), node("Mul", ["h", "p"], "y", "m"),
    ],
    "gelu of tanh": [
        node("Mul", ["a", "a"], "q", "q"), node("Mul", ["q", "a"], "c", "c"), node("Mul", ["cubic", "c"], "k", "k"),
        node("Add", ["a", "k"], "i", "i"), node("Mul", ["slope", "i"], "z", "z"), node("Tanh", ["z"], "t", "t"),
        node("Add", ["t", "one"], "p", "p"), node("Mul", ["half", "p"], "h", "h"), node("Mul", ["a", "h"], "y", "m"),
    ],
    "mish": [
        node("Softplus", ["a"], "s", "s"), node("Tanh", ["s"], "t", "t"), node("Mul", ["t", "a"], "y", "m"),
    ],
    "logarithm of a power": [
        node("Mul", ["a", "a"], "q", "q"), node("Add", ["q", "half"], "p", "p"), node("Log", ["p"], "y", "l"),
    ],
    "odd": [
        node("Neg", ["a"], "n", "n"), node("Abs", ["n"], "b", "b"), node("Pow", ["b", "two"], "q", "q"),
        node("LeakyRelu", ["n"], "l", "l", alpha=0.2), node("HardSigmoid", ["l"], "g", "g"),
        node("Sub", ["q", "g"], "d", "d"), node("Elu", ["d"], "e", "e"), node("Mul", ["e", "g"], "y", "m"),
    ],
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_a_written_function_is_one_table(form: str) -> None:
    """One operator, within half a step of the float function of its stored operand (int8), or two steps (int16)."""
    for qtype, bound in (("int8", 0.501), ("int16", 2.0)):
        made = lowered(written(FORMS[form]), {"x": random(1, 4, 5, 5, seed=1)}, qtype=qtype)
        tables = [n for n in made.quantized.model.graph if n.op_type.endswith("Table")]
        assert len(tables) == 1 and len(made.operators()) == 5, made.operators()
        group = next(g for g in made.plan.groups.values() if g.source == "a")
        assert group.output == "y" and tables[0].name == group.main and len(group.members) == len(FORMS[form])
        assert not {"a", "y"} ^ {t for t in made.plan.tensors if t not in ("x", "y_end")}
        real = made.real("a").astype(np.float32)
        alone = model(FORMS[form], [value("a", [1, 4, 5, 5])], [value("y", None)],
                      [init(n, np.float32(v)) for n, v in NUMBERS.items()])  # fmt: skip
        wanted = ReferenceEvaluator(alone).run(None, {"a": real})[0]
        edge = made.step("y") * (127 if qtype == "int8" else 32767)
        np.testing.assert_allclose(
            made.real("y"), np.clip(wanted, -edge, edge), rtol=0, atol=bound * made.step("y") + 1e-6
        )


def test_main_node_gives_the_name_and_the_others_say_so() -> None:
    """Of Gelu the Erf; every other member names it in its reason."""
    _, plan = planned(written(FORMS["gelu"]))
    assert plan.groups["e"].members == ("d", "e", "p", "m", "h")
    assert all(plan.nodes[n].reason.startswith("BPU: computed inside e, with no quantizer between.") for n in "dpmh")


@pytest.mark.parametrize(
    ("nodes", "outputs"),
    [
        # the sigmoid is read outside, too
        ([*FORMS["swish"], node("Mul", ["s", "two"], "z", "z")], ("y", "z")),
        # two sources: a gate
        ([node("Conv", ["x", "w"], "g", "g"), node("Sigmoid", ["g"], "s", "s"), node("Mul", ["a", "s"], "y", "m")],
         ("y",)),
        # straight pieces need no table
        ([node("Mul", ["a", "two"], "t", "t"), node("Add", ["t", "one"], "y", "y")], ("y",)),
        # not finite everywhere: nothing may follow a reciprocal, and a power of 1/2 has no negative operands
        ([node("Reciprocal", ["a"], "s", "s"), node("Mul", ["s", "s"], "y", "y")], ("y",)),
        ([node("Sub", ["a", "one"], "s", "s"), node("Pow", ["s", "half"], "y", "y")], ("y",)),
    ],
    ids=["read-outside", "gate", "straight", "reciprocal", "root"],
)  # fmt: skip
def test_what_is_no_function_of_one_tensor_stays_apart(nodes: list, outputs: tuple[str, ...]) -> None:
    """No group of several nodes without weights."""
    _, plan = planned(written(nodes, outputs))
    assert all(g.source is None for g in plan.groups.values())


def test_a_member_on_the_cpu_splits_the_function() -> None:
    """The Sigmoid of a Swish on the CPU: its Mul is an operator of its own."""
    _, plan = planned(written(FORMS["swish"]), asks=Asks({"s": Ask(on="CPU", level="node")}))
    assert all(g.source is None for g in plan.groups.values()) and not plan.nodes["s"].on_bpu


@pytest.mark.parametrize(
    ("asks", "granted"),
    [
        ({"m": Ask("int16", level="node")}, "int16"),
        ({"m": Ask(inputs={0: "int16"}, level="node")}, "int16"),
        ({"s": Ask("int8", level="node"), "m": Ask("int16", level="model")}, "int8"),
        ({"s": Ask("int8", level="op"), "m": Ask("int16", level="op")}, "int16"),
        ({"s": Ask("int16", level="model"), "m": Ask("int16", level="model")}, "int16"),
    ],
)
def test_the_finest_request_decides_for_all_members(asks: dict[str, Ask], granted: str) -> None:
    """A type asked for one member is that of the table; the others say for whom it was asked."""
    feeds = {"x": random(1, 4, 5, 5, seed=1)}
    made = lowered(written(FORMS["swish"]), feeds, asks=asks)
    assert {made.plan.nodes[n].granted for n in "sm"} == {granted}
    assert made.plan.tensors["a"].stored.value == granted
    table = next(n for n in made.quantized.model.graph if n.op_type.endswith("Table"))
    assert table.op_type == ("Int16Table" if granted == "int16" else "Int8Table")
    reasons = [made.plan.nodes[n].reason for n in "sm" if made.plan.nodes[n].rule == "function-type"]
    assert all("which the same table computes." in reason for reason in reasons)
