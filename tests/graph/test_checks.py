"""Nodes that are not what the standard says, tensors that do not fit together, types that are no arrays."""

from __future__ import annotations

import onnx
import pytest
from models import IMAGE, init, model, node, random, value
from onnx import TensorProto, helper

from ptqlab.errors import PtqError
from ptqlab.graph import load


def refusal(proto: onnx.ModelProto) -> str:
    with pytest.raises(PtqError) as caught:
        load(proto)
    return str(caught.value)


def problem(code: str, where: str, found: str, expected: str, do: str = "") -> str:
    tail = f"\n    do        {do}" if do else ""
    return f"Loading the model: 1 problem\n{code}  {where}\n    found     {found}\n    expected  {expected}{tail}"


def one(made: onnx.NodeProto, opset: int = 13) -> onnx.ModelProto:
    return model([made], [value("x", IMAGE)], [value("y", None)], opset=opset)


def test_an_operator_of_a_later_opset() -> None:
    """It exists, but not yet."""
    assert refusal(one(node("HardSwish", ["x"], "y", "act"))) == problem(
        "PTQ108",
        "node 'act'",
        "operator HardSwish does not exist in opset 13",
        "an operator of opset 13",
        "it came with opset 14; opsets up to 19 are taken",
    )


def test_an_operator_that_was_removed() -> None:
    """Upsample ended with opset 9."""
    nodes = [node("Upsample", ["x", "s"], "y", "ups")]
    proto = model(nodes, [value("x", IMAGE)], [value("y", None)], [init("s", random(4))], opset=11)
    assert refusal(proto) == problem(
        "PTQ108",
        "node 'ups'",
        "operator Upsample was removed from opset 10 on",
        "an operator of opset 11",
        "use Resize",
    )


@pytest.mark.parametrize(
    ("made", "found", "expected", "do"),
    [
        (
            node("Relu", ["x"], "y", "n", alfa=1.0),
            "attribute 'alfa' of Relu in opset 13",
            "one of none",
            "",
        ),
        (
            node("LeakyRelu", ["x"], "y", "n", alpah=1.0),
            "attribute 'alpah' of LeakyRelu in opset 13",
            "one of alpha",
            "did you mean alpha?",
        ),
        (node("LeakyRelu", ["x"], "y", "n", alpha=1), "attribute 'alpha' of LeakyRelu is INT", "FLOAT", ""),
        (node("MaxPool", ["x"], "y", "n"), "attribute 'kernel_shape' of MaxPool is missing", "INTS", ""),
        (node("Conv", ["x"], "y", "n"), "1 input for Conv", "2 to 3 inputs", ""),
        (node("Constant", ["x"], "y", "n", value_int=1), "1 input for Constant", "0 inputs", ""),
        (node("Min", ["x", ""], "y", "n"), "input 1 (data_0) of Min is left out", "a tensor there", ""),
        (node("Relu", ["x", "x"], "y", "n"), "2 inputs for Relu", "1 input", ""),
        (node("Relu", ["x"], ["y", "z"], "n"), "2 outputs for Relu", "1 output", ""),
        (node("Add", ["", "x"], "y", "n"), "input 0 (A) of Add is left out", "a tensor there", ""),
    ],
)
def test_a_node_that_is_not_as_the_standard_says(made: onnx.NodeProto, found: str, expected: str, do: str) -> None:
    """Attributes by name, type and presence; numbers of inputs and outputs."""
    assert refusal(one(made)) == problem("PTQ108", "node 'n'", found, expected, do)


def test_a_sequence_operator() -> None:
    """Named, with the way out."""
    assert refusal(one(node("SplitToSequence", ["x"], "y", "seq"))) == problem(
        "PTQ112",
        "node 'seq'",
        "operator SplitToSequence, which works on sequences, optionals or text",
        "operators on tensors",
        "cut the model before it with output_nodes",
    )


def test_inputs_and_constants_that_are_no_arrays_of_numbers() -> None:
    """Text, sequences, sparse tensors, complex numbers, each named."""
    proto = model(
        [node("Relu", ["x"], "y", "relu"), helper.make_node("Constant", [], ["k"], name="k", value_string="text")],
        [
            value("x", IMAGE),
            value("words", [1], TensorProto.STRING),
            helper.make_tensor_sequence_value_info("seq", TensorProto.FLOAT, None),
            onnx.ValueInfoProto(name="untyped"),
        ],
        [value("y", IMAGE)],
        [
            helper.make_tensor("c", TensorProto.COMPLEX64, [1], [1 + 2j]),
            helper.make_tensor("s", TensorProto.STRING, [1], ["a"]),
        ],
    )
    text = refusal(proto)
    found = [line.strip() for line in text.splitlines() if line.startswith(("PTQ", "    found"))]
    assert found == [
        "PTQ112  input 'words'",
        "found     tensor of string",
        "PTQ112  input 'seq'",
        "found     sequence",
        "PTQ112  input 'untyped'",
        "found     no type",
        "PTQ112  tensor 'c'",
        "found     complex64",
        "PTQ112  tensor 's'",
        "found     string",
        "PTQ112  node 'k'",
        "found     a constant of text or sparse elements",
    ]


def test_tensors_that_are_produced_twice() -> None:
    """By two nodes, by a node and an input, listed twice."""
    nodes = [node("Relu", ["x"], "a", "one"), node("Neg", ["x"], "a", "two"), node("Neg", ["a"], "x", "three")]
    proto = model(nodes, [value("x", IMAGE), value("x", IMAGE)], [value("a", IMAGE), value("a", IMAGE)])
    text = refusal(proto)
    assert "PTQ110  tensor 'a'\n    found     produced by node 'two' and by node 'one'" in text
    assert "PTQ110  tensor 'x'\n    found     produced by node 'three' and by input 'x'" in text
    assert "PTQ110  tensor 'x'\n    found     listed twice among the inputs or constants" in text
    assert "PTQ110  output 'a'\n    found     listed twice among the outputs" in text


def test_what_nothing_produces_is_named_with_the_nearest() -> None:
    """A node's input, an output, a tensor read inside a branch; a model without outputs."""
    body = [helper.make_graph([node("Neg", ["missing"], f"{n}o", f"{n}n")], n, [], [value(f"{n}o", [1])]) for n in "te"]
    nodes = [
        node("Conv", ["features", "w"], "c", "conv2"),
        node("If", ["cond"], "z", "if", then_branch=body[0], else_branch=body[1]),
    ]
    inputs = [value("feature", IMAGE), value("cond", [], TensorProto.BOOL)]
    text = refusal(model(nodes, inputs, [value("c", None), value("y", None)], [init("w", random(3, 3, 1, 1))]))
    assert (
        "PTQ109  node 'conv2'\n    found     input 0 reads tensor 'features', which nothing produces\n"
        "    expected  an input, a constant or the output of a node\n    do        nearest names: feature"
    ) in text
    assert "PTQ109  node 'tn'\n    found     input 0 reads tensor 'missing'" in text
    assert "PTQ109  output 'y'\n    found     nothing produces it" in text
    assert "PTQ109  the model\n    found     no output" in refusal(
        model([node("Relu", ["x"], "y")], [value("x", IMAGE)], [])
    )
