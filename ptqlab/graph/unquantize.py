"""The float model inside a quantize-dequantize model, for those who have lost the one from before quantization."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir

from ptqlab.errors import Problem, raise_if, shorten
from ptqlab.graph.files import attach, read
from ptqlab.graph.session import save_runnable

TITLE = "Removing the quantization"
QUANTIZE, DEQUANTIZE = "QuantizeLinear", "DequantizeLinear"
INTEGER = ("DynamicQuantizeLinear", "QLinearConv", "QLinearMatMul", "ConvInteger", "MatMulInteger")


def remove_quantization(model: str | Path, *, output: str | Path) -> Path:
    """Write the float model inside a model with QuantizeLinear and DequantizeLinear nodes; returns `output`.

    Pairs on activations are taken out, weights become the float numbers that their codes stand for. Names stay, so that
    `thresholds: <the quantized model>` gives a compile of the float model the ranges that were trained or chosen.
    Raises PtqError with every node that computes on integers and every pair that is none.
    """
    path, target = Path(model), Path(output)
    parsed = read(path)
    made = attach(parsed.proto, parsed.tensors)
    problems: list[Problem] = []
    if target.resolve() == path.resolve():
        problems.append(Problem("PTQ121", "output", str(target), "another path than that of the model"))
    inner = [n for n in made.graph.all_nodes() if n.graph is not made.graph and n.op_type in (QUANTIZE, DEQUANTIZE)]
    for node in [n for n in made.graph.all_nodes() if n.op_type in INTEGER] + inner:
        problems.append(
            Problem("PTQ123", _label(node), "computes on integers" if node not in inner else "stands in a body",
                    "QuantizeLinear and DequantizeLinear around float operators")
        )  # fmt: skip
    pairs = [n for n in made.graph if n.op_type == DEQUANTIZE]
    if not pairs and not problems:
        problems.append(Problem("PTQ123", "the model", "no DequantizeLinear", "a quantize-dequantize model"))
    problems += [problem for node in pairs if (problem := _unfit(made.graph, node)) is not None]
    raise_if(problems, TITLE)
    for node in pairs:
        _bypass(made.graph, node)
    left = [n for n in made.graph if n.op_type == QUANTIZE and (_used(n) or n.outputs[0].is_graph_output())]
    raise_if([Problem("PTQ123", _label(n), "its integers are read or leave the model", "a DequantizeLinear behind it")
              for n in left], TITLE)  # fmt: skip
    made.graph.remove([n for n in made.graph if n.op_type == QUANTIZE], safe=True)
    save_runnable(made, target)
    return target


def _label(node: ir.Node) -> str:
    return f"node {shorten(repr(node.name or node.outputs[0].name))} ({node.op_type})"


def _used(node: ir.Node) -> bool:
    return bool(list(node.outputs[0].uses()))


def _array(graph: ir.Graph, node: ir.Node, index: int) -> np.ndarray | None:
    """A constant operand: an initializer or what a Constant node holds."""
    value = node.inputs[index] if index < len(node.inputs) else None
    if value is None:
        return None
    producer = value.producer()
    if producer is not None and producer.op_type == "Constant" and "value" in producer.attributes:
        return producer.attributes["value"].as_tensor().numpy()
    held = graph.initializers.get(str(value.name))
    return None if held is None or held.const_value is None else held.const_value.numpy()


def _unfit(graph: ir.Graph, node: ir.Node) -> Problem | None:
    """Why a DequantizeLinear cannot be taken out."""
    if _array(graph, node, 1) is None:
        return Problem("PTQ123", _label(node), "its scale is computed", "a constant scale")
    if _array(graph, node, 0) is not None:
        return None
    source = node.inputs[0]
    before = None if source is None else source.producer()
    if before is None or before.op_type != QUANTIZE:
        return Problem("PTQ123", _label(node), "it reads integers that no QuantizeLinear gives",
                       "a constant, or a QuantizeLinear in front of it")  # fmt: skip
    return None


def _bypass(graph: ir.Graph, node: ir.Node) -> None:
    """Let the readers of a DequantizeLinear read the float tensor that its integers stand for."""
    result, codes = node.outputs[0], _array(graph, node, 0)
    if codes is not None:
        name = str(result.name)
        if result.is_graph_output():
            name += "_weights"
        real = _real(graph, node, codes)
        tensor = ir.tensor(real, name=name)
        result.name = None if not result.is_graph_output() else result.name
        source = ir.Value(name=name, shape=ir.Shape(real.shape), type=ir.TensorType(tensor.dtype), const_value=tensor)
        graph.register_initializer(source)
    else:
        quantize = node.inputs[0].producer()  # type: ignore[union-attr]
        assert quantize is not None and quantize.inputs[0] is not None
        source = quantize.inputs[0]
    if result.is_graph_output():
        same = ir.Node("", "Identity", [source], outputs=[ir.Value(name=result.name, shape=result.shape,
                                                                   type=result.type)], name=node.name)  # fmt: skip
        result.name = None
        result.replace_all_uses_with(same.outputs[0], replace_graph_outputs=True)
        graph.insert_before(node, same)
    else:
        result.replace_all_uses_with(source)
    graph.remove(node, safe=True)


def _real(graph: ir.Graph, node: ir.Node, codes: np.ndarray) -> np.ndarray:
    """(codes - zero point) * scale in float32, per axis where the scale has more than one entry."""
    scale, zero = _array(graph, node, 1), _array(graph, node, 2)
    assert scale is not None
    attribute = node.attributes.get("axis")
    shape = [1] * codes.ndim
    if scale.size > 1:
        shape[(1 if attribute is None else attribute.as_int()) % codes.ndim] = scale.size
    centred = codes.astype(np.float32)
    if zero is not None:
        centred = codes.astype(np.int64).astype(np.float32) - zero.astype(np.int64).astype(np.float32).reshape(shape)
    return np.asarray(centred * scale.astype(np.float32).reshape(shape), np.float32)
