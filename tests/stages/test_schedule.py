"""Parts of a schedule cut into smaller ones."""
import onnx_ir as ir

from ptqlab.stages.schedule import schedule, split

TEXT = """
<ir_version: 8, opset_import: ["" : 19]>
g (float[2] x) => (float[2] y, float[2] side)
{
   a = Relu (x)
   b = Neg (a)
   side = Abs (a)
   c = Exp (b)
   y = Add (c, a)
}
"""
PIECES = {"Relu": 0, "Neg": 0, "Abs": 2, "Exp": 1, "Add": None}


def graph():
    made = ir.from_onnx_text(TEXT).graph
    for node in made:
        node.name = node.op_type
    return made


def test_split_parts_keep_every_node_and_every_tensor_that_crosses():
    """Each node is in one part, in order; tensors read in another part, and outputs of the model, are handed on."""
    g = graph()
    whole = schedule(g, lambda node: "CPU")
    parts = split(whole, g, lambda node: PIECES[node.op_type])
    assert [part.nodes for part in parts] == [("Relu", "Neg"), ("Exp", "Add"), ("Abs",)]
    assert [part.inputs for part in parts] == [("x",), ("b", "a"), ("a",)]
    assert [part.outputs for part in parts] == [("a", "b"), ("y",), ("side",)]
    assert {(part.device, part.segment) for part in parts} == {("CPU", None)}


def test_a_node_waits_for_what_it_reads():
    """A node whose own piece comes before that of what it reads goes to the later one."""
    g = graph()
    parts = split(schedule(g, lambda node: "CPU"), g, lambda node: {"Exp": 3, "Add": 0}.get(node.op_type))
    assert [part.nodes for part in parts] == [("Relu", "Neg", "Abs"), ("Exp", "Add")]


def test_nothing_to_split_leaves_the_schedule_as_it_is():
    """One piece for all gives the same parts."""
    g = graph()
    whole = schedule(g, lambda node: "CPU" if node.op_type == "Exp" else "BPU")
    assert split(whole, g, lambda node: None) == whole
