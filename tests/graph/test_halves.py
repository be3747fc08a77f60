"""Half precision in every place of a model."""

from __future__ import annotations

import numpy as np
from models import IMAGE, init, model, node, random, value
from onnx import TensorProto, helper, numpy_helper

from ptqlab.graph import load, session


def test_constants_casts_and_bodies() -> None:
    """Constant node, ConstantOfShape, Cast inside a branch, initializer of a branch, bfloat16."""
    half = TensorProto.FLOAT16

    def body(name: str) -> object:
        inside = [
            node("Cast", ["h"], f"{name}c", f"{name}_cast", to=half),
            node("Add", [f"{name}c", f"{name}k"], f"{name}o", f"{name}_add"),
        ]
        constant = init(f"{name}k", np.ones(1, np.float16))
        return helper.make_graph(inside, name, [], [value(f"{name}o", IMAGE, half)], [constant])

    nodes = [
        helper.make_node("Constant", [], ["k"], name="k", value=init("v", np.float16(0.1))),
        node("Cast", ["x"], "h", "cast", to=half),
        node("If", ["cond"], "c", "if", then_branch=body("t"), else_branch=body("e")),
        node("Mul", ["c", "k"], "m", "mul"),
        node("Cast", ["b"], "bf", "cast_b", to=TensorProto.FLOAT),
        node("Cast", ["m"], "mf", "cast_m", to=TensorProto.FLOAT),
        node("Add", ["mf", "bf"], "y", "add"),
    ]
    brain = helper.make_tensor("b", TensorProto.BFLOAT16, [1], [0.5])
    proto = model(nodes, [value("x", IMAGE), value("cond", [], TensorProto.BOOL)], [value("y", IMAGE)], [brain])
    graph = load(proto)
    assert {graph.dtype(n) for n in graph.values if n != "cond"} == {np.dtype(np.float32)}
    assert [f.message for f in graph.findings] == ["Half precision inside the model is worked on in float32."]
    x = random(*IMAGE)
    expected = (x + 1) * np.float32(np.float16(0.1)) + 0.5
    for flag in (True, False):
        found = session(graph.model).run(None, {"x": x, "cond": np.array(flag)})[0]
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert numpy_helper.to_array(proto.graph.node[0].attribute[0].t).dtype == np.float16, "the given model is untouched"
