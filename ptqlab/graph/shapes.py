"""Types and shapes of every tensor: node by node by the standard's rules, by a run where the rules end.

The rules are asked for one node at a time, so that a misfit is told with its node and shapes, and so that nothing
reaches them that makes the library abort (a negative size in front of Slice does).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import onnx
import onnx_ir as ir

from ptqlab.errors import Finding, Problem, PtqError, shorten
from ptqlab.graph.branches import write_out
from ptqlab.graph.checks import default_opset, proto_bodies
from ptqlab.graph.consistency import misfit
from ptqlab.graph.execution import run_constants, run_with_zeros
from ptqlab.graph.files import Tensors, attach
from ptqlab.graph.model import sizes
from ptqlab.graph.names import reads

TITLE = "Shape inference"
# contents of constants up to this size take part in inference; larger ones never say a shape
CONTENT_LIMIT = 64 * 1024
OF_ZEROS = (
    "the shapes behind {} depend on data, so the model was run on zeros: make what decides them (a condition, an "
    "index, a length) a constant before export, or give input_shape sizes that fit what zeros choose"
)
_WINDOWS = frozenset({"Conv", "ConvTranspose", "MaxPool", "AveragePool", "LpPool"})

Dims = tuple[int | None, ...] | None


class ShapeInferenceError(PtqError):
    """Shapes that do not fit together. `.model` is the model as far as it came, to be saved for diagnosis."""

    model: ir.Model


def infer(proto: onnx.ModelProto, tensors: Tensors) -> tuple[list[Finding], dict[str, str]]:
    """Write type and shape of every node output into value_info and outputs, in place.

    Returns what was noticed, and for every If that is gone the node that gives its first output.

    Stated shapes are not trusted: they are dropped and compared afterwards. Nodes are sorted, inputs static.
    An If whose condition turns out to be constant is replaced by the branch it takes.
    Raises ShapeInferenceError naming every node that does not fit, and the types and shapes it reads.
    """
    graph = proto.graph
    stated = {v.name: v.type.tensor_type for v in (*graph.value_info, *graph.output)}
    inference = _Inference(proto, tensors)
    for node in graph.node:
        inference.visit(node)
    if inference.problems:
        error = ShapeInferenceError(inference.problems, TITLE)
        del graph.value_info[:]
        error.model = attach(proto, tensors)
        raise error
    findings = inference.findings() + _lies(stated, inference.types)
    if inference.decided:
        nodes = [onnx.NodeProto.FromString(n.SerializeToString()) for n in inference.nodes]
        del graph.node[:]
        graph.node.extend(nodes)
    outputs = {o.name for o in graph.output}
    del graph.value_info[:]
    for node in graph.node:
        for name in node.output:
            if name and name not in outputs:
                graph.value_info.add(name=name).type.CopyFrom(inference.types[name])
    for output in graph.output:
        output.type.CopyFrom(inference.types[output.name])
    return findings, inference.decided


class _Inference:
    """Goes through the nodes in order and gathers types, small contents and problems."""

    def __init__(self, proto: onnx.ModelProto, tensors: Tensors) -> None:
        self.proto, self.tensors = proto, tensors
        self.opset = default_opset(proto) or 0
        self.names = (
            {o for n in proto.graph.node for o in n.output} | set(tensors) | {v.name for v in proto.graph.input}
        )
        self.types: dict[str, onnx.TypeProto] = {v.name: v.type for v in proto.graph.input}
        for name, tensor in tensors.items():
            self.types[name] = onnx.helper.make_tensor_type_proto(int(tensor.dtype), sizes(tensor.shape))
        self.contents: dict[str, onnx.TensorProto] = {
            t.name: t for t in proto.graph.initializer if t.data_location != onnx.TensorProto.EXTERNAL
        }
        self.constant: dict[str, onnx.NodeProto | None] = dict.fromkeys(tensors)  # name -> node that computes it
        self.behind: set[str] = set()  # tensors behind a node with a problem
        self.problems: list[Problem] = []
        self.nodes: list[onnx.NodeProto] = []  # visited so far, branches written out
        self.decided: dict[str, str] = {}  # If with a constant condition -> node that gives its first output
        self.executed: dict[str, np.ndarray] = {}
        self.from_run: dict[str, str] = {}  # tensor -> node

    def visit(self, node: onnx.NodeProto) -> None:
        if self.behind.intersection(reads(node)):
            self.behind.update(node.output)
            return
        if node.op_type == "If" and self._write_out(node):
            return
        self.nodes.append(node)
        try:
            found = self._infer(node)
            if self._gaps(node, found) and self._compute_inputs(node):
                found = self._infer(node)
            if gaps := self._gaps(node, found):
                found = found | self._measure(node, gaps)
        except _Misfit as misfit:
            self.problems.append(misfit.problem)
            self.behind.update(node.output)
            return
        self.types.update(found)
        self._note_contents(node)

    def _write_out(self, node: onnx.NodeProto) -> bool:
        """Visit the nodes of the branch an If takes, when its condition is a constant; whether it is."""
        condition = node.input[0]
        if condition not in self.contents and not self._compute_inputs(node):
            return False
        taken = bool(onnx.numpy_helper.to_array(self.contents[condition]).reshape(-1)[0])
        nodes, constants = write_out(node, taken, self.names)
        for tensor in constants:
            array = onnx.numpy_helper.to_array(tensor)
            self.tensors[tensor.name] = ir.Tensor(array, name=tensor.name)
            self.types[tensor.name] = onnx.helper.make_tensor_type_proto(tensor.data_type, array.shape)
            self.contents[tensor.name] = tensor
            self.constant[tensor.name] = None
        self.proto.graph.initializer.extend(constants)
        first = next((n.name for n in nodes if node.output[0] in n.output), "")
        self.decided[node.name] = first
        for inner in nodes:
            self.visit(inner)
        return True

    def _infer(self, node: onnx.NodeProto) -> dict[str, onnx.TypeProto]:
        schema = onnx.defs.get_schema(node.op_type, self.opset, "")
        self._check_element_types(schema, node)
        shapes = [self._shape(name) for name in node.input]
        if why := misfit(node, shapes):
            raise _Misfit(self._told(node, why))
        if node.op_type == "Slice" and 0 in (_dims(self.types[node.input[0]]) or ()):
            return {}  # the library aborts on a negative step over nothing
        if node.op_type == "GroupNormalization":  # the library refuses it as deprecated, though opset 18 and 19 have it
            return {node.output[0]: self.types[node.input[0]]}
        types = {name: self.types[name] for name in reads(node) if name in self.types}
        contents = {name: self.contents[name] for name in node.input if name in self.contents}
        try:
            found = onnx.shape_inference.infer_node_outputs(
                schema, node, types, contents, opset_imports=[onnx.helper.make_opsetid("", self.opset)]
            )
        except Exception as error:  # InferenceError, and others on element types that do not exist
            raise _Misfit(self._told(node, _reason(str(error)))) from None
        for name, kind in found.items():
            least = 1 if node.op_type in _WINDOWS else 0
            if any(d is not None and d < least for d in _dims(kind) or ()):
                why = f"gives '{shorten(name)}' {_words(_dims(kind))}: the input is too small for it"
                raise _Misfit(self._told(node, why))
        return found

    def _check_element_types(self, schema: onnx.defs.OpSchema, node: onnx.NodeProto) -> None:
        bound: dict[str, str] = {}
        for index, name in enumerate(node.input):
            formal = schema.inputs[min(index, len(schema.inputs) - 1)]
            if not name or not self.types[name].HasField("tensor_type"):
                continue
            kind = f"tensor({_element(self.types[name])})"
            if kind not in formal.types:
                allowed = ", ".join(sorted(t[7:-1] for t in formal.types if t.startswith("tensor(")))
                raise _Misfit(self._told(node, f"input {index} is {kind[7:-1]}, but may be {allowed}"))
            if formal.is_homogeneous and bound.setdefault(formal.type_str, kind) != kind:
                raise _Misfit(self._told(node, "these inputs must have one element type"))

    def _shape(self, name: str) -> tuple[int, ...] | None:
        """Shape of a tensor; None for an input that is left out."""
        dims = _dims(self.types[name]) if name else None
        return None if dims is None else tuple(d or 0 for d in dims)

    def _gaps(self, node: onnx.NodeProto, found: dict[str, onnx.TypeProto]) -> list[str]:
        return [o for o in node.output if o and not _complete(found.get(o))]

    def _compute_inputs(self, node: onnx.NodeProto) -> bool:
        """Compute inputs that depend on constants only; whether there was one."""
        wanted = [n for n in node.input if n in self.constant and n not in self.contents]
        if not wanted:
            return False
        needed: dict[str, onnx.NodeProto] = {}
        feeds: dict[str, np.ndarray] = {}
        queue = list(wanted)
        while queue:
            name = queue.pop()
            maker = self.constant.get(name)
            if name in self.contents:
                feeds[name] = onnx.numpy_helper.to_array(self.contents[name])
            elif maker is None:
                feeds[name] = self.tensors[name].numpy()
            elif maker.name not in needed:
                needed[maker.name] = maker
                queue.extend(n for n in maker.input if n)
        order = [n for n in self.nodes if n.name in needed]
        try:
            results = run_constants(order, wanted, feeds, self.opset)
        except PtqError as error:
            raise _Misfit(error.problems[0]) from None
        for name, array in zip(wanted, results, strict=True):
            self.contents[name] = onnx.numpy_helper.from_array(array, name)
        return True

    def _measure(self, node: onnx.NodeProto, gaps: list[str]) -> dict[str, onnx.TypeProto]:
        """Types of `gaps` from a run of the whole model with zeros (one run, made when first needed,
        and again for nodes that came out of a branch)."""
        if any(n not in self.executed for n in gaps):
            visited = {n.name for n in self.nodes}
            rest = [n for n in self.proto.graph.node if n.name not in visited and n.name not in self.decided]
            names = [o for n in (node, *rest) for o in n.output if o]
            try:
                self.executed = run_with_zeros(self.proto, [*self.nodes, *rest], self.tensors, names)
            except PtqError as error:
                problem = error.problems[0]
                raise _Misfit(replace(problem, hint=problem.hint or OF_ZEROS.format(shorten(node.name)))) from None
        self.from_run |= dict.fromkeys(gaps, node.name)
        return {
            n: onnx.helper.make_tensor_type_proto(
                int(ir.DataType.from_numpy(self.executed[n].dtype)), self.executed[n].shape
            )
            for n in gaps
        }

    def _note_contents(self, node: onnx.NodeProto) -> None:
        """Contents that are known at once (Constant, Shape, Size), and whether they could be computed later."""
        if node.op_type in ("Shape", "Size"):
            dims = _dims(self.types[node.input[0]]) or ()
            bounds = {a.name: a.i for a in node.attribute}
            array = np.array(dims[bounds.get("start", 0) : bounds.get("end", len(dims))], np.int64)
            array = array if node.op_type == "Shape" else np.array(math.prod(dims), np.int64)  # type: ignore[arg-type]
            self.contents[node.output[0]] = onnx.numpy_helper.from_array(array, node.output[0])
            self.constant[node.output[0]] = None
            return
        if node.op_type == "Constant" and node.attribute[0].name == "value":
            self.contents[node.output[0]] = node.attribute[0].t
        fixed = all(n in self.constant for n in node.input if n) and not any(True for _ in proto_bodies(node))
        small = all(_nbytes(self.types[n]) <= CONTENT_LIMIT for n in (*node.input, *node.output) if n)
        if fixed and small and not node.op_type.startswith(("Random", "Multinomial", "Bernoulli")):
            self.constant.update(dict.fromkeys(node.output, node))

    def _told(self, node: onnx.NodeProto, why: str) -> Problem:
        inputs = ", ".join(
            f"'{shorten(i)}' {_element(self.types[i])} {_words(_dims(self.types[i]))}" for i in node.input if i
        )
        return Problem(
            "PTQ116",
            f"node '{shorten(node.name)}' ({shorten(node.op_type)})",
            f"inputs {inputs}: {why}",
            "inputs whose types and shapes fit together",
            "look at the node in shape_inference_fail.onnx",
        )

    def findings(self) -> list[Finding]:
        found = []
        if self.decided:
            text = f"The conditions of {len(self.decided)} If nodes are constant; the branch taken was written out."
            found.append(Finding("PTQ137", text, tuple(n for n in self.decided.values() if n), severity="note"))
        if not self.from_run:
            return found
        text = f"The shapes of {len(self.from_run)} tensors depend on data; they were taken from a run with zeros."
        nodes = tuple(dict.fromkeys(self.from_run.values()))
        return [*found, Finding("PTQ135", text, nodes, "see that these shapes are the same for every input")]


class _Misfit(Exception):
    """Carries the problem of one node."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.problem = problem


