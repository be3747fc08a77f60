"""What a viewer is given of a model file: no weights, no metadata, a cut that is a graph of its own."""
import numpy as np
import onnx
import pytest
from graph_runs import chain, long_record, write_run
from onnx import TensorProto, helper, numpy_helper
from records import digits_record

from ptqlab.errors import PtqError
from ptqlab.graph.outline import LARGEST, outline


def parsed(found):
    return onnx.ModelProto.FromString(found.data)


@pytest.fixture
def file(tmp_path):
    record = write_run(tmp_path)
    return tmp_path / record.artifacts["optimized_float"]


def test_weights_and_metadata_stay_at_home(file):
    """Nothing over 1 kB is left, in initializers, attributes and bodies alike; types and shapes are; no paths."""
    found = outline(file)
    model = parsed(found)
    assert len(found.data) < file.stat().st_size / 4
    tensors = [*model.graph.initializer, *(a.t for n in model.graph.node for a in n.attribute if a.HasField("t"))]
    assert {tuple(t.dims) for t in tensors} == {(1000,), (2000,)}
    assert all(t.ByteSize() < LARGEST and t.data_location == TensorProto.EXTERNAL for t in tensors)
    assert b"private" not in found.data
    assert found.nodes == tuple(row.node for row in digits_record().nodes) and found.total == len(found.nodes)


def test_small_tensors_are_kept(tmp_path):
    """A bias of 16 numbers is shown with its values."""
    onnx.save(chain(digits_record().nodes, weights=16), tmp_path / "small.onnx")
    tensor = parsed(outline(tmp_path / "small.onnx")).graph.initializer[0]
    assert numpy_helper.to_array(tensor).tolist() == [1.0] * 16


def test_a_cut_has_the_nodes_within_the_hops_and_its_crossings_as_ends(tmp_path):
    """Two hops around a node: the nodes at most two edges away, found by hand; what crosses is input or output."""
    onnx.save(chain(long_record(20).nodes), tmp_path / "model.onnx")
    found = outline(tmp_path / "model.onnx", "/layer2/Conv2", 2)
    graph = parsed(found).graph
    assert found.nodes == ("/layer2/Conv0", "/layer2/Relu1", "/layer2/Conv2", "/layer2/Clip3", "/layer2/Add4")
    assert found.total == 20
    # the block reads the one before, and the next block reads its sum
    assert [v.name for v in graph.input] == ["t9"]
    assert [v.name for v in graph.output] == ["t14"]
    assert [t.name for t in graph.initializer] == ["t10_w", "t12_w"]
    assert outline(tmp_path / "model.onnx", "/layer2/Conv2", 0).nodes == ("/layer2/Conv2",)
    assert len(outline(tmp_path / "model.onnx", "/layer2/Conv2", 1000).nodes) == 20


def test_a_body_reads_through_the_cut(tmp_path):
    """What the bodies of an If read from outside are edges; what they make themselves is none."""
    def body(name):
        inner = [helper.make_node("Add", ["x_out", f"{name}_c"], [f"{name}_sum"]),
                 helper.make_node("Relu", [f"{name}_sum"], [f"{name}_out"])]
        out = helper.make_tensor_value_info(f"{name}_out", TensorProto.FLOAT, [400])
        return helper.make_graph(inner, name, [], [out],
                                 [numpy_helper.from_array(np.ones(400, np.float32), f"{name}_c")])
    nodes = [helper.make_node("Relu", ["x"], ["x_out"], name="first"),
             helper.make_node("If", ["flag"], ["y"], name="choice", then_branch=body("a"), else_branch=body("b")),
             helper.make_node("Relu", ["y"], ["z"], name="last")]
    x, z = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [400]) for n in "xz")
    flag = helper.make_tensor_value_info("flag", TensorProto.BOOL, [])
    model = helper.make_model(helper.make_graph(nodes, "g", [x, flag], [z]), ir_version=9)
    onnx.save(model, tmp_path / "if.onnx")
    assert outline(tmp_path / "if.onnx", "first", 1).nodes == ("first", "choice")
    graph = parsed(outline(tmp_path / "if.onnx", "choice", 0)).graph
    assert [v.name for v in graph.input] == ["flag", "x_out"]
    bodies = [a.g for a in graph.node[0].attribute]
    assert all(t.data_location == TensorProto.EXTERNAL for b in bodies for t in b.initializer)


def test_unnamed_nodes_get_names(tmp_path):
    """A node without a name can be selected too."""
    model = chain(digits_record().nodes)
    model.graph.node[0].name = ""
    onnx.save(model, tmp_path / "model.onnx")
    assert outline(tmp_path / "model.onnx").nodes[0] == "Conv_t1"


def test_what_cannot_be_shown_is_refused_in_whole_texts(file, tmp_path):
    """An unknown node names its neighbours in spelling, hops have a range, a file that is no model is told so."""
    with pytest.raises(PtqError) as told:
        outline(file, "/block1/conv/Con")
    assert str(told.value.problems[0]) == (
        "PTQ661  around\n    found     no node '/block1/conv/Con' in this stage\n    expected  the name of a node\n"
        "    do        did you mean '/block1/conv/Conv', '/block7/conv/Conv', '/block6/conv/Conv'?")
    for hops in (-1, 1001, 1.5, True, "2"):
        with pytest.raises(PtqError, match="PTQ661  hops"):
            outline(file, "/block1/conv/Conv", hops)
    (tmp_path / "no.onnx").write_bytes(b"\xff\xfe no model")
    with pytest.raises(PtqError, match="PTQ103"):
        outline(tmp_path / "no.onnx")
