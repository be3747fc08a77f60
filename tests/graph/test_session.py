"""The door to onnxruntime: what can be asked for, what is refused, and that no weight is lost on the way."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from models import IMAGE, MODELS, image, init, model, node, random, value
from onnx import helper

from ptqlab.errors import PtqError
from ptqlab.graph import load, save, session, to_proto
from ptqlab.graph.session import raw_session


def refusal(call: object) -> str:
    with pytest.raises(PtqError) as caught:
        call()  # type: ignore[operator]
    return str(caught.value)


@pytest.mark.parametrize("optimise", [True, False])
@pytest.mark.parametrize("name", MODELS)
def test_weights_as_buffers_give_the_same_as_one_protobuf(name: str, optimise: bool) -> None:
    """Bit for bit, for the outputs and for every inner tensor, with and without onnxruntime's rewriting."""
    proto, feeds = MODELS[name]()
    graph = load(proto)
    inner = [str(o.name) for n in graph.nodes for o in n.outputs]
    for outputs in (None, inner):
        names = [str(v.name) for v in graph.outputs] if outputs is None else outputs
        full = to_proto(graph.model)
        present = {o.name for o in full.graph.output}
        full.graph.output.extend(onnx.ValueInfoProto(name=n) for n in names if n not in present)
        plain = raw_session(full.SerializeToString(), {}, optimise=optimise, threads=1, where="test")
        expected = plain.run(names, feeds)
        made = session(graph.model, outputs=outputs, optimise=optimise)
        for found, wanted in zip(made.run(None, feeds), expected, strict=True):
            np.testing.assert_array_equal(found, wanted)


def test_inputs_and_constants_can_be_asked_for() -> None:
    """A tensor that is an input or a constant is answered without onnxruntime; repeated names count once."""
    graph = load(MODELS["wide_shared"]()[0])
    made = session(graph.model, outputs=["order", "x", "a", "x"])
    assert made.output_names == ("order", "x", "a")
    feeds = {"x": random(2, 256)}
    order, x, a = made.run(None, feeds)
    np.testing.assert_array_equal(order, graph.array("order"))
    np.testing.assert_array_equal(x, feeds["x"])
    np.testing.assert_allclose(a, x @ graph.array("w"), rtol=1e-4, atol=1e-5)
    assert session(graph.model, outputs=["x"]).raw is None
    np.testing.assert_array_equal(session(graph.model, outputs=["x"]).run(["x"], feeds)[0], feeds["x"])


def test_only_what_is_asked_for_is_computed() -> None:
    """run gives the names in the order asked; what an output does not need is left out of the session."""
    graph = load(MODELS["mobile_block"]()[0])
    made = session(graph.model, outputs=["c0", "r0"])
    assert [a.shape for a in made.run(["r0", "c0"], MODELS["mobile_block"]()[1])] == [(1, 16, 6, 6)] * 2


def test_all_sources_of_a_model(tmp_path: Path) -> None:
    """Memory, bytes, path, and a path whose weights lie beside it."""
    graph = load(MODELS["wide_shared"]()[0])
    feeds = {"x": random(2, 256)}
    expected = session(graph.model).run(None, feeds)[0]
    save(graph.model, tmp_path / "in.onnx")
    save(graph.model, tmp_path / "out.onnx", inside_limit=0)
    assert (tmp_path / "out.onnx.data").exists()
    for source in ((tmp_path / "in.onnx").read_bytes(), tmp_path / "in.onnx", tmp_path / "out.onnx"):
        np.testing.assert_array_equal(session(source).run(None, feeds)[0], expected)
        np.testing.assert_array_equal(
            session(source, outputs=["y"], optimise=False).run(["y"], feeds)[0].shape, (2, 256)
        )
    assert "PTQ103" in refusal(lambda: session(b"nothing"))
    assert "PTQ103" in refusal(lambda: session(tmp_path / "absent.onnx"))


def test_model_local_functions_run() -> None:
    """A custom domain whose operators are functions of the model."""
    proto, feeds = MODELS["local_functions"]()
    result = session(proto.SerializeToString()).run(None, feeds)[0]
    np.testing.assert_array_equal(result, session(load(proto).model).run(None, feeds)[0])