def _dims(kind: onnx.TypeProto) -> Dims:
    tensor = kind.tensor_type
    if not tensor.HasField("shape"):
        return None
    return tuple(d.dim_value if d.HasField("dim_value") else None for d in tensor.shape.dim)


def _complete(kind: onnx.TypeProto | None) -> bool:
    dims = _dims(kind) if kind is not None and kind.tensor_type.elem_type else None
    return dims is not None and None not in dims


def _element(kind: onnx.TypeProto) -> str:
    """Element type in the words of the standard: float, int64, ..."""
    code = kind.tensor_type.elem_type
    known = code in onnx.TensorProto.DataType.values()
    return onnx.TensorProto.DataType.Name(code).lower() if known else f"type {code}"


def _nbytes(kind: onnx.TypeProto) -> int:
    return math.prod(_dims(kind) or ()) * 8  # type: ignore[arg-type]


def _words(dims: Dims) -> str:
    return "of unknown shape" if dims is None else "[" + ",".join("?" if d is None else str(d) for d in dims) + "]"


def _reason(text: str) -> str:
    """The last thing the library says, without its brackets."""
    return shorten(text.rsplit("Error] ", 1)[-1].strip(), 300)


def _lies(stated: dict[str, onnx.TypeProto.Tensor], true: dict[str, onnx.TypeProto]) -> list[Finding]:
    """Shapes and types in the file that contradict what the nodes compute."""
    wrong = []
    for name, claim in stated.items():
        if name not in true:
            continue
        claimed, computed = _dims(onnx.TypeProto(tensor_type=claim)), _dims(true[name])
        assert computed is not None
        if claim.elem_type not in (0, true[name].tensor_type.elem_type):
            wrong.append(f"'{shorten(name)}' is of another type than stated")
        elif claimed is not None and (len(claimed) != len(computed) or _differ(claimed, computed)):
            wrong.append(f"'{shorten(name)}' is {_words(computed)}, stated as {_words(claimed)}")
    if not wrong:
        return []
    more = f"; and {len(wrong) - 5} more" if len(wrong) > 5 else ""
    text = f"The file states shapes that are wrong; the computed ones count: {'; '.join(wrong[:5])}{more}."
    return [Finding("PTQ134", text, hint="export the model again")]


def _differ(claimed: Iterable[int | None], computed: Iterable[int | None]) -> bool:
    return any(c is not None and c > 0 and c != t for c, t in zip(claimed, computed, strict=True))
