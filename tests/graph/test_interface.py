"""Inputs with sizes the file leaves open."""

from __future__ import annotations

import onnx
import pytest
from models import model, node, value

from ptqlab.errors import PtqError
from ptqlab.graph import load


def net(*shapes: tuple[object, ...] | None) -> onnx.ModelProto:
    nodes = [node("Relu", [f"in{i}"], f"out{i}") for i in range(len(shapes))]
    inputs = [value(f"in{i}", s) for i, s in enumerate(shapes)]  # type: ignore[arg-type]
    return model(nodes, inputs, [value(f"out{i}", None) for i in range(len(shapes))])


def refusal(proto: onnx.ModelProto, shapes: dict[str, tuple[int, ...]] | None = None) -> str:
    with pytest.raises(PtqError) as caught:
        load(proto, shapes)
    return str(caught.value)


def test_every_dynamic_input_is_listed_with_its_dimensions() -> None:
    """Symbols, unknown sizes, sizes of 0 and -1 of old exporters, unknown rank."""
    proto = net(("N", 3, "H", "W"), (1, None), (0, 5), None)
    proto.graph.input[1].type.tensor_type.shape.dim[1].dim_value = -1
    assert refusal(proto) == (
        "Loading the model: 4 problems\n"
        "PTQ114  input 'in0'\n"
        "    found     dynamic shape [N,3,H,W]\n"
        "    expected  sizes for every dimension\n"
        "    do        set input_shape, for example 1x3x1x1 (-i in0 1x3x1x1)\n"
        "PTQ114  input 'in1'\n"
        "    found     dynamic shape [1,?]\n"
        "    expected  sizes for every dimension\n"
        "    do        set input_shape, for example 1x1 (-i in1 1x1)\n"
        "PTQ114  input 'in2'\n"
        "    found     dynamic shape [?,5]\n"
        "    expected  sizes for every dimension\n"
        "    do        set input_shape, for example 1x5 (-i in2 1x5)\n"
        "PTQ114  input 'in3'\n"
        "    found     dynamic shape of unknown rank\n"
        "    expected  sizes for every dimension\n"
        "    do        set input_shape, for example 1x3x224x224 (-i in3 1x3x224x224)"
    )


def test_given_sizes_are_checked_against_the_model() -> None:
    """Unknown input, wrong rank, a fixed size changed, a size below 1; the nearest name."""
    proto = net(("N", 3), (4, 5), ("N", 2), ("N",))
    text = refusal(proto, {"in0": (1, 3, 1), "in1": (4, 6), "in2": (0, 2), "in3": (7,), "inn3": (7,)})
    assert text == (
        "Loading the model: 4 problems\n"
        "PTQ115  input_shape of 'inn3'\n"
        "    found     no input of that name\n"
        "    expected  nearest: in3, in2, in1\n"
        "PTQ115  input_shape of 'in0'\n"
        "    found     1x3x1 (3 dimensions)\n"
        "    expected  2 dimensions, as [N,3] in the model\n"
        "PTQ115  input_shape of 'in1'\n"
        "    found     4x6\n"
        "    expected  the fixed sizes of the model, [4,5]\n"
        "    do        export the model with dynamic sizes to change them\n"
        "PTQ115  input_shape of 'in2'\n"
        "    found     0x2\n"
        "    expected  sizes of 1 or more"
    )


def test_sizes_of_a_static_input_may_be_repeated() -> None:
    """And an input of unknown rank takes any."""
    graph = load(net((4, 5), None), {"in0": (4, 5), "in1": (2, 3, 4)})
    assert graph.shape("out0") == (4, 5)
    assert graph.shape("out1") == (2, 3, 4)


def test_the_name_may_be_left_out_for_a_single_input_only() -> None:
    """With two inputs "" is an unknown name."""
    assert load(net(("N", 2)), {"": (3, 2)}).shape("out0") == (3, 2)
    assert "input_shape of ''" in refusal(net(("N", 2), ("N", 2)), {"": (3, 2)})


def test_a_scalar_input_is_static() -> None:
    """No dimension, nothing dynamic."""
    assert load(net(())).shape("out0") == ()
