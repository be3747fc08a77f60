"""Constants: everything that does not depend on an input is computed once."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from ptqlab.errors import PtqError
from ptqlab.graph.folding import evaluate, frontier
from ptqlab.graph.model import bodies
from ptqlab.passes.base import Work, get_int, shape_of

# a folded tensor may not be larger than this, unless what it is made of is about as large
LARGEST = 16 * 1024**2
RANDOM = frozenset(
    {"RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Multinomial", "Bernoulli"}
)


class ConstantsToInitializers:
    """Given Constant nodes; result initializers of the same names. A constant that is an output of the model stays
    the output of the node, an Identity of the initializer."""

    def __call__(self, work: Work) -> int:
        nodes = [n for n in work.graph if n.op_type == "Constant"]
        for node in nodes:
            settle(work, node, [_constant_of(node)])
        return len(nodes)


def _constant_of(node: ir.Node) -> np.ndarray:
    attribute = next(iter(node.attributes.values()))
    if attribute.name == "value":
        return attribute.as_tensor().numpy()
    dtype = np.float32 if "float" in attribute.name else np.int64
    return np.array(attribute.value, dtype)


def settle(work: Work, node: ir.Node, arrays: list[np.ndarray | None]) -> None:
    """Put constants in the place of the outputs of a node (None: an output nothing needs) and remove the node.

    Each constant takes the name of its tensor. An output of the model keeps a node: Identity of the constant.
    """
    for value, array in zip(list(node.outputs), arrays, strict=True):
        if array is None:
            continue
        name = str(value.name)
        if value.is_graph_output():
            constant = work.add_constant(f"{name}_constant", array)
            for use in list(value.uses()):
                use.node.replace_input_with(use.idx, constant)
            if len(node.outputs) == 1:
                work.retype(node, "Identity", [constant])
                return
            work.replace_output(value, "Identity", [constant], f"{node.name}_{name}", before=node)
        else:
            value.name = None
            value.replace_all_uses_with(work.add_constant(name, array, same_name=True))
    work.merge(node, None)


class FoldShapes:
    """Given Shape and Size of tensors whose shapes are static; result constants, whatever the tensor holds."""

    def __call__(self, work: Work) -> int:
        changes = 0
        for node in list(work.graph):
            if node.op_type not in ("Shape", "Size"):
                continue
            shape = shape_of(node.inputs[0])
            start = get_int(node, "start", 0)
            end = get_int(node, "end", len(shape))
            array = (
                np.array(shape[start:end], np.int64)
                if node.op_type == "Shape"
                else np.array(np.prod(shape, dtype=np.int64))
            )
            settle(work, node, [array])
            changes += 1
        return changes


class FoldConstants:
    """Given nodes that depend on constants only; result their outputs as constants, computed by onnxruntime.

    A node is left when it is random, when its result would be larger than 16 MB and larger than all it is made of
    (Expand, Tile, ConstantOfShape), or when onnxruntime refuses it. An output of the model that is constant stays
    the output of a node: Identity of the folded constant. Such an Identity is the end, nothing reads it.
    """

    def __call__(self, work: Work) -> int:
        known: set[ir.Value] = set()
        nodes: list[ir.Node] = []
        for node in work.graph:
            if self._foldable(work, node, known):
                nodes.append(node)
                known.update(node.outputs)
        if not nodes:
            return 0
        wanted = frontier(nodes)
        try:
            arrays = evaluate(nodes, wanted, work.graph.opset_imports[""])
        except PtqError as error:
            work.watch.log(f"constants not folded: {error.problems[0]}")
            return 0
        found = dict(zip(wanted, arrays, strict=True))
        for node in reversed(nodes):
            settle(work, node, [found.get(o) for o in node.outputs])
        return len(nodes)

    @staticmethod
    def _foldable(work: Work, node: ir.Node, known: set[ir.Value]) -> bool:
        names_output = node.op_type == "Identity" and node.outputs[0].is_graph_output()
        if node.op_type in RANDOM or any(True for _ in bodies(node)) or names_output:
            return False
        if not all(v is None or v in known or work.constant(v) is not None for v in node.inputs):
            return False
        size = sum(_nbytes(o) for o in node.outputs if o.name)
        sources = sum(_nbytes(v) for v in node.inputs if v is not None)
        if size > LARGEST and size > 2 * sources:
            work.refuse(node, f"its constant result would take {size} bytes")
            return False
        return True


def _nbytes(value: ir.Value) -> int:
    assert value.dtype is not None
    return int(np.prod(shape_of(value), dtype=np.int64)) * value.dtype.bitwidth // 8