def test_wrong_feeds_are_refused_all_at_once() -> None:
    """Name, type and shape of every input, before onnxruntime sees them."""
    nodes = [
        node("Cast", ["img"], "f", "cast", to=1),
        node("Add", ["f", "x"], "a", "add"),
        node("Add", ["a", "z"], "y", "sum"),
    ]
    inputs = [value("img", IMAGE, onnx.TensorProto.UINT8), value("x", IMAGE), value("z", IMAGE)]
    made = session(load(model(nodes, inputs, [value("y", IMAGE)])).model)
    feeds = {"img": np.zeros(IMAGE, np.float32), "x": np.zeros((1, 8, 8, 3), np.float32), "zz": np.zeros(IMAGE)}
    assert refusal(lambda: made.run(None, feeds)) == (
        "Running the model: 4 problems\n"
        "PTQ120  the model\n"
        "    found     unknown input 'zz'\n"
        "    expected  nearest: z\n"
        "PTQ120  input 'img'\n"
        "    found     float32 [1,3,8,8]\n"
        "    expected  uint8 [1,3,8,8]\n"
        "    do        give the data in the type and shape of the input\n"
        "PTQ120  input 'x'\n"
        "    found     float32 [1,8,8,3]\n"
        "    expected  float32 [1,3,8,8]\n"
        "    do        give the data in the type and shape of the input\n"
        "PTQ120  input 'z'\n"
        "    found     no data given\n"
        "    expected  float32 [1,3,8,8]"
    )


def test_unknown_outputs_are_refused_with_the_nearest_names() -> None:
    """When the session is made and when it is run."""
    graph = load(MODELS["wide_shared"]()[0])
    assert "unknown tensor 'aa'\n    expected  nearest: a" in refusal(lambda: session(graph.model, outputs=["aa"]))
    assert "unknown output 'r'\n    expected  known: y" in refusal(
        lambda: session(graph.model).run(["r"], {"x": random(2, 256)})
    )


def test_a_node_that_fails_while_running_is_named() -> None:
    """An index outside the table, known only at run time."""
    nodes = [node("Gather", ["table", "i"], "y", "look up")]
    proto = model(nodes, [value("i", [1], onnx.TensorProto.INT64)], [value("y", [1, 2])], [init("table", random(3, 2))])
    made = session(load(proto).model)
    text = refusal(lambda: made.run(None, {"i": np.array([7])}))
    assert text.startswith("Running the model: 1 problem\nPTQ117  node 'look up' (Gather)\n    found     onnxruntime: ")
    assert "bounds" in text


def test_a_model_onnxruntime_refuses_is_named() -> None:
    """A shape misfit in a model that did not come through load."""
    nodes = [node("Conv", ["x", "w"], "c", "conv"), node("Add", ["c", "x"], "y", "add_bad")]
    proto = model(nodes, [value("x", IMAGE)], [value("y", None)], [init("w", random(4, 3, 1, 1))])
    text = refusal(lambda: session(proto.SerializeToString()))
    assert "PTQ117  node 'add_bad' (Add)" in text or "add_bad" in text
    unknown = helper.make_node("Nope", ["x"], ["y"], name="nope", domain="com.example")
    proto = model([unknown], [value("x", IMAGE)], [value("y", None)], domains=["com.example"])
    assert "nope" in refusal(lambda: session(proto.SerializeToString())).lower()


def test_a_tensor_too_large_for_memory_goes_through_a_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same result, and nothing stays on disk."""
    made = load(MODELS["wide_shared"]()[0]).model
    feeds = {"x": random(2, 256)}
    expected = session(made).run(None, feeds)[0]
    monkeypatch.setattr(sys.modules["ptqlab.graph.session"], "BUFFER_LIMIT", 4096)
    np.testing.assert_array_equal(session(made).run(None, feeds)[0], expected)


def test_results_do_not_alias_the_feeds() -> None:
    """Writing into a result leaves the caller's data alone."""
    graph = load(MODELS["conv_bn_relu"]()[0])
    feeds = image()
    session(graph.model, outputs=["x"]).run(None, feeds)[0][:] = 0
    np.testing.assert_array_equal(feeds["x"], image()["x"])
